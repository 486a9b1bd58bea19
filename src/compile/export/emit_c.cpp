#include "compile/export/emit_c.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "compile/export/program_layout.hpp"
#include "compile/front/target.hpp"
#include "render/c_dialect.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {
namespace {

class ProgramWriter {
public:
  ProgramWriter(const search::Plan& plan, const std::vector<KernelParam>& declared,
                const CompileOptions& options)
      : vector_bytes_(vector_bytes_of(options.cpu)), dialect_(render::make_c_dialect(vector_bytes_)),
        layout_(lay_out(plan, declared, names_)) {}

  std::string write() {
    std::string out;
    for (const ast::Kernel& kernel : layout_.kernels)
      out += "\nstatic " + render::render_c(kernel, {vector_bytes_, true, {}});
    for (const ProgramLayout::Constant& constant : layout_.constants) write_data(out, constant);
    write_arenas(out);
    const std::vector<std::string> params = parameters();
    out += fmt::format("\n/* Not to be called from two threads at once{}. */\nvoid lathe_program({}) {{\n",
                       arenas_.empty() ? "" : ": intermediates are static",
                       params.empty() ? "void" : fmt::format("{}", fmt::join(params, ", ")));
    for (const ProgramLayout::Port& input : layout_.inputs) out += fmt::format("  (void){};\n", input.name);
    for (const Expr var : layout_.vars) out += fmt::format("  (void){};\n", layout_.var_names.at(var.name()));
    for (const ast::Kernel& kernel : layout_.kernels) out += "  " + call(kernel) + "\n";
    for (const ProgramLayout::Copy& copy : layout_.copies)
      out += fmt::format("  memcpy({}, {}, (size_t){} * (size_t){});\n", layout_.outputs[copy.to].name,
                         layout_.outputs[copy.from].name, size_of(copy.buffer->dtype),
                         count_text(copy.buffer->shape, layout_.var_names));
    return render::c_prelude(out) + out + "}\n";
  }

private:
  std::vector<std::string> parameters() const {
    std::vector<std::string> params;
    const auto add = [&](const ProgramLayout::Port& port) {
      params.push_back(fmt::format("{}{}* {}", port.declared.written ? "" : "const ",
                                   dialect_->storage_type(port.declared.dtype), port.name));
    };
    for (const ProgramLayout::Port& input : layout_.inputs) add(input);
    for (const ProgramLayout::Port& output : layout_.outputs) add(output);
    for (const Expr var : layout_.vars) params.push_back("int64_t " + layout_.var_names.at(var.name()));
    return params;
  }

  /// By their bits, so that every value comes through as it is.
  void write_data(std::string& out, const ProgramLayout::Constant& constant) const {
    const ast::Buffer& buffer = *constant.buffer;
    const auto width = static_cast<size_t>(size_of(buffer.dtype));
    const auto count = static_cast<size_t>(num_elements(buffer.shape).value());
    out += fmt::format("\nstatic const union {{\n  uint{0}_t bits[{1}];\n  {2} values[{1}];\n}} {3} "
                       "__attribute__((aligned(128))) = {{{{",
                       width * 8, count, dialect_->storage_type(buffer.dtype), constant.name);
    const auto* bytes = static_cast<const unsigned char*>(constant.data->data());
    for (size_t k = 0; k < count; ++k) {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes + k * width, width);
      out += fmt::format("{}0x{:x}{}",
                         k == 0        ? ""
                         : k % 12 == 0 ? ",\n  "
                                       : ", ",
                         bits, width == 8 ? "u" : "");
    }
    out += "}};\n";
  }

  void write_arenas(std::string& out) {
    for (const auto& [dtype, bytes] : layout_.arenas) {
      const std::string& name = arenas_[dtype] = names_.fresh(std::string("arena_") + to_string(dtype));
      out += fmt::format("\nstatic {} {}[{}] __attribute__((aligned(128)));\n", dialect_->storage_type(dtype),
                         name, std::max<int64_t>(1, bytes / size_of(dtype)));
    }
  }

  std::string place_text(const ast::Param& param) const {
    const ProgramLayout::Place& place = layout_.place(param);
    switch (place.home) {
    case ProgramLayout::Home::Input: return layout_.inputs[place.index].name;
    case ProgramLayout::Home::Output: return layout_.outputs[place.index].name;
    case ProgramLayout::Home::Constant: return layout_.constants[place.index].name + ".values";
    case ProgramLayout::Home::Arena: break;
    }
    const DType dtype = param.buffer->dtype;
    return fmt::format("{} + {}", arenas_.at(dtype), place.offset / size_of(dtype));
  }

  std::string call(const ast::Kernel& kernel) const {
    std::vector<std::string> arguments;
    for (const ast::Param& param : kernel.params) arguments.push_back(place_text(param));
    for (const Expr var : kernel.shape_vars) arguments.push_back(layout_.var_names.at(var.name()));
    return fmt::format("{}({});", render::function_name(kernel), fmt::join(arguments, ", "));
  }

  const int vector_bytes_;
  std::unique_ptr<render::Dialect> dialect_;
  render::Names names_;
  const ProgramLayout layout_;
  std::map<DType, std::string> arenas_;
};

} // namespace

std::string emit_c(const search::Plan& plan, const std::vector<KernelParam>& declared_inputs,
                   const CompileOptions& options) {
  return ProgramWriter(plan, declared_inputs, options).write();
}

} // namespace lathe::pipeline
