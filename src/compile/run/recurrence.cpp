#include "compile/run/recurrence.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "graph/scan.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {

using Impl = Executable::Impl;
using runtime::BufferSlice;

namespace {

size_t parameter_of(const search::KernelPlan& kernel, const ast::BufferRef& buffer) {
  const auto& params = kernel.kernel.params;
  const auto at = std::find_if(params.begin(), params.end(),
                               [&](const ast::Param& p) { return p.buffer->id == buffer->id; });
  if (at == params.end()) throw InternalError("a recurrence without its buffer " + buffer->name);
  return static_cast<size_t>(at - params.begin());
}

/// The body's slot of an input; -1 if the body does not read it.
int input_slot(const Impl& body, const std::string& name) {
  for (const PlacedProgram::Input& input : body.placed.inputs)
    if (input.declared.name == name) return input.slot;
  return -1;
}

size_t output_slot(const Impl& body, const std::string& name) {
  for (const PlacedProgram::Output& output : body.placed.outputs)
    if (output.declared.name == name) return output.slot;
  throw InternalError("a body without its result " + name);
}

bool read_bool(const BufferSlice& from, runtime::Device& device) {
  unsigned char value = 0;
  if (device.is_host()) return *from.host() != 0;
  device.finish();
  from.buffer->download(from.offset, &value, 1);
  return value != 0;
}

void clear(const BufferSlice& slice, runtime::Device& device) {
  if (slice.bytes == 0) return;
  if (device.is_host()) {
    std::memset(slice.host(), 0, slice.bytes);
    return;
  }
  device.finish();
  const std::vector<char> zeros(slice.bytes);
  slice.buffer->upload(slice.offset, zeros.data(), zeros.size());
}

void copy(const BufferSlice& from, const BufferSlice& to, runtime::Device& device) {
  if (device.is_host()) {
    std::memmove(to.host(), from.host(), to.bytes);
    return;
  }
  device.finish();
  std::vector<char> bytes(to.bytes);
  from.buffer->download(from.offset, bytes.data(), bytes.size());
  to.buffer->upload(to.offset, bytes.data(), bytes.size());
}

} // namespace

RecurrenceProgram::RecurrenceProgram(const lower::Recurrence& recurrence, const search::KernelPlan& kernel,
                                     std::shared_ptr<const Impl> body)
    : body_(std::move(body)) {
  const auto& attr = std::get<graph::ScanAttr>(recurrence.node->attr);
  const graph::ScanBody& graph = *attr.body;
  steps_ = outside_scopes(attr.steps);
  times_ = fmt::format("{} times", to_string(steps_));
  if (graph.when) {
    const size_t position = *graph.when;
    const std::string& name = std::get<graph::InputAttr>(graph.parameters[position]->attr).name;
    times_ = fmt::format("at most {}, {} {}", times_, graph.ends_early() ? "while" : "where", name);
    if (graph.ends_early())
      when_.state = static_cast<int>(position);
    else
      when_ = {-1, static_cast<int>(parameter_of(kernel, recurrence.sources[position])),
               graph.backward[position - graph.states]};
  }
  outer_vars_ = outside_scopes(kernel.kernel.shape_vars);
  for (const Expr var : body_->program->shape_vars) {
    const auto at = std::find_if(outer_vars_.begin(), outer_vars_.end(),
                                 [&](Expr outer) { return outer.name() == var.name(); });
    if (at == outer_vars_.end()) throw InternalError("a body with a size of its own: " + var.name());
    var_of_.push_back(static_cast<int>(at - outer_vars_.begin()));
  }
  for (size_t k = 0; k < graph.parameters.size(); ++k) {
    const int slot = input_slot(*body_, std::get<graph::InputAttr>(graph.parameters[k]->attr).name);
    const size_t source = parameter_of(kernel, recurrence.sources[k]);
    if (k < graph.states) {
      state_sources_.push_back(source);
      state_slots_.push_back(slot);
    } else if (slot >= 0) {
      const bool is_row = k < graph.states + graph.scanned;
      (is_row ? rows_ : values_).push_back({static_cast<size_t>(slot), source});
      if (is_row) rows_backward_.push_back(graph.backward[k - graph.states]);
    }
  }
  int written = static_cast<int>(kernel.kernel.params.size());
  for (const int stage : recurrence.stages) written -= stage >= 0;
  for (size_t k = 0; k < graph.results.size(); ++k) {
    const bool is_read = recurrence.stages[k] >= 0, is_state = graph.is_state(k);
    if (!is_read && !is_state) continue;
    const bool backward = !is_state && graph.backward[graph.scanned + k - graph.states];
    (is_state ? states_ : stacked_)
        .push_back({output_slot(*body_, fmt::format("r{}", k)), is_read ? written++ : -1, backward,
                    !is_state && graph.is_cleared(k)});
  }
  std::set<size_t> stacked_slots;
  for (const Result& result : stacked_) has_equal_rows_ |= !stacked_slots.insert(result.slot).second;
  for (size_t launch = 0; launch < body_->placed.launches.size(); ++launch)
    for (size_t p = 0; p < body_->placed.launches[launch].size(); ++p) {
      const size_t slot = body_->placed.launches[launch][p];
      const PlacedProgram::Home home = body_->placed.slots[slot].home;
      if (home == PlacedProgram::Home::Input || home == PlacedProgram::Home::Output)
        moving_.push_back({launch, p, slot});
    }
}

const RecurrenceProgram* recurrence_of(const Kernel& kernel) {
  return dynamic_cast<const RecurrenceProgram*>(detail::impl(kernel)->program.get());
}

size_t RecurrenceProgram::bytes() const { return 0; } // the body's kernels count themselves

/// The steps of one run.
class RecurrenceProgram::Steps {
public:
  Steps(const RecurrenceProgram& program, Impl::Frame& frame, std::span<const BufferSlice> buffers,
        int64_t count)
      : program_(program), body_(*program.body_), frame_(frame), buffers_(buffers), count_(count),
        at_(body_.placed.slots.size()) {
    for (const Input& value : program_.values_) at_[value.slot] = buffers_[value.source];
    for (const size_t source : program_.state_sources_) state_at_.push_back(buffers_[source]);
    make_room();
  }

  /// Returns how many steps ran.
  int64_t run() {
    for (int64_t step = 0; step < count_; ++step) {
      if (step == kFirstSteady && can_be_steady()) step += run_steady();
      if (!runs(step)) {
        const bool is_end = program_.when_.state >= 0;
        clear_rows(step, is_end ? count_ : step + 1);
        if (is_end) break;
        continue;
      }
      bind(step);
      for (size_t k = 0; k < body_.kernels.size(); ++k)
        detail::impl(body_.kernels[k])->program->launch(frame_.calls[k].slices, frame_.calls[k].vars);
      copy_equal_rows(step);
      end_step();
    }
    for (size_t i = 0; i < state_at_.size(); ++i) {
      const int to = program_.states_[i].parameter;
      if (to < 0) continue;
      const BufferSlice& result = buffers_[static_cast<size_t>(to)];
      if (state_at_[i].buffer != result.buffer || state_at_[i].offset != result.offset)
        copy(state_at_[i], result, *body_.device);
    }
    return ran_;
  }

private:
  /// Notes where this step has left the states.
  void end_step() {
    for (size_t i = 0; i < state_at_.size(); ++i) state_at_[i] = at_[program_.states_[i].slot];
    ++ran_;
  }

  static constexpr int64_t kFirstSteady = 1; // step 0 reads the states' first values

  /// Whether the operands of all steps but the first and the last move by fixed distances, on the host, and
  /// there are enough steps to find these out.
  bool can_be_steady() const {
    constexpr int64_t kWorthwhile = 16;
    return count_ >= kWorthwhile && program_.when_.source < 0 && !program_.has_equal_rows_ &&
           SteadySteps::can_run(body_);
  }

  /// Runs steps from kFirstSteady on up to the last but one, or up to one that does not run. Returns how many
  /// ran.
  int64_t run_steady() {
    SteadySteps steady(body_, frame_, program_.moving_);
    const std::vector<BufferSlice> states_before = state_at_;
    for (int seen = 0; seen < SteadySteps::kSeen; ++seen) {
      if (const int state = program_.when_.state; state >= 0)
        steady.see_condition(seen, state_at_[static_cast<size_t>(state)]);
      bind(kFirstSteady + seen);
      for (size_t k = 0; k < program_.moving_.size(); ++k) steady.see(seen, k, at_[program_.moving_[k].slot]);
      end_step();
    }
    state_at_ = states_before;
    ran_ = kFirstSteady;
    const int64_t ran = steady.run(count_ - 1 - kFirstSteady);
    if (ran > 0) { // the states are where the last of these steps has left them
      ran_ = kFirstSteady + ran - 1;
      bind(ran_);
      end_step();
    }
    return ran;
  }

  bool runs(int64_t step) const {
    const When& when = program_.when_;
    if (when.state >= 0) return read_bool(state_at_[static_cast<size_t>(when.state)], *body_.device);
    return when.source < 0 ||
           read_bool(row(buffers_[static_cast<size_t>(when.source)], 1, step, when.backward), *body_.device);
  }

  /// The rows of steps [first, end), which do not run.
  void clear_rows(int64_t first, int64_t end) {
    for (const Result& result : program_.stacked_) {
      if (!result.cleared) continue;
      BufferSlice rows = row_of(result, result.backward ? end - 1 : first);
      rows.bytes *= static_cast<size_t>(end - first);
      clear(rows, *body_.device);
    }
  }

  BufferSlice row(const BufferSlice& all, size_t bytes, int64_t step, bool backward) const {
    const int64_t position = backward ? count_ - 1 - step : step;
    return {all.buffer, all.offset + static_cast<size_t>(position) * bytes, bytes};
  }

  /// Memory for the states that are no rows of a result.
  void make_room() {
    frame_.states.resize(2 * body_.placed.slots.size());
    for (const Result& state : program_.states_)
      for (size_t turn = 0; turn < 2; ++turn) {
        auto& buffer = frame_.states[2 * state.slot + turn];
        const size_t bytes = std::max<size_t>(frame_.bytes[state.slot], 1);
        if (!buffer || buffer->bytes() < bytes) buffer = body_.device->allocate(bytes);
      }
  }

  void bind(int64_t step) {
    for (size_t j = 0; j < program_.rows_.size(); ++j) {
      const Input& input = program_.rows_[j];
      at_[input.slot] =
          row(buffers_[input.source], frame_.bytes[input.slot], step, program_.rows_backward_[j]);
    }
    for (size_t i = 0; i < state_at_.size(); ++i)
      if (const int slot = program_.state_slots_[i]; slot >= 0) at_[static_cast<size_t>(slot)] = state_at_[i];
    const bool is_last = step + 1 == count_;
    for (const Result& state : program_.states_) {
      const size_t bytes = frame_.bytes[state.slot];
      at_[state.slot] = is_last && state.parameter >= 0
                            ? buffers_[static_cast<size_t>(state.parameter)]
                            : BufferSlice{frame_.states[2 * state.slot + ran_ % 2].get(), 0, bytes};
    }
    for (const Result& result : program_.stacked_)
      at_[result.slot] = row_of(result, step); // a state that is also a row lies in the row
    for (const Moving& m : program_.moving_) frame_.calls[m.launch].slices[m.parameter] = at_[m.slot];
  }

  BufferSlice row_of(const Result& result, int64_t step) const {
    return row(buffers_[static_cast<size_t>(result.parameter)], frame_.bytes[result.slot], step,
               result.backward);
  }

  /// A value that is a row of several results was written to the last of these.
  void copy_equal_rows(int64_t step) {
    if (!program_.has_equal_rows_) return;
    for (const Result& result : program_.stacked_) {
      const BufferSlice to = row_of(result, step);
      if (to.buffer != at_[result.slot].buffer || to.offset != at_[result.slot].offset)
        copy(at_[result.slot], to, *body_.device);
    }
  }

  const RecurrenceProgram& program_;
  const Impl& body_;
  Impl::Frame& frame_;
  const std::span<const BufferSlice> buffers_;
  const int64_t count_;
  int64_t ran_ = 0;                   // steps
  std::vector<BufferSlice> at_;       // by slot of the body: where this step finds it
  std::vector<BufferSlice> state_at_; // by state: where the step before left it
};

void RecurrenceProgram::launch(std::span<const BufferSlice> buffers,
                               std::span<const int64_t> shape_values) const {
  (void)run(buffers, shape_values);
}

int64_t RecurrenceProgram::run(std::span<const BufferSlice> buffers,
                               std::span<const int64_t> shape_values) const {
  const auto value_of = [&](Expr var) {
    for (size_t k = 0; k < outer_vars_.size(); ++k)
      if (outer_vars_[k].name() == var.name()) return shape_values[k];
    throw InternalError("a recurrence of an unknown size " + var.name());
  };
  std::vector<int64_t> values;
  for (const int v : var_of_) values.push_back(shape_values[static_cast<size_t>(v)]);
  std::unique_ptr<Impl::Frame> frame = body_->take_frame();
  body_->set_sizes(*frame, values);
  const int64_t ran = Steps(*this, *frame, buffers, evaluate(steps_, value_of)).run();
  body_->put_back(std::move(frame));
  return ran;
}

} // namespace lathe::pipeline
