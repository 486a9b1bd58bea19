// The exact meaning of every elementwise op on single values.
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "core/op.hpp"
#include "lathe/error.hpp"

namespace lathe {
namespace {

[[noreturn]] void reject(Op op, DType dtype) {
  throw InternalError(fmt::format("{} cannot be evaluated on {}", to_string(op), to_string(dtype)));
}

/// F is float or double; the result is exact in a double.
template <class F> double evaluate_float(Op op, DType dtype, std::span<const Scalar> args) {
  auto arg = [&](size_t i) { return static_cast<F>(args[i].as_float()); };
  const F a = arg(0);
  switch (op) {
  case Op::Neg: return -a;
  case Op::Sqrt: return std::sqrt(a);
  case Op::Exp2: return std::exp2(a);
  case Op::Log2: return std::log2(a);
  case Op::Sin: return std::sin(a);
  case Op::Cos: return std::cos(a);
  case Op::Trunc: return std::trunc(a);
  case Op::Add: return a + arg(1);
  case Op::Sub: return a - arg(1);
  case Op::Mul: return a * arg(1);
  case Op::Div: return a / arg(1);
  case Op::Mod: return std::fmod(a, arg(1));
  case Op::Fma: return std::fma(a, arg(1), arg(2));
  case Op::Max: {
    const F b = arg(1);
    if (std::isnan(a)) return a;
    return std::isnan(b) || b > a ? b : a;
  }
  default: reject(op, dtype);
  }
}

/// Wraps by computing in uint64_t: Scalar::of_int cuts the result to its dtype.
int64_t evaluate_int(Op op, DType dtype, std::span<const Scalar> args) {
  const int64_t a = args[0].as_int(), b = args.size() > 1 ? args[1].as_int() : 0;
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool is_u64 = dtype == DType::U64; // the narrower unsigned dtypes fit in an int64_t
  switch (op) {
  case Op::Neg: return static_cast<int64_t>(-ua);
  case Op::Add: return static_cast<int64_t>(ua + ub);
  case Op::Sub: return static_cast<int64_t>(ua - ub);
  case Op::Mul: return static_cast<int64_t>(ua * ub);
  case Op::Max: return is_u64 ? static_cast<int64_t>(ua > ub ? ua : ub) : a > b ? a : b;
  case Op::IDiv:
    if (b == 0) return 0;
    if (is_u64) return static_cast<int64_t>(ua / ub);
    return b == -1 ? static_cast<int64_t>(-ua) : a / b;
  case Op::Mod:
    if (b == 0) return 0;
    if (is_u64) return static_cast<int64_t>(ua % ub);
    return b == -1 ? 0 : a % b;
  case Op::And: return a & b;
  case Op::Or: return a | b;
  case Op::Xor: return a ^ b;
  case Op::Shl: return ub >= static_cast<uint64_t>(8 * size_of(dtype)) ? 0 : static_cast<int64_t>(ua << ub);
  case Op::Shr:
    if (ub >= static_cast<uint64_t>(8 * size_of(dtype))) return is_signed(dtype) && a < 0 ? -1 : 0;
    return is_u64 ? static_cast<int64_t>(ua >> ub) : a >> b;
  default: reject(op, dtype);
  }
}

bool less(const Scalar& a, const Scalar& b) {
  if (is_float(a.dtype())) return a.as_float() < b.as_float();
  return a.dtype() == DType::U64 ? a.bits() < b.bits() : a.as_int() < b.as_int();
}

bool differ(const Scalar& a, const Scalar& b) {
  return is_float(a.dtype()) ? a.as_float() != b.as_float() : a.bits() != b.bits();
}

Scalar bitcast(DType to, const Scalar& from) {
  if (size_of(to) != size_of(from.dtype()))
    throw InternalError(fmt::format("Bitcast from {} to {}", to_string(from.dtype()), to_string(to)));
  alignas(8) unsigned char element[8];
  from.to_memory(element);
  return Scalar::from_memory(to, element);
}

} // namespace

Scalar evaluate(Op op, DType result, std::span<const Scalar> args) {
  if (!is_elementwise(op) || args.size() != static_cast<size_t>(info(op).arity)) reject(op, result);
  switch (op) {
  case Op::Cast: return args[0].cast(result);
  case Op::Bitcast: return bitcast(result, args[0]);
  case Op::CmpLt: return Scalar::of_int(DType::Bool, less(args[0], args[1]));
  case Op::CmpNe: return Scalar::of_int(DType::Bool, differ(args[0], args[1]));
  case Op::Where: return args[0].as_bool() ? args[1] : args[2];
  default: break;
  }
  if (result == DType::F64) return Scalar::of_float(result, evaluate_float<double>(op, result, args));
  if (is_float(result)) return Scalar::of_float(result, evaluate_float<float>(op, result, args));
  return Scalar::of_int(result, evaluate_int(op, result, args));
}

} // namespace lathe
