#include "render/c_names.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "render/render.hpp"

namespace lathe::render {
namespace {

constexpr std::string_view kReserved[] = {
    // C
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short",
    "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile",
    "while", "asm", "main", "bool", "true", "false", "linux", "unix", "NULL", "INFINITY", "NAN",
    // parameters of emitted functions
    "buffers", "vars", "scratch", "outer", "env",
    // C++, since a C++ compiler may compile emitted C, and functions that this C calls
    "alignas", "alignof", "and", "and_eq", "bitand", "bitor", "catch", "char16_t", "char32_t", "char8_t",
    "class", "co_await", "co_return", "co_yield", "compl", "concept", "const_cast", "consteval", "constexpr",
    "constinit", "decltype", "delete", "dynamic_cast", "explicit", "export", "friend", "mutable", "namespace",
    "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "protected", "public",
    "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this", "thread_local",
    "throw", "try", "typeid", "typename", "typeof", "using", "virtual", "wchar_t", "xor", "xor_eq", "free",
    "malloc", "memcmp", "memcpy", "memset", "uintptr_t", "intptr_t", "ptrdiff_t", "errno", "stderr", "stdin", "stdout", "EOF", "assert", "offsetof",
    // OpenCL C words, types and functions that the renderer uses
    "kernel", "global", "local", "constant", "private", "half", "uchar", "ushort", "uint", "ulong", "size_t",
    "fma", "sqrt", "exp2", "log2", "sin", "trunc", "select", "barrier", "floor", "ceil", "exp", "log", "cos",
    "pow", "sqrtf", "exp2f", "log2f", "sinf", "cosf", "truncf", "fmaf", "y0", "y1", "yn", "j0", "j1", "jn",
    "gamma", "index", "vload_half", "vstore_half_rte", "get_group_id", "get_local_id", "get_global_id",
    "read_only", "write_only", "read_write", "pipe", "sampler_t", "image2d_t", "event_t",
    // CUDA C
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "min", "max", "abs", "dim3"};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_type_with_width(std::string_view s) { // float16, int32_t, as_uint4, convert_int8 ...
  constexpr std::string_view stems[] = {"float", "double", "int",    "uint",    "long",
                                        "ulong", "short",  "ushort", "char",    "uchar",
                                        "vload", "vstore", "half",   "convert", "as"};
  return std::any_of(std::begin(stems), std::end(stems), [&](std::string_view stem) {
    return s.size() > stem.size() && s.starts_with(stem) &&
           (is_digit(s[stem.size()]) || s[stem.size()] == '_');
  });
}

bool is_of_opencl(std::string_view s) { // cl_int, CL_TRUE, clFinish ...
  return s.starts_with("cl_") || s.starts_with("CL_") ||
         (s.size() > 2 && s.starts_with("cl") && s[2] >= 'A' && s[2] <= 'Z');
}

bool is_of_math_h(std::string_view s) { return s.starts_with("M_"); } // M_PI ...

} // namespace

std::string identifier(std::string_view name) {
  std::string s;
  for (char c : name) s += is_word(c) ? c : '_';
  if (s.empty() || is_digit(s[0]) || s[0] == '_')
    s.insert(0, 1, 't'); // leading underscores belong to the compiler
  const bool is_value_name = s[0] == 'v' && s.size() > 1 && std::all_of(s.begin() + 1, s.end(), is_digit);
  if (is_value_name || s.starts_with("lathe_") || s.starts_with("LATHE_") || is_type_with_width(s) ||
      is_of_opencl(s) || is_of_math_h(s) ||
      std::find(std::begin(kReserved), std::end(kReserved), s) != std::end(kReserved))
    s += "_";
  return s;
}

std::string function_name(const ast::Kernel& kernel) { return identifier(kernel.name); }

std::string Names::fresh(std::string_view name) {
  const std::string base = identifier(name);
  std::string candidate = base;
  for (int i = 1; !taken_.insert(candidate).second; ++i) candidate = base + "_" + std::to_string(i);
  return candidate;
}

std::string Names::fresh_value() { return fmt::format("v{}", values_++); }

const std::string& Names::buffer(const ast::Buffer& buffer) {
  auto it = buffers_.find(buffer.id);
  if (it == buffers_.end()) it = buffers_.emplace(buffer.id, fresh(buffer.name)).first;
  return it->second;
}

const std::string& Names::variable(Expr var) {
  if (var.id() < 0) {
    auto it = shape_vars_.find(var.name());
    if (it == shape_vars_.end()) it = shape_vars_.emplace(var.name(), fresh(var.name())).first;
    return it->second;
  }
  auto it = loops_.find(var.id());
  if (it == loops_.end()) it = loops_.emplace(var.id(), fresh(var.name())).first;
  return it->second;
}

} // namespace lathe::render
