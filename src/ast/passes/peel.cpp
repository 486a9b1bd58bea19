// A guarded load costs a comparison or two, and an address of its own. A choice by index computes both sides.
// A window reaches over a border only in the first and last iterations. These become copies, which are not
// cut again, and the iterations between lose their guards. A value joined from several values reads one of
// them in each section of the loop. Each section becomes a loop of its own.
#include <algorithm>

#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/passes/prepare.hpp"

namespace lathe::ast {
namespace {

constexpr int kMostCopies = 8;        // copies of an innermost body
constexpr int64_t kLongest = 1 << 10; // loads of a body, unrolled; copies of more would be too much code
constexpr int64_t kLargest = int64_t{1} << 48; // a larger bound carries no information, and sums overflow

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// Iterations [first, end) of a loop of constant extent.
struct Iterations {
  int64_t first, end;
  int64_t count() const { return end - first; }
};

/// The iterations in which `guard` holds for all values of its other variables. Nothing if the guard does not
/// depend linearly on the loop's variable.
std::optional<Iterations> interior(const For& loop, Expr guard) {
  if (!loop.extent.is_const() || (guard.kind() != ExprKind::Lt && guard.kind() != ExprKind::Le)) return {};
  // The guard holds where `room` is not negative.
  const Expr room = guard.rhs() - guard.lhs() - (guard.kind() == ExprKind::Lt ? 1 : 0);
  const auto stride = stride_of(room, loop.var);
  if (!stride || !stride->is_const() || stride->is_const(0)) return {};
  const int64_t step = stride->value(), extent = loop.extent.value();
  // The least room in the first iteration, over all values of the other variables.
  const int64_t least = substitute(room, {{loop.var, 0}}).lo();
  if (least > kLargest || least < -kLargest || step > kLargest || step < -kLargest || extent < 1) return {};
  Iterations inside{0, extent};
  if (step > 0)
    inside.first = std::clamp<int64_t>(-floor_of(least, step), 0, extent);
  else
    inside.end = std::clamp<int64_t>(floor_of(least, -step) + 1, 0, extent);
  return inside;
}

/// The iterations in which `guard` holds for no values of its other variables.
std::optional<Iterations> exterior(const For& loop, Expr guard) {
  if (guard.kind() == ExprKind::Lt) return interior(loop, le(guard.rhs(), guard.lhs()));
  if (guard.kind() == ExprKind::Le) return interior(loop, lt(guard.rhs(), guard.lhs()));
  return {};
}

/// Whether at least half of the iterations can do without the guard.
bool worth_peeling(const For& loop, Iterations inside) {
  return loop.kind == LoopKind::Serial && 2 * inside.count() >= loop.extent.value() && inside.count() > 0;
}

/// Returns the number of loads in the body, unrolled. Calls see(condition) for each guard of a load and each
/// condition on the index.
template <class F> int64_t each_condition(const Block& body, F&& see) {
  const auto parts = [&](Expr e, const auto& again) -> void {
    if (e.kind() != ExprKind::And) return see(e);
    again(e.lhs(), again);
    again(e.rhs(), again);
  };
  int64_t loads = 0;
  visit(body, [&](const Stmt& stmt, const std::vector<const For*>& around) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    int64_t copies = 1;
    for (const For* l : around)
      if (l->kind == LoopKind::Unroll) copies *= std::clamp<int64_t>(l->extent.hi(), 1, kLongest);
    visit(store->value, [&](const ValueRef& value) {
      if (value->op == Op::Index && value->dtype == DType::Bool) parts(std::get<Expr>(value->attr), parts);
      const auto* load = std::get_if<LoadAttr>(&value->attr);
      if (!load) return;
      loads = std::min(loads + copies, kLongest + 1);
      for (Expr guard : load->guards) see(guard);
    });
  });
  return loads;
}

/// The iterations that need none of the body's guards that are worth peeling; nothing if peeling does not
/// pay.
std::optional<Iterations> all_inside(const For& loop) {
  Iterations inside{0, loop.extent.value()};
  bool any = false;
  const int64_t loads = each_condition(loop.body, [&](Expr guard) {
    if (const auto one = interior(loop, guard); one && worth_peeling(loop, *one)) {
      any = true;
      inside = {std::max(inside.first, one->first), std::min(inside.end, one->end)};
    }
  });
  if (!any || loads > kLongest || !worth_peeling(loop, inside)) return {};
  return inside;
}

/// The iterations in which a guard always holds, and those in which it never holds.
struct Parts {
  Iterations holds, never;
};
/// The parts of the loop by `guard`; nothing if one is empty, or both together are less than half of
/// the loop.
std::optional<Parts> parts_of(const For& loop, Expr guard) {
  const auto holds = interior(loop, guard), never = exterior(loop, guard);
  if (!holds || !never || holds->count() <= 0 || never->count() <= 0) return {};
  if (2 * (holds->count() + never->count()) < loop.extent.value()) return {};
  return Parts{*holds, *never};
}

/// Where to cut the loop so that each section decides the conditions that hold in one part of the loop and
/// not in another: the first iteration of each section, and the end of the last. Empty if cutting does not
/// pay, or if it would make more than `most` sections.
std::vector<int64_t> sections(const For& loop, int most) {
  const int64_t extent = loop.extent.value();
  std::vector<int64_t> ends{0, extent};
  const int64_t loads = each_condition(loop.body, [&](Expr guard) {
    if (const auto parts = parts_of(loop, guard))
      for (const Iterations& part : {parts->holds, parts->never})
        ends.insert(ends.end(), {part.first, part.end});
  });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const auto count = static_cast<int64_t>(ends.size()) - 1;
  if (count > most || count * loads > kLongest || count < 2) return {};
  return ends;
}

class Peeler {
public:
  explicit Peeler(const Kernel& kernel) : copier_(kernel) {}

  Block block(const Block& in, int copies) {
    Block out;
    for (const Stmt& stmt : in) {
      if (const auto* loop = std::get_if<For>(&stmt.node))
        append(out, cut(*loop, copies));
      else
        out.push_back(with_body(stmt, [&](const Block& body) { return block(body, copies); }));
    }
    return out;
  }

private:
  Block cut(const For& loop, int copies) {
    if (loop.kind != LoopKind::Serial || !loop.extent.is_const()) return peel(loop, copies);
    const std::vector<int64_t> ends = sections(loop, copies);
    if (ends.empty()) return peel(loop, copies);
    const size_t count = ends.size() - 1;
    const int share = copies / static_cast<int>(count);
    Block out;
    for (size_t k = 0; k < count; ++k) {
      const Block section = copied(loop, ends[k], ends[k + 1]);
      const bool is_loop = ends[k + 1] - ends[k] > 1;
      append(out, is_loop ? peel(std::get<For>(section.front().node), share) : block(section, share));
    }
    return out;
  }

  Block peel(const For& loop, int copies) {
    const auto inside = loop.kind == LoopKind::Serial && loop.extent.is_const() && copies >= 3
                            ? all_inside(loop)
                            : std::nullopt;
    Block out;
    if (!inside) {
      out.push_back({For{loop.var, loop.extent, loop.kind, loop.width, block(loop.body, copies)}});
      return out;
    }
    const int64_t extent = loop.extent.value();
    append(out, copied(loop, 0, inside->first));
    const Expr count = inside->end - inside->first, var = loop_var(loop.var.id(), loop.var.name(), count);
    const int ends = (inside->first > 0) + (inside->end < extent);
    Block body = block(substitute(loop.body, {{loop.var, inside->first + var}}), copies - ends);
    if (count.is_const(1))
      append(out, substitute(body, {{var, 0}}));
    else
      out.push_back({For{var, count, loop.kind, loop.width, std::move(body)}});
    append(out, copied(loop, inside->end, extent));
    return out;
  }

  Block copied(const For& loop, int64_t first, int64_t end) {
    if (first == end) return {};
    if (end - first == 1) return copier_.copy(loop.body, {{loop.var, first}});
    const Expr var = loop_var(copier_.fresh_loop_id(), loop.var.name(), end - first);
    Block out;
    out.push_back(
        {For{var, end - first, loop.kind, loop.width, copier_.copy(loop.body, {{loop.var, first + var}})}});
    return out;
  }

  Copier copier_;
};

} // namespace

double share_guarded(const For& loop, Expr guard) {
  if (loop.kind != LoopKind::Serial && loop.kind != LoopKind::Unroll) return 1;
  int64_t decided = 0;
  if (const auto parts = parts_of(loop, guard))
    decided = parts->holds.count() + parts->never.count();
  else if (const auto inside = interior(loop, guard);
           inside && (loop.kind == LoopKind::Unroll || worth_peeling(loop, *inside)))
    decided = inside->count();
  if (decided == 0) return 1;
  return 1 - static_cast<double>(decided) / static_cast<double>(loop.extent.value());
}

Kernel peel_guards(const Kernel& kernel) {
  Kernel out = kernel;
  out.body = Peeler(kernel).block(kernel.body, kMostCopies);
  drop_idle_loops(out.body); // such as loops beyond the border in the first or last iterations
  return out;
}

} // namespace lathe::ast
