// Proposes work-groups for outer loops and work-items for the next ones, for OpenCL. On a CPU, groups run in
// parallel, but work-items hardly vectorise. So groups alone over explicit vectors are proposed, too.
#include <algorithm>
#include <cmath>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

bool can_be_items(const Features& f, int loop) {
  for (int a = f.loops[loop].first_access; a < f.loops[loop].end_access; ++a) {
    const AccessInfo& access = f.accesses[a];
    const bool own = f.buffers[access.buffer].buffer->scope != ast::Scope::Global;
    if (access.random && access.store) return false;
    if (access.store && !own && f.stride(access, loop) == 0) return false;
  }
  return true;
}

/// The loop that is the only statement directly inside this one; -1: none.
int only_child(const Features& f, int loop) {
  const auto& body = f.loops[loop].loop->body;
  return body.size() == 1 && std::holds_alternative<ast::For>(body[0].node) ? loop + 1 : -1;
}

enum class Style { Groups, GroupsOfTwoAxes, GroupsAndItems, ItemsOfTwoAxes };

void bind_nest(const SuggestContext& c, int nest, Style style, Script& script) {
  const Features& f = c.features;
  if (!is_serial(f, nest) || !can_be_items(f, nest) || longest(f, nest) < 2) return;
  const LoopHandle loop = c.loop(nest);
  const auto bind = [&](LoopHandle l, Level level, int64_t axis) {
    script.add(MoveKind::Bind, l, level, axis);
  };
  const int next = only_child(f, nest);
  const bool two = next >= 0 && is_serial(f, next) && can_be_items(f, next) && longest(f, next) >= 2;
  switch (style) {
  case Style::Groups: {
    // Enough groups to share out evenly, each with enough work to be worth starting.
    const auto chunk = static_cast<int64_t>(std::ceil(f.loops[nest].extent / (8.0 * c.target.threads)));
    const bool in_chunks = !c.target.gpu && chunk >= 2 && chunk < longest(f, nest);
    bind(in_chunks ? script.split(loop, chunk).outer : loop, Level::Group, 0);
    return;
  }
  case Style::GroupsOfTwoAxes:
    bind(loop, Level::Group, two ? 1 : 0);
    if (two) bind(c.loop(next), Level::Group, 0);
    return;
  case Style::GroupsAndItems: {
    const int64_t items = c.target.gpu ? 128 : 16;
    if (longest(f, nest) <= items) return;
    const Halves halves = script.split(loop, items);
    bind(halves.outer, Level::Group, 0);
    bind(halves.inner, Level::Local, 0);
    return;
  }
  case Style::ItemsOfTwoAxes: {
    if (!two || longest(f, nest) <= 8 || longest(f, next) <= 8) return;
    const int64_t items = c.target.gpu ? 16 : 8;
    if (longest(f, nest) <= items || longest(f, next) <= items) return;
    const Halves rows = script.split(loop, items), columns = script.split(c.loop(next), items);
    script.reorder({rows.outer, columns.outer, rows.inner, columns.inner});
    bind(rows.outer, Level::Group, 1);
    bind(columns.outer, Level::Group, 0);
    bind(rows.inner, Level::Local, 1);
    bind(columns.inner, Level::Local, 0);
    return;
  }
  }
}

/// Proposes a reduction by blocks of its operands in local memory. From the outside in: groups over tiles of
/// the output, the loop over blocks, work-items.
void stage_operands(const SuggestContext& c, std::vector<Proposal>& out) {
  const Features& f = c.features;
  for (const Leaf& leaf : c.leaves()) {
    if (!leaf.combine || leaf.random || leaf.own != 0 || leaf.vectorised) continue;
    std::vector<int> rows, reduce;
    for (int l : leaf.loops) (f.stride(f.accesses[leaf.store], l) != 0 ? rows : reduce).push_back(l);
    if (rows.size() < 2 || reduce.empty()) continue;
    const int i = rows[rows.size() - 2], j = rows.back(), r = reduce.back();
    const int64_t block = c.target.gpu ? 16 : 8;
    if (longest(f, i) <= block || longest(f, j) <= block || longest(f, r) <= block) continue;
    if (!is_serial(f, i) || !is_serial(f, j) || !is_serial(f, r)) continue;
    Script script(c.kernel);
    const Halves is = script.split(c.loop(i), block), js = script.split(c.loop(j), block),
                 rs = script.split(c.loop(r), block);
    std::vector<LoopHandle> order;
    for (size_t k = 0; k + 2 < rows.size(); ++k) order.push_back(c.loop(rows[k]));
    order.insert(order.end(), {is.outer, js.outer});
    for (size_t k = 0; k + 1 < reduce.size(); ++k) order.push_back(c.loop(reduce[k]));
    order.insert(order.end(), {rs.outer, is.inner, js.inner, rs.inner});
    script.reorder(order);
    script.add(MoveKind::Bind, is.outer, Level::Group, 1);
    script.add(MoveKind::Bind, js.outer, Level::Group, 0);
    script.add(MoveKind::Bind, is.inner, Level::Local, 1);
    script.add(MoveKind::Bind, js.inner, Level::Local, 0);
    for (int a = leaf.first; a < leaf.store; ++a)
      if (!f.accesses[a].random)
        script.pack(leaf.result, c.buffer(f.accesses[a].buffer), rs.outer, ast::Scope::Local);
    script.accumulate(leaf.result, rs.inner);
    out.push_back({script.take(), "operands of " + leaf.result.name() + " through local memory"});
  }
}

} // namespace

std::vector<Proposal> suggest_opencl(const SuggestContext& c) {
  if (!c.target.groups) return {};
  const Features& f = c.features;
  for (const LoopInfo& l : f.loops)
    if (l.loop->kind == ast::LoopKind::Group || l.loop->kind == ast::LoopKind::Parallel) return {};
  std::vector<Proposal> proposals;
  const std::pair<Style, const char*> styles[] = {
      {Style::Groups, "work-groups over chunks"},
      {Style::GroupsOfTwoAxes, "work-groups over two axes"},
      {Style::GroupsAndItems, "work-groups and work-items"},
      {Style::ItemsOfTwoAxes, "work-groups and work-items of two axes"}};
  for (const auto& [style, why] : styles) {
    Script script(c.kernel);
    for (int nest = 0; nest < static_cast<int>(f.loops.size()); nest = f.loops[nest].end)
      bind_nest(c, nest, style, script);
    if (!script.empty()) proposals.push_back({script.take(), why});
  }
  if (c.thorough || c.target.gpu) stage_operands(c, proposals);
  return proposals;
}

} // namespace lathe::search
