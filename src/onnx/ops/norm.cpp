// Normalisations.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

constexpr double kEpsilon = 1e-5; // the default of all ops here

Tensor population_variance(const Tensor& x, const Tensor& mean, const Axes& axes) {
  return (x - mean).square().mean(axes, true);
}

// ---- over the batch ----

/// Whether the statistics are the batch's own.
bool uses_batch_statistics(Call& call) {
  if (call.opset() >= 14) return call.integer("training_mode", 0) != 0;
  if (call.opset() < 7) return call.integer("is_test", 0) == 0;
  return call.wants(1); // from opset 7 to 13, asking for the statistics says so
}

struct BatchNorm {
  Call& call;
  const Tensor x = call.tensor(0);
  const DType dtype = at_least_single(x.dtype());
  const double epsilon = call.number("epsilon", kEpsilon), momentum = call.number("momentum", 0.9);
  /// Old models may have parameters for every place, not every channel.
  const bool by_channel = call.opset() >= 9 || call.integer("spatial", 1) != 0;

  /// A parameter, or a statistic, to lie along x.
  Tensor spread(const Tensor& parameter) const {
    const Tensor p = parameter.cast(dtype);
    if (by_channel && x.rank() > 1) return along_axis(p, 1, x.rank());
    return p;
  }
  Axes reduced() const {
    Axes axes{0};
    if (by_channel)
      for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
    return axes;
  }
  Tensor normal(const Tensor& mean, const Tensor& variance) const {
    const Tensor scale = spread(call.tensor(1)) * (variance + epsilon).rsqrt();
    return ((x.cast(dtype) - mean) * scale + spread(call.tensor(2))).cast(x.dtype());
  }
  std::vector<Value> inference() const { return {normal(spread(call.tensor(3)), spread(call.tensor(4)))}; }
  std::vector<Value> training() const {
    const Tensor v = x.cast(dtype), mean = v.mean(reduced(), true);
    const Tensor variance = population_variance(v, mean, reduced());
    const auto shaped = [](const Tensor& statistic, const Tensor& running) {
      return statistic.reshape(running.shape()).cast(running.dtype());
    };
    const auto blend = [&](const Tensor& running, const Tensor& statistic) {
      return running * momentum + shaped(statistic, running) * (1 - momentum);
    };
    const Tensor old_mean = call.tensor(3), old_variance = call.tensor(4);
    std::vector<Value> outputs{normal(mean, variance), blend(old_mean, mean), blend(old_variance, variance)};
    if (call.output_count() > 3) { // of opsets before 14
      outputs.push_back(shaped(mean, old_mean));
      outputs.push_back(shaped(variance, old_variance));
    }
    outputs.resize(call.output_count());
    return outputs;
  }
};

std::vector<Value> batch_normalization(Call& call) {
  call.ignore("consumed_inputs"); // of opset 1
  const bool training = uses_batch_statistics(call);
  const BatchNorm norm{call};
  return training ? norm.training() : norm.inference();
}

// ---- over axes of each element of the batch ----

std::vector<Value> instance_normalization(Call& call) {
  call.ignore("consumed_inputs"); // of opset 1
  const double epsilon = call.number("epsilon", kEpsilon);
  const Tensor scale = call.tensor(1), bias = call.tensor(2);
  return {in_single(call.tensor(0), [&](const Tensor& x) {
    const Tensor normal = x.layer_norm(axes_from(2, x.rank()), {}, {}, epsilon);
    return normal * along_axis(scale, 1, x.rank()) + along_axis(bias, 1, x.rank());
  })};
}

std::vector<Value> layer_normalization(Call& call) {
  const Tensor input = call.tensor(0), scale = call.tensor(1);
  const std::optional<Tensor> bias = call.optional_tensor(2);
  const Axes axes = axes_from(axis_attribute(call, -1, input.rank()), input.rank());
  const double epsilon = call.number("epsilon", kEpsilon);
  const DType stash = call.dtype("stash_type", DType::F32);
  const Tensor x = input.cast(promote(input.dtype(), stash));
  const Tensor mean = x.mean(axes, true);
  const Tensor inverse_deviation = (population_variance(x, mean, axes) + epsilon).rsqrt();
  Tensor y = (x - mean) * inverse_deviation * scale.cast(x.dtype());
  if (bias) y = y + bias->cast(x.dtype());
  std::vector<Value> outputs{y.cast(input.dtype()), mean.cast(stash), inverse_deviation.cast(stash)};
  outputs.resize(call.output_count());
  return outputs;
}

/// The quotient is rounded to the input's dtype before it is scaled; the result has the scale's dtype.
std::vector<Value> rms_normalization(Call& call) {
  const Tensor input = call.tensor(0), scale = call.tensor(1);
  const Axes axes = axes_from(axis_attribute(call, -1, input.rank()), input.rank());
  const double epsilon = call.number("epsilon", kEpsilon);
  const DType stash = call.dtype("stash_type", DType::F32);
  const Tensor normal =
      input.cast(promote(input.dtype(), stash)).rms_norm(axes, {}, epsilon).cast(input.dtype());
  const DType dtype = at_least_single(promote(input.dtype(), scale.dtype()));
  return {(normal.cast(dtype) * scale.cast(dtype)).cast(scale.dtype())};
}

/// [N, C, ...] as [N, groups, C / groups, ...].
Tensor in_groups(Call& call, const Tensor& x, int64_t groups) {
  if (x.rank() < 2) call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + ", expected [N, C, ...]");
  if (groups < 1 || !mod(x.size(1), groups).is_const(0))
    call.fail(ErrorKind::Value, std::to_string(groups) + " groups of " + to_string(x.size(1)) +
                                    " channels, expected a divisor");
  Shape shape = x.shape();
  shape[1] = floordiv(shape[1], groups);
  shape.insert(shape.begin() + 1, Expr(groups));
  return x.reshape(shape);
}

/// Scale and bias are of the groups, from opset 21 of the channels.
std::vector<Value> group_normalization(Call& call) {
  const double epsilon = call.number("epsilon", kEpsilon);
  const int64_t groups = call.integer("num_groups");
  const DType stash = call.dtype("stash_type", DType::F32);
  const Tensor input = call.tensor(0), scale = call.tensor(1), bias = call.tensor(2);
  const auto affine = [&](const Tensor& t) {
    return t * along_axis(scale, 1, t.rank()) + along_axis(bias, 1, t.rank());
  };
  const Tensor x = in_groups(call, input.cast(promote(input.dtype(), stash)), groups);
  const Tensor normal = x.layer_norm(axes_from(2, x.rank()), {}, {}, epsilon);
  if (call.opset() >= 21) return {affine(normal.reshape(input.shape())).cast(input.dtype())};
  return {affine(normal).reshape(input.shape()).cast(input.dtype())};
}

std::vector<Value> mean_variance_normalization(Call& call) {
  const Tensor input = call.tensor(0);
  const std::vector<int> axes = normalise_axes(call, call.integers("axes", {0, 2, 3}), input.rank());
  return {in_single(input, [&](const Tensor& x) {
    const Tensor mean = x.mean(axes, true);
    return (x - mean) / (population_variance(x, mean, axes).sqrt() + 1e-9);
  })};
}

/// Along the axis, a power of two near the largest magnitude: sums of squares of quotients by it neither
/// overflow nor vanish, and the quotients are exact. 1 for zeros, infinities and NaN.
Tensor magnitude(const Tensor& x, int axis) {
  const Tensor largest = x.abs().max(axis, true);
  const double most = x.dtype() == DType::F64 ? 1022 : 126;
  const Tensor power = largest.log2().floor().clamp(-most, most).exp2();
  return where((largest > 0.0) & largest.isfinite(), power, weak(1.0, x.dtype()));
}

/// A row of zeros has the norm 0, and stays as it is.
std::vector<Value> lp_normalization(Call& call) {
  const Tensor input = call.tensor(0);
  const int axis = axis_attribute(call, -1, input.rank());
  const int64_t p = call.integer("p", 2);
  if (p != 1 && p != 2) call.fail(ErrorKind::Value, "p " + std::to_string(p) + ", expected 1 or 2");
  return {in_single(input, [&](const Tensor& x) {
    const Tensor scaled = p == 1 ? x : x / magnitude(x, axis);
    const Tensor sum = p == 1 ? x.abs().sum(axis, true) : scaled.square().sum(axis, true);
    const Tensor divisor = where(sum == 0.0, weak(1.0, x.dtype()), sum); // has a root with a derivative
    return scaled / (p == 1 ? divisor : divisor.sqrt());
  })};
}

std::vector<Value> local_response_normalization(Call& call) {
  const int64_t size = call.integer("size");
  const double alpha = call.number("alpha", 1e-4), beta = call.number("beta", 0.75);
  const double bias = call.number("bias", 1.0);
  const Tensor input = call.tensor(0);
  if (size < 1 || input.rank() < 2)
    call.fail(ErrorKind::Value, "size " + std::to_string(size) + " and input " + to_string(input.shape()) +
                                    ", expected at least 1 and [N, C, ...]");
  std::vector<std::pair<int64_t, int64_t>> padding(input.shape().size());
  padding[1] = {(size - 1) / 2, size / 2};
  return {in_single(input, [&](const Tensor& x) {
    const Tensor squares = x.square().pad(padding).window(1, size).sum(-1);
    // A power of a positive number.
    return x * (-beta * (squares * (alpha / static_cast<double>(size)) + bias).log2()).exp2();
  })};
}

const OpRow kNormOps[] = {
    {"BatchNormalization", 1, batch_normalization},
    {"InstanceNormalization", 1, instance_normalization},
    {"LayerNormalization", 1, layer_normalization}, // ONNX Runtime makes it in models of any opset
    {"RMSNormalization", 23, rms_normalization},
    {"GroupNormalization", 18, group_normalization},
    {"MeanVarianceNormalization", 9, mean_variance_normalization},
    {"LpNormalization", 1, lp_normalization},
    {"LRN", 1, local_response_normalization},
};

} // namespace

OpTable norm_ops() { return kNormOps; }

} // namespace lathe::onnx
