// The move that prefetches what a later iteration reads: prefetch_tile.
#include <algorithm>

#include <fmt/format.h>

#include "ast/flat_index.hpp"
#include "search/machine/machine_limits.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

constexpr size_t kMostHints = 8; // prefetches in one iteration of the host
constexpr int64_t kMostElements = int64_t{1} << 32;
constexpr int64_t kMostStreams = 64, kLeastStream = 16 << 10; // streams; least bytes of each

bool along(const LoadAttr& load, Expr var) {
  return std::any_of(load.index.begin(), load.index.end(), [&](Expr e) { return depends_on(e, var); });
}

/// A prefetch in each iteration of the host in which `needed` is 1.
struct Hint {
  Prefetch asks;
  Expr needed;
};

/// A load to prefetch, and the loops concerned. The load moves along `ahead`. The loops inside are those from
/// `first` on; one of them, `host`, holds the prefetches. The iterations of `spread`, if there is one, share
/// what one iteration of `ahead` reads: they are its `turns`. The load does not move along `spread`, which
/// lies outside of `first`.
struct Asking {
  using Loops = std::vector<For*>::const_iterator;
  const LoadAttr& load;
  Expr ahead, spread;
  Loops first, host, end;
  int64_t turns, streams;

  int64_t element_bytes() const { return size_of(load.buffer->dtype); }
  Prefetch hint(Substitution vars) const {
    vars.emplace_back(ahead, ahead + 1);
    Prefetch made{load.buffer, load.index};
    for (Expr& e : made.index) e = substitute(e, vars);
    return made;
  }
};

/// The prefetches of loads that add up to one piece of memory, in whatever order they read it. The prefetches
/// go through the piece from its beginning to its end. All turns, and all iterations in them, prefetch the
/// same number of bytes, so the hardware foresees the next ones. Several streams take turns: each is then
/// slow enough for these bytes to have arrived. Nothing if there are gaps in what the host reads.
std::optional<std::vector<Hint>> ask_evenly(const Asking& a) {
  const Expr flat = flat_index(*a.load.buffer, a.load.index);
  struct Part {
    int64_t stride, extent;
    Asking::Loops loop;
  };
  std::vector<Part> parts;
  for (auto f = a.first; f != a.end; ++f) {
    if (!along(a.load, (*f)->var)) continue;
    const auto stride = stride_of(flat, (*f)->var);
    const bool is_known = stride && stride->is_const();
    if (!is_known && f >= a.host) return {};
    if (is_known) parts.push_back({stride->value(), std::max<int64_t>(1, (*f)->extent.hi()), f});
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& x, const Part& y) { return x.stride < y.stride; });
  int64_t run = 1; // elements
  size_t taken = 0;
  for (; taken < parts.size() && parts[taken].stride == run; ++taken) {
    if (parts[taken].extent > kMostElements / run) return {};
    run *= parts[taken].extent;
  }
  if (std::any_of(parts.begin() + static_cast<long>(taken), parts.end(),
                  [&](const Part& p) { return p.loop >= a.host; }))
    return {};
  parts.resize(taken);
  std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.loop > y.loop; });
  int64_t iterations = 1; // of the host and the loops around it that belong to the run
  Expr at = 0;
  Substitution start;
  for (const Part& p : parts) {
    start.emplace_back((*p.loop)->var, Expr(0));
    if (p.loop > a.host) continue;
    at = at + (*p.loop)->var * iterations;
    iterations *= p.extent;
  }
  const int64_t steps = a.turns * iterations, step = (run + steps - 1) / steps;
  const int64_t line = std::max<int64_t>(1, kCacheLine / a.element_bytes());
  const int64_t streams = run * a.element_bytes() < a.streams * kLeastStream ? 1 : a.streams;
  const Expr now = a.spread * iterations + at;
  const Expr from = mod(now, streams) * ((run + streams - 1) / streams) + floordiv(now, streams) * step;
  std::vector<Hint> out;
  for (int64_t h = 0; h < step; h += line) {
    out.push_back({a.hint(start), Expr(1)});
    Expr& last = out.back().asks.index.back();
    last = last + from + h;
  }
  return out;
}

/// The prefetches line by line. The cache lines that one iteration of the host reads are numbered, and each
/// loop inside takes one digit of the number. Nothing if the lines are too uneven to number.
std::optional<std::vector<Hint>> ask_by_lines(const Asking& a) {
  const Expr flat = flat_index(*a.load.buffer, a.load.index);
  struct Digit {
    Expr var;
    int64_t step, count;
  };
  std::vector<Digit> digits;
  int64_t lines = 1;
  for (auto f = a.host + 1; f != a.end; ++f) {
    const Expr var = (*f)->var;
    if (!along(a.load, var)) continue;
    const auto stride = stride_of(flat, var);
    const int64_t extent = (*f)->extent.hi();
    if (!stride || !stride->is_const() || extent > 64) return {};
    const int64_t bytes = std::abs(stride->value()) * a.element_bytes();
    const int64_t step = std::clamp<int64_t>(bytes == 0 ? kCacheLine : kCacheLine / bytes, 1, extent);
    digits.push_back({var, step, (extent + step - 1) / step});
    lines *= digits.back().count;
  }
  const int64_t hints = (lines + a.turns - 1) / a.turns;
  std::vector<Hint> out;
  for (int64_t h = 0; h < hints; ++h) {
    const Expr line = a.spread * hints + h;
    Substitution vars;
    Expr rest = line;
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
      vars.emplace_back(digit->var, mod(rest, digit->count) * digit->step);
      rest = floordiv(rest, digit->count);
    }
    out.push_back({a.hint(std::move(vars)), lt(line, lines)});
  }
  return out;
}

} // namespace

Verdict prefetch_tile(Draft& draft, const Target& target, StoredHandle result, BufferHandle operand_handle,
                      LoopHandle ahead_handle, LoopHandle spread_handle, LoopHandle host_handle,
                      int64_t streams) {
  const std::string &stage_name = result.name(), &operand = operand_handle.name(),
                    &ahead_name = ahead_handle.name(), &spread_name = spread_handle.name(),
                    &host_name = host_handle.name();
  if (target.groups) return fmt::format("{} has no prefetch", target.device);
  if (streams < 1 || streams > kMostStreams)
    return fmt::format("{} streams, expected 1 to {}", streams, kMostStreams);
  const int stage = result.stage();
  if (stage < 0) return fmt::format("{} is no stage", stage_name);
  const LoopSite site = find_loop(draft, ahead_handle);
  if (!site) return fmt::format("there is no loop {}", ahead_name);
  For& ahead = site.loop();

  // The one load of the operand in the nest of the stage.
  ValueRef found;
  std::vector<For*> inside;
  const int stored = draft.id_of(result), read = draft.id_of(operand_handle);
  Verdict verdict = fmt::format("the nest of {} under {} does not read {}", stage_name, ahead_name, operand);
  for_each_store(ahead.body, [&](Store& store, const std::vector<For*>& loops) {
    if (store.buffer->id != stored) return;
    ast::visit(store.value, [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->id != read) return;
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

  const auto named = [&](LoopHandle loop) {
    const int id = draft.handles.id_of(loop);
    return std::find_if(inside.begin(), inside.end(), [&](const For* f) { return f->var.id() == id; });
  };
  const auto spread = named(spread_handle), host = named(host_handle);
  if (host == inside.end() || spread > host)
    return fmt::format("{} does not lie between {} and {}", spread_name, ahead_name, host_name);
  if ((*host)->kind != LoopKind::Serial || (*spread)->kind != LoopKind::Serial)
    return fmt::format("{} or {} is not serial", spread_name, host_name);
  if (!along(load, (*host)->var)) return fmt::format("{} does not move along {}", operand, host_name);
  const bool in_turns = spread != host;
  if (in_turns && along(load, (*spread)->var)) return fmt::format("{} moves along {}", operand, spread_name);
  for (auto f = inside.begin(); f != host && !in_turns; ++f)
    if (!along(load, (*f)->var))
      return fmt::format("{} is read again along {}, which is to take turns", operand, (*f)->var.name());

  const int64_t turns = in_turns ? std::max<int64_t>(1, (*spread)->extent.hi()) : 1;
  const Asking asking{load,
                      ahead.var,
                      in_turns ? (*spread)->var : Expr(0),
                      in_turns ? spread + 1 : inside.cbegin(),
                      host,
                      inside.cend(),
                      turns,
                      streams};
  std::optional<std::vector<Hint>> hints = ask_evenly(asking);
  if (!hints) hints = ask_by_lines(asking);
  if (!hints) return fmt::format("{} is read unevenly", operand);
  if (hints->size() > kMostHints) return fmt::format("{} iterations of {} are too few", turns, spread_name);

  LoopMaker loops(draft, stage);
  Block made;
  for (const auto& [asks, needed] : *hints) {
    if (needed.is_const()) {
      made.push_back(Stmt{asks});
      continue;
    }
    const Expr var = loops.make_condition(result, needed);
    made.push_back(Stmt{For{var, needed, LoopKind::Serial, 0, {}}});
    std::get<For>(made.back().node).body.push_back(Stmt{asks});
  }
  Block& body = (*host)->body;
  body.insert(body.begin(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  return check_structure(draft.body);
}

} // namespace lathe::search
