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
#include "compile/run/in_place.hpp"
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

std::shared_ptr<const lower::Program> without_nodes(lower::Program program) {
  for (lower::Stage& stage : program.stages) stage.node = {};
  for (lower::InputBuffer& input : program.inputs) input.node = {};
  for (lower::OutputBuffer& output : program.outputs) output.node = {};
  return std::make_shared<const lower::Program>(std::move(program));
}

class Assembler {
public:
  /// `in_place`: the outputs that are written over a state or an input.
  Assembler(const search::Plan& plan, const AssembleOptions& options, std::set<std::string> in_place)
      : plan_(plan), options_(options), in_place_(std::move(in_place)), impl_(std::make_shared<Impl>()),
        model_(target_for(options.compile, *plan.program), search::machine_profile()) {}

  Executable run() {
    impl_->program = plan_.program;
    impl_->options = options_.compile;
    impl_->options.tune.reset(); // what its functions refer to may not outlive this call
    impl_->options.stop = {};
    impl_->options.origins.clear();
    impl_->options.donated = options_.donated;
    impl_->trace = options_.trace;
    impl_->moves = options_.graph_moves;
    for (search::Move& move : plan_.moves()) impl_->moves.push_back(std::move(move));
    impl_->tuned = options_.tuned;
    impl_->quick = options_.quick;
    impl_->fusions = options_.fusions;
    impl_->folded_bytes = options_.folded_bytes;
    impl_->is_body = options_.is_body;
    impl_->is_static = plan_.program->shape_vars.empty();
    impl_->device = &runtime::device(options_.compile.device);
    impl_->placed = place(plan_, options_.declared_inputs);
    lay_out_copies(impl_->placed, options_.objects);
    if (!impl_->device->is_host()) upload_data();
    add_outputs();
    add_states();
    compile_kernels();
    for (size_t k = 0; k < plan_.kernels.size(); ++k) add_kernel(plan_.kernels[k], compiled_[k]);
    const lower::MemoryPlan memory = impl_->placed.typical_plan();
    impl_->arena_bytes = memory.peak;
    impl_->naive_bytes = memory.naive;
    if (impl_->trace) record(*impl_, memory, *impl_->trace);
    if (!options_.keeps_graph) impl_->program = without_nodes(*plan_.program);
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
    const auto take_slots = [&](auto&& wanted) {
      for (size_t k = 0; k < all.size(); ++k)
        if (!all[k].moved && wanted(all[k].declared.name)) first.emplace(all[k].slot, static_cast<int>(k));
    };
    take_slots([&](const std::string& name) { return in_place_.contains(name); });
    take_slots([&](const std::string& name) { return is_next_of_state(name); });
    take_slots([](const std::string&) { return true; });
    for (size_t k = 0; k < all.size(); ++k) {
      if (all[k].moved) continue;
      const int owner = first.at(all[k].slot);
      if (owner != static_cast<int>(k)) all[k].copy_of = owner;
    }
    for (Impl::Output& output : all) {
      const auto donated = options_.donated.find(output.declared.name);
      if (donated != options_.donated.end() && in_place_.contains(output.declared.name))
        output.over_input = position(impl_->placed.inputs, donated->second);
    }
  }

  template <class Declared> static int position(const std::vector<Declared>& all, const std::string& name) {
    for (size_t k = 0; k < all.size(); ++k)
      if (all[k].declared.name == name) return static_cast<int>(k);
    return -1;
  }

  bool is_next_of_state(const std::string& output) const {
    return std::any_of(options_.states.begin(), options_.states.end(),
                       [&](const StateUse& use) { return use.output == output; });
  }

  void add_states() {
    std::set<int> inputs, outputs; // of states
    for (const StateUse& use : options_.states) {
      PlacedState state{use.buffer, position(impl_->placed.inputs, use.buffer->name)};
      if (!use.output.empty()) state.output = position(impl_->outputs, use.output);
      state.in_place = in_place_.contains(use.output);
      inputs.insert(state.input);
      outputs.insert(state.output);
      impl_->states.push_back(std::move(state));
    }
    for (size_t k = 0; k < impl_->placed.inputs.size(); ++k)
      if (!inputs.contains(static_cast<int>(k))) impl_->given_inputs.push_back(k);
    for (size_t k = 0; k < impl_->outputs.size(); ++k) {
      if (!outputs.contains(static_cast<int>(k))) impl_->given_outputs.push_back(k);
      Impl::Output& output = impl_->outputs[k];
      output.of_state = output.moved_input >= 0 && inputs.contains(output.moved_input);
    }
    exchange_memory();
  }

  /// A state that takes the old values of another one takes its memory, if that one's new values are
  /// elsewhere.
  void exchange_memory() {
    std::vector<PlacedState>& states = impl_->states;
    std::set<size_t> given_away;
    for (PlacedState& state : states) {
      if (state.output < 0) continue;
      const Impl::Output& output = impl_->outputs[static_cast<size_t>(state.output)];
      if (!output.of_state || !output.moved->view.is_contiguous()) continue;
      const auto from = std::find_if(states.begin(), states.end(),
                                     [&](const PlacedState& s) { return s.input == output.moved_input; });
      const auto source = static_cast<size_t>(from - states.begin());
      if (&*from != &state && from->output >= 0 && given_away.insert(source).second)
        state.taken_from = static_cast<int>(source);
    }
  }

  runtime::CompileFlags flags() const {
    return {thread_count(options_.compile), options_.compile.cpu, false};
  }

  /// The kernels' programs; a recurrence has none of its own.
  void compile_kernels() {
    std::vector<const ast::Kernel*> kernels;
    for (const search::KernelPlanRef& plan : plan_.kernels)
      if (plan->recurrence < 0) kernels.push_back(&plan->kernel);
    auto made = compile_together(*impl_->device, kernels, flags(), options_.objects, options_.compile.stop);
    auto next = made.begin();
    for (const search::KernelPlanRef& plan : plan_.kernels)
      compiled_.push_back(plan->recurrence < 0 ? std::move(*next++) : nullptr);
  }

  void add_kernel(const search::KernelPlanRef& plan,
                  const std::shared_ptr<const runtime::Program>& compiled) {
    auto kernel = std::make_shared<Kernel::Impl>();
    kernel->expressions = plan_.program->expressions;
    kernel->name = unique_name(plan->kernel.name);
    kernel->shape_vars = outside_scopes(plan->kernel.shape_vars);
    kernel->plan = plan;
    kernel->predicted_seconds = model_.seconds(plan);
    kernel->flags = flags();
    kernel->device = impl_->device;
    kernel->program = plan->recurrence < 0 ? compiled : recurrence(*plan, kernel->predicted_seconds);
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

  /// Compiles the body of a recurrence to the program that runs its steps. Adds their predicted times to
  /// `seconds`.
  std::shared_ptr<const runtime::Program> recurrence(const search::KernelPlan& plan, double& seconds) {
    const auto position = static_cast<size_t>(plan.recurrence);
    AssembleOptions of_body{options_.compile, {}, options_.tuned, {}};
    of_body.objects = options_.objects;
    of_body.is_body = true;
    const Executable body = assemble(*plan_.bodies[position], of_body);
    const lower::Recurrence& run = plan_.program->recurrences[position];
    seconds += search::estimated_steps(run) * body.predicted_seconds();
    return std::make_shared<RecurrenceProgram>(run, plan, detail::impl(body));
  }

  std::string unique_name(const std::string& name) {
    std::string unique = name;
    for (int k = 2; !names_.insert(unique).second; ++k) unique = fmt::format("{}_{}", name, k);
    return unique;
  }

  const search::Plan& plan_;
  const AssembleOptions& options_;
  const std::set<std::string> in_place_;
  std::shared_ptr<Impl> impl_;
  search::CostModel model_;
  std::set<std::string> names_;
  std::vector<std::shared_ptr<const runtime::Program>> compiled_; // by kernel of the plan; null: a recurrence
};

/// The outputs that may be written over a state or a donated input: no output is copied from there after the
/// kernels.
std::vector<Overwrite> overwrites(const AssembleOptions& options) {
  std::vector<Overwrite> out;
  const auto add = [&](const std::string& input, const std::string& output) {
    const auto reads_it = [&](const MovedOutput& moved) {
      return std::get<graph::InputAttr>(moved.input->attr).name == input;
    };
    if (std::none_of(options.moved.begin(), options.moved.end(), reads_it)) out.push_back({input, output});
  };
  for (const StateUse& use : options.states)
    if (!use.output.empty()) add(use.buffer->name, use.output);
  for (const auto& [output, input] : options.donated) add(input, output);
  return out;
}

} // namespace

Executable assemble(search::Plan plan, const AssembleOptions& options) {
  std::set<std::string> done;
  const std::vector<Overwrite> wanted = overwrites(options);
  // A device with memory of its own computes on copies.
  if (!wanted.empty() && runtime::device(options.compile.device).is_host()) {
    InPlace in_memory = in_place(std::move(plan), wanted);
    plan = std::move(in_memory.plan);
    for (size_t k = 0; k < wanted.size(); ++k)
      if (in_memory.done[k]) done.insert(wanted[k].output);
  }
  return Assembler(plan, options, std::move(done)).run();
}

Executable build(const search::Plan& plan, const CompileOptions& options) {
  return assemble(plan, {options, {}, false, {}});
}

} // namespace lathe::pipeline
