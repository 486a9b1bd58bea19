// Reductions, arg max and min, cumulative sums and products.
#include <algorithm>
#include <limits>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

struct Reduction {
  std::vector<int> axes; // none: all
  bool keepdims;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Whether each element of the result is made of no element.
bool is_of_nothing(const Reduction& reduction, const Shape& shape) {
  if (reduction.axes.empty()) return has_no_elements(shape);
  return std::any_of(reduction.axes.begin(), reduction.axes.end(),
                     [&](int axis) { return shape[static_cast<size_t>(axis)].is_const(0); });
}

/// `of_nothing`, repeated. Infinities stand for the least and the largest number of a dtype that has none.
Tensor reduce_nothing(const Tensor& x, const Reduction& reduction, double of_nothing) {
  const Shape shape = x.cast(DType::F32).sum(reduction.axes, reduction.keepdims).shape();
  if (x.dtype() == DType::Bool) return Tensor::full(shape, of_nothing > 0);
  return Tensor::full(shape, Scalar::of_float(x.dtype(), of_nothing));
}

using ReduceFunction = Tensor (*)(const Tensor& x, const Axes& axes, bool keepdims);

std::vector<Value> reduce(Call& call, ReduceFunction function, std::optional<double> of_nothing = {}) {
  const std::optional<std::vector<int64_t>> axes = axes_operand(call, 1);
  const bool keepdims = call.integer("keepdims", 1) != 0;
  const bool no_axes_reduce_nothing = call.integer("noop_with_empty_axes", 0) != 0;
  const Tensor x = call.tensor(0);
  const Reduction reduction{normalise_axes(call, axes.value_or(std::vector<int64_t>{}), x.rank()), keepdims};
  const bool elementwise = reduction.axes.empty() && no_axes_reduce_nothing;
  if (!elementwise && of_nothing && is_of_nothing(reduction, x.shape()))
    return {reduce_nothing(x, reduction, *of_nothing)};
  return {in_single(x, [&](const Tensor& t) {
    // What is left of a reduction over no axes, such as a square, is one over an axis of a single element.
    if (elementwise) return function(t.unsqueeze(-1), {t.rank()}, false).cast(x.dtype());
    return function(t, reduction.axes, keepdims).cast(x.dtype());
  })};
}

std::vector<Value> reduce_sum(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.sum(axes, keepdims); }, 0);
}
std::vector<Value> reduce_prod(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.prod(axes, keepdims); }, 1);
}
std::vector<Value> reduce_max(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.max(axes, keepdims); },
      -kInfinity);
}
std::vector<Value> reduce_min(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.min(axes, keepdims); },
      kInfinity);
}
std::vector<Value> reduce_mean(Call& call) {
  return reduce(call,
                [](const Tensor& x, const Axes& axes, bool keepdims) { return x.mean(axes, keepdims); });
}
std::vector<Value> reduce_l1(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.abs().sum(axes, keepdims); }, 0);
}
std::vector<Value> reduce_l2(Call& call) {
  return reduce(
      call,
      [](const Tensor& x, const Axes& axes, bool keepdims) {
        const Tensor v = is_float(x.dtype()) ? x : x.cast(DType::F64); // squares of integers wrap
        return v.square().sum(axes, keepdims).sqrt();
      },
      0);
}
std::vector<Value> reduce_sum_square(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.square().sum(axes, keepdims); },
      0);
}
std::vector<Value> reduce_log_sum(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.sum(axes, keepdims).log(); },
      -kInfinity);
}
std::vector<Value> reduce_log_sum_exp(Call& call) {
  return reduce(
      call, [](const Tensor& x, const Axes& axes, bool keepdims) { return x.logsumexp(axes, keepdims); },
      -kInfinity);
}

// ---- places ----

using ArgFunction = Tensor (Tensor::*)(std::optional<Axis>, Flag) const;

std::vector<Value> arg_extreme(Call& call, ArgFunction extreme) {
  const Tensor x = call.tensor(0);
  const int axis = axis_attribute(call, 0, x.rank());
  const bool keepdims = call.integer("keepdims", 1) != 0;
  if (call.integer("select_last_index", 0) == 0) return {(x.*extreme)(axis, keepdims)};
  return {known_integer(x.size(axis) - 1).tensor() - (x.flip({axis}).*extreme)(axis, keepdims)};
}

std::vector<Value> arg_max(Call& call) { return arg_extreme(call, &Tensor::argmax); }
std::vector<Value> arg_min(Call& call) { return arg_extreme(call, &Tensor::argmin); }

// ---- sums and products of all up to each place ----

/// One place later along the axis, with `first` at the first. To take x out of its sums again would lose
/// digits, and infinities.
Tensor delay(const Tensor& x, int axis, double first) {
  std::vector<std::pair<int64_t, int64_t>> amounts(x.shape().size());
  amounts[static_cast<size_t>(axis)] = {1, 0};
  std::vector<IndexItem> items(static_cast<size_t>(axis), Slice{});
  items.push_back(Slice{{}, -1});
  items.push_back(Ellipsis{});
  return x.pad(amounts, first).index(items);
}

std::vector<Value> cumulative(Call& call, Tensor (Tensor::*function)(Axis) const, double of_nothing) {
  const bool exclusive = call.integer("exclusive", 0) != 0, reverse = call.integer("reverse", 0) != 0;
  const Tensor given = call.tensor(0);
  const int axis = normalise_axis(call, call.integer_at(1), given.rank());
  return {in_single(given, [&](Tensor x) {
    if (reverse) x = x.flip({axis});
    if (exclusive) x = delay(x, axis, of_nothing);
    const Tensor result = (x.*function)(axis).cast(x.dtype());
    return reverse ? result.flip({axis}) : result;
  })};
}

std::vector<Value> cumulative_sum(Call& call) { return cumulative(call, &Tensor::cumsum, 0); }
std::vector<Value> cumulative_product(Call& call) { return cumulative(call, &Tensor::cumprod, 1); }

const OpRow kReduceOps[] = {
    {"ReduceSum", 1, reduce_sum},
    {"ReduceProd", 1, reduce_prod},
    {"ReduceMax", 1, reduce_max},
    {"ReduceMin", 1, reduce_min},
    {"ReduceMean", 1, reduce_mean},
    {"ReduceL1", 1, reduce_l1},
    {"ReduceL2", 1, reduce_l2},
    {"ReduceSumSquare", 1, reduce_sum_square},
    {"ReduceLogSum", 1, reduce_log_sum},
    {"ReduceLogSumExp", 1, reduce_log_sum_exp},
    {"ArgMax", 1, arg_max},
    {"ArgMin", 1, arg_min},
    {"CumSum", 11, cumulative_sum},
    {"CumProd", 26, cumulative_product},
};

} // namespace

OpTable reduce_ops() { return kReduceOps; }

} // namespace lathe::onnx
