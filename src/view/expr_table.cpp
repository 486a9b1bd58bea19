// Finding and making Expr nodes, and how a node's bounds, hash and variables follow from its parts.
#include <algorithm>

#include <fmt/core.h>

#include "core/hash.hpp"
#include "lathe/error.hpp"
#include "view/expr_home.hpp"
#include "view/shape_variable.hpp"

namespace lathe {
namespace {

using Arena = GrowingSet<ExprNode>::Arena;

constexpr int64_t kSmallLeast = -256, kSmallMost = 1024;

ExprNode* new_node(Arena& arena, ExprKind kind, size_t hash) {
  auto* n = new (arena.allocate(sizeof(ExprNode), alignof(ExprNode))) ExprNode;
  n->kind = kind;
  n->hash = hash;
  return n;
}

template <class T> std::span<const T> keep(Arena& arena, std::span<const T> list) {
  if (list.empty()) return {};
  T* copy = static_cast<T*>(arena.allocate(list.size_bytes(), alignof(T)));
  std::copy(list.begin(), list.end(), copy);
  return {copy, list.size()};
}

size_t begin_hash(ExprKind kind) { return mix(0x6C617468, static_cast<uint64_t>(kind)); }

void set_vars(Arena& arena, ExprNode* n, std::span<const ExprNode* const> parts) {
  SmallList<const ExprNode*> vars;
  for (const ExprNode* part : parts) {
    n->depth = std::max(n->depth, part->depth);
    for (const ExprNode* v : part->vars)
      if (std::find(vars.begin(), vars.end(), v) == vars.end()) vars.push(v);
  }
  for (const ExprNode* part : parts) // mostly one part has all variables: share its list
    if (std::equal(vars.begin(), vars.end(), part->vars.begin(), part->vars.end())) {
      n->vars = part->vars;
      return;
    }
  n->vars = keep(arena, std::span<const ExprNode* const>(vars.begin(), vars.size()));
}

std::span<const Term> one_term(Arena& arena, const ExprNode* monomial, int64_t coefficient) {
  return keep(arena, std::span<const Term>(std::initializer_list<Term>{{monomial, coefficient}}));
}

/// Makes n its own only term and its own only factor.
void set_atom(Arena& arena, ExprNode* n) {
  n->terms = one_term(arena, n, 1);
  n->factors = keep(arena, std::span<const ExprNode* const>(std::initializer_list<const ExprNode*>{n}));
}

void add_written(ExprNode* n, const ExprNode* part) {
  constexpr uint32_t kManyNodes = 1u << 30;
  n->written = std::min(kManyNodes, n->written + part->written);
}

void scale_bounds(ExprNode* n, int64_t lo, int64_t hi) {
  const int64_t products[] = {bound_mul(n->lo, lo), bound_mul(n->lo, hi), bound_mul(n->hi, lo),
                              bound_mul(n->hi, hi)};
  n->lo = *std::min_element(products, products + 4);
  n->hi = *std::max_element(products, products + 4);
}

void set_binary_bounds(ExprNode* n, const ExprNode* a, const ExprNode* b) {
  switch (n->kind) {
  case ExprKind::FloorDiv: {
    if (b->lo < 0) { // of either sign: the quotient is as far from 0 as a at most, or 1 more by floor
      const int64_t far = std::max(a->hi, a->lo == kLeast ? kMost : -a->lo);
      n->lo = bound_add(far == kMost ? kLeast : -far, -1), n->hi = far;
      return;
    }
    const int64_t least = std::max<int64_t>(b->lo, 1), most = std::max<int64_t>(b->hi, 1);
    auto quotient = [](int64_t x, int64_t y) {
      if (x == kLeast) return kLeast;
      return x == kMost ? kMost : y == kMost ? (x < 0 ? int64_t{-1} : 0) : floor_quotient(x, y);
    };
    n->lo = quotient(a->lo, a->lo < 0 ? least : most);
    n->hi = quotient(a->hi, a->hi < 0 ? most : least);
    return;
  }
  case ExprKind::Mod:
    n->lo = b->lo < 0 ? bound_add(b->lo, 1) : 0;
    n->hi = b->hi == kMost ? kMost : std::max<int64_t>(b->hi - 1, 0);
    if (b->lo >= 0 && a->lo >= 0) n->hi = std::min(n->hi, a->hi);
    return;
  case ExprKind::Min: n->lo = std::min(a->lo, b->lo), n->hi = std::min(a->hi, b->hi); return;
  case ExprKind::Max: n->lo = std::max(a->lo, b->lo), n->hi = std::max(a->hi, b->hi); return;
  default: n->lo = 0, n->hi = 1;
  }
}

/// The node of a constant. All constants live in the process's scope: they are few, and code compares
/// constants that were made in different scopes.
const ExprNode* find_const(int64_t value) {
  const size_t hash = mix(begin_hash(ExprKind::Const), static_cast<uint64_t>(value));
  const ExprScope& home = process_scope();
  return home.nodes.find_or_make(
      hash, [&](const ExprNode& n) { return n.kind == ExprKind::Const && n.constant == value; },
      [&](Arena& arena) {
        ExprNode* n = new_node(arena, ExprKind::Const, hash);
        n->home = &home;
        n->constant = n->lo = n->hi = value;
        return n;
      });
}

struct SmallConstants {
  const ExprNode* nodes[kSmallMost - kSmallLeast + 1];
  SmallConstants() {
    for (int64_t v = kSmallLeast; v <= kSmallMost; v++) nodes[v - kSmallLeast] = find_const(v);
  }
};

/// The name of a variable. Names live until the process ends, since they are few.
struct Name {
  size_t hash;
  const std::string* text;
};

const std::string* lasting_name(std::string_view text) {
  static auto* names = new GrowingSet<Name>(1);
  const size_t hash = hash_text(text);
  return names
      ->find_or_make(
          hash, [&](const Name& n) { return *n.text == text; },
          [&](Arena& arena) {
            return new (arena.allocate(sizeof(Name), alignof(Name))) Name{hash, new std::string(text)};
          })
      ->text;
}

} // namespace

const ExprNode* intern_const(int64_t value) {
  static const auto* small = new SmallConstants;
  if (value >= kSmallLeast && value <= kSmallMost) return small->nodes[value - kSmallLeast];
  return find_const(value);
}

const ExprNode* intern_sum(std::span<const Term> terms, int64_t constant) {
  if (terms.empty()) return intern_const(constant);
  if (terms.size() == 1 && constant == 0) return intern_scaled(terms[0].monomial, terms[0].coefficient);
  size_t hash = mix(begin_hash(ExprKind::Add), static_cast<uint64_t>(constant));
  const ExprScope* parts_home = terms[0].monomial->home;
  for (const Term& t : terms) {
    hash = mix(mix(hash, t.monomial->hash), static_cast<uint64_t>(t.coefficient));
    parts_home = &inner_of(*parts_home, *t.monomial->home);
  }
  return find_or_make(
      *parts_home, hash,
      [&](const ExprNode& n) {
        return n.kind == ExprKind::Add && n.constant == constant && n.terms.size() == terms.size() &&
               std::equal(terms.begin(), terms.end(), n.terms.begin());
      },
      [&](Arena& arena) {
        ExprNode* n = new_node(arena, ExprKind::Add, hash);
        n->lo = n->hi = n->constant = constant;
        n->terms = keep(arena, terms);
        SmallList<const ExprNode*> parts;
        for (const Term& t : terms) {
          const ExprNode* m = t.monomial;
          parts.push(m);
          add_written(n, m);
          n->has_mod |= m->has_mod, n->has_div |= m->has_div;
          const bool up = t.coefficient > 0;
          n->lo = bound_add(n->lo, bound_mul(up ? m->lo : m->hi, t.coefficient));
          n->hi = bound_add(n->hi, bound_mul(up ? m->hi : m->lo, t.coefficient));
        }
        set_vars(arena, n, {parts.begin(), parts.size()});
        return n;
      });
}

const ExprNode* intern_scaled(const ExprNode* monomial, int64_t coefficient) {
  if (coefficient == 1) return monomial;
  const size_t hash = mix(mix(begin_hash(ExprKind::Mul), monomial->hash), static_cast<uint64_t>(coefficient));
  return find_or_make(
      *monomial->home, hash,
      [&](const ExprNode& n) {
        return n.kind == ExprKind::Mul && n.factors.empty() && n.terms[0] == Term{monomial, coefficient};
      },
      [&](Arena& arena) {
        ExprNode* n = new_node(arena, ExprKind::Mul, hash);
        n->terms = one_term(arena, monomial, coefficient);
        n->lo = monomial->lo, n->hi = monomial->hi;
        scale_bounds(n, coefficient, coefficient);
        n->has_mod = monomial->has_mod, n->has_div = monomial->has_div;
        n->depth = monomial->depth;
        add_written(n, monomial);
        n->vars = monomial->vars;
        return n;
      });
}

const ExprNode* intern_product(std::span<const ExprNode* const> factors) {
  if (factors.empty()) return intern_const(1);
  if (factors.size() == 1) return factors[0];
  size_t hash = begin_hash(ExprKind::Mul);
  const ExprScope* parts_home = factors[0]->home;
  for (const ExprNode* f : factors) {
    hash = mix(hash, f->hash);
    parts_home = &inner_of(*parts_home, *f->home);
  }
  hash = mix(hash, factors.size());
  return find_or_make(
      *parts_home, hash,
      [&](const ExprNode& n) {
        return n.kind == ExprKind::Mul && n.factors.size() == factors.size() &&
               std::equal(factors.begin(), factors.end(), n.factors.begin());
      },
      [&](Arena& arena) {
        ExprNode* n = new_node(arena, ExprKind::Mul, hash);
        n->factors = keep(arena, factors);
        n->terms = one_term(arena, n, 1);
        n->lo = n->hi = 1;
        for (const ExprNode* f : factors) {
          scale_bounds(n, f->lo, f->hi);
          add_written(n, f);
          n->has_mod |= f->has_mod, n->has_div |= f->has_div;
        }
        set_vars(arena, n, factors);
        return n;
      });
}

const ExprNode* intern_binary(ExprKind kind, const ExprNode* a, const ExprNode* b) {
  const size_t hash = mix(mix(begin_hash(kind), a->hash), b->hash);
  return find_or_make(
      inner_of(*a->home, *b->home), hash,
      [&](const ExprNode& n) {
        return n.kind == kind && n.lhs.load(std::memory_order_relaxed) == a &&
               n.rhs.load(std::memory_order_relaxed) == b;
      },
      [&](Arena& arena) {
        if (std::max(a->depth, b->depth) >= kMaxDepth)
          throw Error(
              ErrorKind::Limit,
              fmt::format("index expression is nested too deep, expected at most {} levels", kMaxDepth));
        ExprNode* n = new_node(arena, kind, hash);
        n->lhs = a, n->rhs = b;
        n->has_mod = kind == ExprKind::Mod;
        n->has_div = kind == ExprKind::Mod || kind == ExprKind::FloorDiv;
        set_binary_bounds(n, a, b);
        const ExprNode* parts[] = {a, b};
        set_vars(arena, n, parts);
        for (const ExprNode* part : parts) add_written(n, part);
        n->depth++;
        set_atom(arena, n);
        return n;
      });
}

const ExprNode* intern_var(std::string_view name, int id, int64_t lo, int64_t hi, const ExprNode* extent,
                           int64_t typical) {
  size_t hash = mix(mix(begin_hash(ExprKind::Var), hash_text(name)), static_cast<uint64_t>(id));
  hash =
      extent ? mix(hash, extent->hash) : mix(mix(hash, static_cast<uint64_t>(lo)), static_cast<uint64_t>(hi));
  if (!extent && typical != usual_value(lo, hi)) hash = mix(hash, static_cast<uint64_t>(typical));
  const std::string* lasting = lasting_name(name);
  return find_or_make(
      extent ? *extent->home : process_scope(), hash,
      [&](const ExprNode& n) {
        return n.kind == ExprKind::Var && n.id == id && n.lo == lo && n.hi == hi && n.extent == extent &&
               n.name == lasting && n.typical == typical;
      },
      [&](Arena& arena) {
        ExprNode* n = new_node(arena, ExprKind::Var, hash);
        n->name = lasting;
        n->id = id;
        n->lo = lo, n->hi = hi;
        n->typical = typical;
        n->extent = extent;
        if (extent) {
          n->nesting = 1;
          for (const ExprNode* v : extent->vars) n->nesting = std::max<uint16_t>(n->nesting, v->nesting + 1);
        }
        set_atom(arena, n);
        n->vars = n->factors;
        return n;
      });
}

namespace {

size_t memo_hash(ExprKind op, const ExprNode* a, const ExprNode* b) {
  return mix(mix(static_cast<uint64_t>(op), a->hash), b->hash);
}

} // namespace

const ExprNode* recall(ExprKind op, const ExprNode* a, const ExprNode* b) {
  const size_t hash = memo_hash(op, a, b);
  const ExprScope& outermost = inner_of(*a->home, *b->home);
  for (const ExprScope* scope = &home_for(outermost);; scope = &scope->around()) {
    const ExprMemo* memo =
        scope->memos.find(hash, [&](const ExprMemo& m) { return m.op == op && m.a == a && m.b == b; });
    if (memo) return memo->result;
    if (scope == &outermost) return nullptr;
  }
}

void remember(ExprKind op, const ExprNode* a, const ExprNode* b, const ExprNode* result) {
  const size_t hash = memo_hash(op, a, b);
  inner_of(inner_of(*a->home, *b->home), *result->home)
      .memos.find_or_make(
          hash, [&](const ExprMemo& m) { return m.op == op && m.a == a && m.b == b; },
          [&](Arena& arena) {
            return new (arena.allocate(sizeof(ExprMemo), alignof(ExprMemo))) ExprMemo{op, a, b, result, hash};
          });
}

} // namespace lathe
