// Compiles a kernel to an object file in memory, for a named CPU. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::runtime {

enum class CodeFile { Object, Assembly, Ir };

/// The bytes of `file` for the kernel. `cpu` is native, x86-64, x86-64-v2, -v3 or -v4. Throws Error(Device)
/// for another name.
std::string generate(const ast::Kernel& kernel, const std::string& cpu, CodeFile file);
/// Bytes of the widest vector register that is worth using: 64, 32 or 16.
int vector_bytes_of(const std::string& cpu);
/// The instructions of the CPU that take several elements at once, and that this process may use.
const Instructions& instructions_of(const std::string& cpu);
/// As Device::byte_table.
int byte_table_of(const std::string& cpu);
/// Throws Error(Device) unless this machine can run code generated for `cpu`.
void require_host_runs(const std::string& cpu);
/// Text that identifies the code generator and the CPU: versions, name and features.
std::string codegen_identity(const std::string& cpu);
std::string codegen_description(); // "LLVM 19.1.7, sapphirerapids, 512-bit vectors"

} // namespace lathe::runtime
