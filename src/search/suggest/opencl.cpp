// OpenCL: outer loops to work-groups, and next ones to work-items. A CPU's groups are its parallel units and
// its work-items hardly vectorise, so groups alone over explicit vectors are proposed as well as groups of
// many work-items.
#include <algorithm>
#include <cmath>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

bool independent(const Features& f, int loop) {
  for (int a = f.loops[loop].first_access; a < f.loops[loop].end_access; ++a) {
    const AccessInfo& access = f.accesses[a];
    const bool own = f.buffers[access.buffer].buffer->scope != ast::Scope::Global;
    if (access.random && access.store) return false;
    if (access.store && !own && f.stride(access, loop) == 0) return false;
  }
  return true;
}

/// The only statement directly inside is another loop: its index, else -1.
int only_child(const Features& f, int loop) {
  const auto& body = f.loops[loop].loop->body;
  return body.size() == 1 && std::holds_alternative<ast::For>(body[0].node) ? loop + 1 : -1;
}

enum class Style { Groups, GroupsOfTwoAxes, GroupsAndItems, ItemsOfTwoAxes };

void bind_nest(const SuggestContext& c, int nest, Style style, std::vector<Move>& out) {
  const Features& f = c.features;
  if (!is_serial(f, nest) || !independent(f, nest) || longest(f, nest) < 2) return;
  const std::string name = loop_name(f, nest);
  const int next = only_child(f, nest);
  const bool two = next >= 0 && is_serial(f, next) && independent(f, next) && longest(f, next) >= 2;
  switch (style) {
  case Style::Groups: {
    // Enough groups to share out evenly, each with enough work to be worth starting.
    const auto chunk = static_cast<int64_t>(std::ceil(f.loops[nest].extent / (8.0 * c.target.threads)));
    if (!c.target.gpu && chunk >= 2 && chunk < longest(f, nest)) {
      out.push_back(move_split(name, chunk));
      out.push_back(move_bind(name + ".o", "group", 0));
    } else {
      out.push_back(move_bind(name, "group", 0));
    }
    return;
  }
  case Style::GroupsOfTwoAxes:
    out.push_back(move_bind(name, "group", two ? 1 : 0));
    if (two) out.push_back(move_bind(loop_name(f, next), "group", 0));
    return;
  case Style::GroupsAndItems: {
    const int64_t items = c.target.gpu ? 128 : 16;
    if (longest(f, nest) <= items) return;
    out.push_back(move_split(name, items));
    out.push_back(move_bind(name + ".o", "group", 0));
    out.push_back(move_bind(name + ".i", "local", 0));
    return;
  }
  case Style::ItemsOfTwoAxes: {
    if (!two || longest(f, nest) <= 8 || longest(f, next) <= 8) return;
    const std::string inner = loop_name(f, next);
    const int64_t items = c.target.gpu ? 16 : 8;
    if (longest(f, nest) <= items || longest(f, next) <= items) return;
    out.push_back(move_split(name, items));
    out.push_back(move_split(inner, items));
    out.push_back(move_reorder({name + ".o", inner + ".o", name + ".i", inner + ".i"}));
    out.push_back(move_bind(name + ".o", "group", 1));
    out.push_back(move_bind(inner + ".o", "group", 0));
    out.push_back(move_bind(name + ".i", "local", 1));
    out.push_back(move_bind(inner + ".i", "local", 0));
    return;
  }
  }
}

/// A reduction by blocks of its operands in local memory: groups over tiles of the output, the block loop,
/// then work-items.
void stage_operands(const SuggestContext& c, std::vector<Proposal>& out) {
  const Features& f = c.features;
  for (const Leaf& leaf : leaves_of(f)) {
    if (!leaf.combine || leaf.random || leaf.own != 0 || leaf.vectorised || leaf.stage < 0) continue;
    std::vector<int> rows, reduce;
    for (int l : leaf.loops) (f.stride(f.accesses[leaf.store], l) != 0 ? rows : reduce).push_back(l);
    if (rows.size() < 2 || reduce.empty()) continue;
    const int i = rows[rows.size() - 2], j = rows.back(), r = reduce.back();
    const int64_t block = c.target.gpu ? 16 : 8;
    if (longest(f, i) <= block || longest(f, j) <= block || longest(f, r) <= block) continue;
    if (!is_serial(f, i) || !is_serial(f, j) || !is_serial(f, r)) continue;
    const std::string in = loop_name(f, i), jn = loop_name(f, j), rn = loop_name(f, r);
    Proposal p{{}, "operands of " + leaf.buffer + " through local memory"};
    p.moves = {move_split(in, block), move_split(jn, block), move_split(rn, block)};
    std::vector<std::string> order;
    for (size_t k = 0; k + 2 < rows.size(); ++k) order.push_back(loop_name(f, rows[k]));
    order.insert(order.end(), {in + ".o", jn + ".o"});
    for (size_t k = 0; k + 1 < reduce.size(); ++k) order.push_back(loop_name(f, reduce[k]));
    order.insert(order.end(), {rn + ".o", in + ".i", jn + ".i", rn + ".i"});
    p.moves.push_back(move_reorder(order));
    p.moves.push_back(move_bind(in + ".o", "group", 1));
    p.moves.push_back(move_bind(jn + ".o", "group", 0));
    p.moves.push_back(move_bind(in + ".i", "local", 1));
    p.moves.push_back(move_bind(jn + ".i", "local", 0));
    for (int a = leaf.first; a < leaf.store; ++a)
      if (!f.accesses[a].random)
        p.moves.push_back(
            move_pack(leaf.buffer, f.buffers[f.accesses[a].buffer].buffer->name, rn + ".o", "local"));
    p.moves.push_back(move_accumulate(leaf.buffer, rn + ".i"));
    out.push_back(std::move(p));
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
    Proposal p{{}, why};
    for (int nest = 0; nest < static_cast<int>(f.loops.size()); nest = f.loops[nest].end)
      bind_nest(c, nest, style, p.moves);
    if (!p.moves.empty()) proposals.push_back(std::move(p));
  }
  if (c.thorough || c.target.gpu) stage_operands(c, proposals);
  return proposals;
}

} // namespace lathe::search
