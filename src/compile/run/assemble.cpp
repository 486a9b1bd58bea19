#include "compile/run/assemble.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "compile/front/moved.hpp"
#include "compile/front/target.hpp"
#include "compile/run/constants.hpp"
#include "compile/run/debug_output.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/run/program_cache.hpp"
#include "lathe/error.hpp"
#include "search/cost/cost.hpp"
#include "search/machine/profile.hpp"

namespace lathe::pipeline {
namespace {

using Impl = Executable::Impl;

KernelParam describe(const ast::Buffer& buffer, const std::string& name, bool written) {
  return {name, buffer.dtype, outside_scopes(buffer.shape), written};
}

class Assembler {
public:
  Assembler(const search::Plan& plan, const AssembleOptions& options)
      : plan_(plan), options_(options), impl_(std::make_shared<Impl>()),
        model_(target_for(options.compile, *plan.program), search::machine_profile()) {}

  Executable run() {
    impl_->program = plan_.program;
    impl_->options = options_.compile;
    impl_->options.tune = nullptr; // which may not outlive the call
    impl_->moves = options_.graph_moves;
    for (search::Move& move : plan_.moves()) impl_->moves.push_back(std::move(move));
    impl_->tuned = options_.tuned;
    impl_->is_static = plan_.program->shape_vars.empty();
    impl_->device = &runtime::device(options_.compile.device);
    add_inputs();
    add_outputs();
    add_constants();
    for (const search::KernelPlanRef& kernel : plan_.kernels) add_launch(kernel);
    const lower::MemoryPlan memory = impl_->plan_at_most();
    impl_->arena_bytes = memory.peak;
    impl_->naive_bytes = memory.naive;
    return Executable(impl_);
  }

private:
  size_t add_slot(Impl::Home home, const ast::BufferRef& buffer) {
    Impl::Slot slot;
    slot.home = home;
    slot.buffer = buffer;
    slot_of_[buffer->id] = impl_->slots.size();
    impl_->slots.push_back(std::move(slot));
    return impl_->slots.size() - 1;
  }

  void add_inputs() {
    std::map<std::string, KernelParam> declared;
    for (const KernelParam& param : options_.declared_inputs) declared.emplace(param.name, param);
    std::map<std::string, int> slots;
    for (const lower::InputBuffer& input : plan_.program->inputs) {
      const auto& attr = std::get<graph::InputAttr>(input.node->attr);
      const size_t slot = add_slot(attr.data ? Impl::Home::Data : Impl::Home::Input, input.buffer);
      if (!attr.data) {
        declared.emplace(attr.name, describe(*input.buffer, attr.name, false));
        slots[attr.name] = static_cast<int>(slot);
        continue;
      }
      give_data(impl_->slots[slot], attr.data);
    }
    for (const auto& [name, param] : declared) {
      const auto slot = slots.find(name);
      impl_->inputs.push_back({param, slot == slots.end() ? -1 : slot->second});
    }
  }

  void give_data(Impl::Slot& slot, const StorageRef& data) {
    slot.data = std::shared_ptr<void>(data, data->data());
    if (impl_->device->is_host()) return;
    std::shared_ptr<runtime::DeviceBuffer> copy = impl_->device->allocate(data->bytes());
    copy->upload(0, data->data(), data->bytes());
    slot.uploaded = std::move(copy);
  }

  /// The copies of constants that kernels read: data from now on, like the constants themselves.
  void add_constants() {
    std::map<int, StorageRef> given;
    for (const lower::InputBuffer& input : plan_.program->inputs)
      given[input.buffer->id] = std::get<graph::InputAttr>(input.node->attr).data;
    std::vector<ConstantLayout> layouts;
    for (const search::KernelPlanRef& kernel : plan_.kernels)
      for (const ast::Kernel& fill : kernel->constants)
        layouts.push_back({&fill, given.at(fill.params[0].buffer->id)});
    const std::vector<StorageRef> copies = laid_out_constants(layouts, options_.objects);
    for (size_t k = 0; k < layouts.size(); ++k) {
      const size_t slot = add_slot(Impl::Home::Data, layouts[k].fill->params[1].buffer);
      give_data(impl_->slots[slot], copies[k]);
    }
  }

  void add_moved(const MovedOutput& moved) {
    Impl::Output output{moved.declared, 0, -1, moved, -1};
    const auto& attr = std::get<graph::InputAttr>(moved.input->attr);
    for (size_t k = 0; k < impl_->inputs.size(); ++k)
      if (!attr.data && impl_->inputs[k].declared.name == attr.name) output.moved_input = static_cast<int>(k);
    if (!attr.data && output.moved_input < 0)
      throw InternalError("a moved output of an input that is not declared: " + attr.name);
    impl_->outputs.push_back(std::move(output));
  }

  void add_outputs() {
    std::vector<lower::OutputBuffer> sorted = plan_.program->outputs;
    constexpr int kMoved = -1; // stages from here downwards are moved outputs
    for (size_t k = 0; k < options_.moved.size(); ++k)
      sorted.push_back({options_.moved[k].declared.name, kMoved - static_cast<int>(k), {}});
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    std::map<int, int> first_of_stage;
    for (const lower::OutputBuffer& output : sorted) {
      if (output.stage <= kMoved) {
        add_moved(options_.moved[static_cast<size_t>(kMoved - output.stage)]);
        continue;
      }
      const ast::BufferRef& buffer = plan_.program->stages[static_cast<size_t>(output.stage)].buffer;
      const auto [it, is_first] =
          first_of_stage.emplace(output.stage, static_cast<int>(impl_->outputs.size()));
      const size_t slot = is_first ? add_slot(Impl::Home::Output, buffer) : slot_of_.at(buffer->id);
      impl_->outputs.push_back({{output.name, buffer->dtype, outside_scopes(output.shape), true},
                                slot,
                                is_first ? -1 : it->second,
                                {},
                                -1});
    }
  }

  void add_launch(const search::KernelPlanRef& plan) {
    auto kernel = std::make_shared<Kernel::Impl>();
    kernel->expressions = plan_.program->expressions;
    kernel->name = unique_name(plan->kernel.name);
    kernel->shape_vars = outside_scopes(plan->kernel.shape_vars);
    kernel->plan = plan;
    kernel->predicted_seconds = model_.seconds(plan);
    kernel->flags = {thread_count(options_.compile), options_.compile.cpu, false};
    kernel->device = impl_->device;
    kernel->program = compile_cached(*impl_->device, plan->kernel, kernel->flags, options_.objects);
    Impl::Launch launch{impl_->kernels.size(), {}, {}};
    const int when = static_cast<int>(impl_->launches.size());
    for (const ast::Param& param : plan->kernel.params) {
      kernel->params.push_back(describe(*param.buffer, param.buffer->name, param.written));
      const auto known = slot_of_.find(param.buffer->id);
      const size_t s = known != slot_of_.end() ? known->second : add_slot(Impl::Home::Arena, param.buffer);
      Impl::Slot& slot = impl_->slots[s];
      if (known == slot_of_.end()) {
        if (!param.written)
          throw InternalError(
              fmt::format("{} reads {} before it is computed", kernel->name, param.buffer->name));
        slot.first = when;
      }
      slot.last = when;
      launch.slots.push_back(s);
    }
    for (const Expr var : plan->kernel.shape_vars) {
      const auto& vars = plan_.program->shape_vars;
      const auto at = std::find(vars.begin(), vars.end(), var);
      if (at == vars.end())
        throw InternalError(fmt::format("{} has an unknown shape variable {}", kernel->name, var.name()));
      launch.vars.push_back(static_cast<size_t>(at - vars.begin()));
    }
    impl_->predicted_seconds += kernel->predicted_seconds;
    report_kernel(*kernel);
    impl_->launches.push_back(std::move(launch));
    impl_->kernels.emplace_back(std::move(kernel));
  }

  std::string unique_name(const std::string& name) {
    std::string unique = name;
    for (int k = 2; !names_.insert(unique).second; ++k) unique = fmt::format("{}_{}", name, k);
    return unique;
  }

  const search::Plan& plan_;
  const AssembleOptions& options_;
  std::shared_ptr<Impl> impl_;
  search::CostModel model_;
  std::map<int, size_t> slot_of_; // by buffer id
  std::set<std::string> names_;
};

} // namespace

Executable assemble(const search::Plan& plan, const AssembleOptions& options) {
  return Assembler(plan, options).run();
}

Executable build(const search::Plan& plan, const CompileOptions& options) {
  return assemble(plan, {options, {}, false, {}});
}

} // namespace lathe::pipeline
