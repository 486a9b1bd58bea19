// The instruction table of instructions.def as C++.
#pragma once
#include <span>
#include <vector>

#include "core/op.hpp"

namespace lathe {

enum class Instruction : uint8_t {
#define LATHE_INSTRUCTION(name, m, n, k, pack, a, b, c, cycles, latency, meaning) name,
#include "core/instructions.def"
};

struct InstructionInfo {
  std::string_view name;
  int m, n, k, pack;
  DType a, b, c;
  double cycles, latency;
  std::string_view meaning;
  /// Whether it takes several elements of a row or a column at once, and so gives loops their shape.
  bool is_tensor() const { return k > 1; }
  /// Whether operands of this type become wider in registers, by instructions of their own.
  bool widens(DType operand) const { return is_tensor() && pack * size_of(operand) < size_of(c); }
  /// Whether each lane multiplies pairs of 16 bits, whose sum another instruction adds.
  bool is_pair() const { return is_tensor() && m == 1 && pack == 2 && is_integer(c); }
  /// Whether it works on registers that hold rows and columns (tiles), and not on vectors.
  bool is_tile() const { return m > 1; }
};
/// Indexed by Instruction.
inline constexpr InstructionInfo kInstructions[] = {
#define LATHE_INSTRUCTION(name, m, n, k, pack, a, b, c, cycles, latency, meaning)                            \
  {#name, m, n, k, pack, DType::a, DType::b, DType::c, cycles, latency, meaning},
#include "core/instructions.def"
};
inline const InstructionInfo& info(Instruction instruction) {
  return kInstructions[static_cast<size_t>(instruction)];
}

/// Of one product.
struct Factors {
  float a, b;
};
/// `sum` plus the products, in the order of k, as the row of `by` says: a tensor instruction whose sums are f32.
float add_products(Instruction by, float sum, std::span<const Factors> products);

/// The instructions that a target has.
using Instructions = std::vector<Instruction>;

} // namespace lathe
