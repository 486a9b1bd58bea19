#include "compile/measure/bounded.hpp"

#include <array>
#include <cstring>
#include <limits>

#include "compile/measure/tolerance.hpp"

namespace lathe::pipeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest(DType dtype) {
  switch (dtype) {
  case DType::F64: return std::numeric_limits<double>::max();
  case DType::F16: return 65504;
  case DType::BF16: return 0x1.FEp127;
  default: return std::numeric_limits<float>::max();
  }
}

/// Returns |size| * error. An error of 0 stays 0, also for an infinite size.
double times(double size, double error) { return error == 0 ? 0 : std::fabs(size) * error; }

/// Returns the error of one rounding of a result. F64 has two: `number` itself is rounded to as many digits.
double rounding(DType dtype, double number) {
  return (dtype == DType::F64 ? 2 : 1) * unit_roundoff(dtype) * std::fabs(number);
}

/// Returns the bounds of a result that devices round to `dtype`. `number` itself is not rounded: it is nearer
/// to the truth than any device's result. `is_exact`: `number` was computed without rounding.
Bounded rounded(DType dtype, double number, double error, bool is_exact) {
  if (std::isnan(number)) return Bounded::of(number, error > 0 ? kInfinity : 0);
  if (std::isnan(error)) return Bounded::of(number, kInfinity);
  if (std::fabs(number) > largest(dtype))
    return Bounded::of(std::copysign(kInfinity, number), error > 0 ? kInfinity : 0);
  if (error == 0 && is_exact &&
      (dtype == DType::F64 || static_cast<double>(static_cast<float>(number)) == number))
    return Bounded::of(number);
  return Bounded::of(number, error + rounding(dtype, number) + least_error(dtype));
}

Bounded undecided(double number) { return Bounded::of(number, kInfinity); }

/// Returns the error of f(a), where `f` never decreases: the larger distance of `at` from f at an end of a.
template <class F> double spread(const Bounded& a, double at, F f) {
  return std::max(f(a.number + a.error) - at, at - f(a.number - a.error));
}

Bounded sum(DType dtype, double a, double b, double error) {
  const double s = a + b, part = s - a;
  return rounded(dtype, s, error, (a - (s - part)) + (b - part) == 0);
}
Bounded product(DType dtype, const Bounded& a, const Bounded& b) {
  const double p = a.number * b.number;
  const double error = times(a.number, b.error) + times(b.number, a.error) + times(a.error, b.error);
  return rounded(dtype, p, error, std::fma(a.number, b.number, -p) == 0);
}
Bounded quotient(DType dtype, const Bounded& a, const Bounded& b) {
  const double q = a.number / b.number, least = std::fabs(b.number) - b.error;
  if (b.error > 0 && !(least > 0)) return undecided(q);
  const double error = (a.error + times(q, b.error)) / least;
  return rounded(dtype, q, a.error + b.error == 0 ? 0 : error, std::fma(q, b.number, -a.number) == 0);
}
Bounded fma(DType dtype, const Bounded& a, const Bounded& b, const Bounded& c) {
  const Bounded ab = product(dtype, a, b); // with the product's rounding: devices may not fuse
  return sum(dtype, ab.number, c.number, ab.error + c.error);
}
Bounded larger(const Bounded& a, const Bounded& b) {
  if (std::isnan(a.number) || std::isnan(b.number))
    return Bounded::of(std::isnan(a.number) ? a.number : b.number,
                       std::max(a.error, b.error) > 0 ? kInfinity : 0);
  // Only what may be the larger one counts.
  if (a.number - a.error > b.number + b.error) return a;
  if (b.number - b.error > a.number + a.error) return b;
  return Bounded::of(std::max(a.number, b.number), std::max(a.error, b.error));
}

Bounded root(DType dtype, const Bounded& a) {
  const double r = std::sqrt(a.number);
  if (a.error > 0 && !(a.number - a.error >= 0)) return undecided(r);
  const double error = a.error > 0 ? spread(a, r, [](double v) { return std::sqrt(v); }) : 0;
  return rounded(dtype, r, error, std::fma(r, r, -a.number) == 0);
}
/// Returns the result of exp2, log2, sin or cos. `error`: the part that the operand's error causes.
Bounded function(DType dtype, double number, double error) {
  if (!std::isfinite(number) || std::fabs(number) > largest(dtype))
    return rounded(dtype, number, error, true);
  const double own = kFunctionUlps * 2 * unit_roundoff(dtype) * std::fabs(number);
  return rounded(dtype, number, error + own, false);
}
Bounded power_of_two(DType dtype, const Bounded& a) {
  const double p = std::exp2(a.number);
  if (a.is_exact() && a.number == std::rint(a.number) && p <= largest(dtype) && p > 8 * least_error(dtype))
    return rounded(dtype, p, 0, true);
  return function(dtype, p, a.error > 0 ? times(p, std::exp2(a.error) - 1) : 0);
}
Bounded logarithm(DType dtype, const Bounded& a) {
  const double l = std::log2(a.number);
  if (a.error > 0 && !(a.number - a.error > 0)) return undecided(l);
  return function(dtype, l, a.error > 0 ? spread(a, l, [](double v) { return std::log2(v); }) : 0);
}
/// `value`: the sine or cosine of a. Neither changes faster than its argument.
Bounded wave(DType dtype, double value, const Bounded& a) {
  return function(dtype, value, std::min(2.0, a.error));
}
Bounded truncated(const Bounded& a) {
  const double t = std::trunc(a.number);
  if (a.is_exact() || !std::isfinite(t)) return Bounded::of(t, a.error);
  return Bounded::of(t, spread(a, t, [](double v) { return std::trunc(v); }));
}

Scalar scalar(DType dtype, const Bounded& v) {
  return is_float(dtype) ? Scalar::of_float(dtype, v.number) : Scalar::of_int(dtype, v.whole);
}

Bounded cast_of_float(DType to, DType from, const Bounded& a) {
  if (is_half(to)) {
    if (from == to || !std::isfinite(a.number)) return a;
    const auto store = [to](double v) { return Scalar::of_float(to, v).as_float(); };
    const double at = store(a.number), low = store(a.number - a.error), high = store(a.number + a.error);
    if (low == high) return Bounded::of(at);
    const double error = std::max(high - at, at - low);
    return Bounded::of(at, std::isfinite(at) && !std::isnan(error) ? error : kInfinity);
  }
  if (is_float(to))
    return size_of(from) <= size_of(to) || !std::isfinite(a.number) ? a
                                                                    : rounded(to, a.number, a.error, true);
  if (a.is_exact()) return bounded(Scalar::of_float(DType::F64, a.number).cast(to));
  if (!std::isfinite(a.error)) return Bounded::of_whole(0, false);
  const auto whole = [&](double v) { return bounded(Scalar::of_float(DType::F64, v).cast(to)).whole; };
  if (to == DType::Bool) return Bounded::of_whole(1, std::fabs(a.number) > a.error);
  const int64_t low = whole(a.number - a.error), high = whole(a.number + a.error);
  return Bounded::of_whole(whole(a.number), low == high);
}
Bounded cast(DType to, DType from, const Bounded& a) {
  if (is_float(from)) return cast_of_float(to, from, a);
  if (!is_float(to))
    return Bounded::of_whole(bounded(Scalar::of_int(from, a.whole).cast(to)).whole, a.is_decided());
  if (!a.is_decided()) return undecided(0);
  const double v =
      from == DType::U64 ? static_cast<double>(static_cast<uint64_t>(a.whole)) : static_cast<double>(a.whole);
  const bool is_exact = std::fabs(v) <= 0x1p53;
  return is_half(to) ? cast_of_float(to, DType::F64, Bounded::of(v)) : rounded(to, v, 0, is_exact);
}

Bounded compare(Op op, DType from, const Bounded& a, const Bounded& b) {
  if (!is_float(from)) {
    const bool less = from == DType::U64 ? static_cast<uint64_t>(a.whole) < static_cast<uint64_t>(b.whole)
                                         : a.whole < b.whole;
    return Bounded::of_whole(op == Op::CmpLt ? less : a.whole != b.whole, a.is_decided() && b.is_decided());
  }
  const double error = a.error + b.error;
  const bool decided = error == 0 || std::fabs(a.number - b.number) > error;
  return Bounded::of_whole(op == Op::CmpLt ? a.number < b.number : a.number != b.number, decided);
}

Bounded choose(DType dtype, const Bounded& condition, const Bounded& a, const Bounded& b) {
  const Bounded &taken = condition.whole ? a : b, &other = condition.whole ? b : a;
  if (condition.is_decided()) return taken;
  if (!is_float(dtype))
    return Bounded::of_whole(taken.whole, a.is_decided() && b.is_decided() && a.whole == b.whole);
  const double apart = a.number == b.number ? 0 : std::fabs(a.number - b.number);
  const double error = std::max(taken.error, apart + other.error);
  return Bounded::of(taken.number, std::isnan(error) ? kInfinity : error);
}

/// Arithmetic of f16 and bf16 is that of f32, rounded to what is stored.
Bounded stored(DType dtype, const Bounded& v) {
  return is_half(dtype) ? cast_of_float(dtype, DType::F32, v) : v;
}

Bounded apply_float(Op op, DType dtype, const Bounded& a, const Bounded& b, const Bounded& c) {
  const DType in = is_half(dtype) ? DType::F32 : dtype;
  switch (op) {
  case Op::Neg: return Bounded::of(-a.number, a.error);
  case Op::Max: return larger(a, b);
  case Op::Trunc: return truncated(a);
  case Op::Add: return stored(dtype, sum(in, a.number, b.number, a.error + b.error));
  case Op::Sub: return stored(dtype, sum(in, a.number, -b.number, a.error + b.error));
  case Op::Mul: return stored(dtype, product(in, a, b));
  case Op::Div: return stored(dtype, quotient(in, a, b));
  case Op::Fma: return stored(dtype, fma(in, a, b, c));
  case Op::Sqrt: return stored(dtype, root(in, a));
  case Op::Exp2: return stored(dtype, power_of_two(in, a));
  case Op::Log2: return stored(dtype, logarithm(in, a));
  case Op::Sin: return stored(dtype, wave(in, std::sin(a.number), a));
  case Op::Cos: return stored(dtype, wave(in, std::cos(a.number), a));
  default: { // no op of today's table: evaluated exactly, if the operands are exact
    const Scalar args[] = {scalar(dtype, a), scalar(dtype, b), scalar(dtype, c)};
    if (!a.is_exact() || !b.is_exact() || !c.is_exact()) return undecided(0);
    return bounded(evaluate(op, dtype, std::span(args, static_cast<size_t>(info(op).arity))));
  }
  }
}

} // namespace

Bounded Bounded::of(double number, double error) {
  Bounded b;
  b.number = number;
  b.error = error;
  return b;
}
Bounded Bounded::of_whole(int64_t whole, bool decided) {
  Bounded b;
  b.whole = whole;
  b.error = decided ? 0 : kInfinity;
  return b;
}
bool Bounded::is_decided() const { return error < kInfinity; }

Bounded bounded(const Scalar& s) {
  return is_float(s.dtype()) ? Bounded::of(s.as_float()) : Bounded::of_whole(static_cast<int64_t>(s.bits()));
}
Bounded read_bounded(DType dtype, const void* element) {
  if (dtype == DType::F32) { // by far the most common
    float v;
    std::memcpy(&v, element, 4);
    return Bounded::of(v);
  }
  return bounded(Scalar::from_memory(dtype, element));
}

Bounded apply(Op op, DType dtype, DType from, const Bounded& a, const Bounded& b, const Bounded& c) {
  switch (op) {
  case Op::Where: return choose(dtype, a, b, c);
  case Op::Cast: return cast(dtype, from, a);
  case Op::CmpLt:
  case Op::CmpNe: return compare(op, from, a, b);
  case Op::Bitcast: {
    // Nothing is known of the bits of a value that may be rounded differently.
    const Bounded v = bounded(evaluate(op, dtype, std::array{scalar(from, a)}));
    return a.is_exact() ? v : is_float(dtype) ? undecided(v.number) : Bounded::of_whole(v.whole, false);
  }
  default: break;
  }
  if (is_float(dtype)) return apply_float(op, dtype, a, b, c);
  const size_t arity = static_cast<size_t>(info(op).arity);
  const Scalar args[] = {scalar(from, a), scalar(from, b), scalar(from, c)};
  const bool decided = a.is_decided() && (arity < 2 || b.is_decided()) && (arity < 3 || c.is_decided());
  return Bounded::of_whole(bounded(evaluate(op, dtype, std::span(args, arity))).whole, decided);
}

Combined::Combined(Op combine, DType dtype, const Bounded& start)
    : combine_(combine), dtype_(dtype), value_(start) {
  if (combine == Op::Add && is_float(dtype) && !(start.is_exact() && start.number == 0)) add(start);
}
void Combined::add(const Bounded& term) {
  if (combine_ != Op::Add || !is_float(dtype_)) {
    value_ = apply(combine_, dtype_, dtype_, value_, term, term);
    return;
  }
  sum_ += static_cast<long double>(term.number);
  size_ += std::fabs(term.number);
  error_ += term.error;
  terms_ += term.number != 0 || term.error != 0;
  are_whole_ &= term.number == std::rint(term.number);
}
Bounded Combined::result() const {
  if (combine_ != Op::Add || !is_float(dtype_)) return value_;
  const auto sum = static_cast<double>(sum_);
  if (!std::isfinite(sum)) return Bounded::of(sum, error_ == 0 ? 0 : kInfinity);
  if (size_ > largest(dtype_)) return undecided(sum); // partial sums overflow, or not
  if (error_ == 0 && (terms_ <= 1 || (are_whole_ && sum_is_exact(dtype_, size_)))) return Bounded::of(sum);
  const double own = dtype_ == DType::F64 ? unit_roundoff(dtype_) * std::fabs(sum) : 0; // rounding of `sum`
  const double error = error_ + sum_error(dtype_, terms_, size_) + own;
  return Bounded::of(sum, std::isnan(error) ? kInfinity : error + least_error(dtype_));
}

bool holds(DType dtype, const Bounded& want, const void* got) {
  if (!want.is_decided()) return true;
  const Scalar have = Scalar::from_memory(dtype, got);
  if (!is_float(dtype)) return static_cast<int64_t>(have.bits()) == want.whole;
  const double v = have.as_float();
  if (std::isnan(want.number) || std::isnan(v)) return std::isnan(want.number) && std::isnan(v);
  return v == want.number || std::fabs(v - want.number) <= want.error;
}

} // namespace lathe::pipeline
