#include "compile/run/placed_program.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/run/constants.hpp"
#include "lathe/error.hpp"
#include "view/expr_scope.hpp"

namespace lathe::pipeline {
namespace {

KernelParam described(const std::string& name, const ast::Buffer& buffer, const Shape& shape, bool written) {
  return {name, buffer.dtype, outside_scopes(shape), written};
}

class Placer {
public:
  explicit Placer(const search::Plan& plan) : plan_(plan) {}

  PlacedProgram run(const std::vector<KernelParam>& declared) {
    place_inputs(declared);
    place_outputs();
    place_copies();
    for (const search::KernelPlanRef& kernel : plan_.kernels) add_launch(kernel->kernel);
    return std::move(out_);
  }

private:
  using Home = PlacedProgram::Home;

  PlacedProgram::Slot& add(Home home, const ast::BufferRef& buffer) {
    slot_of_[buffer->id] = out_.slots.size();
    out_.slots.push_back({home, buffer});
    return out_.slots.back();
  }

  void place_inputs(const std::vector<KernelParam>& declared) {
    std::map<std::string, PlacedProgram::Input> by_name;
    for (const KernelParam& param : declared) by_name.emplace(param.name, PlacedProgram::Input{param, -1});
    for (const lower::InputBuffer& input : plan_.program->inputs) {
      const auto& attr = std::get<graph::InputAttr>(input.node->attr);
      const auto slot = static_cast<int>(out_.slots.size());
      add(attr.data ? Home::Data : Home::Input, input.buffer).data = attr.data;
      if (attr.data) continue;
      const ast::Buffer& buffer = *input.buffer;
      const KernelParam param = attr.declared ? KernelParam{attr.name, attr.declared->dtype,
                                                            outside_scopes(attr.declared->shape), false}
                                              : described(attr.name, buffer, buffer.shape, false);
      by_name.try_emplace(attr.name, PlacedProgram::Input{param, -1}).first->second.slot = slot;
    }
    for (auto& [name, input] : by_name) out_.inputs.push_back(std::move(input));
  }

  void place_outputs() {
    for (const lower::OutputBuffer& output : plan_.program->outputs) {
      const ast::BufferRef& buffer = plan_.program->stages[static_cast<size_t>(output.stage)].buffer;
      out_.outputs.push_back({described(output.name, *buffer, output.shape, true), 0});
      if (output.declared) {
        out_.outputs.back().declared.dtype = output.declared->dtype;
        out_.outputs.back().declared.shape = outside_scopes(output.declared->shape);
      }
      if (!slot_of_.contains(buffer->id)) add(Home::Output, buffer);
      out_.outputs.back().slot = slot_of_.at(buffer->id);
    }
    std::sort(out_.outputs.begin(), out_.outputs.end(),
              [](const auto& a, const auto& b) { return a.declared.name < b.declared.name; });
  }

  void place_copies() {
    for (const search::KernelPlanRef& kernel : plan_.kernels)
      for (const ast::Kernel& fill : kernel->constants) {
        const size_t source = slot_of_.at(fill.params[0].buffer->id);
        PlacedProgram::Slot& copy = add(Home::Data, fill.params[1].buffer);
        copy.fill = &fill;
        copy.source = source;
      }
  }

  void add_launch(const ast::Kernel& kernel) {
    const auto when = static_cast<int>(out_.launches.size());
    std::vector<size_t>& slots = out_.launches.emplace_back();
    for (const ast::Param& param : kernel.params) {
      if (!slot_of_.contains(param.buffer->id)) {
        if (!param.written)
          throw InternalError(
              fmt::format("{} reads {} before it is computed", kernel.name, param.buffer->name));
        add(Home::Arena, param.buffer).first = when;
      }
      slots.push_back(slot_of_.at(param.buffer->id));
      out_.slots[slots.back()].last = when;
    }
  }

  const search::Plan& plan_;
  PlacedProgram out_;
  std::unordered_map<int, size_t> slot_of_; // by buffer id
};

} // namespace

PlacedProgram place(const search::Plan& plan, const std::vector<KernelParam>& declared) {
  return Placer(plan).run(declared);
}

void lay_out_copies(PlacedProgram& placed, const SavedObjects* saved) {
  std::vector<ConstantLayout> layouts;
  std::vector<PlacedProgram::Slot*> copies;
  for (PlacedProgram::Slot& slot : placed.slots)
    if (slot.fill) {
      layouts.push_back({slot.fill, placed.slots[slot.source].data});
      copies.push_back(&slot);
    }
  const std::vector<StorageRef> made = laid_out_constants(layouts, saved);
  for (size_t k = 0; k < copies.size(); ++k) copies[k]->data = made[k];
}

lower::MemoryPlan PlacedProgram::plan_arena(const std::vector<size_t>& bytes) const {
  std::vector<lower::LiveRange> ranges;
  for (size_t s = 0; s < slots.size(); ++s) {
    const bool here = slots[s].home == Home::Arena;
    ranges.push_back({slots[s].first, slots[s].last, here ? static_cast<int64_t>(bytes[s]) : 0});
  }
  return lower::plan_memory(ranges, kPlaceAlignment);
}

lower::MemoryPlan PlacedProgram::typical_plan() const {
  std::vector<size_t> bytes;
  for (const Slot& slot : slots) bytes.push_back(static_cast<size_t>(typical_bytes(*slot.buffer)));
  return plan_arena(bytes);
}

} // namespace lathe::pipeline
