// RNN, GRU and LSTM: recurrences over their steps. What depends on the inputs alone is one product for all
// steps.
#include <algorithm>
#include <functional>

#include "lathe/scan.hpp"
#include "onnx/ops/activations.hpp"
#include "onnx/ops/quantise.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// One for each function of each direction. The lists of alphas and betas hold entries only for functions
/// that take them.
std::vector<Activation> activations(const Call& call, size_t directions,
                                    const std::vector<std::string>& defaults) {
  std::vector<std::string> names;
  for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  const size_t count = names.size();
  names = call.texts("activations", names);
  if (names.size() != count)
    call.fail(ErrorKind::Value,
              std::to_string(names.size()) + " activations, expected " + std::to_string(count));
  const std::vector<double> alphas = call.numbers("activation_alpha"),
                            betas = call.numbers("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> functions;
  for (const std::string& name : names) {
    const ActivationRow& row = find_activation(call, name);
    std::optional<double> alpha, beta;
    if (row.has_alpha && next_alpha < alphas.size()) alpha = alphas[next_alpha++];
    if (row.has_beta && next_beta < betas.size()) beta = betas[next_beta++];
    functions.push_back(row.with(alpha, beta));
  }
  return functions;
}

/// What passes from one step to the next: each [batch, hidden]. Only LSTM has a cell.
struct State {
  Tensor hidden;
  std::optional<Tensor> cell{};

  std::vector<Tensor> tensors() const { return cell ? std::vector{hidden, *cell} : std::vector{hidden}; }
  static State of(const std::vector<Tensor>& tensors) {
    return {tensors[0], tensors.size() > 1 ? std::optional(tensors[1]) : std::nullopt};
  }
};

/// A matrix that rows are multiplied with, [outputs, features]. Integers have a scale and a zero point, of no
/// axes or one for each output; the rows are then rounded to 256 levels of their range.
struct Weight {
  Tensor values;
  std::optional<Tensor> scale, zero_point;

  /// By outputs [begin, begin + count).
  Tensor times(const Tensor& rows, int64_t begin, int64_t count) const {
    const auto part = [&](const Tensor& t) {
      return t.rank() == 0 ? t : t.index({Slice{begin, begin + count}});
    };
    if (!scale) return rows.matmul(part(values).transpose());
    const auto [levels, step, zero] = quantise_by_range(rows);
    const Tensor left = levels.cast(DType::I32) - zero.cast(DType::I32);
    const Tensor right = part(values).transpose().cast(DType::I32) - part(*zero_point).cast(DType::I32);
    return left.matmul(right).cast(DType::F32) * (step * part(*scale));
  }
};

/// One direction's parameters, and what a cell does with them.
struct Direction {
  Weight recurrence;                                 // of gates * hidden outputs and hidden features
  std::optional<Tensor> input_bias, recurrence_bias; // [gates * hidden]
  std::optional<Tensor> peephole;                    // [3 * hidden]
  std::vector<Activation> functions;
  std::optional<double> clip;
  int64_t hidden = 0;
  bool flag = false; // GRU: linear_before_reset; LSTM: input_forget

  Tensor activate(size_t function, const Tensor& x) const {
    return functions[function](clip ? x.clamp(-*clip, *clip) : x);
  }
  /// The columns of `count` gates from `gate` on.
  Tensor gates(const Tensor& x, int64_t gate, int64_t count = 1) const {
    return x.index({Ellipsis{}, Slice{gate * hidden, (gate + count) * hidden}});
  }
  /// The recurrent share of `count` gates.
  Tensor recur(const Tensor& h, int64_t gate, int64_t count) const {
    const Tensor product = recurrence.times(h, gate * hidden, count * hidden);
    return recurrence_bias ? product + gates(*recurrence_bias, gate, count) : product;
  }
};

/// `inputs`: the share of this step's input in all gates, [batch, gates * hidden].
using Cell = State (*)(const Direction&, const Tensor& inputs, const State&);

State rnn_cell(const Direction& d, const Tensor& inputs, const State& state) {
  return {d.activate(0, inputs + d.recur(state.hidden, 0, 1))};
}

/// Gates: update, reset, candidate.
State gru_cell(const Direction& d, const Tensor& inputs, const State& state) {
  const Tensor both = d.activate(0, d.gates(inputs, 0, 2) + d.recur(state.hidden, 0, 2));
  const Tensor update = d.gates(both, 0), reset = d.gates(both, 1);
  const Tensor recurred = d.flag ? reset * d.recur(state.hidden, 2, 1) : d.recur(reset * state.hidden, 2, 1);
  const Tensor candidate = d.activate(1, d.gates(inputs, 2) + recurred);
  return {(1 - update) * candidate + update * state.hidden};
}

/// Gates: input, output, forget, candidate. Peepholes: input, output, forget.
State lstm_cell(const Direction& d, const Tensor& inputs, const State& state) {
  const Tensor all = inputs + d.recur(state.hidden, 0, 4);
  const Tensor without_peepholes = d.activate(0, d.gates(all, 0, 3));
  const auto gate = [&](int64_t which, const Tensor& cell) {
    if (!d.peephole) return d.gates(without_peepholes, which);
    return d.activate(0, d.gates(all, which) + d.gates(*d.peephole, which) * cell);
  };
  const Tensor input = gate(0, *state.cell);
  const Tensor forget = d.flag ? 1 - input : gate(2, *state.cell);
  const Tensor cell = forget * *state.cell + input * d.activate(1, d.gates(all, 3));
  // Clipping is of the gates' sums alone, as in ONNX Runtime: the cell is left as it is.
  return {gate(1, cell) * d.functions[2](cell), cell};
}

/// The layer's inputs with the sequence in front, whatever the node's layout.
struct Layer {
  Tensor x;                      // [steps, batch, features]
  std::optional<Tensor> lengths; // [batch, 1]
  int64_t hidden;
  Cell cell;

  Expr steps() const { return x.shape()[0]; }
  /// The positions of the steps, [steps].
  Tensor positions() const { return Tensor::iota({steps()}, 0); }
};

struct DirectionResult {
  Tensor outputs; // [steps, batch, hidden]
  State last;
};

DirectionResult run_direction(const Layer& layer, const Direction& d, const Tensor& from_input,
                              const State& first, bool backward) {
  const Tensor projected = d.input_bias ? from_input + *d.input_bias : from_input;
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    std::vector<Tensor> next = layer.cell(d, rows[0], State::of(state)).tensors();
    const Tensor hidden = next[0];
    if (!layer.lengths) return {next, {hidden}};
    // Past its end a sequence puts out zeros and keeps its state; backwards it so begins at its own last
    // step.
    const Tensor inside = *layer.lengths > rows[1];
    for (size_t k = 0; k < next.size(); ++k) next[k] = where(inside, next[k], state[k]);
    return {next, {where(inside, hidden, weak(0.0, hidden.dtype()))}};
  };
  std::vector<Tensor> rows{projected};
  if (layer.lengths) rows.push_back(layer.positions());
  Scanned made = scan(step, first.tensors(), rows, {{}, backward});
  // ONNX does not say what is last of a sequence without steps; ONNX Runtime gives zeros.
  if (layer.lengths)
    for (Tensor& last : made.state) last = where(*layer.lengths > 0, last, weak(0.0, last.dtype()));
  return {made.stacked[0], State::of(made.state)};
}

struct Form {
  int64_t gates;
  Cell cell;
  std::vector<std::string> activations;
  const char* flag; // the attribute of Direction::flag, if any
  bool quantised = false;
};

/// Input `input`, 1 or 2, for one direction.
Weight weight_of(const Call& call, const Form& form, size_t input, int64_t which) {
  const Tensor values = slice_at(call.tensor(input), 0, which);
  if (!form.quantised) return {values, {}, {}};
  const size_t scale = input == 1 ? 8 : 10;
  return {values.transpose(), slice_at(call.tensor(scale), 0, which),
          slice_at(call.tensor(scale + 1), 0, which)};
}

std::vector<bool> directions_of(const Call& call) {
  const std::string direction = call.text("direction", "forward");
  if (direction == "forward") return {false};
  if (direction == "reverse") return {true};
  if (direction == "bidirectional") return {false, true};
  call.fail(ErrorKind::Value, "direction \"" + direction + "\", expected forward, reverse or bidirectional");
}

/// An initial state of one direction, [batch, hidden].
Tensor initial_state(const Call& call, size_t input, int64_t direction, bool batch_first,
                     const Layer& layer) {
  const auto given = call.optional_tensor(input);
  if (!given) return Tensor::zeros({layer.x.size(1), layer.hidden}, layer.x.dtype());
  return slice_at(*given, batch_first ? 1 : 0, direction);
}

Direction direction_of(const Call& call, const Form& form, int64_t which, int64_t hidden) {
  Direction d;
  d.hidden = hidden;
  d.recurrence = weight_of(call, form, 2, which);
  if (const auto bias = call.optional_tensor(3)) {
    const Tensor row = slice_at(*bias, 0, which);
    d.input_bias = d.gates(row, 0, form.gates);
    d.recurrence_bias = d.gates(row, form.gates, form.gates);
  }
  if (form.gates == 4)
    if (const auto peephole = call.optional_tensor(7)) d.peephole = slice_at(*peephole, 0, which);
  if (call.has_attribute("clip")) d.clip = call.number("clip");
  if (form.flag) d.flag = call.integer(form.flag, 0) != 0;
  return d;
}

Layer layer_of(const Call& call, const Form& form, bool batch_first) {
  const Tensor x = call.tensor(0);
  if (x.rank() != 3)
    call.fail(ErrorKind::Shape, "input of " + to_string(x.shape()) + ", expected three axes");
  const int64_t hidden = fixed_size(call, call.tensor(2), form.quantised ? 1 : 2);
  if (call.integer("hidden_size", hidden) != hidden)
    call.fail(ErrorKind::Shape, "hidden_size " + std::to_string(call.integer("hidden_size")) +
                                    ", expected that of the recurrence weights, " + std::to_string(hidden));
  std::optional<Tensor> lengths = call.optional_tensor(4);
  if (lengths) lengths = lengths->unsqueeze(1);
  const Tensor given = batch_first ? x.transpose(0, 1) : x;
  Layer layer{given, lengths, hidden, form.cell};
  if (!lengths || !form.quantised) return layer;
  // What lies behind the longest sequence has no part in the range.
  const Tensor step = layer.positions().reshape({layer.steps(), 1, 1});
  layer.x = where(step < lengths->max(), given, weak(0.0, x.dtype()));
  return layer;
}

std::vector<Value> recurrent(Call& call, const Form& form) {
  const bool batch_first = call.integer("layout", 0) != 0;
  if (call.has_attribute("output_sequence"))
    call.ignore("output_sequence"); // an output is wanted if it is named
  const std::vector<bool> directions = directions_of(call);
  const Layer layer = layer_of(call, form, batch_first);
  const std::vector<Activation> functions = activations(call, directions.size(), form.activations);

  std::vector<Tensor> outputs, hidden, cell; // by direction
  for (size_t which = 0; which < directions.size(); ++which) {
    const int64_t w = static_cast<int64_t>(which);
    Direction d = direction_of(call, form, w, layer.hidden);
    const auto first = functions.begin() + w * static_cast<int64_t>(form.activations.size());
    d.functions.assign(first, first + static_cast<int64_t>(form.activations.size()));
    const Tensor start = initial_state(call, 5, w, batch_first, layer);
    State state{start};
    if (form.gates == 4) state.cell = initial_state(call, 6, w, batch_first, layer);
    const Tensor from_input = weight_of(call, form, 1, w).times(layer.x, 0, form.gates * layer.hidden);
    const DirectionResult result = run_direction(layer, d, from_input, state, directions[which]);
    outputs.push_back(result.outputs);
    hidden.push_back(result.last.hidden);
    if (result.last.cell) cell.push_back(*result.last.cell);
  }

  const int direction_axis = batch_first ? 1 : 0;
  std::vector<Value> results{Value(), stack(hidden, direction_axis)};
  if (call.wants(0)) {
    // [steps, directions, batch, hidden]; with the batch first, [batch, steps, directions, hidden].
    const Tensor all = stack(outputs, 1);
    results[0] = batch_first ? all.permute({2, 0, 1, 3}) : all;
  }
  if (form.gates == 4) results.emplace_back(stack(cell, direction_axis));
  return results;
}

std::vector<Value> rnn(Call& call) { return recurrent(call, {1, rnn_cell, {"Tanh"}, nullptr}); }
std::vector<Value> gru(Call& call) {
  return recurrent(call, {3, gru_cell, {"Sigmoid", "Tanh"}, "linear_before_reset"});
}
std::vector<Value> lstm(Call& call) {
  return recurrent(call, {4, lstm_cell, {"Sigmoid", "Tanh", "Tanh"}, "input_forget"});
}
/// com.microsoft's, whose weights are integers.
std::vector<Value> dynamic_quantised_lstm(Call& call) {
  return recurrent(call, {4, lstm_cell, {"Sigmoid", "Tanh", "Tanh"}, "input_forget", true});
}

const OpRow kRecurrentOps[] = {{"RNN", 1, rnn},
                               {"GRU", 1, gru},
                               {"LSTM", 1, lstm},
                               {"DynamicQuantizeLSTM", 1, dynamic_quantised_lstm, "com.microsoft", 12}};

} // namespace

OpTable recurrent_ops() { return kRecurrentOps; }

} // namespace lathe::onnx
