// If, Loop, Scan and SequenceMap. A body that runs often is a recurrence, if each iteration does the same.
// A Loop of another kind runs its body as a program of its own (loop_body.hpp). Loops of few iterations, and
// of sequences or strings, are unrolled: a condition that is not known is then looked at when the program
// runs, and the way taken becomes part of the program made for it.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "lathe/onnx/model.hpp"
#include "lathe/scan.hpp"
#include "onnx/call.hpp"
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/counted_loop.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> if_op(Call& call) {
  const bool condition = call.integer_at(0) != 0;
  call.ignore(condition ? "else_branch" : "then_branch");
  return call.run_body(condition ? "then_branch" : "else_branch", {});
}

/// What the iterations of a body made: the last state, and for each scan output its parts in order.
struct Unrolled {
  std::vector<Value> state;
  std::vector<std::vector<Value>> scanned;
};

/// Takes a body's outputs from `first` on: the new state, then one part of each scan output.
void collect(const std::vector<Value>& outputs, size_t first, Unrolled& unrolled) {
  const size_t states = unrolled.state.size();
  for (size_t i = 0; i < states; ++i) unrolled.state[i] = outputs[first + i];
  for (size_t i = 0; i < unrolled.scanned.size(); ++i)
    unrolled.scanned[i].push_back(outputs[first + states + i]);
}

/// Whether a loop goes on. A look may cost a run of the program so far, whose results are then kept.
bool look_at_condition(Call& call, const Value& condition, Unrolled& unrolled) {
  std::vector<Value> kept = unrolled.state;
  for (const auto& parts : unrolled.scanned) kept.insert(kept.end(), parts.begin(), parts.end());
  const bool goes_on = integer_of(call, condition, &kept) != 0;
  auto next = kept.begin();
  for (Value& value : unrolled.state) value = *next++;
  for (auto& parts : unrolled.scanned)
    for (Value& part : parts) part = *next++;
  return goes_on;
}

/// A scan output of no parts, where each part would be of this kind, dtype and shape.
Value empty_scan(Value::Kind kind, DType dtype, Shape shape, int axis) {
  shape.insert(shape.begin() + axis, Expr(0));
  if (kind == Value::Kind::Strings) return Value::strings({}, shape);
  return Tensor::zeros(shape, dtype);
}
Value empty_scan(const Port& port, int axis) { return empty_scan(port.kind, port.dtype, *port.shape, axis); }

/// Whether the body says of what dtype and fixed shape an output is.
bool is_declared(const Port& port) {
  return (port.kind == Value::Kind::Tensor || port.kind == Value::Kind::Strings) && port.shape &&
         is_static(*port.shape);
}

/// Fewer iterations are unrolled: one kernel may then compute parts of several.
constexpr int64_t kOften = 8;

bool is_often(Expr iterations) { return !iterations.is_const() || iterations.value() >= kOften; }

/// A body's outputs from its arguments: the values that pass from one iteration to the next, then parts of
/// the scan outputs.
using Iteration =
    std::function<std::vector<Value>(const std::vector<Tensor>& state, const std::vector<Tensor>& rows)>;

std::vector<Tensor> tensors_of(const std::vector<Value>& values) {
  std::vector<Tensor> all;
  for (const Value& value : values) all.push_back(value.tensor());
  return all;
}

/// The iterations as a recurrence; nothing if they are not all alike: one looks at values, changes a shape,
/// or takes or makes what is no tensor.
std::optional<Scanned> as_recurrence(const Iteration& iteration, const std::vector<Value>& initial,
                                     const std::vector<Tensor>& scanned, Expr count) {
  try {
    const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
      std::vector<Tensor> made = tensors_of(iteration(state, rows));
      const auto first_part = made.begin() + static_cast<long>(std::min(state.size(), made.size()));
      return {{made.begin(), first_part}, {first_part, made.end()}};
    };
    return lathe::scan(step, tensors_of(initial), scanned, {count});
  } catch (const Error&) {
    return {}; // if it is an error of the model, unrolling it meets it again
  }
}

/// A loop that counts. Its counters are numbers of the iteration, and values that stay are no states.
std::optional<std::vector<Value>> loop_as_recurrence(Call& call, const std::vector<Value>& initial,
                                                     const CountedLoop& counted) {
  std::vector<Value> states;
  for (size_t k = 0; k < initial.size(); ++k)
    if (!counted.steps[k]) states.push_back(initial[k]);
  const auto iteration = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) {
    std::vector<Value> arguments{rows[0], known_integer(1, DType::Bool)};
    auto next = state.begin();
    for (size_t k = 0; k < initial.size(); ++k) {
      const auto& step = counted.steps[k];
      if (!step)
        arguments.emplace_back(*next++);
      else if (*step == 0)
        arguments.push_back(initial[k]);
      else
        arguments.emplace_back(initial[k].tensor() + (rows[0] * *step).cast(initial[k].dtype()));
    }
    const std::vector<Value> outputs = call.run_body("body", arguments, Looks::Refused);
    std::vector<Value> made;
    for (size_t k = 1; k < outputs.size(); ++k)
      if (k > initial.size() || !counted.steps[k - 1]) made.push_back(outputs[k]);
    return made;
  };
  const auto made = as_recurrence(iteration, states, {Tensor::iota({counted.trips}, 0)}, counted.trips);
  if (!made) return {};
  std::vector<Value> results;
  auto last = made->state.begin();
  for (size_t k = 0; k < initial.size(); ++k) {
    const auto& step = counted.steps[k];
    if (!step)
      results.emplace_back(*last++);
    else if (*step == 0)
      results.push_back(initial[k]);
    else
      results.push_back(known_integers({initial[k].integers()->front() + counted.trips * *step},
                                       initial[k].shape(), initial[k].dtype()));
  }
  results.insert(results.end(), made->stacked.begin(), made->stacked.end());
  return results;
}

/// The loop as a recurrence of many steps, if it counts and runs at all.
std::optional<std::vector<Value>> counted_loop(Call& call, const std::vector<Value>& initial) {
  const auto known = [&](size_t input) -> std::optional<Expr> {
    if (!call.has(input)) return {};
    const Value value = call.value(input);
    const auto& integers = value.integers();
    return integers && integers->size() == 1 ? std::optional(integers->front()) : std::nullopt;
  };
  const std::optional<Expr> most = known(0), condition = known(1);
  if (call.has(0) && (!most || !is_often(*most))) return {};
  if (call.has(1) && (!condition || !condition->is_const() || condition->value() == 0)) return {};
  const auto counted = count_iterations(call, initial, most);
  if (!counted || !is_often(counted->trips)) return {};
  return loop_as_recurrence(call, initial, *counted);
}

/// More iterations than any run makes: the limit of loops that name none.
constexpr int64_t kEndless = int64_t{1} << 40;

/// A loop whose end only a run finds, as one recurrence, if its states keep their dtypes and shapes. Nothing
/// for one whose end is known: it is unrolled, or counts.
std::optional<std::vector<Value>> loop_until_done(Call& call, const std::vector<Value>& initial) {
  const auto integers = call.has(0) ? call.value(0).integers() : std::nullopt;
  const bool has_bound = !call.has(0) || integers;
  bool is_known = has_bound; // how many iterations there are
  const auto body = [&](const std::vector<Tensor>& state) {
    std::vector<Value> arguments{state[0], known_integer(1, DType::Bool)};
    arguments.insert(arguments.end(), state.begin() + 2, state.end());
    const std::vector<Value> made = call.run_body("body", arguments, Looks::Refused);
    is_known = is_known && made[0].integers();
    std::vector<Tensor> next = tensors_of(made);
    next[0] = next[0].reshape({});
    next.insert(next.begin(), state[0] + Tensor::full({}, Scalar::of_int(DType::I64, 1)));
    return next;
  };
  try {
    std::vector<Tensor> states = tensors_of(initial);
    const Tensor goes_on =
        call.has(1) ? call.tensor(1).reshape({}) : Tensor::full({}, Scalar::of_int(DType::Bool, 1));
    states.insert(states.begin(), {Tensor::zeros({}, DType::I64), goes_on});
    const auto condition = [&](const std::vector<Tensor>& state) {
      return has_bound ? state[1] : state[1] & (state[0] < call.tensor(0).reshape({}));
    };
    const std::vector<Tensor> last =
        while_loop(condition, body, states, integers ? max(integers->front(), Expr(0)) : Expr(kEndless));
    if (is_known) return {};
    return std::vector<Value>(last.begin() + 2, last.end());
  } catch (const Error&) {
    return {}; // if it is an error of the model, unrolling it meets it again
  }
}

std::vector<Value> values_of(const Scanned& scanned) {
  std::vector<Value> values(scanned.state.begin(), scanned.state.end());
  values.insert(values.end(), scanned.stacked.begin(), scanned.stacked.end());
  return values;
}

std::vector<Value> loop_arguments(int64_t iteration, const std::vector<Value>& state) {
  // The body only runs while the condition holds, which spares it another look.
  std::vector<Value> arguments{known_integer(iteration), known_integer(1, DType::Bool)};
  arguments.insert(arguments.end(), state.begin(), state.end());
  return arguments;
}

/// Error(Limit) for a loop without a trip count whose body always wants to go on.
void check_it_ends(Call& call, const std::vector<Value>& initial) {
  const auto given = call.has(1) ? call.value(1).integers() : std::nullopt;
  const bool begins = !call.has(1) || (given && given->size() == 1 && !given->front().is_const(0));
  if (call.has(0) || !begins) return;
  std::vector<Value> made;
  try {
    made = call.run_body("body", loop_arguments(0, initial), Looks::Refused);
  } catch (const Error&) {
    return; // if it is an error of the model, running it meets it again
  }
  const auto& goes_on = made[0].integers();
  if (goes_on && goes_on->size() == 1 && goes_on->front().is_const() && goes_on->front().value() != 0)
    call.fail(ErrorKind::Limit, "no trip count and a condition that always holds, expected an end");
}

std::vector<Value> loop(Call& call) {
  Unrolled unrolled;
  for (size_t i = 2; i < call.input_count(); ++i) unrolled.state.push_back(call.value(i));
  const std::vector<Value> initial = unrolled.state;
  const size_t outputs = call.body_output_count("body");
  if (outputs < 1 + initial.size())
    call.fail(ErrorKind::Value, "a body of " + std::to_string(outputs) + " outputs, expected at least " +
                                    std::to_string(1 + initial.size()));
  unrolled.scanned.resize(outputs - 1 - initial.size());

  if (auto results = counted_loop(call, initial)) return *results;
  if (unrolled.scanned.empty())
    if (auto results = loop_until_done(call, initial)) return *results;
  const auto most = call.has(0) ? call.value(0).integers() : std::nullopt;
  const bool is_counted = most && most->size() == 1 && most->front().is_const();
  check_it_ends(call, initial);
  if (!is_counted || is_often(most->front()))
    if (auto results = run_loop_body(call, initial, is_counted)) return *results;
  const int64_t trips = call.has(0) ? call.integer_at(0) : std::numeric_limits<int64_t>::max();
  bool condition = trips <= 0 || !call.has(1) || call.integer_at(1) != 0;
  for (int64_t i = 0; i < trips && condition; ++i) {
    if (i == kMaxUnrolled)
      call.fail(ErrorKind::Limit, "still runs after " + std::to_string(i) + " iterations, expected an end");
    const std::vector<Value> made = call.run_body("body", loop_arguments(i, unrolled.state));
    collect(made, 1, unrolled);
    if (i + 1 < trips) condition = look_at_condition(call, made[0], unrolled);
  }

  std::vector<Value> results = unrolled.state;
  if (unrolled.scanned.empty()) return results;
  if (unrolled.scanned[0].empty()) {
    // What the body would make tells the shapes of nothing, where it does not declare them.
    std::vector<Value> made;
    for (size_t i = 1 + initial.size(); i < outputs; ++i) {
      const Port& port = call.body_output("body", i);
      if (!is_declared(port) && made.empty()) made = call.run_body("body", loop_arguments(0, initial));
      results.push_back(is_declared(port) ? empty_scan(port, 0)
                                          : empty_scan(made[i].kind(), made[i].dtype(), made[i].shape(), 0));
    }
    return results;
  }
  for (const auto& parts : unrolled.scanned) results.push_back(stack_values(call, parts, 0));
  return results;
}

Value part_of(const Call& call, const Value& value, int axis, int64_t position) {
  if (value.is_strings()) return Value::strings(slice_at(ids_of(call, value), axis, position));
  return slice_at(value.tensor(), axis, position);
}

/// One entry for each of `count`; all 0 where the attribute is left out.
std::vector<int64_t> per_scan(const Call& call, const char* attribute, size_t count) {
  const std::vector<int64_t> values = call.integers(attribute, std::vector<int64_t>(count, 0));
  if (values.size() != count)
    call.fail(ErrorKind::Value, std::string(attribute) + " has " + std::to_string(values.size()) +
                                    " entries, expected " + std::to_string(count));
  return values;
}

struct ScanCounts {
  size_t states, inputs, outputs;
};

/// `given`: the node's inputs but for Scan-8's lengths.
ScanCounts scan_counts(const Call& call, size_t given) {
  const int64_t inputs = call.integer("num_scan_inputs");
  if (inputs < 1 || static_cast<size_t>(inputs) > given)
    call.fail(ErrorKind::Value,
              "num_scan_inputs " + std::to_string(inputs) + ", expected 1 to " + std::to_string(given));
  const size_t states = given - static_cast<size_t>(inputs), made = call.body_output_count("body");
  if (made < states)
    call.fail(ErrorKind::Value,
              "a body of " + std::to_string(made) + " outputs, expected at least " + std::to_string(states));
  return {states, static_cast<size_t>(inputs), made - states};
}

struct ScanInput {
  Value value;
  int axis;
  bool backward;
};

/// Runs the body over the first `length` positions of the scan inputs.
Unrolled scan_over(Call& call, std::vector<Value> state, const std::vector<ScanInput>& inputs, int64_t length,
                   size_t outputs) {
  Unrolled unrolled{std::move(state), std::vector<std::vector<Value>>(outputs)};
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Value> arguments = unrolled.state;
    for (const ScanInput& input : inputs)
      arguments.push_back(part_of(call, input.value, input.axis, input.backward ? length - 1 - i : i));
    collect(call.run_body("body", arguments), 0, unrolled);
  }
  return unrolled;
}

/// Nothing where a size differs from `count`, too. Rows are taken and made in the order of the steps; what
/// runs backward is flipped around the recurrence.
std::optional<Scanned> scan_as_recurrence(Call& call, const std::vector<Value>& state,
                                          const std::vector<ScanInput>& inputs, Expr count,
                                          const std::vector<int64_t>& output_directions) {
  std::vector<Tensor> rows;
  for (const ScanInput& input : inputs) {
    if (!input.value.is_tensor() || input.value.shape()[static_cast<size_t>(input.axis)] != count) return {};
    const Tensor by_step = with_axis_at(input.value.tensor(), input.axis, 0);
    rows.push_back(input.backward ? by_step.flip({0}) : by_step);
  }
  const auto iteration = [&](const std::vector<Tensor>& given, const std::vector<Tensor>& parts) {
    std::vector<Value> arguments(given.begin(), given.end());
    arguments.insert(arguments.end(), parts.begin(), parts.end());
    return call.run_body("body", arguments, Looks::Refused);
  };
  std::optional<Scanned> made = as_recurrence(iteration, state, rows, count);
  for (size_t i = 0; made && i < made->stacked.size(); ++i)
    if (output_directions[i] != 0) made->stacked[i] = made->stacked[i].flip({0});
  return made;
}

std::vector<Value> scan(Call& call) {
  const ScanCounts counts = scan_counts(call, call.input_count());
  const auto input_axes = per_scan(call, "scan_input_axes", counts.inputs);
  const auto input_directions = per_scan(call, "scan_input_directions", counts.inputs);
  const auto output_axes = per_scan(call, "scan_output_axes", counts.outputs);
  const auto output_directions = per_scan(call, "scan_output_directions", counts.outputs);

  std::vector<Value> state;
  for (size_t i = 0; i < counts.states; ++i) state.push_back(call.value(i));
  std::vector<ScanInput> inputs;
  for (size_t i = 0; i < counts.inputs; ++i) {
    const Value value = call.value(counts.states + i);
    inputs.push_back({value, normalise_axis(call, input_axes[i], value.rank()), input_directions[i] != 0});
  }
  const Expr count = inputs[0].value.shape()[static_cast<size_t>(inputs[0].axis)];
  if (is_often(count))
    if (auto made = scan_as_recurrence(call, state, inputs, count, output_directions)) {
      for (size_t i = 0; i < counts.outputs; ++i) {
        Tensor& stacked = made->stacked[i];
        const int axis = normalise_axis(call, output_axes[i], static_cast<int>(stacked.rank()));
        stacked = with_axis_at(stacked, 0, axis);
      }
      return values_of(*made);
    }
  const int64_t length = unrolled_size(call, inputs[0].value, inputs[0].axis);
  for (const ScanInput& input : inputs)
    if (fixed_size(call, input.value, input.axis) != length)
      call.fail(ErrorKind::Shape, "a scan input of " + to_string(input.value.shape()) + ", expected " +
                                      std::to_string(length) + " in axis " + std::to_string(input.axis));
  if (length == 0) {
    for (size_t i = 0; i < counts.outputs; ++i) {
      const Port& port = call.body_output("body", counts.states + i);
      if (!is_declared(port))
        call.fail(ErrorKind::Shape,
                  "scan inputs of no elements, expected a step or a body that declares its outputs' shapes");
      const int rank = static_cast<int>(port.shape->size());
      state.push_back(empty_scan(port, normalise_axis(call, output_axes[i], rank + 1)));
    }
    return state;
  }

  Unrolled unrolled = scan_over(call, std::move(state), inputs, length, counts.outputs);
  std::vector<Value> results = std::move(unrolled.state);
  for (size_t i = 0; i < counts.outputs; ++i) {
    std::vector<Value>& parts = unrolled.scanned[i];
    if (output_directions[i] != 0) std::reverse(parts.begin(), parts.end());
    results.push_back(stack_values(call, parts, normalise_axis(call, output_axes[i], parts[0].rank() + 1)));
  }
  return results;
}

/// Sequences shorter than the longest end in zeros.
Value pad_steps(Value steps, int64_t length) {
  const int64_t missing = length - steps.shape()[0].value();
  if (missing == 0) return steps;
  std::vector<std::pair<int64_t, int64_t>> padding(steps.rank(), {0, 0});
  padding[0].second = missing;
  if (steps.is_strings()) return Value::strings(steps.ids()->pad(padding));
  return steps.tensor().pad(padding);
}

/// Opset 8 scans each sequence of a batch by itself: lengths, states [batch, ...], scan inputs [batch, steps,
/// ...].
std::vector<Value> scan_batches(Call& call) {
  const ScanCounts counts = scan_counts(call, call.input_count() - 1);
  const auto directions = per_scan(call, "directions", counts.inputs);
  const Value first_scanned = call.value(1 + counts.states);
  const int64_t batch = unrolled_size(call, first_scanned, 0), steps = unrolled_size(call, first_scanned, 1);
  const std::vector<int64_t> lengths = call.has(0) ? call.integers(0) : std::vector<int64_t>(batch, steps);
  if (static_cast<int64_t>(lengths.size()) != batch ||
      std::any_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n < 1 || n > steps; }))
    call.fail(ErrorKind::Value, "sequence_lens, expected " + std::to_string(batch) + " numbers from 1 to " +
                                    std::to_string(steps));

  std::vector<std::vector<Value>> batches(counts.states + counts.outputs);
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Value> state;
    for (size_t i = 0; i < counts.states; ++i) state.push_back(part_of(call, call.value(1 + i), 0, b));
    std::vector<ScanInput> inputs;
    for (size_t i = 0; i < counts.inputs; ++i)
      inputs.push_back({part_of(call, call.value(1 + counts.states + i), 0, b), 0, directions[i] != 0});
    const Unrolled unrolled = scan_over(call, std::move(state), inputs, lengths[b], counts.outputs);
    for (size_t i = 0; i < counts.states; ++i) batches[i].push_back(unrolled.state[i]);
    for (size_t i = 0; i < counts.outputs; ++i)
      batches[counts.states + i].push_back(pad_steps(stack_values(call, unrolled.scanned[i], 0), steps));
  }
  std::vector<Value> results;
  for (const auto& parts : batches) results.push_back(stack_values(call, parts, 0));
  return results;
}

std::vector<Value> sequence_map(Call& call) {
  const size_t count = call.value(0).elements().size();
  for (size_t i = 1; i < call.input_count(); ++i)
    if (call.value(i).is_sequence() && call.value(i).elements().size() != count)
      call.fail(ErrorKind::Value, "sequences of " + std::to_string(count) + " and " +
                                      std::to_string(call.value(i).elements().size()) +
                                      " elements, expected equally many");
  std::vector<std::vector<Value>> made(call.body_output_count("body"));
  for (size_t at = 0; at < count; ++at) {
    std::vector<Value> arguments;
    for (size_t i = 0; i < call.input_count(); ++i) {
      const Value input = call.value(i);
      arguments.push_back(input.is_sequence() ? input.elements()[at] : input);
    }
    const std::vector<Value> outputs = call.run_body("body", arguments);
    for (size_t i = 0; i < made.size(); ++i) made[i].push_back(outputs[i]);
  }
  std::vector<Value> results;
  for (auto& elements : made) {
    const DType dtype = elements.empty() ? call.value(0).dtype() : elements[0].dtype();
    results.push_back(Value::sequence(dtype, std::move(elements)));
  }
  return results;
}

const OpRow kControlFlowOps[] = {
    {"If", 1, if_op},
    {"Loop", 1, loop},
    {"Scan", 8, scan_batches},
    {"Scan", 9, scan},
    {"SequenceMap", 17, sequence_map},
};

} // namespace

OpTable control_flow_ops() { return kControlFlowOps; }

} // namespace lathe::onnx
