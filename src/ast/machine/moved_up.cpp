#include "ast/machine/moved_up.hpp"

#include <numeric>

#include "ast/flat_index.hpp"

namespace lathe::ast {
namespace {

/// The constant c if the guard is c <= lane; else nothing.
std::optional<Expr> first_lane(Expr guard, Expr lane) {
  if ((guard.kind() != ExprKind::Lt && guard.kind() != ExprKind::Le) || guard.rhs() != lane) return {};
  const Expr first = guard.lhs() + (guard.kind() == ExprKind::Lt ? 1 : 0);
  return first.is_const() ? std::optional(first) : std::nullopt;
}

} // namespace

std::vector<int> MovedUp::picked(int lanes) const {
  std::vector<int> pick(static_cast<size_t>(lanes));
  std::iota(pick.begin(), pick.end(), lanes - by);
  return pick;
}

std::optional<MovedUp> as_moved_up(const LoadAttr& load, Expr lane, int width) {
  if (load.guards.empty() || load.index.empty() || load.buffer->dtype == DType::Bool) return {};
  std::optional<Expr> by;
  std::vector<Expr> others;
  for (const Expr guard : load.guards) {
    if (!depends_on(guard, lane)) {
      others.push_back(guard);
      continue;
    }
    if (by || !(by = first_lane(guard, lane))) return {};
  }
  if (!by || by->value() <= 0 || by->value() >= width) return {};
  std::vector<Expr> index = load.index;
  for (size_t d = 0; d < index.size(); ++d) {
    index[d] = lathe::substitute(index[d], {{lane, lane + *by}});
    if (index[d].lo() < 0 || !proves_lt(index[d], load.buffer->shape[d])) return {};
  }
  const auto stride = stride_of(flat_index(*load.buffer, index), lane);
  if (!stride || !stride->is_const(1)) return {};
  return MovedUp{static_cast<int>(by->value()),
                 ast::load(load.buffer, std::move(index), std::move(others), load.ahead, {LaneKind::Whole})};
}

} // namespace lathe::ast
