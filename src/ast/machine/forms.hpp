#pragma once
#include <functional>

#include "ast/ast.hpp"

namespace lathe::ast {

/// Of a value in a register: halves are f32 there.
inline int bytes_in_register(DType dtype) { return is_half(dtype) ? size_of(DType::F32) : size_of(dtype); }

/// What vectors a target can work on.
struct VectorForms {
  int bytes = 64; // of the widest
  int most_lanes = 16;
  bool parts = true;   // some lanes of a vector can be loaded and stored
  bool ragged = true;  // how many those are need not be a constant
  bool halves = true;  // f16 and bf16 have vectors
  bool gathers = true; // a Gather can read one element for each lane
  /// Elements beside those that are asked for may be read with them.
  bool reads_between = true;
  /// Whole vectors may be read and written past the end of an array in registers.
  bool pads_registers = false;
  bool scales = false; // y * 2^n takes one instruction, which a product that is added must not hide
  std::vector<Instruction> instructions = {Instruction::MultiplyAdd};
  std::function<bool(const Value&)> has_op = [](const Value&) { return true; }; // of an elementwise op
};

} // namespace lathe::ast
