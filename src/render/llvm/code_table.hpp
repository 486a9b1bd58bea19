// Values of four bits of a number, looked up in a register.
//
// Weights of few bits become f32 by shifts, masks, a sign or an offset, and a conversion. All of this is a
// function of a code with 16 values. On AVX-512 one instruction takes such a value from a register, by the
// low four bits of each lane:
//
//   cast_f32(bitcast_i8(x & 15:u8 ^ 8:u8) + -8:i8)  =  table[x & 15]
#pragma once
#include <array>
#include <optional>

#include "ast/ast.hpp"

namespace lathe::render {

struct CodeTable {
  static constexpr int kCodes = 16;
  ast::ValueRef bytes;               // the codes are 4 bits of this number, an integer of 8 or 32 bits,
  int shift = 0;                     // from this one on
  std::array<float, kCodes> numbers; // the value of each code
};

/// The table of an f32 value that depends on one such code alone; nothing if there is none, or if the value
/// is a conversion of bits that no others stand beside: that takes one instruction, too. `numbers` has what
/// core/op.hpp computes, so the look-up changes no bit.
std::optional<CodeTable> find_code_table(const ast::Value& value);

} // namespace lathe::render
