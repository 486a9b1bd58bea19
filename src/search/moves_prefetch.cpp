// The move that asks for what a later iteration reads.
#include <algorithm>

#include <fmt/format.h>

#include "ast/flat_index.hpp"
#include "search/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kMostHints = 8; // in one iteration

bool along(const LoadAttr& load, Expr var) {
  return std::any_of(load.index.begin(), load.index.end(), [&](Expr e) { return depends_on(e, var); });
}

} // namespace

Verdict prefetch_tile(Draft& draft, const Move& move, const Target& target) {
  const std::string &stage_name = move.names[0], &operand = move.names[1], &ahead_name = move.names[2],
                    &spread_name = move.names[3], &host_name = move.names[4];
  if (target.groups) return fmt::format("{} has no prefetch", target.device);
  const int stage = stage_of_name(stage_name);
  if (stage < 0) return fmt::format("{} is no stage", stage_name);
  const LoopSite site = find_loop(draft.body, ahead_name);
  if (!site) return fmt::format("there is no loop {}", ahead_name);
  For& ahead = site.loop();

  // The one load of the operand in the nest of the stage.
  ValueRef found;
  std::vector<For*> inside;
  Verdict verdict = fmt::format("the nest of {} under {} does not read {}", stage_name, ahead_name, operand);
  for_each_store(ahead.body, [&](Store& store, const std::vector<For*>& loops) {
    if (store.buffer->name != stage_name) return;
    ast::visit(store.value, [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->name != operand) return;
      const bool again = found && found != value;
      verdict = again || value->op == Op::Gather
                    ? fmt::format("{} is read at several or computed places", operand)
                    : Verdict();
      found = value;
      inside = loops;
    });
  });
  if (!verdict.empty()) return verdict;
  const LoadAttr& load = std::get<LoadAttr>(found->attr);
  if (load.buffer->scope != Scope::Global) return fmt::format("{} is scratch", operand);
  if (!along(load, ahead.var)) return fmt::format("{} does not move along {}", operand, ahead_name);

  const auto named = [&](const std::string& name) {
    return std::find_if(inside.begin(), inside.end(), [&](const For* f) { return f->var.name() == name; });
  };
  const auto spread = named(spread_name), host = named(host_name);
  if (host == inside.end() || spread >= host)
    return fmt::format("{} does not lie between {} and {}", spread_name, ahead_name, host_name);
  if ((*host)->kind != LoopKind::Serial || (*spread)->kind != LoopKind::Serial)
    return fmt::format("{} or {} is not serial", spread_name, host_name);
  if (!along(load, (*host)->var)) return fmt::format("{} does not move along {}", operand, host_name);
  if (along(load, (*spread)->var)) return fmt::format("{} moves along {}", operand, spread_name);

  // Which lines of what one iteration of the host reads: one loop after the other takes its digit of the
  // number of the line.
  const Expr flat = flat_index(*load.buffer, load.index);
  struct Digit {
    Expr var;
    int64_t step, count;
  };
  std::vector<Digit> digits;
  int64_t lines = 1;
  for (auto f = host + 1; f != inside.end(); ++f) {
    const Expr var = (*f)->var;
    if (!along(load, var)) continue;
    const auto stride = stride_of(flat, var);
    const int64_t extent = (*f)->extent.hi();
    if (!stride || !stride->is_const() || extent > 64) return fmt::format("{} is read unevenly", operand);
    const int64_t bytes = std::abs(stride->value()) * size_of(load.buffer->dtype);
    const int64_t step = std::clamp<int64_t>(bytes == 0 ? kLine : kLine / bytes, 1, extent);
    digits.push_back({var, step, (extent + step - 1) / step});
    lines *= digits.back().count;
  }
  const int64_t turns = std::max<int64_t>(1, (*spread)->extent.hi());
  const int64_t hints = (lines + turns - 1) / turns;
  if (hints > kMostHints) return fmt::format("{} iterations of {} are too few", turns, spread_name);

  int id = fresh_loop_id(draft.body, stage);
  Block made;
  for (int64_t h = 0; h < hints; ++h) {
    const Expr line = (*spread)->var * hints + h;
    Substitution vars{{ahead.var, ahead.var + 1}};
    Expr rest = line;
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
      vars.emplace_back(digit->var, mod(rest, digit->count) * digit->step);
      rest = floordiv(rest, digit->count);
    }
    Prefetch hint{load.buffer, load.index};
    for (Expr& e : hint.index) e = substitute(e, vars);
    const Expr needed = lt(line, lines);
    if (needed.is_const()) {
      made.push_back(Stmt{std::move(hint)});
      continue;
    }
    const Expr var = loop_var(id, fmt::format("{}.f{}", stage_name, id % 1024), needed);
    ++id;
    made.push_back(Stmt{For{var, needed, LoopKind::Serial, 0, {}}});
    std::get<For>(made.back().node).body.push_back(Stmt{std::move(hint)});
  }
  Block& body = (*host)->body;
  body.insert(body.begin(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  return check_structure(draft.body);
}

} // namespace lathe::search
