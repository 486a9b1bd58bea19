// Loads whose lanes are those of a whole vector moved up, as sums along an axis read what came before. With
// the vector in a register that is a shuffle, where a load of its own would cross a cache line.
#pragma once
#include <optional>

#include "ast/ast.hpp"

namespace lathe::ast {

struct MovedUp {
  int by;         // lanes; as many from the first on are 0
  ValueRef whole; // the load of the vector, inside its buffer; no guard of it depends on the lane
  /// The lanes as those of a vector of zeros and, behind them, of `whole`, both of so many lanes.
  std::vector<int> picked(int lanes) const;
};

/// What `load` is, if it is that, in a vector loop over `lane` that always has all `width` lanes.
std::optional<MovedUp> as_moved_up(const LoadAttr& load, Expr lane, int width);

} // namespace lathe::ast
