// The interface to the LLVM backend, which has no LLVM types. The backend is a shared object of its own
// (liblathe-llvm.so), loaded with RTLD_LOCAL on first use. So its LLVM and the LLVM of an OpenCL driver never bind to
// each other.
#pragma once
#include <memory>
#include <string>

#include "ast/ast.hpp"
#include "runtime/host_program.hpp"

namespace lathe::runtime {

class LlvmBackend {
 public:
  virtual ~LlvmBackend() = default;
  virtual HostCode compile(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  virtual std::string object_name(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  virtual std::string object(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  virtual HostCode link(const std::string& object, const CompileFlags& flags) = 0;
  virtual std::string ir_text(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  virtual std::string assembly(const ast::Kernel& kernel, const CompileFlags& flags) = 0;
  virtual std::string host_description() = 0;  // "LLVM 19.1.7, sapphirerapids, 512-bit vectors"
  virtual int vector_bytes(const std::string& cpu) = 0;
  virtual Instructions instructions(const std::string& cpu) = 0;  // that take several elements at once
  virtual int byte_table_of(const std::string& cpu) = 0;          // as Device::byte_table
};
extern "C" using MakeLlvmBackend = LlvmBackend* (*)();   // exported as "lathe_make_llvm_backend"

/// The backend, loaded once. Throws Error(Device) with the reason if loading fails.
LlvmBackend& llvm_backend();

}  // namespace lathe::runtime
