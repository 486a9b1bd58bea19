// Loads whose lanes are a whole vector moved up by some lanes, with zeros before it. Running sums along an
// axis have such loads. If the vector is in a register, the load is a shuffle; a load from memory would often
// cross a cache line.
#pragma once
#include <optional>

#include "ast/ast.hpp"

namespace lathe::ast {

struct MovedUp {
  int by;         // lanes; the first `by` lanes are 0
  ValueRef whole; // the load of the vector, inside its buffer; no guard of it depends on the lane
  /// The lanes to pick for a shuffle of a vector of zeros and `whole`, both of `lanes` lanes. The lanes of
  /// `whole` are numbered from `lanes` on.
  std::vector<int> picked(int lanes) const;
};

/// `load` as a vector moved up, or nothing if it is none. The vector loop over `lane` always has all `width`
/// lanes.
std::optional<MovedUp> as_moved_up(const LoadAttr& load, Expr lane, int width);

} // namespace lathe::ast
