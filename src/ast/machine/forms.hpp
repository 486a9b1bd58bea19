#pragma once
#include <functional>

#include "ast/ast.hpp"

namespace lathe::ast {

/// Bytes of a value of `dtype` in a register, where f16 and bf16 are f32.
inline int bytes_in_register(DType dtype) { return is_half(dtype) ? size_of(DType::F32) : size_of(dtype); }

/// What a target can do with vectors.
struct VectorForms {
  int bytes = 64; // of the widest vector
  int most_lanes = 16;
  bool parts = true;   // loads and stores can touch only some lanes of a vector
  bool ragged = true;  // the number of those lanes need not be a constant
  bool halves = true;  // f16 and bf16 have vectors
  bool gathers = true; // a Gather can read one element per lane, a scatter write lanes side by side
  /// A load may also read the elements between those of its lanes.
  bool reads_between = true;
  bool masks_spaced = false; // a masked load of lanes a few elements apart loads those lanes alone
  /// Code may read and write whole vectors past the end of an array in registers.
  bool pads_registers = false;
  bool scales = false; // y * 2^n is one instruction; MultiplyAdd must not absorb such a product
  bool copies_tensors = false; // rows of k, side by side, are instructions
  Instructions instructions = {Instruction::MultiplyAdd};
  std::function<bool(const Value&)> has_op = [](const Value&) { return true; }; // of an elementwise op
};

} // namespace lathe::ast
