// Copies of constants that kernels read in another order than the user's: made once, shared by all programs.
#pragma once
#include <span>
#include <vector>

#include "ast/ast.hpp"
#include "compile/saved_objects.hpp"
#include "core/storage.hpp"

namespace lathe::pipeline {

/// Runs `fill`, one of KernelPlan::constants, on host memory. What it does not write is 0.
void lay_out_constant(const ast::Kernel& fill, std::span<const unsigned char> source,
                      std::span<unsigned char> copy, const SavedObjects* saved = nullptr);
struct ConstantLayout {
  const ast::Kernel* fill;
  StorageRef source;
};
/// The same for all constants of a program, side by side in memory; each remembered as long as someone holds
/// it.
std::vector<StorageRef> laid_out_constants(std::span<const ConstantLayout> layouts,
                                           const SavedObjects* saved = nullptr);
/// Where `fill` runs: the host device whose loops are fastest.
runtime::Device& host_device();

} // namespace lathe::pipeline
