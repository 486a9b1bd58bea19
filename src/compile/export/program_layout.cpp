#include "compile/export/program_layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/run/constants.hpp"
#include "compile/run/finalise.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

class Layouter {
public:
  Layouter(const search::Plan& plan, render::Names& names) : plan_(plan), names_(names) {}

  ProgramLayout run(const std::vector<KernelParam>& declared, const std::string& prefix) {
    for (const search::KernelPlanRef& kernel : plan_.kernels) {
      out_.kernels.push_back(finalise(kernel->kernel));
      out_.kernels.back().name = names_.fresh(prefix + kernel->kernel.name);
    }
    place_inputs(declared);
    place_constants();
    place_outputs();
    out_.vars = plan_.program->shape_vars;
    for (const Expr var : out_.vars) out_.var_names[var.name()] = names_.fresh(var.name());
    place_intermediates();
    return std::move(out_);
  }

private:
  using Home = ProgramLayout::Home;

  void place_inputs(const std::vector<KernelParam>& declared) {
    std::map<std::string, size_t> index_of;
    for (const KernelParam& input : declared) {
      index_of[input.name] = out_.inputs.size();
      out_.inputs.push_back({names_.fresh(input.name), input});
    }
    for (const lower::InputBuffer& input : plan_.program->inputs) {
      const auto& attr = std::get<graph::InputAttr>(input.node->attr);
      if (attr.data)
        data_[input.buffer->id] = attr.data;
      else
        out_.places[input.buffer->id] = {Home::Input, index_of.at(attr.name), 0};
    }
  }

  void place_constants() {
    std::vector<ConstantLayout> layouts;
    for (const search::KernelPlanRef& kernel : plan_.kernels)
      for (const ast::Kernel& fill : kernel->constants)
        layouts.push_back({&fill, data_.at(fill.params[0].buffer->id)});
    const std::vector<StorageRef> copies = laid_out_constants(layouts);
    for (size_t k = 0; k < layouts.size(); ++k) data_[layouts[k].fill->params[1].buffer->id] = copies[k];
    for (const search::KernelPlanRef& kernel : plan_.kernels) {
      for (const ast::Param& param :
           kernel->kernel.params) { // of a constant only what is read is written down
        const auto data = data_.find(param.buffer->id);
        if (data == data_.end() || out_.places.count(param.buffer->id)) continue;
        out_.places[param.buffer->id] = {Home::Constant, out_.constants.size(), 0};
        out_.constants.push_back({names_.fresh(param.buffer->name), param.buffer, data->second});
      }
    }
  }

  void place_outputs() {
    std::vector<lower::OutputBuffer> sorted = plan_.program->outputs;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const lower::OutputBuffer& output : sorted) {
      const ast::BufferRef& buffer = plan_.program->stages[static_cast<size_t>(output.stage)].buffer;
      const size_t index = out_.outputs.size();
      out_.outputs.push_back({names_.fresh(output.name), {output.name, buffer->dtype, output.shape, true}});
      const auto [it, is_first] =
          out_.places.emplace(buffer->id, ProgramLayout::Place{Home::Output, index, 0});
      if (!is_first) out_.copies.push_back({index, it->second.index, buffer});
    }
  }

  void place_intermediates() {
    struct Intermediate {
      ast::BufferRef buffer;
      lower::LiveRange range;
    };
    std::map<DType, std::vector<Intermediate>> by_dtype;
    std::map<int, size_t> known; // position in the list of its dtype
    for (size_t k = 0; k < plan_.kernels.size(); ++k)
      for (const ast::Param& param : plan_.kernels[k]->kernel.params) {
        const int id = param.buffer->id, when = static_cast<int>(k);
        if (out_.places.count(id)) continue;
        auto& list = by_dtype[param.buffer->dtype];
        const auto [it, is_new] = known.emplace(id, list.size());
        if (is_new)
          list.push_back({param.buffer, {when, when, largest_bytes(*param.buffer)}});
        else
          list[it->second].range.last = when;
      }
    for (const auto& [dtype, list] : by_dtype) {
      std::vector<lower::LiveRange> ranges;
      for (const Intermediate& one : list) ranges.push_back(one.range);
      const lower::MemoryPlan memory = lower::plan_memory(ranges, kPlaceAlignment);
      out_.arenas[dtype] = memory.peak;
      for (size_t k = 0; k < list.size(); ++k)
        out_.places[list[k].buffer->id] = {Home::Arena, 0, memory.offsets[k]};
    }
  }

  const search::Plan& plan_;
  render::Names& names_;
  ProgramLayout out_;
  std::map<int, StorageRef> data_; // of constants, by buffer
};

} // namespace

ProgramLayout lay_out(const search::Plan& plan, const std::vector<KernelParam>& declared,
                      render::Names& names, const std::string& prefix) {
  return Layouter(plan, names).run(declared, prefix);
}

std::string size_text(Expr e, const std::map<std::string, std::string>& var_names) {
  const auto both = [&](const char* format) {
    return fmt::format(fmt::runtime(format), size_text(e.lhs(), var_names), size_text(e.rhs(), var_names));
  };
  switch (e.kind()) {
  case ExprKind::Const: return std::to_string(e.value());
  case ExprKind::Var: return var_names.at(e.name());
  case ExprKind::Add: return both("({} + {})");
  case ExprKind::Mul: return both("({} * {})");
  case ExprKind::FloorDiv: return both("({0} / {1} - ({0} % {1} < 0))"); // divisors are positive
  case ExprKind::Mod: return both("(({0} % {1} + {1}) % {1})");
  case ExprKind::Min: return both("({0} < {1} ? {0} : {1})");
  case ExprKind::Max: return both("({0} > {1} ? {0} : {1})");
  case ExprKind::Lt: return both("({} < {})");
  case ExprKind::Le: return both("({} <= {})");
  case ExprKind::Eq: return both("({} == {})");
  case ExprKind::And: return both("({} && {})");
  }
  throw InternalError("emit: unknown kind of expression");
}

std::string count_text(const Shape& shape, const std::map<std::string, std::string>& var_names) {
  const Expr count = num_elements(shape);
  return count.is_const() ? std::to_string(count.value()) : fmt::format("({})", size_text(count, var_names));
}

} // namespace lathe::pipeline
