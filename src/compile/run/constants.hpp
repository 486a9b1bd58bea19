// Copies of constants that kernels read in another order than the user's: made once, shared by all programs.
#pragma once
#include <span>
#include <vector>

#include "ast/ast.hpp"
#include "compile/run/saved_objects.hpp"
#include "core/storage.hpp"
#include "runtime/device.hpp"

namespace lathe::pipeline {

/// Runs `fill`, one of KernelPlan::constants, on host memory. Elements that `fill` does not write are 0.
void lay_out_constant(const ast::Kernel& fill, std::span<const unsigned char> source,
                      std::span<unsigned char> copy, const SavedObjects* saved = nullptr);
/// The kernel that fills a copy, and the constant that this kernel reads.
struct ConstantLayout {
  const ast::Kernel* fill;
  StorageRef source;
};
/// Returns the copies of all constants of a program. New copies lie side by side in memory, in this order: a
/// kernel that prefetches past the end of its constant prefetches the next kernel's. A copy is shared as long
/// as someone holds it.
std::vector<StorageRef> laid_out_constants(std::span<const ConstantLayout> layouts,
                                           const SavedObjects* saved = nullptr);
/// Returns the device that runs `fill`: the available host device with the fastest loops.
runtime::Device& host_device();

} // namespace lathe::pipeline
