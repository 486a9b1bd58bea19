// Norms and attention.
#include <cmath>
#include <limits>

#include "graph/function.hpp"
#include "graph/long_reduction.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

// The parameter, whose shape is that of x along `axes`, reshaped to broadcast with x.
Tensor along(std::string_view op, std::string_view what, const Tensor& parameter, const Tensor& x,
             const std::vector<int>& axes) {
  Shape expected, spread(x.shape().size(), Expr(1));
  for (int axis : axes) {
    expected.push_back(x.shape()[axis]);
    spread[axis] = x.shape()[axis];
  }
  if (parameter.shape() != expected)
    fail(ErrorKind::Shape, "{}: {} of shape {} for {}, expected {}", op, what, to_string(parameter.shape()),
         to_string(x.shape()), to_string(expected));
  return view_op(parameter, View::contiguous(spread));
}

void check_eps(std::string_view op, double eps) {
  if (!(eps >= 0)) fail(ErrorKind::Value, "{}: eps {}, expected at least 0", op, eps);
}

// x * weight + bias. Weight and bias are optional and have the shape of x along `axes`.
Tensor affine(std::string_view op, Tensor x, const std::vector<int>& axes,
              const std::optional<Tensor>& weight, const std::optional<Tensor>& bias) {
  if (weight) x = x * along(op, "weight", *weight, x, axes).cast(x.dtype());
  if (bias) x = x + along(op, "bias", *bias, x, axes).cast(x.dtype());
  return x;
}

/// How a norm scales each row, so that no square overflows. `scale` is 1, or a small power of two for a row
/// with a huge element. `eps` is added to the mean of the scaled squares. For a row with a huge element `eps`
/// is at most the least normal number: the caller's eps is less than a rounding there, and any positive
/// number keeps a row of equal values from dividing by 0.
struct WindowRange {
  Tensor scale, eps;
};
WindowRange range_of(const Tensor& x, const Axes& axes, double eps) {
  const DType d = x.dtype();
  const bool is_f64 = d == DType::F64;
  // `scale` moves elements from 2^huge up to the largest number into the middle of the exponents. Neither
  // their squares nor the sums of these overflow or vanish there.
  const int huge = is_f64 ? 300 : 40, down = is_f64 ? 700 : 88;
  const double least = is_f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const Tensor is_huge = number(std::ldexp(1.0, huge), d) < x.abs().max(axes, true);
  const auto choose = [&](double scaled, double plain) {
    return where(is_huge, number(scaled, d), number(plain, d));
  };
  return {choose(std::ldexp(1.0, -down), 1), choose(std::min(eps, least), eps)};
}

Tensor standardise(const Tensor& given, const Axes& axes, double eps) {
  const WindowRange range = range_of(given, axes, eps);
  const Tensor x = given * range.scale, centred = x - x.mean(axes, true);
  const Tensor variance = centred.square().mean(axes, true);
  return centred * (variance + range.eps).rsqrt();
}

/// Softmax along the last axis. A row of -infinity alone, which may attend to nothing, gives zeros.
Tensor masked_softmax(const Tensor& scores) {
  const DType d = scores.dtype();
  const std::vector<int> last{scores.rank() - 1};
  const Tensor zero = number(0, d), largest = without_derivative(reduce_op(Op::Max, scores, last));
  const Tensor e = (scores - where(largest == number(-INFINITY, d), zero, largest)).exp();
  const Tensor sum = sum_over(e, last, kLongestFusedSum);
  return e * where(sum == zero, number(1, d), sum).reciprocal();
}

} // namespace

Tensor Tensor::layer_norm(const Axes& axes, const std::optional<Tensor>& weight,
                          const std::optional<Tensor>& bias, double eps) const {
  const std::vector<int> which = resolve_axes("layer_norm", axes, rank());
  check_eps("layer_norm", eps);
  return in_wide(*this, [&](const Tensor& x) {
    return affine("layer_norm", standardise(x, which, eps), which, weight, bias);
  });
}

Tensor Tensor::rms_norm(const Axes& axes, const std::optional<Tensor>& weight, double eps) const {
  const std::vector<int> which = resolve_axes("rms_norm", axes, rank());
  check_eps("rms_norm", eps);
  return in_wide(*this, [&](const Tensor& x) {
    const WindowRange range = range_of(x, which, eps);
    const Tensor scaled = x * range.scale;
    const Tensor inverse = (scaled.square().mean(which, true) + range.eps).rsqrt();
    return affine("rms_norm", scaled * inverse, which, weight, {});
  });
}

Tensor Tensor::batch_norm(const Tensor& mean, const Tensor& var, const std::optional<Tensor>& weight,
                          const std::optional<Tensor>& bias, double eps) const {
  if (rank() < 2)
    fail(ErrorKind::Shape, "batch_norm: shape {}, expected at least two axes", to_string(shape()));
  check_eps("batch_norm", eps);
  return in_wide(*this, [&](const Tensor& x) {
    const Tensor m = along("batch_norm", "mean", mean, x, {1}).cast(x.dtype());
    const Tensor v = along("batch_norm", "var", var, x, {1}).cast(x.dtype());
    return affine("batch_norm", (x - m) * (v + number(eps, x.dtype())).rsqrt(), {1}, weight, bias);
  });
}

Tensor Tensor::group_norm(int64_t groups, const std::optional<Tensor>& weight,
                          const std::optional<Tensor>& bias, double eps) const {
  if (rank() < 2)
    fail(ErrorKind::Shape, "group_norm: shape {}, expected at least two axes", to_string(shape()));
  check_eps("group_norm", eps);
  const Expr channels = shape()[1];
  if (groups < 1 || !mod(channels, groups).is_const(0))
    fail(ErrorKind::Value, "group_norm: {} groups of {} channels, expected a divisor", groups,
         to_string(channels));
  return in_wide(*this, [&](const Tensor& x) {
    Shape grouped = x.shape();
    grouped[1] = floordiv(channels, groups);
    grouped.insert(grouped.begin() + 1, Expr(groups));
    Axes axes;
    for (int i = 2; i < static_cast<int>(grouped.size()); ++i) axes.push_back(i);
    const Tensor normal = standardise(view_op(x, View::contiguous(grouped)), axes, eps);
    return affine("group_norm", view_op(normal, View::contiguous(x.shape())), {1}, weight, bias);
  });
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const std::optional<Tensor>& mask, Flag causal,
                                    std::optional<double> scale) {
  constexpr const char* kName = "scaled_dot_product_attention";
  for (const Tensor* t : {&q, &k, &v}) {
    if (t->rank() < 2)
      fail(ErrorKind::Shape, "{}: shape {}, expected [..., tokens, features]", kName, to_string(t->shape()));
    if (!is_float(t->dtype()))
      fail(ErrorKind::DType, "{}: dtype {}, expected a float", kName, to_string(t->dtype()));
  }
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2))
    fail(ErrorKind::Shape,
         "{}: q {}, k {}, v {}, expected equal features of q and k and equal tokens of k and v", kName,
         to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
  if (!scale && !q.size(-1).is_const())
    fail(ErrorKind::Shape, "{}: {} features, expected a static number where no scale is given", kName,
         to_string(q.size(-1)));
  const DType d = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const DType w = wide(d);
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(q.size(-1).value()));
  Tensor scores = q.cast(w).matmul(k.cast(w).transpose()) * number(factor, w);
  const Tensor never = number(-INFINITY, w);
  if (mask) {
    broadcast_shape(kName, {scores.shape(), mask->shape()});
    scores = mask->dtype() == DType::Bool ? where(*mask, scores, never) : scores + mask->cast(w);
  }
  if (causal) {
    const int rows = scores.rank() - 2;
    scores = where(index_along(rows + 1, scores.shape()) <= index_along(rows, scores.shape()), scores, never);
  }
  return masked_softmax(scores).matmul(v.cast(w)).cast(d);
}

} // namespace lathe
