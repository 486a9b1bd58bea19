#include "compile/run/assemble.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "compile/front/moved.hpp"
#include "compile/front/target.hpp"
#include "compile/run/debug_output.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/run/program_cache.hpp"
#include "compile/run/recurrence.hpp"
#include "compile/run/traced.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/machine/profile.hpp"

namespace lathe::pipeline {
namespace {

using Impl = Executable::Impl;

class Assembler {
public:
  Assembler(const search::Plan& plan, const AssembleOptions& options)
      : plan_(plan), options_(options), impl_(std::make_shared<Impl>()),
        model_(target_for(options.compile, *plan.program), search::machine_profile()) {}

  Executable run() {
    impl_->program = plan_.program;
    impl_->options = options_.compile;
    impl_->options.tune.reset(); // what its functions refer to may not outlive this call
    impl_->options.origins.clear();
    impl_->trace = options_.trace;
    impl_->moves = options_.graph_moves;
    for (search::Move& move : plan_.moves()) impl_->moves.push_back(std::move(move));
    impl_->tuned = options_.tuned;
    impl_->folded_bytes = options_.folded_bytes;
    impl_->is_body = options_.is_body;
    impl_->is_static = plan_.program->shape_vars.empty();
    impl_->device = &runtime::device(options_.compile.device);
    impl_->placed = place(plan_, options_.declared_inputs);
    lay_out_copies(impl_->placed, options_.objects);
    if (!impl_->device->is_host()) upload_data();
    add_outputs();
    for (const search::KernelPlanRef& kernel : plan_.kernels) add_kernel(kernel);
    const lower::MemoryPlan memory = impl_->placed.typical_plan();
    impl_->arena_bytes = memory.peak;
    impl_->naive_bytes = memory.naive;
    if (impl_->trace) record(*impl_, memory, *impl_->trace);
    return detail::Access::make<Executable>(impl_);
  }

private:
  void upload_data() {
    for (const PlacedProgram::Slot& slot : impl_->placed.slots) {
      impl_->uploaded.emplace_back();
      if (slot.home != Impl::Home::Data) continue;
      impl_->uploaded.back() = impl_->device->allocate(slot.data->bytes());
      impl_->uploaded.back()->upload(0, slot.data->data(), slot.data->bytes());
    }
  }

  void add_moved(const MovedOutput& moved) {
    Impl::Output output{moved.declared, 0, -1, moved, -1};
    const auto& attr = std::get<graph::InputAttr>(moved.input->attr);
    const auto& inputs = impl_->placed.inputs;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (!attr.data && inputs[k].declared.name == attr.name) output.moved_input = static_cast<int>(k);
    if (!attr.data && output.moved_input < 0)
      throw InternalError("a moved output of an input that is not declared: " + attr.name);
    impl_->outputs.push_back(std::move(output));
  }

  void add_outputs() {
    for (const MovedOutput& moved : options_.moved) add_moved(moved);
    for (const PlacedProgram::Output& output : impl_->placed.outputs)
      impl_->outputs.push_back({output.declared, output.slot, -1, {}, -1});
    std::vector<Impl::Output>& all = impl_->outputs;
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.declared.name < b.declared.name; });
    std::map<size_t, int> first; // output of each slot
    for (size_t k = 0; k < all.size(); ++k) {
      if (all[k].moved) continue;
      const auto [it, is_first] = first.emplace(all[k].slot, static_cast<int>(k));
      if (!is_first) all[k].copy_of = it->second;
    }
  }

  void add_kernel(const search::KernelPlanRef& plan) {
    auto kernel = std::make_shared<Kernel::Impl>();
    kernel->expressions = plan_.program->expressions;
    kernel->name = unique_name(plan->kernel.name);
    kernel->shape_vars = outside_scopes(plan->kernel.shape_vars);
    kernel->plan = plan;
    kernel->predicted_seconds = model_.seconds(plan);
    kernel->flags = {thread_count(options_.compile), options_.compile.cpu, false};
    kernel->device = impl_->device;
    kernel->program = plan->recurrence < 0
                          ? compile_cached(*impl_->device, plan->kernel, kernel->flags, options_.objects)
                          : recurrence(*plan);
    for (const ast::Param& param : plan->kernel.params) {
      const ast::Buffer& buffer = *param.buffer;
      kernel->params.push_back({buffer.name, buffer.dtype, outside_scopes(buffer.shape), param.written});
    }
    std::vector<size_t>& positions = impl_->vars.emplace_back();
    for (const Expr var : plan->kernel.shape_vars) {
      const auto& vars = plan_.program->shape_vars;
      const auto at = std::find(vars.begin(), vars.end(), var);
      if (at == vars.end())
        throw InternalError(fmt::format("{} has an unknown shape variable {}", kernel->name, var.name()));
      positions.push_back(static_cast<size_t>(at - vars.begin()));
    }
    impl_->predicted_seconds += kernel->predicted_seconds;
    report_kernel(*kernel);
    impl_->kernels.push_back(detail::Access::make<Kernel>(std::move(kernel)));
  }

  /// Compiles the body of a recurrence to the program that runs its steps.
  std::shared_ptr<const runtime::Program> recurrence(const search::KernelPlan& plan) {
    const auto position = static_cast<size_t>(plan.recurrence);
    AssembleOptions of_body{options_.compile, {}, options_.tuned, {}};
    of_body.objects = options_.objects;
    of_body.is_body = true;
    const Executable body = assemble(*plan_.bodies[position], of_body);
    const auto& node = *plan_.program->recurrences[position].node;
    impl_->predicted_seconds +=
        search::estimate(std::get<graph::ScanAttr>(node.attr).steps) * body.predicted_seconds();
    return std::make_shared<RecurrenceProgram>(plan_.program->recurrences[position], plan,
                                               detail::impl(body));
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
