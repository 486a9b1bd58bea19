// Compiled host kernels as programs, whichever compiler they come from.
#pragma once
#include <memory>

#include "runtime/device.hpp"
#include "runtime/kernel_abi.hpp"

namespace lathe::runtime {

struct HostCode {
  KernelFunction function = nullptr;
  std::shared_ptr<const void> owner; ///< frees the code when the last copy is destroyed
  size_t bytes = 0;                  ///< of the code
};

/// A program that runs `code`, which was compiled from `kernel`.
std::unique_ptr<Program> make_host_program(HostCode code, const ast::Kernel& kernel,
                                           const CompileFlags& flags);

} // namespace lathe::runtime
