// Hashes of expressions by structure: variables count by a number that the caller gives them, not by name or
// id.
#pragma once
#include <cstdint>

#include "core/pointer_map.hpp"
#include "lathe/expr.hpp"

namespace lathe {

/// Gives expressions the same hash if they differ only in variables that have the same numbers. Names and ids
/// of variables decide the order of terms, but that order does not change the hash. A variable without a
/// number counts as itself.
class StructuralHash {
public:
  void number(Expr var, uint64_t number);
  bool has_number(Expr var) const { return numbers_.contains(var.node()); }
  uint64_t operator()(Expr e) { return of(e.node()); }

private:
  uint64_t of(const ExprNode* node);
  uint64_t computed(const ExprNode* node);
  uint64_t terms(const ExprNode* node, int64_t sign);
  uint64_t parts(ExprKind kind, const ExprNode* node);

  PointerMap<ExprNode, uint64_t> numbers_, known_;
};

} // namespace lathe
