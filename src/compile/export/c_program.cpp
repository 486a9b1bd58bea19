#include "compile/export/c_program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compile/export/export_text.hpp"
#include "render/render.hpp"

namespace lathe::pipeline {

CProgram::CProgram(const ProgramLayout& layout, int threads) : layout_(layout), threads_(threads) {
  for (const auto& [dtype, bytes] : layout_.arenas) {
    region_[dtype] = scratch_begin_;
    scratch_begin_ += (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  }
  for (const ast::Kernel& kernel : layout_.kernels) {
    scratch_.push_back(runtime::layout_scratch(kernel));
    scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(scratch_.back().bytes));
  }
}

std::string CProgram::kernels(int vector_bytes) const {
  std::string out;
  for (size_t k = 0; k < scratch_.size(); ++k) {
    render::COptions options;
    options.vector_bytes = vector_bytes;
    options.standalone = true;
    options.scratch_offsets = scratch_[k].offset_of;
    options.parallel = parallel();
    out.append("\n").append(render::render_c(layout_.kernels[k], options));
  }
  return out;
}

std::string CProgram::statements(const ConstantText& constant) const {
  std::string out;
  for (size_t k = 0; k < scratch_.size(); ++k) out += "  " + call(k, constant) + "\n";
  if (parallel()) out = "  lathe_begin(&team);\n" + out + "  lathe_end(&team);\n";
  for (const ProgramLayout::Copy& copy : layout_.copies)
    out += fmt::format("  memcpy({}, {}, (size_t){} * (size_t){});\n", layout_.outputs[copy.to].name,
                       layout_.outputs[copy.from].name, size_of(copy.buffer->dtype),
                       count_text(copy.buffer->shape, layout_.var_names));
  return out;
}

std::string CProgram::place_text(const ast::Param& param, const ConstantText& constant) const {
  const ProgramLayout::Place& place = layout_.place(param);
  const std::string type = storage_type(param.buffer->dtype);
  switch (place.home) {
  case ProgramLayout::Home::Input: return layout_.inputs[place.index].name;
  case ProgramLayout::Home::Output: return layout_.outputs[place.index].name;
  case ProgramLayout::Home::Constant: return constant(place.index, type);
  case ProgramLayout::Home::Arena: break;
  }
  return fmt::format("({}*)(memory + {})", type, region_.at(param.buffer->dtype) + place.offset);
}

std::string CProgram::call(size_t k, const ConstantText& constant) const {
  const ast::Kernel& kernel = layout_.kernels[k];
  std::vector<std::string> arguments;
  for (const ast::Param& param : kernel.params) arguments.push_back(place_text(param, constant));
  for (const Expr var : kernel.shape_vars) arguments.push_back(layout_.var_names.at(var.name()));
  if (parallel() || !scratch_[k].offset_of.empty())
    arguments.push_back(scratch_bytes_ ? fmt::format("(char*)(memory + {})", scratch_begin_) : "NULL");
  if (parallel()) arguments.push_back("&team.env");
  return fmt::format("{}({});", render::function_name(kernel), fmt::join(arguments, ", "));
}

} // namespace lathe::pipeline
