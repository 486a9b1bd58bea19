// A guarded load costs a comparison or two, and an address of its own. Windows that reach over a border are
// outside of it in the first and last iterations only: those become copies, and the iterations between lose
// their guards. Copies are not cut again.
#include <algorithm>

#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/prepare.hpp"

namespace lathe::ast {
namespace {

constexpr int kMostCopies = 8;        // of an innermost body
constexpr int64_t kLongest = 1 << 10; // loads of a body, unrolled: code that nobody wants five times over
constexpr int64_t kLargest = int64_t{1} << 48; // beyond, a bound says nothing, and sums of it overflow

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// Iterations [first, end) of a loop of constant extent.
struct Iterations {
  int64_t first, end;
};

/// The iterations in which `guard` holds, whatever the other variables in it are. Nothing if the guard does
/// not depend on the loop's variable, or not in a straight line.
std::optional<Iterations> interior(const For& loop, Expr guard) {
  if (!loop.extent.is_const() || (guard.kind() != ExprKind::Lt && guard.kind() != ExprKind::Le)) return {};
  // It holds where `room` is not negative.
  const Expr room = guard.rhs() - guard.lhs() - (guard.kind() == ExprKind::Lt ? 1 : 0);
  const auto stride = stride_of(room, loop.var);
  if (!stride || !stride->is_const() || stride->is_const(0)) return {};
  const int64_t step = stride->value(), extent = loop.extent.value();
  // In the first iteration, with the others at their worst.
  const int64_t least = substitute(room, {{loop.var, 0}}).lo();
  if (least > kLargest || least < -kLargest || step > kLargest || step < -kLargest || extent < 1) return {};
  Iterations inside{0, extent};
  if (step > 0)
    inside.first = std::clamp<int64_t>(-floor_of(least, step), 0, extent);
  else
    inside.end = std::clamp<int64_t>(floor_of(least, -step) + 1, 0, extent);
  return inside;
}

/// Most iterations can do without the guard.
bool worth_peeling(const For& loop, Iterations inside) {
  const int64_t count = inside.end - inside.first, extent = loop.extent.value();
  return loop.kind == LoopKind::Serial && 2 * count >= extent && count > 0;
}

/// The iterations in which all guards of the body hold that depend on the loop's variable.
std::optional<Iterations> all_inside(const For& loop) {
  Iterations inside{0, loop.extent.value()};
  bool any = false;
  int64_t loads = 0;
  visit(loop.body, [&](const Stmt& stmt, const std::vector<const For*>& around) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    int64_t copies = 1;
    for (const For* l : around)
      if (l->kind == LoopKind::Unroll) copies *= std::clamp<int64_t>(l->extent.hi(), 1, kLongest);
    visit(store->value, [&](const ValueRef& value) {
      const auto* load = std::get_if<LoadAttr>(&value->attr);
      if (!load) return;
      loads = std::min(loads + copies, kLongest + 1);
      for (Expr guard : load->guards)
        if (const auto one = interior(loop, guard); one && worth_peeling(loop, *one)) {
          any = true;
          inside = {std::max(inside.first, one->first), std::min(inside.end, one->end)};
        }
    });
  });
  if (!any || loads > kLongest || !worth_peeling(loop, inside)) return {};
  return inside;
}

class Peeler {
public:
  explicit Peeler(const Kernel& kernel) : copier_(kernel) {}

  Block block(const Block& in, int copies) {
    Block out;
    for (const Stmt& stmt : in) {
      if (const auto* loop = std::get_if<For>(&stmt.node))
        append(out, peel(*loop, copies));
      else if (const auto* alloc = std::get_if<Alloc>(&stmt.node))
        out.push_back({Alloc{alloc->buffer, block(alloc->body, copies)}});
      else
        out.push_back(stmt);
    }
    return out;
  }

private:
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
  const auto inside = interior(loop, guard);
  if (!inside || (loop.kind == LoopKind::Serial && !worth_peeling(loop, *inside))) return 1;
  return 1 - static_cast<double>(inside->end - inside->first) / static_cast<double>(loop.extent.value());
}

Kernel peel_guards(const Kernel& kernel) {
  Kernel out = kernel;
  out.body = Peeler(kernel).block(kernel.body, kMostCopies);
  drop_idle_loops(out.body); // such as what lies beyond the border in one of the ends
  return out;
}

} // namespace lathe::ast
