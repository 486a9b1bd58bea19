// Values that only some iterations of an unrolled loop compute: once it is unrolled, the conditions on its
// variable are known, and a compiler drops the branches that are not taken.
#pragma once
#include <unordered_map>

#include "ast/ast.hpp"

namespace lathe::search {

class TakenBranches {
public:
  /// For a value inside of the loop. Empty if the loop is long, or no condition in the value depends on
  /// it alone.
  TakenBranches(const ast::ValueRef& root, const ast::For& loop);

  bool empty() const { return alive_.empty(); }
  /// Of the iterations, the share that computes the value.
  double share(const ast::Value& v) const;

private:
  int64_t iterations_ = 0;
  std::unordered_map<const ast::Value*, uint64_t> alive_; // sets of iterations, one bit each
};

} // namespace lathe::search
