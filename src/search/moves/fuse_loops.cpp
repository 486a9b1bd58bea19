// The move fuse_loops: one loop does what two loops side by side did.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "ast/values.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// One access inside a loop. The index is empty if it is computed at run time.
struct Access {
  std::vector<Expr> index, inner; // inner: the variables of the loops between the outer loop and the access
};

/// What a statement does to a buffer.
struct Use {
  std::string name;
  std::vector<Access> accesses;
  bool written = false;
};

/// What the block does to each buffer, by id.
std::map<int, Use> uses_of(Block& block) {
  std::map<int, Use> uses;
  const auto note = [&](const Buffer& buffer, Access access, bool written) {
    Use& use = uses[buffer.id];
    use.name = buffer.name;
    use.written |= written;
    use.accesses.push_back(std::move(access));
  };
  for_each_store(block, [&](Store& store, const std::vector<For*>& loops) {
    std::vector<Expr> inner;
    for (const For* f : loops) inner.push_back(f->var);
    const auto see = [&](const ValueRef& value) {
      if (const auto* attr = std::get_if<LoadAttr>(&value->attr))
        note(*attr->buffer, {value->op == Op::Gather ? std::vector<Expr>() : attr->index, inner}, false);
    };
    ast::visit(store.value, see);
    if (store.scatter) ast::visit(store.scatter, see);
    note(*store.buffer, {store.scatter ? std::vector<Expr>() : store.index, inner}, true);
  });
  return uses;
}

std::map<int, Use> uses_of(const Stmt& stmt) {
  Block one{stmt};
  return uses_of(one);
}

/// The buffer that one of the two writes and the other reads or writes; null if there is none that
/// `excepted` does not accept.
const Use* conflict(const std::map<int, Use>& one, const std::map<int, Use>& other,
                    const std::function<bool(const Use&, const Use&)>& excepted = {}) {
  for (const auto& [id, use] : one) {
    const auto found = other.find(id);
    if (found == other.end() || (!use.written && !found->second.written)) continue;
    if (!excepted || !excepted(use, found->second)) return &use;
  }
  return nullptr;
}

/// An index along one axis as step * variable + start + rest, where the rest lies between lo and hi.
struct Walk {
  Expr step, start;
  int64_t lo, hi;
};

std::optional<Walk> walk_of(Expr index, Expr var, const std::vector<Expr>& inner) {
  const auto [outer, rest] = separate(index, inner);
  const auto at = [&, from = outer](int64_t i) { return substitute(from, {{var, Expr(i)}}); };
  const Expr start = at(0), step = at(1) - start;
  if (!step.is_const() || step.value() < 1 || outer != start + step * var) return std::nullopt;
  for (const Expr v : inner)
    if (depends_on(start, v)) return std::nullopt;
  return Walk{step, start, rest.lo(), rest.hi()};
}

/// Whether an iteration of either loop touches a part of the buffer that no other iteration of the two loops
/// touches: along one axis, all accesses take the same steps, and stay in the step.
bool stays_apart(const Use& one, Expr var, const Use& other, Expr other_var) {
  std::vector<std::pair<const Access*, Expr>> all;
  for (const Access& a : one.accesses) all.emplace_back(&a, var);
  for (const Access& a : other.accesses) all.emplace_back(&a, other_var);
  for (size_t axis = 0; axis < all[0].first->index.size(); ++axis) {
    std::optional<Walk> whole;
    bool apart = true;
    for (const auto& [access, v] : all) {
      const auto walk = axis < access->index.size() ? walk_of(access->index[axis], v, access->inner)
                                                    : std::optional<Walk>();
      apart = apart && walk && (!whole || (walk->step == whole->step && walk->start == whole->start));
      if (!apart) break;
      whole =
          whole ? Walk{walk->step, walk->start, std::min(whole->lo, walk->lo), std::max(whole->hi, walk->hi)}
                : *walk;
    }
    if (apart && whole->hi - whole->lo < whole->step.value()) return true;
  }
  return false;
}

/// Looks for the loop in the statements from `begin` on, and in the bodies of Allocs among them. `passed`
/// gets the statements before it.
Site find_after(Block& block, size_t begin, const For& loop, std::vector<const Stmt*>& passed) {
  for (size_t i = begin; i < block.size(); ++i) {
    if (std::get_if<For>(&block[i].node) == &loop) return {&block, i};
    if (auto* alloc = std::get_if<Alloc>(&block[i].node))
      if (const Site found = find_after(alloc->body, 0, loop, passed); found.block) return found;
    passed.push_back(&block[i]);
  }
  return {};
}

} // namespace

Verdict fuse_loops(Draft& draft, LoopHandle first, LoopHandle second) {
  const LoopSite from = find_loop(draft, first), into = find_loop(draft, second);
  for (const auto& [site, loop] : {std::pair(from, first), std::pair(into, second)}) {
    if (!site) return fmt::format("there is no loop {}", loop.name());
    if (site.loop().kind != LoopKind::Serial) return fmt::format("{} is not a serial loop", loop.name());
  }
  std::vector<const Stmt*> passed;
  const Site place = find_after(*from.parent, from.position + 1, into.loop(), passed);
  if (!place.block) return fmt::format("{} does not follow {} in one block", second.name(), first.name());
  if (from.loop().extent != into.loop().extent)
    return fmt::format("{} and {} have other lengths", first.name(), second.name());

  const auto moved = uses_of(from.loop().body), host = uses_of(into.loop().body);
  for (const Stmt* stmt : passed)
    if (const Use* use = conflict(moved, uses_of(*stmt)))
      return fmt::format("{} is also used between {} and {}", use->name, first.name(), second.name());
  const Expr var = from.loop().var, host_var = into.loop().var;
  const Use* shared = conflict(
      moved, host, [&](const Use& one, const Use& other) { return stays_apart(one, var, other, host_var); });
  if (shared)
    return fmt::format("iterations of {} and {} share parts of {}", first.name(), second.name(),
                       shared->name);

  Block body = std::move(from.loop().body);
  rename(body, {{var, host_var}});
  Block& target = into.loop().body;
  target.insert(target.begin(), std::make_move_iterator(body.begin()), std::make_move_iterator(body.end()));
  from.parent->erase(from.parent->begin() + static_cast<long>(from.position));
  return check_structure(draft.body);
}

} // namespace lathe::search
