// Copies of constants that kernels read in another order than the user's: made once, shared by all programs.
#pragma once
#include <span>
#include <vector>

#include "ast/ast.hpp"
#include "compile/run/saved_objects.hpp"
#include "core/storage.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {

/// Runs `fill`, one of KernelPlan::constants, on host memory. What it does not write is 0.
void lay_out_constant(const ast::Kernel& fill, std::span<const unsigned char> source,
                      std::span<unsigned char> copy, const SavedObjects* saved = nullptr);
/// What fills a copy, and the constant that it reads.
struct ConstantLayout {
  const ast::Kernel* fill;
  StorageRef source;
};
/// The same for all constants of a program, those that are new side by side in memory and in this order: a
/// kernel that asks for what lies behind its constant asks for the next one's. Each is remembered as long as
/// someone holds it.
std::vector<StorageRef> laid_out_constants(std::span<const ConstantLayout> layouts,
                                           const SavedObjects* saved = nullptr);
/// Where `fill` runs: the host device whose loops are fastest.
runtime::Device& host_device();

} // namespace lathe::pipeline
