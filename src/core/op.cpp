#include "core/op.hpp"

#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "lathe/error.hpp"

namespace lathe {
namespace {

constexpr OpInfo kOps[] = {
#define LATHE_OP(name, arity, kind, dtypes, c, meaning)                                                      \
  {#name, arity, OpKind::kind, DTypeClass::dtypes, c, meaning},
#include "core/ops.def"
};

} // namespace

int op_count() { return static_cast<int>(std::size(kOps)); }

const OpInfo& info(Op op) { return kOps[static_cast<int>(op)]; }

Op parse_op(std::string_view name) {
  for (int i = 0; i < op_count(); i++)
    if (kOps[i].name == name) return static_cast<Op>(i);
  throw Error(ErrorKind::Name, fmt::format("op '{}' is unknown, expected a name of the op table", name));
}

bool accepts(DTypeClass cls, DType dtype) {
  switch (cls) {
  case DTypeClass::Any: return true;
  case DTypeClass::Number: return dtype != DType::Bool;
  case DTypeClass::Float: return is_float(dtype);
  case DTypeClass::Integer: return is_integer(dtype);
  case DTypeClass::BitLike: return !is_float(dtype);
  }
  return false;
}

bool is_elementwise(Op op) {
  const OpKind kind = info(op).kind;
  return kind == OpKind::Unary || kind == OpKind::Binary || kind == OpKind::Ternary || op == Op::Sub ||
         op == Op::Fma;
}

DType result_dtype(Op op, DType operand) {
  return op == Op::CmpLt || op == Op::CmpNe ? DType::Bool : operand;
}

bool has_exact_inverse(const Scalar& value) {
  if (!is_float(value.dtype())) return false;
  const double v = value.as_float();
  int exponent;
  if (v == 0 || !std::isfinite(v) || std::fabs(std::frexp(v, &exponent)) != 0.5) return false;
  const Scalar inverse = Scalar::of_float(value.dtype(), 1 / v);
  // The smallest normal number of bf16 is that of f32.
  const double least = value.dtype() == DType::F64   ? 0x1p-1022
                       : value.dtype() == DType::F16 ? 0x1p-14
                                                     : 0x1p-126;
  return std::isfinite(inverse.as_float()) && std::fabs(inverse.as_float()) >= least;
}

Scalar identity(Op combine, DType dtype) {
  switch (combine) {
  case Op::Add:
  case Op::Or: return Scalar::zero(dtype);
  case Op::Mul: return Scalar::of_int(dtype, 1);
  case Op::And: return Scalar::of_int(dtype, -1);
  case Op::Max:
    if (is_float(dtype)) return Scalar::of_float(dtype, -std::numeric_limits<double>::infinity());
    if (!is_signed(dtype)) return Scalar::zero(dtype);
    return Scalar::of_int(dtype, std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(dtype)));
  default: throw InternalError(fmt::format("{} is no combine and has no identity", to_string(combine)));
  }
}

} // namespace lathe
