// Reductions, and functions that are made of them.
#include <cmath>
#include <limits>

#include "graph/accumulator.hpp"
#include "graph/function.hpp"
#include "graph/long_reduction.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

Tensor finish(const Tensor& reduced, const std::vector<int>& axes, bool keepdim) {
  return keepdim ? reduced : drop_axes(reduced, axes);
}

Tensor reduce_numbers(std::string_view name, Op combine, const Tensor& x, const Axes& axes, bool keepdim) {
  const std::vector<int> which = resolve_axes(name, axes, x.rank());
  const DType d = accumulator(x.dtype());
  // Half precision is summed in f32 and rounded once.
  const Tensor y = x.cast(wide(d));
  const Tensor reduced = !is_float(d)         ? reduce_in_any_order(combine, y, which)
                         : combine == Op::Add ? sum_over(y, which)
                                              : reduce_op(combine, y, which);
  return finish(reduced, which, keepdim).cast(d);
}

Tensor reduce_bits(std::string_view name, Op combine, const Tensor& x, const Axes& axes, bool keepdim) {
  if (is_float(x.dtype()))
    fail(ErrorKind::DType, "{}: dtype {}, expected an integer or bool", name, to_string(x.dtype()));
  const std::vector<int> which = resolve_axes(name, axes, x.rank());
  return finish(reduce_in_any_order(combine, x, which), which, keepdim);
}

/// Error(Value) if one of the axes has no element: integers have no largest and no smallest of nothing.
void check_has_extreme(std::string_view name, const Tensor& x, const std::vector<int>& axes) {
  for (int axis : axes)
    if (x.shape()[axis].is_const(0))
      fail(ErrorKind::Value, "{}: axis {} of {}, expected an element to choose", name, axis, text(x));
}

Expr count_along(const Tensor& x, const std::vector<int>& axes) {
  Expr count = 1;
  for (int axis : axes) count = count * x.shape()[axis];
  return count;
}

Tensor mean_wide(const Tensor& x, const std::vector<int>& axes) {
  return sum_over(x, axes) / size_scalar(count_along(x, axes), x.dtype());
}

Tensor var_wide(const Tensor& x, const std::vector<int>& axes, int64_t correction) {
  const Tensor squares = sum_over((x - mean_wide(x, axes)).square(), axes);
  return squares / size_scalar(count_along(x, axes) - correction, x.dtype());
}

// The maximum that softmax and its kin subtract. It cancels out, so derivatives take it as a constant.
Tensor largest_along(const Tensor& x, const std::vector<int>& axes) {
  return without_derivative(reduce_op(Op::Max, x, axes));
}

Tensor arg_extreme(std::string_view name, const Tensor& input, std::optional<int> axis, bool keepdim,
                   bool largest) {
  const Tensor flat = axis ? input : input.reshape({num_elements(input.shape())});
  const int which = axis ? resolve_axis(name, *axis, input.rank()) : 0;
  check_has_extreme(name, flat, {which});
  const Tensor x = flat.dtype() == DType::Bool ? flat.cast(DType::U8) : flat;
  const Axes axes{which};
  const Tensor extreme = largest ? x.max(axes, true) : x.min(axes, true);
  Tensor found = x == extreme;
  if (is_float(x.dtype())) found = found | x.isnan(); // with a NaN the extreme is NaN, and equals nothing
  // Positions count down, so the largest one found is the first in order. They have 32 bits if they fit: a
  // vector then holds twice as many.
  const Expr size = x.shape()[which];
  const DType index = size.hi() <= std::numeric_limits<int32_t>::max() ? DType::I32 : DType::I64;
  const Tensor last = size_scalar(size - 1, index);
  const Tensor countdown = last - index_along(which, x.shape(), index);
  const Tensor none = Tensor::full({}, Scalar::of_int(index, -1));
  const Tensor best = reduce_in_any_order(Op::Max, where(found, countdown, none), axes);
  const Tensor result = (last - best).cast(DType::I64);
  if (axis) return finish(result, axes, keepdim);
  return keepdim ? result.reshape(Shape(input.shape().size(), Expr(1))) : result.reshape({});
}

} // namespace

Tensor Tensor::sum(const Axes& axes, Flag keepdim) const {
  return reduce_numbers("sum", Op::Add, *this, axes, keepdim);
}
Tensor Tensor::prod(const Axes& axes, Flag keepdim) const {
  return reduce_numbers("prod", Op::Mul, *this, axes, keepdim);
}

Tensor Tensor::max(const Axes& axes, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("max", axes, rank());
  if (is_integer(dtype())) check_has_extreme("max", *this, which);
  return finish(reduce_in_any_order(dtype() == DType::Bool ? Op::Or : Op::Max, *this, which), which, keepdim);
}

Tensor Tensor::min(const Axes& axes, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("min", axes, rank());
  if (dtype() == DType::Bool) return finish(reduce_in_any_order(Op::And, *this, which), which, keepdim);
  if (is_integer(dtype())) { // the lowest integer has no negative
    check_has_extreme("min", *this, which);
    return finish(reduce_in_any_order(Op::Max, bitwise_not(), which).bitwise_not(), which, keepdim);
  }
  return finish(reduce_in_any_order(Op::Max, neg(), which).neg(), which, keepdim);
}

Tensor Tensor::mean(const Axes& axes, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("mean", axes, rank());
  const DType d = mean_dtype(dtype());
  return finish(mean_wide(cast(wide(d)), which).cast(d), which, keepdim);
}

Tensor Tensor::var(const Axes& axes, Whole correction, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("var", axes, rank());
  if (const Expr n = count_along(*this, which); n.lo() - correction < 1)
    fail(ErrorKind::Value, "var: correction {} of {} elements, expected fewer than there are elements",
         correction, to_string(n));
  const DType d = mean_dtype(dtype());
  return finish(var_wide(cast(wide(d)), which, correction).cast(d), which, keepdim);
}

Tensor Tensor::std(const Axes& axes, Whole correction, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("std", axes, rank());
  if (const Expr n = count_along(*this, which); n.lo() - correction < 1)
    fail(ErrorKind::Value, "std: correction {} of {} elements, expected fewer than there are elements",
         correction, to_string(n));
  const DType d = mean_dtype(dtype());
  const Tensor variance = var_wide(cast(wide(d)), which, correction);
  return finish(with_derivative("distance", variance.sqrt(), {variance}).cast(d), which, keepdim);
}

Tensor Tensor::any(const Axes& axes, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("any", axes, rank());
  return finish(reduce_in_any_order(Op::Or, cast(DType::Bool), which), which, keepdim);
}
Tensor Tensor::all(const Axes& axes, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("all", axes, rank());
  return finish(reduce_in_any_order(Op::And, cast(DType::Bool), which), which, keepdim);
}

Tensor Tensor::any_bits(const Axes& axes, Flag keepdim) const {
  return reduce_bits("any_bits", Op::Or, *this, axes, keepdim);
}
Tensor Tensor::all_bits(const Axes& axes, Flag keepdim) const {
  return reduce_bits("all_bits", Op::And, *this, axes, keepdim);
}

Tensor Tensor::argmax(std::optional<Axis> axis, Flag keepdim) const {
  return arg_extreme("argmax", *this, axis, keepdim, true);
}
Tensor Tensor::argmin(std::optional<Axis> axis, Flag keepdim) const {
  return arg_extreme("argmin", *this, axis, keepdim, false);
}

Tensor Tensor::logsumexp(const Axes& axes, Flag keepdim) const {
  const std::vector<int> which = resolve_axes("logsumexp", axes, rank());
  return in_wide(*this, [&](const Tensor& x) {
    const Tensor largest = largest_along(x, which);
    // An infinite maximum must not be subtracted from itself.
    const Tensor shift = where(largest.isfinite(), largest, zeros({}, x.dtype()));
    return finish(sum_over((x - shift).exp(), which, kLongestFusedSum).log() + shift, which, keepdim);
  });
}

Tensor Tensor::softmax(Axis axis) const {
  const std::vector<int> which{resolve_axis("softmax", axis, rank())};
  return in_wide(*this, [&](const Tensor& x) {
    const Tensor e = (x - largest_along(x, which)).exp();
    return e * sum_over(e, which, kLongestFusedSum).reciprocal(); // one division a row
  });
}

Tensor Tensor::log_softmax(Axis axis) const {
  const std::vector<int> which{resolve_axis("log_softmax", axis, rank())};
  return in_wide(*this, [&](const Tensor& x) {
    const Tensor shifted = x - largest_along(x, which);
    return shifted - sum_over(shifted.exp(), which, kLongestFusedSum).log();
  });
}

} // namespace lathe
