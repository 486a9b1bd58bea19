// The public functions of an Executable: calls, whose arguments are checked by name, and queries.
#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "compile/run/aliases.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/run/recurrence.hpp"
#include "graph/narrow.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "lathe/detail/sizes.hpp"
#include "lathe/error.hpp"

namespace lathe {
namespace {

using Impl = Executable::Impl;

/// A frame for these values of the shape variables. The destructor returns the frame to its Executable.
class FrameLease {
public:
  FrameLease(const Impl& impl, const std::vector<int64_t>& of_vars) : impl_(impl) {
    const detail::InstructionTimer timer("alloc", "arena");
    frame_ = impl.take_frame();
    impl.set_sizes(*frame_, of_vars);
  }
  ~FrameLease() {
    const detail::InstructionTimer timer("free", "arena");
    impl_.put_back(std::move(frame_));
  }
  Impl::Frame& operator*() const { return *frame_; }
  Impl::Frame* operator->() const { return frame_.get(); }

private:
  const Impl& impl_;
  std::unique_ptr<Impl::Frame> frame_;
};

template <class Declared>
std::string names_of(const std::vector<Declared>& all, const std::vector<size_t>& positions) {
  std::string out;
  for (const size_t k : positions) out += (out.empty() ? "" : ", ") + all[k].declared.name;
  return out.empty() ? "none" : out;
}

/// Calls take(position, value) for each name declared at one of `positions`. These and `given` are both
/// sorted by name, so one pass finds missing and unknown names.
template <class Declared, class Map, class Take>
void match(const char* what, const std::vector<Declared>& declared, const std::vector<size_t>& positions,
           const Map& given, Take take) {
  auto it = given.begin();
  for (const size_t k : positions) {
    if (it != given.end() && it->first == declared[k].declared.name) {
      take(k, it->second);
      ++it;
      continue;
    }
    const bool unknown = it != given.end() && it->first < declared[k].declared.name;
    if (unknown) break;
    throw Error(ErrorKind::Name, fmt::format("call: {} \"{}\" is missing, expected {}", what,
                                             declared[k].declared.name, names_of(declared, positions)));
  }
  if (it == given.end()) return;
  throw Error(ErrorKind::Name, fmt::format("call: there is no {} \"{}\", expected {}", what, it->first,
                                           names_of(declared, positions)));
}

[[noreturn]] void wrong_shape(const std::string& where, const Shape& given, const Shape& declared) {
  throw Error(ErrorKind::Shape,
              fmt::format("{}: shape {}, expected {}", where, to_string(given), to_string(declared)));
}

/// Calls f(declared, shape) for each input that is given.
template <class F> void for_each_given(const Impl& impl, const NamedTensors& given, F&& f) {
  auto it = given.begin();
  for (const size_t k : impl.given_inputs)
    f(k, (it++)->second.shape()); // as many as are given, in the same order
}

/// Variables that stand in sizes like 2*n + 1 alone follow from these, once all others have their values.
void solve_shapes(const Impl& impl, const NamedTensors& given, pipeline::ShapeValues& values) {
  for (size_t round = 0; round < impl.program->shape_vars.size() && !values.is_complete(); ++round)
    for_each_given(impl, given, [&](size_t k, const Shape& shape) {
      const KernelParam& declared = impl.placed.inputs[k].declared;
      const std::string where = fmt::format("call: input \"{}\"", declared.name);
      for (size_t d = 0; d < shape.size(); ++d)
        if (!declared.shape[d].is_const() && !values.solve(declared.shape[d], shape[d].value(), where))
          wrong_shape(where, shape, declared.shape);
    });
}

/// Finds the values of variables in the shapes that are given, then checks every size against its
/// declaration.
void bind_shapes(const Impl& impl, const NamedTensors& given, pipeline::ShapeValues& values) {
  match("input", impl.placed.inputs, impl.given_inputs, given, [&](size_t k, const Tensor& tensor) {
    const KernelParam& param = impl.placed.inputs[k].declared;
    const auto where = [&] { return fmt::format("call: input \"{}\"", param.name); };
    if (tensor.dtype() != param.dtype)
      throw Error(ErrorKind::DType, fmt::format("{}: dtype {}, expected {}", where(),
                                                to_string(tensor.dtype()), to_string(param.dtype)));
    const Shape& shape = tensor.shape();
    if (shape.size() != param.shape.size() || !is_static(shape)) wrong_shape(where(), shape, param.shape);
    for (size_t d = 0; d < shape.size(); ++d)
      if (param.shape[d].is_var()) values.bind(param.shape[d], shape[d].value(), where());
  });
  const auto is_used = [&](size_t input) {
    return impl.placed.inputs[input].slot >= 0 ||
           std::any_of(impl.outputs.begin(), impl.outputs.end(), [&](const Impl::Output& output) {
             return output.over_input == static_cast<int>(input);
           });
  };
  solve_shapes(impl, given, values);
  for_each_given(impl, given, [&](size_t k, const Shape& shape) {
    const KernelParam& declared = impl.placed.inputs[k].declared;
    for (size_t d = 0; d < declared.shape.size(); ++d) {
      const Expr size = declared.shape[d];
      const bool checked = size.is_var() || (!size.is_const() && !is_used(k));
      if (!checked && values.evaluate(size) != shape[d].value())
        wrong_shape(fmt::format("call: input \"{}\"", declared.name), shape, declared.shape);
    }
  });
}

/// Runs the launches over the frame's memory and that of the states.
void run_with_states(const Impl& impl, Impl::Frame& frame, const NamedStates& handed, const char* function) {
  if (impl.states.empty() && handed.empty()) return impl.run(frame);
  pipeline::StatesOfCall states(impl, handed, function);
  states.bind(frame.inputs, frame.outputs);
  impl.run(frame);
  states.update();
}

/// Whether this reference is the only one to the memory, which may then be written.
bool is_held_once(const StorageRef& memory) {
  if (memory.use_count() != 1 || memory->is_shared()) return false;
  std::atomic_thread_fence(
      std::memory_order_acquire); // other threads' reads are over when their references are
  return true;
}

/// `given_away`: `inputs`, if outputs may take their memory; it is then left empty. `sizes`: those of shape
/// variables that are known without the inputs.
NamedTensors call(const Impl& impl, const NamedTensors& inputs, NamedTensors* given_away,
                  const NamedStates& states, const std::map<std::string, int64_t>& sizes = {}) {
  pipeline::ShapeValues values(impl.program->shape_vars);
  if (!sizes.empty())
    for (const Expr var : impl.program->shape_vars)
      if (const auto known = sizes.find(var.name()); known != sizes.end())
        values.bind(var, known->second, "call");
  bind_shapes(impl, inputs, values);
  const std::vector<int64_t>& of_vars = values.complete("call");

  // Realising may itself run executables, also this one, so no frame is taken before.
  std::vector<StorageRef> held;
  for (const auto& [name, tensor] : inputs) {
    const graph::NodeRef node = detail::impl(tensor)->realise("call");
    held.push_back(std::get<graph::InputAttr>(node->attr).data);
  }
  if (given_away) given_away->clear(); // so that is_held_once() counts other holders alone
  const auto held_for = [&](int input) -> const StorageRef& {
    const auto at = std::find(impl.given_inputs.begin(), impl.given_inputs.end(), static_cast<size_t>(input));
    return held[static_cast<size_t>(at - impl.given_inputs.begin())];
  };
  std::vector<StorageRef> made(impl.outputs.size());
  for (const size_t k : impl.given_outputs) {
    const Impl::Output& output = impl.outputs[k];
    if (given_away && output.over_input >= 0 && is_held_once(held_for(output.over_input)))
      made[k] = held_for(output.over_input);
    else if (!output.moved)
      made[k] = Storage::allocate(static_cast<size_t>(values.bytes(*impl.placed.slots[output.slot].buffer)));
    else if (output.of_state)
      made[k] = Storage::allocate(
          static_cast<size_t>(bytes_of(output.declared.dtype, num_elements(output.declared.shape).value())));
  }

  {
    FrameLease frame(impl, of_vars);
    for (size_t k = 0; k < held.size(); ++k) frame->inputs[impl.given_inputs[k]] = held[k]->data();
    for (const size_t k : impl.given_outputs) frame->outputs[k] = made[k] ? made[k]->data() : nullptr;
    run_with_states(impl, *frame, states, "call");
  }
  NamedTensors results;
  for (const size_t k : impl.given_outputs) {
    const KernelParam& declared = impl.outputs[k].declared;
    if (const auto& moved = impl.outputs[k].moved; moved && !impl.outputs[k].of_state) {
      const detail::InstructionTimer timer("view", declared.name);
      const int from = impl.outputs[k].moved_input;
      const graph::NodeRef source =
          from < 0 ? moved->input : graph::realised(held_for(from), moved->input->dtype, moved->input->shape);
      const auto narrow = is_narrow(declared.dtype)
                              ? std::optional(graph::Declared{declared.dtype, declared.shape})
                              : std::nullopt;
      results.emplace(declared.name, graph::of_held(graph::view(source, moved->view), narrow));
      continue;
    }
    Shape shape;
    for (const int64_t size : values.sizes(declared.shape)) shape.push_back(size);
    results.emplace(declared.name, graph::of_data(made[k], declared.dtype, shape));
  }
  return results;
}

} // namespace

NamedTensors Executable::operator()(const NamedTensors& inputs, const NamedStates& states) const {
  return call(*impl_, inputs, nullptr, states);
}
NamedTensors Executable::operator()(NamedTensors&& inputs, const NamedStates& states) const {
  return call(*impl_, inputs, &inputs, states);
}

NamedTensors detail::call_at(const Executable& program, const NamedTensors& inputs,
                             const std::map<std::string, int64_t>& sizes) {
  return call(*impl(program), inputs, nullptr, {}, sizes);
}

void Executable::run(const std::map<std::string, const void*>& inputs,
                     const std::map<std::string, void*>& outputs,
                     const std::map<std::string, int64_t>& shape_values, const NamedStates& states) const {
  const Impl& impl = *impl_;
  std::vector<int64_t> of_vars;
  if (!impl.is_static || !shape_values.empty()) {
    const std::vector<Expr>& vars = impl.program->shape_vars;
    pipeline::ShapeValues values(vars);
    for (const auto& [name, value] : shape_values) {
      const auto var =
          std::find_if(vars.begin(), vars.end(), [&, &n = name](Expr v) { return v.name() == n; });
      if (var == vars.end())
        throw Error(ErrorKind::Name,
                    fmt::format("run: there is no shape variable {}, expected one of the program's", name));
      values.bind(*var, value, "run");
    }
    of_vars = values.complete("run");
  }
  FrameLease frame(impl, of_vars);
  const auto need = [](const auto& declared, size_t bytes, const void* data) {
    if (!data && bytes > 0)
      throw Error(ErrorKind::Value,
                  fmt::format("run: \"{}\" is null, expected {} bytes", declared.name, bytes));
  };
  match("input", impl.placed.inputs, impl.given_inputs, inputs, [&](size_t k, const void* data) {
    need(impl.placed.inputs[k].declared, frame->input_bytes[k], data);
    frame->inputs[k] = data;
  });
  match("output", impl.outputs, impl.given_outputs, outputs, [&](size_t k, void* data) {
    need(impl.outputs[k].declared, frame->output_bytes[k], data);
    frame->outputs[k] = data;
  });
  const pipeline::PrivateOutputs outputs_apart(impl, *frame);
  run_with_states(impl, *frame, states, "run");
  outputs_apart.copy_back();
}

std::vector<Kernel> Executable::kernels() const { return impl_->kernels; }
size_t Executable::kernel_count() const { return impl_->kernels.size(); }
std::vector<KernelParam> Executable::inputs() const {
  std::vector<KernelParam> out;
  for (const size_t k : impl_->given_inputs) out.push_back(impl_->placed.inputs[k].declared);
  return out;
}
std::vector<KernelParam> Executable::outputs() const {
  std::vector<KernelParam> out;
  for (const size_t k : impl_->given_outputs) out.push_back(impl_->outputs[k].declared);
  return out;
}
NamedStates Executable::states() const {
  NamedStates out;
  for (const pipeline::PlacedState& state : impl_->states)
    out.emplace(state.buffer->name,
                detail::Access::make<State>(std::make_shared<const State::Impl>(state.buffer)));
  return out;
}
std::vector<std::string> Executable::moves() const {
  std::vector<std::string> out;
  for (const search::Move& move : impl_->moves) out.push_back(to_string(move));
  return out;
}
double Executable::predicted_seconds() const { return impl_->predicted_seconds; }
int64_t Executable::arena_bytes() const { return impl_->arena_bytes; }
int64_t Executable::naive_bytes() const { return impl_->naive_bytes; }
int64_t Executable::folded_bytes() const { return impl_->folded_bytes; }
bool Executable::tuned() const { return impl_->tuned; }
bool Executable::quick() const { return impl_->quick; }

namespace {

/// The instructions, each after `indent`.
std::string printed(const Impl& impl, const std::string& indent) {
  std::vector<std::string> names; // by slot
  const lower::MemoryPlan plan = impl.placed.typical_plan();
  for (size_t s = 0; s < impl.placed.slots.size(); ++s) {
    const pipeline::PlacedProgram::Slot& slot = impl.placed.slots[s];
    names.push_back(slot.home == Impl::Home::Arena ? fmt::format("%{}@{}", slot.buffer->name, plan.offsets[s])
                                                   : "%" + slot.buffer->name);
  }
  for (const Impl::Output& output : impl.outputs)
    if (!output.moved && output.copy_of < 0) names[output.slot] = "%" + output.declared.name;

  std::string out = indent + fmt::format("alloc arena, {} bytes\n", impl.arena_bytes);
  for (size_t k = 0; k < impl.kernels.size(); ++k) {
    const Kernel& kernel = impl.kernels[k];
    const std::vector<size_t>& slots = impl.placed.launches[k];
    std::string read, written;
    for (size_t p = 0; p < slots.size(); ++p)
      (kernel.params()[p].written ? written : read) += " " + names[slots[p]];
    out += fmt::format("{}launch {}{} <-{}\n", indent, kernel.name(), written, read);
    if (const auto* recurrence = pipeline::recurrence_of(kernel)) {
      out += fmt::format("{}  repeat {}\n", indent, recurrence->times());
      out += printed(recurrence->body(), indent + "    ");
    }
  }
  for (const size_t k : impl.given_outputs) {
    const Impl::Output& output = impl.outputs[k];
    if (output.moved) {
      const auto& from = std::get<graph::InputAttr>(output.moved->input->attr);
      out += indent + fmt::format("view %{} <- {} {}\n", output.declared.name,
                                  from.data ? "constant" : "%" + from.name, to_string(output.moved->view));
    } else if (output.copy_of >= 0) {
      out += indent + fmt::format("copy %{} <- {}\n", output.declared.name, names[output.slot]);
    }
  }
  for (const auto& [output, input] : impl.options.donated) {
    const bool in_place =
        std::any_of(impl.outputs.begin(), impl.outputs.end(), [&, &name = output](const auto& o) {
          return o.declared.name == name && o.over_input >= 0;
        });
    out += indent + fmt::format("write %{} {} %{}\n", output, in_place ? "in place of" : "apart from", input);
  }
  for (const pipeline::PlacedState& state : impl.states) {
    if (state.output < 0) continue;
    out += indent + fmt::format("update {} ", state.buffer->name);
    if (state.in_place)
      out += "in place\n";
    else if (state.taken_from >= 0)
      out += fmt::format("<- the memory of {}\n",
                         impl.states[static_cast<size_t>(state.taken_from)].buffer->name);
    else
      out += fmt::format("<- %{}, in other memory\n",
                         impl.outputs[static_cast<size_t>(state.output)].declared.name);
  }
  return out + indent + "free arena\n";
}

} // namespace

std::string Executable::print() const { return printed(*impl_, ""); }

} // namespace lathe
