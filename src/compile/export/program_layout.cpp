#include "compile/export/program_layout.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/run/finalise.hpp"
#include "compile/run/placed_program.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

/// Moves what the order names to the front, as it says.
template <class Ports> void put_in_order(Ports& ports, const std::vector<std::string>& order) {
  const auto place = [&](const auto& port) {
    return std::find(order.begin(), order.end(), port.declared.name) - order.begin();
  };
  std::stable_sort(ports.begin(), ports.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

class Layouter {
public:
  Layouter(const search::Plan& plan, const KernelNotes& notes, const std::vector<KernelParam>& declared,
           render::Names& names, const std::vector<std::string>& order)
      : plan_(plan), notes_(notes), names_(names), placed_(place(plan, declared)) {
    put_in_order(placed_.inputs, order);
    put_in_order(placed_.outputs, order);
  }

  /// `outer`: the layout around that of a body; else null.
  ProgramLayout run(const std::string& prefix, const ProgramLayout* outer) {
    lay_out_copies(placed_);
    for (const search::KernelPlanRef& kernel : plan_.kernels) {
      out_.kernels.push_back(finalise(notes_.with_axis_names(*kernel)));
      out_.comments.push_back(notes_.comment(*kernel));
      out_.kernels.back().name = names_.fresh(prefix + kernel->kernel.name);
    }
    name_inputs();
    name_constants();
    name_outputs();
    out_.vars = plan_.program->shape_vars;
    for (const Expr var : out_.vars)
      out_.var_names[var.name()] = outer ? outer->var_names.at(var.name()) : names_.fresh(var.name());
    place_intermediates();
    for (const search::KernelPlanRef& kernel : plan_.kernels)
      out_.recurrences.push_back(kernel->recurrence < 0 ? nullptr : recurrence(*kernel, prefix));
    return std::move(out_);
  }

private:
  using Home = ProgramLayout::Home;

  const ast::BufferRef& buffer_of(size_t slot) const { return placed_.slots[slot].buffer; }

  /// Macros tell ports apart in capitals.
  std::string port_name(const std::string& declared) {
    std::string name = names_.fresh(declared);
    while (!capitals_.insert(in_capitals(name)).second) name = names_.fresh(declared);
    return name;
  }

  void name_inputs() {
    for (const PlacedProgram::Input& input : placed_.inputs) {
      if (input.slot >= 0)
        out_.places[buffer_of(static_cast<size_t>(input.slot))->id] = {Home::Input, out_.inputs.size(), 0};
      out_.inputs.push_back({port_name(input.declared.name), input.declared, in_memory(input.declared)});
    }
  }

  /// Names the constants that kernels read; no others are written.
  void name_constants() {
    for (const std::vector<size_t>& launch : placed_.launches)
      for (const size_t s : launch) {
        const PlacedProgram::Slot& slot = placed_.slots[s];
        if (slot.home != PlacedProgram::Home::Data || out_.places.contains(slot.buffer->id)) continue;
        out_.places[slot.buffer->id] = {Home::Constant, out_.constants.size(), 0};
        out_.constants.push_back({names_.fresh(slot.buffer->name), slot.buffer, slot.data});
      }
  }

  void name_outputs() {
    for (const PlacedProgram::Output& output : placed_.outputs) {
      const ast::BufferRef& buffer = buffer_of(output.slot);
      const size_t index = out_.outputs.size();
      out_.outputs.push_back(
          {port_name(output.declared.name), output.declared, in_memory(output.declared)});
      const auto [it, is_first] =
          out_.places.emplace(buffer->id, ProgramLayout::Place{Home::Output, index, 0});
      if (!is_first) out_.copies.push_back({index, it->second.index, buffer});
    }
  }

  void place_intermediates() {
    std::map<DType, std::vector<const PlacedProgram::Slot*>> by_dtype;
    for (const PlacedProgram::Slot& slot : placed_.slots)
      if (slot.home == PlacedProgram::Home::Arena) by_dtype[slot.buffer->dtype].push_back(&slot);
    for (const auto& [dtype, slots] : by_dtype) {
      std::vector<lower::LiveRange> ranges;
      for (const auto* slot : slots)
        ranges.push_back({slot->first, slot->last, largest_bytes(*slot->buffer)});
      const lower::MemoryPlan memory = lower::plan_memory(ranges, kPlaceAlignment);
      out_.arenas[dtype] = memory.peak;
      for (size_t k = 0; k < slots.size(); ++k)
        out_.places[slots[k]->buffer->id] = {Home::Arena, 0, memory.offsets[k]};
    }
  }

  std::shared_ptr<const ProgramLayout::Recurrence> recurrence(const search::KernelPlan& kernel,
                                                              const std::string& prefix) {
    const auto position = static_cast<size_t>(kernel.recurrence);
    auto made = std::make_shared<ProgramLayout::Recurrence>();
    made->program = &plan_.program->recurrences[position];
    const search::Plan& plan = *plan_.bodies[position];
    ProgramLayout& body = made->body =
        Layouter(plan, notes_.of_body(plan), {}, names_, {}).run(prefix, &out_);
    const size_t before = out_.constants.size();
    for (auto& [id, place] : body.places)
      if (place.home == Home::Constant) place.index += before;
    std::move(body.constants.begin(), body.constants.end(), std::back_inserter(out_.constants));
    body.constants.clear();
    return made;
  }

  const search::Plan& plan_;
  const KernelNotes& notes_;
  render::Names& names_;
  PlacedProgram placed_;
  std::set<std::string> capitals_; // of ports
  ProgramLayout out_;
};

} // namespace

std::string in_capitals(std::string name) {
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return name;
}

ProgramLayout lay_out(const search::Plan& plan, const KernelNotes& notes,
                      const std::vector<KernelParam>& declared, render::Names& names,
                      const std::string& prefix, const std::vector<std::string>& order) {
  return Layouter(plan, notes, declared, names, order).run(prefix, nullptr);
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
  case ExprKind::FloorDiv: // divisors are not negative
    return both(e.rhs().lo() > 0 ? "({0} / {1} - ({0} % {1} < 0))"
                                 : "({1} ? {0} / {1} - ({0} % {1} < 0) : 0)");
  case ExprKind::Mod:
    return both(e.rhs().lo() > 0 ? "(({0} % {1} + {1}) % {1})" : "({1} ? ({0} % {1} + {1}) % {1} : 0)");
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
