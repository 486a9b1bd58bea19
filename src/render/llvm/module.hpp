// A kernel as an LLVM module, with the calling convention of runtime/kernel_abi.hpp.
#pragma once
#include <map>
#include <memory>
#include <string>

#include <llvm/IR/Module.h>

#include "ast/ast.hpp"

namespace lathe::render {

struct LlvmTarget {
  std::string triple, data_layout;
  std::string cpu, features; // as LLVM names them: "sapphirerapids", "+avx512f,..."
  bool has_f16c = false, has_fma = false;
  bool has_scalef = false;   // y * 2^n is one instruction for 4, 8 and 16 f32
  bool has_permute = false;  // one instruction takes 16 f32 from a register by the low 4 bits of 16 lanes
  int byte_table = 0; // bytes of a table of bytes that one instruction looks up in: 128, 16, or 0 for none
  int vector_bytes = 16;     // of the widest vector registers that code should use
  Instructions instructions; // of the CPU that take several elements at once
  bool gathers = true;       // gathers and scatters are faster than lanes one by one
};

inline constexpr const char* kLlvmEntry = "lathe_kernel"; // the symbol of the kernel's function

/// The module of a kernel that has been through ast::prepare. `scratch_offset` has the offset in scratch, in
/// bytes, of every packed and whole-kernel Alloc, by buffer id. Throws Error(Device) for group and local
/// loops and barriers.
std::unique_ptr<llvm::Module> build_llvm_module(llvm::LLVMContext& context, const ast::Kernel& kernel,
                                                const std::map<int, size_t>& scratch_offset,
                                                const LlvmTarget& target);

} // namespace lathe::render
