// Hashes of expressions by structure: variables count by a number that the caller gives them, not by name or
// id.
#pragma once
#include <cstdint>

#include "core/pointer_map.hpp"
#include "lathe/expr.hpp"

namespace lathe {

/// The same for expressions that differ in their variables alone if those have the same numbers, though the
/// names and ids decide in which order terms are sorted. A variable without a number counts as itself.
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
