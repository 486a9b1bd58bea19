// The interpreter's machine: untyped slots and one function per instruction.
#pragma once
#include <vector>

#include "ast/ast.hpp"

namespace lathe::ast::interpreter {

/// One value. `s` holds f16, bf16 and f32 (already rounded), `f` holds f64, and `i` holds integers and bool
/// (extended to 64 bits).
union Slot {
  int64_t i;
  double f;
  float s;
};

struct BufferState {
  const Buffer* buffer = nullptr;
  uint8_t* data = nullptr;
  int64_t elements = 0;
  std::vector<int> shape;       // registers that hold the extents
  std::vector<uint8_t> storage; // of an Alloc; empty for a parameter
};

/// How a Load or Store finds its element.
struct Access {
  int buffer;
  std::vector<int> index;  // registers, one per dimension; empty for Gather and scatter
  std::vector<int> guards; // registers
  const Stmt* statement;   // for messages
};

struct Frame {
  std::vector<int64_t> registers; // loop variables and Exprs
  std::vector<Slot> slots;        // values
  std::vector<BufferState> buffers;
};

struct Operation {
  void (*run)(const Operation&, Frame&);
  int target = 0, a = 0, b = 0, c = 0; // slots (Index: a is a register)
  const Access* access = nullptr;
  Op op = Op::Const;
  DType dtype = DType::F32, from = DType::F32; // dtype of the result; dtype of the last operand
};

using Run = void (*)(const Operation&, Frame&);

Slot slot_of(const Scalar& value);
/// The function for an elementwise op whose result is `dtype` and whose last operand is `from`.
Run elementwise(Op op, DType dtype, DType from);
Run from_register(DType dtype);
Run load_element(DType dtype);
Run gather_element(DType dtype);
/// A function that writes slot a into the element. A plain store ignores the instruction's op; a combining
/// store combines the element with slot a by it.
Run store_element(DType dtype, bool combines);
Run scatter_element(DType dtype, bool combines);

} // namespace lathe::ast::interpreter
