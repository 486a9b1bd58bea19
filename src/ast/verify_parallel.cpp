// Proves that the iterations of a parallel loop over p are independent. The proof reads an index as a number
// in mixed radix: with the variables around the loop fixed, it is base + a * p + (digits of the loops
// inside). Two iterations can't meet if one dimension of every access to a written buffer separates p from
// all other digits, in the same way.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "ast/computed_index.hpp"
#include "ast/verify.hpp"

namespace lathe::ast {
namespace {

/// How one index depends on the parallel variable p: index = base + stride * p + small + big, where small is
/// in [low, high] and big is a multiple of `modulus` (0: there is no big).
struct Decoded {
  int64_t stride = 0;
  Expr base;
  int64_t low = 0, high = 0;
  int64_t modulus = 0;
};

/// The variables of the loops inside of the parallel one.
using LoopVars = std::set<const ExprNode*>;

std::optional<Decoded> decode(Expr index, Expr p, const LoopVars& inner) {
  const auto stride = stride_of(index, p);
  if (!stride || !stride->is_const() || stride->is_const(0)) return {};
  Decoded out;
  out.stride = stride->value();
  Substitution zeros{{p, 0}};
  Expr small = 0;
  int64_t step_of_small = 0;
  std::vector<Expr> vars;
  collect_vars(index, vars);
  for (Expr v : vars) {
    if (!inner.contains(v.node())) continue;
    const auto step = stride_of(index, v);
    if (!step || !step->is_const()) return {};
    zeros.emplace_back(v, 0);
    const int64_t c = step->value();
    if (std::abs(c) >= std::abs(out.stride)) {
      out.modulus = std::gcd(out.modulus, std::abs(c));
    } else {
      int64_t reach;
      if (__builtin_mul_overflow(c, v.hi(), &reach)) return {};
      (c > 0 ? out.high : out.low) += reach;
      small = small + v * c;
      step_of_small = std::gcd(step_of_small, std::abs(c));
    }
  }
  // Nested splits bound the sum of the digits, not each digit by itself.
  const int64_t a = std::abs(out.stride);
  if (out.high - out.low >= a && proves_le(0, small) && proves_lt(small, a)) {
    out.low = 0;
    out.high = (a - 1) / step_of_small * step_of_small;
  }
  out.base = lathe::substitute(index, zeros);
  return out;
}

/// Whether equal indices imply equal values of p.
bool same_iteration(const Decoded& a, const Decoded& b, Expr p) {
  if (a.stride != b.stride) return false;
  const Expr shift = b.base - a.base;
  if (!shift.is_const()) return false;
  const int64_t stride = std::abs(a.stride), s = shift.value();
  // a.stride * (p' - p) = small - small' - s + multiple of modulus
  const int64_t low = a.low - b.high - s, high = a.high - b.low - s;
  if (low <= -stride || high >= stride) return false;
  const int64_t modulus = std::gcd(a.modulus, b.modulus);
  if (modulus == 0) return true;
  int64_t span;
  if (__builtin_mul_overflow(stride, p.hi(), &span)) return false;
  return span + std::max(-low, high) < modulus;
}

struct Touch {
  const Stmt* statement;
  std::vector<Expr> index;
  bool writes;
  bool computed; // at an index known only at run time
  bool apart;    // computed, but no two iterations meet there
  bool combines;
};

/// Whether no two lanes of a vector loop write the same element at the store's computed index.
bool lanes_apart(const For& loop, const Store& store) {
  return loop.kind == LoopKind::Vector && store.scatter &&
         computed_step(*store.scatter, loop.var).value_or(0) != 0;
}

struct Touched {
  BufferRef buffer;
  std::vector<Touch> touches;
};

Touched& entry(std::vector<Touched>& all, const BufferRef& buffer) {
  for (Touched& t : all)
    if (t.buffer == buffer) return t;
  all.push_back({buffer, {}});
  return all.back();
}

void collect_loads(const ValueRef& root, const Stmt& stmt, std::vector<Touched>& out) {
  visit(root, [&](const ValueRef& v) {
    if (v->op != Op::Load && v->op != Op::Gather) return;
    const auto& attr = std::get<LoadAttr>(v->attr);
    entry(out, attr.buffer).touches.push_back({&stmt, attr.index, false, v->op == Op::Gather, false, false});
  });
}

/// Whether `t` is only a combine over the lanes: its one touch combines at an index without the loop's
/// variable.
bool is_horizontal(const Touched& t, Expr p) {
  return t.touches.size() == 1 && t.touches[0].combines && !t.touches[0].computed &&
         std::none_of(t.touches[0].index.begin(), t.touches[0].index.end(),
                      [&](Expr e) { return depends_on(e, p); });
}

/// The touches with those of equal indices merged into the first, which then writes if any of them does: one
/// proof serves them all.
std::vector<Touch> by_index(const std::vector<Touch>& touches) {
  std::vector<Touch> out;
  std::map<std::vector<const ExprNode*>, size_t> known;
  for (const Touch& touch : touches) {
    std::vector<const ExprNode*> index;
    for (const Expr e : touch.index) index.push_back(e.node());
    const auto [at, is_new] = known.emplace(std::move(index), out.size());
    if (is_new)
      out.push_back(touch);
    else
      out[at->second].writes |= touch.writes;
  }
  return out;
}

bool independent(const Touched& t, Expr p, const LoopVars& inner, const Stmt** statement) {
  const std::vector<Touch> touches = by_index(t.touches);
  std::vector<std::vector<std::optional<Decoded>>> decoded; // by touch and dimension
  for (const Touch& touch : touches) {
    decoded.emplace_back();
    for (const Expr index : touch.index) decoded.back().push_back(decode(index, p, inner));
  }
  for (size_t a = 0; a < touches.size(); ++a) {
    if (!touches[a].writes) continue;
    for (size_t b = 0; b < touches.size(); ++b) {
      bool apart = false;
      for (size_t d = 0; !apart && d < decoded[a].size() && d < decoded[b].size(); ++d) {
        const auto &x = decoded[a][d], &y = decoded[b][d];
        apart = x && y && same_iteration(*x, *y, p);
      }
      if (apart) continue;
      *statement = touches[b].statement;
      return false;
    }
  }
  return true;
}

} // namespace

std::string find_race(const For& loop, const Stmt** statement) {
  if (loop.extent.hi() <= 1) return "";
  LoopVars inner;
  std::vector<Touched> touched;
  std::set<const Buffer*> own;
  visit(loop.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    if (const auto* nested = std::get_if<For>(&stmt.node)) inner.insert(nested->var.node());
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) own.insert(alloc->buffer.get());
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    entry(touched, store->buffer)
        .touches.push_back({&stmt, store->index, true, static_cast<bool>(store->scatter),
                            lanes_apart(loop, *store), store->combine.has_value()});
    collect_loads(store->value, stmt, touched);
    if (store->scatter) collect_loads(store->scatter, stmt, touched);
  });
  for (const Touched& t : touched) {
    if (own.count(t.buffer.get())) continue;
    const bool written =
        std::any_of(t.touches.begin(), t.touches.end(), [](const Touch& x) { return x.writes; });
    if (!written) continue;
    for (const Touch& touch : t.touches) {
      *statement = touch.statement;
      if (touch.apart && t.touches.size() == 1) continue;
      if (touch.computed)
        return fmt::format("iterations of {} may meet at a computed index of {}", loop.var.name(),
                           t.buffer->name);
    }
    if (t.touches[0].apart || (loop.kind == LoopKind::Vector && is_horizontal(t, loop.var))) continue;
    if (!independent(t, loop.var, inner, statement))
      return fmt::format("iterations of {} may meet at an element of {}", loop.var.name(), t.buffer->name);
  }
  return "";
}

} // namespace lathe::ast
