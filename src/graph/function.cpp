// The table of functions with derivatives of their own. The rules use functions that have rows here
// themselves, so derivatives of every order are right. A joint is a point where two pieces of a function
// meet. At a joint with two one-sided derivatives a rule gives their mean, which is 0 for |x|; relu has 0
// there, as in PyTorch and JAX. Some rules limit their arguments, so that no factor 0 meets an infinite one:
// outside of the limits the other factor is 0.
#include "graph/function.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/matrix_rules.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/functions.hpp"

namespace lathe::graph {
namespace {

Tensor plus(const Tensor& x, double term) { return x + number(term, x.dtype()); }
Tensor argument(const BackwardStep& s) { return s.source(1); }
double parameter(const BackwardStep& s) { return std::get<FunctionAttr>(s.node->attr).parameter; }

// ---- with a joint ----

Part abs(const BackwardStep& s, size_t) { return s.cotangent * argument(s).sign(); }
Part relu(const BackwardStep& s, size_t) {
  return lathe::where(zero_of(s.cotangent) < argument(s), s.cotangent, zero_of(s.cotangent));
}
/// `below` left of `joint`, `above` right of it, and at it their mean, as for equal operands of max.
Tensor joined_at(double joint, const Tensor& x, const Tensor& below, const Tensor& above) {
  const Tensor at = number(joint, x.dtype()), half = number(0.5, x.dtype());
  return lathe::where(x < at, below, lathe::where(at < x, above, (below + above) * half));
}
Part leaky_relu(const BackwardStep& s, size_t) {
  return joined_at(0, argument(s), times_number(s.cotangent, parameter(s)), s.cotangent);
}
Part elu(const BackwardStep& s, size_t) {
  const Tensor x = argument(s), zero = zero_of(x);
  const Tensor below = times_number(lathe::where(zero < x, zero, x).exp(), parameter(s));
  return s.cotangent * joined_at(0, x, below, Tensor::ones(x.shape(), x.dtype()));
}
Part hardswish(const BackwardStep& s, size_t) {
  const Tensor x = argument(s), inside = plus(x / number(3, x.dtype()), 0.5);
  const Tensor up_to_3 = joined_at(-3, x, Tensor::zeros(x.shape(), x.dtype()), inside);
  return s.cotangent * joined_at(3, x, up_to_3, Tensor::ones(x.shape(), x.dtype()));
}
/// h, with 1 for 0, to divide by.
Tensor apart(const Tensor& h) { return lathe::where(h == zero_of(h), Tensor::ones({}, h.dtype()), h); }
/// The square root of a sum of squares. At 0 it has a joint in every direction, so its derivative is 0 there.
Part distance(const BackwardStep& s, size_t) {
  const Tensor y = s.value(), zero = zero_of(y);
  return lathe::where(y == zero, zero, times_number(s.cotangent, 0.5) / apart(y));
}

/// x / h, the derivative of a length h by its side x; 0 where h is. An infinite side is all of h.
Tensor share(const Tensor& x, const Tensor& h) {
  const Tensor zero = zero_of(h);
  return lathe::where(h == zero, zero, lathe::where(x.isinf(), x.sign(), x / apart(h)));
}
/// Like distance, with 0 at (0, 0).
Part hypot(const BackwardStep& s, size_t k) { return s.cotangent * share(s.source(1 + k), s.value()); }
/// By y it is x / h^2, by x it is -y / h^2. Around (0, 0) the angle takes every value, so both are 0 there.
Part atan2(const BackwardStep& s, size_t k) {
  const Tensor y = s.source(1), x = s.source(2), h = lathe::hypot(y, x);
  return s.cotangent * (share(k == 0 ? x : -y, h) / apart(h));
}

/// The sum keeps its reduced axes as size 1, so the cotangent broadcasts.
Part sum(const BackwardStep& s, size_t) { return broadcast_to(s.cotangent, argument(s).shape()); }

/// The largest along the axes that the value keeps as size 1.
Part largest(const BackwardStep& s, size_t) {
  const Tensor x = argument(s), value = s.value();
  std::vector<int> axes;
  for (int a = 0; a < x.rank(); ++a)
    if (value.shape()[a].is_const(1)) axes.push_back(a);
  return share_among(s.cotangent, x == value, axes);
}

// ---- smooth ----

Part exp(const BackwardStep& s, size_t) { return s.cotangent * s.value(); }
Part expm1(const BackwardStep& s, size_t) { return s.cotangent * argument(s).exp(); }
Part log(const BackwardStep& s, size_t) { return s.cotangent / argument(s); }
Part log10(const BackwardStep& s, size_t) {
  return times_number(s.cotangent, std::numbers::log10e) / argument(s);
}
Part log1p(const BackwardStep& s, size_t) { return s.cotangent / plus(argument(s), 1); }
Part tan(const BackwardStep& s, size_t) { return s.cotangent * plus(s.value().square(), 1); }
/// c / sqrt(1 - x^2), without cancellation.
Part asin(const BackwardStep& s, size_t) {
  const Tensor x = argument(s), one = Tensor::ones({}, x.dtype());
  return s.cotangent / ((one - x) * (one + x)).sqrt();
}
Part acos(const BackwardStep& s, size_t k) { return -*asin(s, k); }
/// The hypotenuse over 1 and x, which does not overflow where x^2 does.
Tensor over_one(const Tensor& x) { return lathe::hypot(x, number(1, x.dtype())); }
Part atan(const BackwardStep& s, size_t) {
  const Tensor h = over_one(argument(s));
  return s.cotangent / h / h;
}
Part asinh(const BackwardStep& s, size_t) { return s.cotangent / over_one(argument(s)); }
Part acosh(const BackwardStep& s, size_t) {
  return s.cotangent / plus(argument(s), -1).sqrt() / plus(argument(s), 1).sqrt();
}
Part atanh(const BackwardStep& s, size_t) {
  const Tensor x = argument(s), one = Tensor::ones({}, x.dtype());
  return s.cotangent / ((one - x) * (one + x));
}
Part sinh(const BackwardStep& s, size_t) { return s.cotangent * argument(s).cosh(); }
Part cosh(const BackwardStep& s, size_t) { return s.cotangent * argument(s).sinh(); }
Part sigmoid(const BackwardStep& s, size_t) { return s.cotangent * (s.value() * (-argument(s)).sigmoid()); }
Part softplus(const BackwardStep& s, size_t) { return s.cotangent * argument(s).sigmoid(); }
/// The argument, clamped to [-bound, bound], so that no factor 0 meets an infinite one. The functions that
/// use this are constant or a line beyond the bound.
Tensor near_zero(const BackwardStep& s, double bound) { return argument(s).clamp(-bound, bound); }

Part erf(const BackwardStep& s, size_t) {
  return s.cotangent * times_number((-near_zero(s, 100).square()).exp(), 2 * std::numbers::inv_sqrtpi);
}

/// The derivative 1 - tanh^2, computed without cancellation.
Part tanh(const BackwardStep& s, size_t) {
  const Tensor twice = times_number(argument(s), 2);
  return s.cotangent * times_number(twice.sigmoid() * (-twice).sigmoid(), 4);
}

Part silu(const BackwardStep& s, size_t) {
  const Tensor x = near_zero(s, 1000), sigmoid = x.sigmoid();
  return s.cotangent * (sigmoid + x * (sigmoid * (-x).sigmoid()));
}

Part gelu(const BackwardStep& s, size_t) {
  const Tensor x = near_zero(s, 100);
  const Tensor probability = times_number(plus(times_number(x, std::numbers::sqrt2 / 2).erf(), 1), 0.5);
  const Tensor density =
      times_number(times_number(x.square(), -0.5).exp(), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return s.cotangent * (probability + x * density);
}

/// The derivative of x sigmoid(u), where u = sqrt(8 / pi) (x + 0.044715 x^3).
Part gelu_tanh(const BackwardStep& s, size_t) {
  const double scale = 2 * std::sqrt(2 * std::numbers::inv_pi), cube = 0.044715 * scale;
  const Tensor x = near_zero(s, 1000), square = x.square();
  const Tensor u = x * plus(times_number(square, cube), scale),
               slope = plus(times_number(square, 3 * cube), scale);
  return s.cotangent * (u.sigmoid() + x * slope * (u.sigmoid() * (-u).sigmoid()));
}

// ---- of two numbers ----

/// The derivatives of a - floor(a / b) b, the remainder with the divisor's sign.
Part remainder(const BackwardStep& s, size_t k) {
  return k == 0 ? s.cotangent : -(s.cotangent * floor_divide(s.source(1), s.source(2)));
}

/// By a: b a^(b-1), and 0 where b is 0. By b: a^b log a, and 0 where a^b is 0, or a and b are. The rule does
/// not compute the infinite factor there: its product with 0 would be NaN.
Part pow(const BackwardStep& s, size_t k) {
  const Tensor a = s.source(1), b = s.source(2), zero = zero_of(a), one = Tensor::ones({}, a.dtype());
  if (k == 0) return s.cotangent * (b * lathe::pow(a, lathe::where(b == zero, zero, b - one)));
  const Tensor vanishes = (s.value() == zero) | ((a == zero) & (b == zero));
  return s.cotangent * (s.value() * lathe::where(vanishes, one, a).log());
}
/// The derivative of a power with a constant exponent, which is the function's parameter.
Part power(const BackwardStep& s, size_t) {
  const Tensor a = argument(s);
  return s.cotangent * times_number(lathe::pow(a, number(parameter(s) - 1, a.dtype())), parameter(s));
}

constexpr FunctionRule kRules[] = {
    {"abs", 1, &abs},
    {"acos", 1, &acos},
    {"acosh", 1, &acosh},
    {"asin", 1, &asin},
    {"asinh", 1, &asinh},
    {"atan", 1, &atan},
    {"atan2", 2, &atan2},
    {"atanh", 1, &atanh},
    {"cholesky", 1, &cholesky_part},
    {"constant", 0, nullptr},
    {"cosh", 1, &cosh},
    {"det", 1, &det_part},
    {"distance", 1, &distance},
    {"eigh_values", 1, &eigh_values_part},
    {"eigh_vectors", 1, &eigh_vectors_part},
    {"elu", 1, &elu},
    {"erf", 1, &erf},
    {"exp", 1, &exp},
    {"expm1", 1, &expm1},
    {"gelu", 1, &gelu},
    {"gelu_tanh", 1, &gelu_tanh},
    {"hardswish", 1, &hardswish},
    {"hypot", 2, &hypot},
    {"leaky_relu", 1, &leaky_relu},
    {"log", 1, &log},
    {"log10", 1, &log10},
    {"log1p", 1, &log1p},
    {"max", 1, &largest},
    {"pinv", 1, &pinv_part},
    {"pow", 2, &pow},
    {"power", 1, &power},
    {"qr_q", 1, &qr_q_part},
    {"qr_r", 1, &qr_r_part},
    {"relu", 1, &relu},
    {"remainder", 2, &remainder},
    {"sigmoid", 1, &sigmoid},
    {"silu", 1, &silu},
    {"sinh", 1, &sinh},
    {"slogdet", 1, &slogdet_part},
    {"softplus", 1, &softplus},
    {"solve", 2, &solve_part},
    {"solve_lower", 2, &solve_lower_part},
    {"solve_upper", 2, &solve_upper_part},
    {"sum", 1, &sum},
    {"svd_u", 1, &svd_u_part},
    {"svd_v", 1, &svd_v_part},
    {"svd_values", 1, &svd_values_part},
    {"tan", 1, &tan},
    {"tanh", 1, &tanh},
};

} // namespace

std::span<const FunctionRule> function_rules() { return kRules; }

const FunctionRule* function_rule(std::string_view name) {
  const auto at = std::find_if(std::begin(kRules), std::end(kRules),
                               [&](const FunctionRule& rule) { return rule.name == name; });
  return at == std::end(kRules) ? nullptr : at;
}

Tensor with_derivative(std::string_view name, const Tensor& value, const std::vector<Tensor>& arguments,
                       double parameter) {
  const FunctionRule* rule = function_rule(name);
  if (!rule) throw InternalError(fmt::format("with_derivative: no rule '{}'", name));
  std::vector<NodeRef> sources{node_of(value)};
  for (const Tensor& a : arguments) sources.push_back(node_of(a));
  return wrap(function(std::move(sources), {rule, parameter}));
}

Tensor without_derivative(const Tensor& value) { return with_derivative("constant", value, {}); }

Part function_part(const BackwardStep& step, size_t k) {
  const FunctionRule& rule = *std::get<FunctionAttr>(step.node->attr).rule;
  return k == 0 || !rule.part ? Part{} : rule.part(step, k - 1);
}

} // namespace lathe::graph
