// The op table of ops.def as C++: an enum and a constexpr row per op, and the exact meaning of every scalar op.
#pragma once
#include <span>
#include <string_view>

#include "lathe/dtype.hpp"

namespace lathe {

enum class Op : uint8_t {
#define LATHE_OP(name, arity, kind, dtypes, c, meaning) name,
#include "core/ops.def"
};
enum class OpKind : uint8_t { Leaf, Unary, Binary, Ternary, Reduce, Memory, Lowered };
enum class DTypeClass : uint8_t { Any, Number, Float, Integer, BitLike };

struct OpInfo {
  std::string_view name;
  int arity;
  OpKind kind;
  DTypeClass dtypes;
  std::string_view c_spelling;
  std::string_view meaning;
};

int op_count();
const OpInfo& info(Op op);
inline std::string_view to_string(Op op) { return info(op).name; }
Op parse_op(std::string_view name);  // throws Error(Name)
bool accepts(DTypeClass cls, DType dtype);

/// True for the ops that compute an element from elements at the same place: unary, binary, ternary, Sub, Fma.
bool is_elementwise(Op op);

/// The result's dtype of an elementwise op whose sources have dtype `operand` (of Where: its second source).
/// Comparisons give bool. Not for Cast and Bitcast.
DType result_dtype(Op op, DType operand);

/// The value of an elementwise op, which is its exact meaning. f16 and bf16 are computed in f32, then
/// rounded. The interpreter and constant folding run this function, and every renderer must agree with it.
Scalar evaluate(Op op, DType result, std::span<const Scalar> args);

/// Whether `value` is a power of two whose inverse is a normal number of its dtype. A product with the
/// inverse is then the quotient, to the bit.
bool has_exact_inverse(const Scalar& value);

/// The value that leaves a combine (Add, Mul, Max, Or, And) unchanged: 0, 1, the lowest (-infinity for floats), 0, all ones.
Scalar identity(Op combine, DType dtype);

}  // namespace lathe
