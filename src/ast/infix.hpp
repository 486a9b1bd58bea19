// How text writes ops: between their operands, or as the names of functions.
#pragma once
#include <string>

#include "core/op.hpp"

namespace lathe::ast {

struct Infix {
  const char* text; // null: the op is written as a function
  int level;        // binds more tightly than lower ones
};
constexpr int kComparisonLevel = 4; // a comparison of comparisons needs parentheses on both sides

inline Infix infix(Op op) {
  switch (op) {
  case Op::Or: return {"|", 1};
  case Op::Xor: return {"^", 2};
  case Op::And: return {"&", 3};
  case Op::CmpLt: return {"<", kComparisonLevel};
  case Op::CmpNe: return {"!=", kComparisonLevel};
  case Op::Add: return {"+", 5};
  case Op::Sub: return {"-", 5};
  case Op::Mul: return {"*", 6};
  case Op::Div: return {"/", 6};
  default: return {nullptr, 0};
  }
}

/// The op as the name of a function: "exp2".
inline std::string word_of(Op op) {
  std::string word(to_string(op));
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return word;
}

} // namespace lathe::ast
