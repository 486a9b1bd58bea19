// Splits a loop o over [0, E) that has extents like min(f, X - o * f) inside it, at E' = floordiv(X, f).
// Before E' the minimum is f, and only the iterations after E' are ragged. A serial loop becomes two loops. A
// parallel loop stays one, since a second would be a second fork. Its body becomes two loops over a
// condition, `for main in o < E'` and `for tail in E' <= o`.
#include <algorithm>

#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/passes/prepare.hpp"
#include "core/overload.hpp"

namespace lathe::ast {
namespace {

constexpr int kMaxCopies = 16; // copies of an innermost body

/// Adds to `ends` each E' such that for o < E' a minimum in `e` is constant, for all iterations of the loops
/// inside o.
void find_ends(Expr e, Expr o, const std::vector<Expr>& inner, std::vector<Expr>& ends) {
  if (e.is_const() || e.is_var() || !depends_on(e, o)) return;
  if (e.kind() == ExprKind::Min) {
    for (const auto& [constant, falling] : {std::pair(e.lhs(), e.rhs()), std::pair(e.rhs(), e.lhs())}) {
      const auto stride = stride_of(falling, o);
      if (!stride || !stride->is_const() || stride->value() >= 0 || depends_on(constant, o)) continue;
      Substitution least{{o, 0}};
      bool bounded = true;
      for (Expr v : inner) {
        bounded &= !depends_on(constant, v);
        if (!depends_on(falling, v)) continue;
        const auto step = stride_of(falling, v);
        bounded &= step && step->is_const() && v.hi() != INT64_MAX;
        if (bounded) least.emplace_back(v, step->value() < 0 ? v.hi() : 0);
      }
      if (!bounded) continue;
      const Expr end = floordiv(lathe::substitute(falling, least) - constant, -stride->value()) + 1;
      if (std::find(ends.begin(), ends.end(), end) == ends.end()) ends.push_back(end);
    }
  }
  find_ends(e.lhs(), o, inner, ends);
  find_ends(e.rhs(), o, inner, ends);
}

/// Whether a <= b + shift is proved. Quotients by the same divisor compare by their dividends.
bool at_most(Expr a, Expr b, int64_t shift) {
  if (proves_le(a, b + shift)) return true;
  return a.kind() == ExprKind::FloorDiv && b.kind() == ExprKind::FloorDiv && a.rhs() == b.rhs() &&
         a.rhs().is_const() && proves_le(a.lhs(), b.lhs() + a.rhs() * shift);
}

/// Where to split the range of `loop`; nothing if a split makes no extent constant.
std::optional<Expr> split_point(const For& loop) {
  std::vector<Expr> inner, ends;
  visit(loop.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    const auto* nested = std::get_if<For>(&stmt.node);
    if (!nested) return;
    find_ends(nested->extent, loop.var, inner, ends);
    inner.push_back(nested->var);
  });
  if (ends.empty()) return {};
  Expr end = ends[0];
  if (std::all_of(ends.begin(), ends.end(), [](Expr e) { return e.is_const(); }))
    for (Expr e : ends) end = min(end, e);
  if (!at_most(end, loop.extent, 0)) end = min(end, loop.extent);
  if (!proves_le(0, end)) end = max(end, 0);
  if (end.is_const(0) || proves_le(loop.extent, end)) return {};
  // An end that depends on an outer loop is ragged because of that loop. Splitting the outer loop makes the
  // end constant.
  std::vector<Expr> vars;
  collect_vars(end, vars);
  if (std::any_of(vars.begin(), vars.end(), [](Expr v) { return v.id() >= 0; })) return {};
  return end;
}

class Partitioner {
public:
  explicit Partitioner(const Kernel& kernel) : copier_(kernel) {}

  Block block(const Block& in, int copies) {
    Block out;
    for (const Stmt& stmt : in)
      std::visit(Overload{[&](const For& loop) { append(out, partition(loop, copies)); },
                          [&](const Alloc& alloc) {
                            out.push_back({Alloc{alloc.buffer, block(alloc.body, copies)}});
                          },
                          [&](const auto& leaf) { out.push_back({leaf}); }},
                 stmt.node);
    return out;
  }

private:
  Block partition(const For& loop, int copies) {
    const bool serial = loop.kind == LoopKind::Serial || loop.kind == LoopKind::Unroll;
    if (copies >= 2 && (serial || loop.kind == LoopKind::Parallel))
      if (const auto end = split_point(loop))
        return serial ? split_range(loop, *end, copies / 2) : split_body(loop, *end, copies / 2);
    return whole(loop, copies);
  }

  /// The loop unsplit, or its body alone if it runs once.
  Block whole(const For& loop, int copies) {
    const bool bound =
        loop.kind == LoopKind::Parallel || loop.kind == LoopKind::Group || loop.kind == LoopKind::Local;
    if (loop.extent.is_const(1) && !bound) return block(substitute(loop.body, {{loop.var, 0}}), copies);
    Block out;
    out.push_back({For{loop.var, loop.extent, loop.kind, loop.width, block(loop.body, copies)}});
    return out;
  }

  Block split_range(const For& loop, Expr end, int copies) {
    const auto part = [&](Expr count, Expr var, Block body) {
      return whole({var, count, loop.kind, loop.width, std::move(body)}, copies);
    };
    const Expr first = loop_var(loop.var.id(), loop.var.name(), end);
    Block out = part(end, first, substitute(loop.body, {{loop.var, first}}));
    const Expr rest = loop.extent - end;
    const Expr second = loop_var(copier_.fresh_loop_id(), loop.var.name(), rest);
    Block tail = copier_.copy(loop.body, {{loop.var, at_most(loop.extent, end, 1) ? end : end + second}});
    if (end.kind() == ExprKind::FloorDiv) {
      // The extent of the tail after the last whole tile. Expr knows bounds of a remainder, but not of the
      // equal difference.
      const Expr left = end.lhs() - end * end.rhs(), remainder = mod(end.lhs(), end.rhs());
      tail = with_extents(tail, [&](Expr e) { return e == left ? remainder : e; });
    }
    append(out, part(rest, second, std::move(tail)));
    return out;
  }

  Block split_body(const For& loop, Expr end, int copies) {
    // A stand-in for the variable, bounded by `end`, lets the minimum fold. Then the variable itself takes
    // its place again.
    const Expr low = loop_var(copier_.fresh_loop_id(), loop.var.name(), end);
    const Block main = substitute(substitute(loop.body, {{loop.var, low}}), {{low, loop.var}});
    Block tail = copier_.copy(loop.body, {});
    // Replaces the variable in extents only: verify() needs it in an index to prove that iterations are
    // independent.
    if (end.is_const() && at_most(loop.extent, end, 1))
      tail = with_extents(tail, [&](Expr e) { return lathe::substitute(e, {{loop.var, end}}); });
    For out{loop.var, loop.extent, loop.kind, loop.width, {}};
    append(out.body, conditional("main", lt(loop.var, end), block(main, copies)));
    append(out.body, conditional("tail", le(end, loop.var), block(tail, copies)));
    Block result;
    result.push_back({std::move(out)});
    return result;
  }
  /// The block with each loop's extent e replaced by known(e), which is equal or tighter.
  template <class F> static Block with_extents(const Block& in, const F& known) {
    Block out;
    for (const Stmt& stmt : in)
      std::visit(Overload{[&](const For& loop) {
                            const Expr extent = known(loop.extent);
                            const Expr var = loop_var(loop.var.id(), loop.var.name(), extent);
                            const Block body = substitute(loop.body, {{loop.var, var}});
                            out.push_back(
                                {For{var, extent, loop.kind, loop.width, with_extents(body, known)}});
                          },
                          [&](const Alloc& alloc) {
                            out.push_back({Alloc{alloc.buffer, with_extents(alloc.body, known)}});
                          },
                          [&](const auto& leaf) { out.push_back({leaf}); }},
                 stmt.node);
    return out;
  }
  Block conditional(const char* name, Expr condition, Block body) {
    Block out;
    out.push_back({For{loop_var(copier_.fresh_loop_id(), name, condition), condition, LoopKind::Serial, 0,
                       std::move(body)}});
    return out;
  }

  Copier copier_;
};

} // namespace

Kernel partition_tails(const Kernel& kernel) {
  Kernel out = kernel;
  out.body = Partitioner(kernel).block(kernel.body, kMaxCopies);
  drop_idle_loops(out.body);
  return out;
}

} // namespace lathe::ast
