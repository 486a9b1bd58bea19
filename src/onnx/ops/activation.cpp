// Activations.
#include "onnx/ops/activations.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

template <class Function> std::vector<Value> activation(Call& call, Function&& function) {
  call.ignore("consumed_inputs"); // of opset 1
  const Value x = call.value(0);
  return {elementwise(call, {x}, [&](const std::vector<Tensor>& t) { return in_single(t[0], function); })};
}

template <Tensor (Tensor::*function)() const> std::vector<Value> member(Call& call) {
  return activation(call, [](const Tensor& x) { return (x.*function)(); });
}

/// An activation of the table in activations.cpp. Its parameters are the node's attributes alpha and beta.
std::vector<Value> tabled(Call& call, const char* name) {
  const ActivationRow& row = find_activation(call, name);
  const auto parameter = [&](const char* attribute, bool has, double otherwise) {
    return has ? call.number(attribute, otherwise) : otherwise;
  };
  const double alpha = parameter("alpha", row.has_alpha, row.alpha);
  return activation(call, row.with(alpha, parameter("beta", row.has_beta, row.beta)));
}

std::vector<Value> prelu(Call& call) {
  call.ignore("consumed_inputs"); // of opset 1
  const Value x = call.value(0);
  Value slope = call.value(1);
  // Before opset 7 a slope of several elements is one for each channel.
  if (call.opset() < 7 && slope.rank() == 1 && !slope.shape()[0].is_const(1) && x.rank() > 1)
    slope = along_axis(slope.tensor(), 1, x.rank());
  return {elementwise(call, {x, slope}, [](const std::vector<Tensor>& t) {
    return where(t[0] < weak(int64_t{0}, t[0].dtype()), t[0] * t[1], t[0]);
  })};
}

std::vector<Value> selu(Call& call) {
  const bool rounded = call.opset() < 6;
  const double alpha = call.number("alpha", rounded ? 1.6732 : 1.67326319217681884765625);
  const double gamma = call.number("gamma", rounded ? 1.0507 : 1.05070102214813232421875);
  return activation(call, [&](const Tensor& x) { return gamma * x.elu(alpha); });
}

std::vector<Value> celu(Call& call) {
  const double alpha = call.number("alpha", 1.0);
  return activation(call, [&](const Tensor& x) {
    // The exponential is of numbers below 0 alone: it would overflow where it is not taken.
    const Tensor negative = x < 0.0, below = where(negative, x, weak(0.0, x.dtype()));
    return where(negative, alpha * (below / alpha).expm1(), x);
  });
}

std::vector<Value> shrink(Call& call) {
  const double lambda = call.number("lambd", 0.5), bias = call.number("bias", 0.0);
  return activation(call, [&](const Tensor& x) {
    // Integers are compared and moved as floats.
    const Tensor v = is_float(x.dtype()) ? x : x.cast(DType::F64);
    const Tensor zero = weak(0.0, v.dtype());
    return where(v < -lambda, v + bias, where(v > lambda, v - bias, zero)).cast(x.dtype());
  });
}

std::vector<Value> gelu(Call& call) {
  const std::string approximation = call.text("approximate", "none");
  if (approximation != "none" && approximation != "tanh")
    call.fail(ErrorKind::Value, "approximate \"" + approximation + "\", expected \"none\" or \"tanh\"");
  return activation(call, [&](const Tensor& x) { return x.gelu(approximation == "tanh"); });
}

std::vector<Value> swish(Call& call) {
  const double alpha = call.number("alpha", 1.0);
  return activation(call, [&](const Tensor& x) { return x * (alpha * x).sigmoid(); });
}

std::vector<Value> mish(Call& call) {
  return activation(call, [](const Tensor& x) { return x * x.softplus().tanh(); });
}

// The upper bound is applied last, and so wins over a lower one above it.
Tensor clip_to(Tensor x, const std::optional<Tensor>& low, const std::optional<Tensor>& high) {
  if (low) x = maximum(x, *low);
  if (high) x = minimum(x, *high);
  return x;
}

std::vector<Value> clip_by_attributes(Call& call) {
  call.ignore("consumed_inputs"); // of opset 1
  const Value x = call.value(0);
  const auto bound = [&](const char* name) -> std::optional<Tensor> {
    if (!call.has_attribute(name)) return {};
    return weak(call.number(name), x.dtype());
  };
  const std::optional<Tensor> low = bound("min"), high = bound("max");
  return {elementwise(call, {x}, [&](const std::vector<Tensor>& t) { return clip_to(t[0], low, high); })};
}

std::vector<Value> clip(Call& call) {
  const Value x = call.value(0);
  const std::optional<Tensor> low = call.optional_tensor(1), high = call.optional_tensor(2);
  return {elementwise(call, {x}, [&](const std::vector<Tensor>& t) { return clip_to(t[0], low, high); })};
}

const OpRow kActivationOps[] = {
    {"Relu", 1, member<&Tensor::relu>},
    {"LeakyRelu", 1, [](Call& call) { return tabled(call, "leakyrelu"); }},
    {"PRelu", 1, prelu},
    {"Elu", 1, [](Call& call) { return tabled(call, "elu"); }},
    {"Selu", 1, selu},
    {"Celu", 12, celu},
    {"Sigmoid", 1, member<&Tensor::sigmoid>},
    {"HardSigmoid", 1, [](Call& call) { return tabled(call, "hardsigmoid"); }},
    {"HardSwish", 14, member<&Tensor::hardswish>},
    {"Softplus", 1, member<&Tensor::softplus>},
    {"Softsign", 1, [](Call& call) { return tabled(call, "softsign"); }},
    {"ThresholdedRelu", 1, [](Call& call) { return tabled(call, "thresholdedrelu"); }},
    {"Shrink", 9, shrink},
    {"Gelu", 20, gelu},
    {"Gelu", 1, gelu, "com.microsoft"},
    {"Swish", 24, swish},
    {"Mish", 18, mish},
    {"Clip", 1, clip_by_attributes},
    {"Clip", 11, clip},
};

} // namespace

OpTable activation_ops() { return kActivationOps; }

} // namespace lathe::onnx
