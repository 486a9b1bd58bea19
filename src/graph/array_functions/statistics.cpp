// Differences along an axis, and quantiles.
#include <algorithm>
#include <cmath>

#include "graph/accumulator.hpp"
#include "graph/sorting.hpp"
#include "lathe/array_functions.hpp"

namespace lathe {
using namespace graph;
namespace {

/// The point between two floats, a at t = 0 and b at t = 1. It is reached from the nearer end, which makes it
/// exact at both, and between equal ends.
Tensor interpolated(const Tensor& a, const Tensor& b, double t) {
  const DType d = a.dtype();
  const Tensor step = b - a;
  const Tensor near = t < 0.5 ? a + step * number(t, d) : b - step * number(1 - t, d);
  // Where the step is infinite, the way back from b would be infinity minus infinity.
  return where(step.isfinite(), near, a * number(1 - t, d) + b * number(t, d));
}

Tensor quantile_of(std::string_view op, const Tensor& x, double q, std::optional<Axis> axis, bool keepdim) {
  const Tensor rows = axis ? x : x.reshape({num_elements(x.shape())});
  const int which = axis ? resolve_axis(op, *axis, x.rank()) : 0;
  const Expr size = rows.shape()[which];
  if (!size.is_const())
    fail(ErrorKind::Shape, "{}: of {} elements in {}, expected a static number", op, to_string(size),
         to_string(x.shape()));
  if (size.is_const(0))
    fail(ErrorKind::Value, "{}: axis {} of {}, expected an element to choose", op, which, text(rows));
  if (!sorts_by_digits(size)) {
    Shape pairs = rows.shape(); // that sort() compares
    pairs.push_back(size);
    check_shape(op, pairs, DType::I64);
  }

  const DType d = mean_dtype(x.dtype());
  const Tensor sorted = rows.sort(which);
  const auto at = [&](int64_t place) { return part_of(sorted, which, place, place + 1).cast(wide(d)); };
  const double place = q * static_cast<double>(size.value() - 1), below = std::floor(place);
  const auto first = static_cast<int64_t>(below);
  Tensor found = place == below ? at(first) : interpolated(at(first), at(first + 1), place - below);
  if (is_float(d)) {
    const Tensor last = at(size.value() - 1); // NaN, if there is one
    found = where(last.isnan(), last, found);
  }
  found = found.cast(d);
  if (!keepdim) return drop_axes(found, {which});
  return axis ? found : found.reshape(Shape(x.shape().size(), Expr(1)));
}

} // namespace

Tensor diff(const Tensor& x, Whole n, Axis axis) {
  const int which = resolve_axis("diff", axis, x.rank());
  const Expr size = x.shape()[which];
  if (n < 0 || (!size.is_const() && n > size.lo()))
    fail(ErrorKind::Value, "diff: {} times along axis {} of {}, expected 0 to {}", n, which,
         to_string(x.shape()), size.lo());
  const int64_t times = std::min<int64_t>(n, size.hi());
  Tensor result = x;
  for (int64_t k = 0; k < times; ++k) {
    const Expr left = size - (k + 1);
    const Tensor after = part_of(result, which, 1, left + 1), before = part_of(result, which, 0, left);
    result = x.dtype() == DType::Bool ? after != before : after - before;
  }
  return result;
}

Tensor quantile(const Tensor& x, double q, std::optional<Axis> axis, Flag keepdim) {
  if (!(q >= 0 && q <= 1)) fail(ErrorKind::Value, "quantile: q = {}, expected a number in [0, 1]", q);
  return quantile_of("quantile", x, q, axis, keepdim);
}

Tensor median(const Tensor& x, std::optional<Axis> axis, Flag keepdim) {
  return quantile_of("median", x, 0.5, axis, keepdim);
}

} // namespace lathe
