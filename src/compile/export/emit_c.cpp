#include "compile/export/emit_c.hpp"

#include <cstring>

#include <fmt/format.h>

#include "compile/export/c_program.hpp"
#include "compile/export/export_text.hpp"
#include "compile/front/target.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {
namespace {

/// Returns the constant as C. The elements are written as bits, so that every value stays as it is.
std::string data_text(const ProgramLayout::Constant& constant) {
  const ast::Buffer& buffer = *constant.buffer;
  const auto width = static_cast<size_t>(size_of(buffer.dtype));
  const auto count = static_cast<size_t>(num_elements(buffer.shape).value());
  std::string out = fmt::format("\nstatic const union {{\n  uint{0}_t bits[{1}];\n  {2} values[{1}];\n}} {3} "
                                "LATHE_ALIGNED(128) = {{{{",
                                width * 8, count, storage_type(buffer.dtype), constant.name);
  const auto* bytes = static_cast<const unsigned char*>(constant.data->data());
  for (size_t k = 0; k < count; ++k) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes + k * width, width);
    const char* separator = k == 0 ? "" : k % 12 == 0 ? ",\n  " : ", ";
    out += fmt::format("{}0x{:x}{}", separator, bits, width == 8 ? "u" : "");
  }
  return out + "}};\n";
}

} // namespace

std::string emit_c(const search::Plan& plan, const KernelNotes& notes,
                   const std::vector<KernelParam>& declared_inputs, const CompileOptions& options) {
  render::Names names;
  for (const char* taken : {"lathe_program", "memory"}) names.fresh(taken);
  const ProgramLayout layout = lay_out(plan, notes, declared_inputs, names);
  const CProgram program(layout, 1);
  std::string out = program.kernels(vector_bytes_of(options.cpu));
  for (const ProgramLayout::Constant& constant : layout.constants) out += data_text(constant);
  const bool has_arena = program.arena_bytes() > 0;
  if (has_arena)
    out += fmt::format("\nLATHE_ALIGNED(128) static unsigned char memory[{}];\n", program.arena_bytes());
  const std::vector<std::string> params = value_parameters(layout);
  out += fmt::format("\n/* Not to be called from two threads at once{}. */\nvoid lathe_program({}) {{\n",
                     has_arena ? ": intermediates are static" : "",
                     params.empty() ? "void" : fmt::format("{}", fmt::join(params, ", ")));
  for (const ProgramLayout::Port& input : layout.inputs) out += fmt::format("  (void){};\n", input.name);
  for (const Expr var : layout.vars) out += fmt::format("  (void){};\n", layout.var_names.at(var.name()));
  out += program.statements(
      [&](size_t index, const std::string&) { return layout.constants[index].name + ".values"; });
  return render::c_prelude(out) + out + "}\n";
}

} // namespace lathe::pipeline
