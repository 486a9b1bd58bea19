#include "search/cost/op_cost.hpp"

#include "search/cost/cost.hpp"

namespace lathe::search {

// Instruction counts of the expanded functions are those of the polynomials in ast/passes/math_*.cpp; the rest are
// the published figures of recent x86 cores.
OpCost op_cost(Op op, DType dtype, bool scales) {
  const bool half = is_half(dtype);
  const bool wide = size_of(dtype) == 8;
  OpCost cost;
  switch (op) {
  case Op::Const:
  case Op::Load:
  case Op::Gather:
  case Op::Index: cost.instructions = 0; break;
  case Op::Div: cost = {1, wide ? 1.5 : 1.0, 0, wide ? 14.0 : 11.0}; break;
  case Op::Sqrt: cost = {1, wide ? 2.0 : 1.25, 0, wide ? 18.0 : 13.0}; break;
  case Op::Exp2: wide ? cost = {0, 0, 25, 60} : cost = {scales ? 11.0 : 15.0, 0, 0, 40}; break;
  case Op::Log2: wide ? cost = {0, 0, 30, 70} : cost = {35, 0, 0, 60}; break;
  case Op::Sin:
  case Op::Cos: wide ? cost = {0, 0, 40, 80} : cost = {25, 0, 0, 60}; break;
  case Op::Max: is_float(dtype) ? cost = {3, 0, 0, 8} : cost = {1, 0, 0, 1}; break; // NaN goes through
  case Op::IDiv:
  case Op::Mod:
    if (is_float(dtype)) {
      cost = {0, 0, 20, 40};
      break;
    }
    cost = {2, 0, wide ? 18.0 : 10.0, wide ? 18.0 : 12.0}; break;
  case Op::Shl:
  case Op::Shr: cost = {3, 0, 0, 3}; break; // with the check of the range
  case Op::Mul:
    if (is_integer(dtype)) cost = {wide ? 3.0 : 2.0, 0, 0, wide ? 15.0 : 10.0};
    break;
  case Op::Cast: cost.instructions = 2; break;
  case Op::Trunc: cost = {2, 0, 0, 8}; break;
  case Op::Neg:
  case Op::CmpLt:
  case Op::CmpNe:
  case Op::And:
  case Op::Or:
  case Op::Xor:
  case Op::Where:
  case Op::Bitcast: cost.latency = 1; break;
  default: break;
  }
  if (!is_float(dtype) && op == Op::Add) cost.latency = 1;
  if (half && cost.instructions > 0) cost.instructions += dtype == DType::F16 ? 2 : 6;
  return cost;
}

} // namespace lathe::search
