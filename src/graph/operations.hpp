// Elementwise ops by themselves: what they compute of numbers, and what they cost.
#pragma once
#include <span>

#include "core/op.hpp"

namespace lathe::graph {

/// The element that an elementwise op makes of its sources' elements, casts included.
Scalar element_of(Op op, DType result, std::span<const Scalar> sources);

/// The cost of one element; the unit is the cost of an addition.
inline double operations(Op op) {
  switch (op) {
  case Op::Exp2:
  case Op::Log2:
  case Op::Sin:
  case Op::Cos: return 16;
  case Op::IDiv:
  case Op::Mod: return 8;
  case Op::Sqrt:
  case Op::Div: return 4;
  default: return 1;
  }
}

} // namespace lathe::graph
