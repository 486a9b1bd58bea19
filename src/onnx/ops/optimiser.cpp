// Steps of optimisers. The first inputs are the learning rate and the number of steps so far; then come
// groups of tensors: all parameters, all gradients, and the optimiser's state.
#include <algorithm>
#include <cmath>

#include "onnx/graph.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

constexpr size_t kFirstGroup = 2;

/// How many parameters there are where inputs come in `groups`.
size_t parameter_count(Call& call, size_t groups) {
  const size_t tensors = call.input_count() - std::min(call.input_count(), kFirstGroup);
  if (tensors == 0 || tensors % groups != 0)
    call.fail(ErrorKind::Value, std::to_string(call.input_count()) + " inputs, expected 2 and " +
                                    std::to_string(groups) + " for each parameter");
  return tensors / groups;
}

/// The tensors of parameter `index`, one from each group.
struct Operands {
  Call& call;
  size_t index, count;
  Tensor operator[](size_t group) const { return call.tensor(kFirstGroup + group * count + index); }
};

Tensor regularised_gradient(const Operands& operands, double norm_coefficient) {
  return operands[1] + norm_coefficient * operands[0];
}

/// Applies `step`, which gives a parameter's new value and state, to each parameter; outputs come in groups
/// as inputs do.
template <class Step> std::vector<Value> update_each(Call& call, size_t groups, size_t results, Step&& step) {
  const size_t count = parameter_count(call, groups);
  std::vector<Value> outputs(results * count);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<Tensor> updated = step(Operands{call, i, count});
    for (size_t group = 0; group < results; ++group) outputs[group * count + i] = updated[group];
  }
  return outputs;
}

std::vector<Value> adagrad(Call& call) {
  const double decay = call.number("decay_factor", 0.0), epsilon = call.number("epsilon", 1e-6);
  const double norm_coefficient = call.number("norm_coefficient", 0.0);
  const Tensor learning_rate = call.tensor(0), steps = call.tensor(1).cast(learning_rate.dtype());
  const Tensor rate = learning_rate / (1.0 + decay * steps);
  return update_each(call, 3, 2, [&](const Operands& operands) -> std::vector<Tensor> {
    const Tensor gradient = regularised_gradient(operands, norm_coefficient);
    const Tensor squares = operands[2] + gradient * gradient;
    const Tensor parameter =
        operands[0] - rate.cast(gradient.dtype()) * gradient / (squares.sqrt() + epsilon);
    return {parameter, squares};
  });
}

/// 1 - factor^steps, which is how much of an average that began at 0 is of what was averaged.
Tensor warmth(double factor, const Tensor& steps) { return 1.0 - (std::log2(factor) * steps).exp2(); }

std::vector<Value> adam(Call& call) {
  const double alpha = call.number("alpha", 0.9), beta = call.number("beta", 0.999);
  const double epsilon = call.number("epsilon", 1e-6);
  const double norm_coefficient = call.number("norm_coefficient", 0.0);
  const double norm_coefficient_post = call.number("norm_coefficient_post", 0.0);
  const Tensor learning_rate = call.tensor(0), steps = call.tensor(1).cast(learning_rate.dtype());
  const Tensor corrected = learning_rate * warmth(beta, steps).sqrt() / warmth(alpha, steps);
  const Tensor rate = where(steps > 0.0, corrected, learning_rate);
  return update_each(call, 4, 3, [&](const Operands& operands) -> std::vector<Tensor> {
    const Tensor gradient = regularised_gradient(operands, norm_coefficient);
    const Tensor average = alpha * operands[2] + (1 - alpha) * gradient;
    const Tensor squares = beta * operands[3] + (1 - beta) * (gradient * gradient);
    const Tensor parameter = operands[0] - rate.cast(gradient.dtype()) * average / (squares.sqrt() + epsilon);
    return {(1 - norm_coefficient_post) * parameter, average, squares};
  });
}

std::vector<Value> momentum(Call& call) {
  const double alpha = call.number("alpha"), beta = call.number("beta");
  const double norm_coefficient = call.number("norm_coefficient");
  const std::string mode = call.text("mode");
  if (mode != "standard" && mode != "nesterov")
    call.fail(ErrorKind::Value, "mode \"" + mode + "\", expected \"standard\" or \"nesterov\"");
  const Tensor rate = call.tensor(0);
  // The first gradient counts in full.
  const Tensor share = where(call.tensor(1) > 0, weak(beta, rate.dtype()), weak(1.0, rate.dtype()));
  return update_each(call, 3, 2, [&](const Operands& operands) -> std::vector<Tensor> {
    const Tensor gradient = regularised_gradient(operands, norm_coefficient);
    const Tensor velocity = alpha * operands[2] + share.cast(gradient.dtype()) * gradient;
    const Tensor direction = mode == "nesterov" ? gradient + alpha * velocity : velocity;
    return {operands[0] - rate.cast(gradient.dtype()) * direction, velocity};
  });
}

const OpRow kOptimiserOps[] = {
    {"Adagrad", 1, adagrad, kTrainingDomain},
    {"Adam", 1, adam, kTrainingDomain},
    {"Momentum", 1, momentum, kTrainingDomain},
};

} // namespace

OpTable optimiser_ops() { return kOptimiserOps; }

} // namespace lathe::onnx
