// Tensor's functions as free functions, numbers beside tensors, and assignment with an operator.
//
//   Tensor y = where(x > 0, log(x), 0.0) + pow(x, 2);
//   y += maximum(x, 0.0);
#pragma once
#include <concepts>
#include <type_traits>

#include "lathe/tensor.hpp"

namespace lathe {

// ---- of one tensor, as the members of the same names ----
#define LATHE_FREE(name)                                                                                   \
  inline Tensor name(const Tensor& x) { return x.name(); }
LATHE_FREE(neg) LATHE_FREE(abs) LATHE_FREE(sign) LATHE_FREE(square) LATHE_FREE(sqrt) LATHE_FREE(rsqrt) LATHE_FREE(reciprocal)
LATHE_FREE(exp) LATHE_FREE(exp2) LATHE_FREE(expm1) LATHE_FREE(log) LATHE_FREE(log2) LATHE_FREE(log10) LATHE_FREE(log1p)
LATHE_FREE(sin) LATHE_FREE(cos) LATHE_FREE(tan) LATHE_FREE(asin) LATHE_FREE(acos) LATHE_FREE(atan)
LATHE_FREE(sinh) LATHE_FREE(cosh) LATHE_FREE(tanh) LATHE_FREE(asinh) LATHE_FREE(acosh) LATHE_FREE(atanh)
LATHE_FREE(erf) LATHE_FREE(floor) LATHE_FREE(ceil) LATHE_FREE(trunc) LATHE_FREE(round)
LATHE_FREE(relu) LATHE_FREE(sigmoid) LATHE_FREE(silu) LATHE_FREE(softplus) LATHE_FREE(hardswish)
LATHE_FREE(isnan) LATHE_FREE(isinf) LATHE_FREE(isfinite) LATHE_FREE(logical_not) LATHE_FREE(bitwise_not)
#undef LATHE_FREE
inline Tensor leaky_relu(const Tensor& x, double slope = 0.01) { return x.leaky_relu(slope); }
inline Tensor elu(const Tensor& x, double alpha = 1.0) { return x.elu(alpha); }
inline Tensor gelu(const Tensor& x, Flag tanh_approximation = false) { return x.gelu(tanh_approximation); }
inline Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) { return x.clamp(low, high); }

// ---- reductions and what goes along an axis ----
#define LATHE_FREE(name)                                                                                   \
  inline Tensor name(const Tensor& x, const Axes& axes = {}, Flag keepdim = false) { return x.name(axes, keepdim); }
LATHE_FREE(sum) LATHE_FREE(prod) LATHE_FREE(max) LATHE_FREE(min) LATHE_FREE(mean) LATHE_FREE(any) LATHE_FREE(all)
LATHE_FREE(logsumexp)
#undef LATHE_FREE
inline Tensor var(const Tensor& x, const Axes& axes = {}, Whole correction = 0, Flag keepdim = false) {
  return x.var(axes, correction, keepdim);
}
inline Tensor std(const Tensor& x, const Axes& axes = {}, Whole correction = 0, Flag keepdim = false) {
  return x.std(axes, correction, keepdim);
}
inline Tensor argmax(const Tensor& x, std::optional<Axis> axis = {}, Flag keepdim = false) { return x.argmax(axis, keepdim); }
inline Tensor argmin(const Tensor& x, std::optional<Axis> axis = {}, Flag keepdim = false) { return x.argmin(axis, keepdim); }
inline Tensor softmax(const Tensor& x, Axis axis) { return x.softmax(axis); }
inline Tensor log_softmax(const Tensor& x, Axis axis) { return x.log_softmax(axis); }
inline Tensor cumsum(const Tensor& x, Axis axis) { return x.cumsum(axis); }
inline Tensor cumprod(const Tensor& x, Axis axis) { return x.cumprod(axis); }
inline Tensor cummax(const Tensor& x, Axis axis) { return x.cummax(axis); }
inline Tensor cummin(const Tensor& x, Axis axis) { return x.cummin(axis); }
inline Tensor sort(const Tensor& x, Axis axis = -1, Flag descending = false) { return x.sort(axis, descending); }
inline Tensor argsort(const Tensor& x, Axis axis = -1, Flag descending = false) { return x.argsort(axis, descending); }
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor dot(const Tensor& a, const Tensor& b) { return a.dot(b); }

// ---- of two tensors ----
/// The angle of the point (x, y), in [-pi, pi]: C's atan2, with its signs at zeros and infinities.
Tensor atan2(const Tensor& y, const Tensor& x);
/// sqrt(a * a + b * b) that neither overflows nor underflows on the way; infinite where a or b is, beside NaN, too.
Tensor hypot(const Tensor& a, const Tensor& b);

// ---- numbers beside tensors: they take dtypes as beside operators; see weak() ----
#define LATHE_BESIDE_NUMBER(name)                                                                          \
  template <class T> requires std::is_arithmetic_v<T> Tensor name(const Tensor& a, T b) {                  \
    return name(a, weak(b, a.dtype(), #name));                                                             \
  }                                                                                                        \
  template <class T> requires std::is_arithmetic_v<T> Tensor name(T a, const Tensor& b) {                  \
    return name(weak(a, b.dtype(), #name), b);                                                             \
  }
LATHE_BESIDE_NUMBER(maximum) LATHE_BESIDE_NUMBER(minimum) LATHE_BESIDE_NUMBER(pow) LATHE_BESIDE_NUMBER(floor_divide)
LATHE_BESIDE_NUMBER(atan2) LATHE_BESIDE_NUMBER(hypot)
#undef LATHE_BESIDE_NUMBER
template <class T> requires std::is_arithmetic_v<T>
Tensor where(const Tensor& condition, const Tensor& a, T b) { return where(condition, a, weak(b, a.dtype(), "where")); }
template <class T> requires std::is_arithmetic_v<T>
Tensor where(const Tensor& condition, T a, const Tensor& b) { return where(condition, weak(a, b.dtype(), "where"), b); }
/// Of two numbers, in the dtype of the C++ type that `true ? a : b` has: where(mask, 1, 0) is i32, where(mask, 1.0, 0) f64.
template <class T, class U> requires std::is_arithmetic_v<T> && std::is_arithmetic_v<U>
Tensor where(const Tensor& condition, T a, U b) {
  using Both = std::common_type_t<T, U>;
  return where(condition, Tensor::scalar(static_cast<Both>(a)), Tensor::scalar(static_cast<Both>(b)));
}

// ---- assignment with an operator: `a += b` is `a = a + b`. Other tensors that share a's value keep theirs ----
namespace detail {
/// `value`, which takes the place of `a`. Error naming `op` unless dtype and shape are a's: NumPy's rule.
Tensor in_place(const char* op, const Tensor& a, Tensor value);
}
template <class T> concept Operand = std::is_arithmetic_v<T> || std::same_as<T, Tensor>;
#define LATHE_ASSIGN(op)                                                                                   \
  template <Operand T> Tensor& operator op##=(Tensor& a, const T& b) {                                     \
    return a = detail::in_place("operator" #op "=", a, a op b);                                            \
  }
LATHE_ASSIGN(+) LATHE_ASSIGN(-) LATHE_ASSIGN(*) LATHE_ASSIGN(/) LATHE_ASSIGN(%) LATHE_ASSIGN(&) LATHE_ASSIGN(|) LATHE_ASSIGN(^)
#undef LATHE_ASSIGN

}  // namespace lathe
