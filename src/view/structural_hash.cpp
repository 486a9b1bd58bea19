#include "view/structural_hash.hpp"

#include "core/hash.hpp"
#include "view/expr_node.hpp"

namespace lathe {
namespace {

uint64_t begin(ExprKind kind) { return mix(0x73747275, static_cast<uint64_t>(kind)); }

} // namespace

void StructuralHash::number(Expr var, uint64_t number) {
  if (has_number(var)) known_.clear();
  numbers_.set(var.node(), number);
}

uint64_t StructuralHash::of(const ExprNode* node) {
  if (node->vars.empty()) return node->hash;
  if (node->kind == ExprKind::Var) {
    const uint64_t* number = numbers_.find(node);
    return number ? mix(begin(ExprKind::Var), *number) : node->hash;
  }
  if (const uint64_t* known = known_.find(node)) return *known;
  const uint64_t hash = computed(node);
  known_.set(node, hash);
  return hash;
}

/// Adds up the hashes of operands that have no order.
uint64_t StructuralHash::computed(const ExprNode* node) {
  if (node->factors.empty())
    return mix(mix(begin(ExprKind::Add), static_cast<uint64_t>(node->constant)), terms(node, 1));
  if (node->factors.size() > 1) {
    uint64_t sum = node->factors.size();
    for (const ExprNode* factor : node->factors) sum += mix(begin(ExprKind::Mul), of(factor));
    return mix(begin(ExprKind::Mul), sum);
  }
  const ExprNode *a = node->lhs, *b = node->rhs;
  switch (node->kind) {
  case ExprKind::Min:
  case ExprKind::Max:
  case ExprKind::And: return mix(begin(node->kind), parts(node->kind, node));
  case ExprKind::Eq: { // which of its two sides a term is on depends on the first of all terms
    const auto difference = [&](int64_t sign) {
      const uint64_t apart = static_cast<uint64_t>(a->constant) - static_cast<uint64_t>(b->constant);
      return mix(begin(ExprKind::Eq), terms(a, sign) + terms(b, -sign) + static_cast<uint64_t>(sign) * apart);
    };
    return difference(1) + difference(-1);
  }
  default: return mix(mix(begin(node->kind), of(a)), of(b));
  }
}

uint64_t StructuralHash::terms(const ExprNode* node, int64_t sign) {
  uint64_t sum = 0;
  for (const Term& t : node->terms)
    sum += mix(of(t.monomial), static_cast<uint64_t>(sign) * static_cast<uint64_t>(t.coefficient));
  return sum;
}

/// The sum of the hashes of the arms of nested minima, maxima or conjunctions.
uint64_t StructuralHash::parts(ExprKind kind, const ExprNode* node) {
  if (node->kind != kind) return mix(begin(kind), of(node));
  return parts(kind, node->lhs) + parts(kind, node->rhs);
}

} // namespace lathe
