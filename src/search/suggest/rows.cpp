// Reductions across rows: a few rows are combined in registers before they reach the results, which are
// walked through again and again and stay in a near cache. So every row is read in its whole length, as it
// lies.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// Among the leaf's own loops: along the results, and the one across rows that lie closest.
struct Rows {
  int along = -1, across = -1;
};

Rows rows_of(const Features& f, const Leaf& leaf) {
  Rows rows;
  double closest = 0;
  for (size_t i = leaf.own; i < leaf.loops.size(); ++i) {
    const int l = leaf.loops[i];
    if (!is_serial(f, l)) return {};
    const double stored = f.stride(f.accesses[leaf.store], l);
    if (stored == 1) rows.along = l;
    for (int a = leaf.first; a < leaf.store && stored == 0; ++a) {
      const double step = std::abs(f.stride(f.accesses[a], l));
      if (step <= 1 || (rows.across >= 0 && step >= closest)) continue;
      rows.across = l;
      closest = step;
    }
  }
  for (int a = leaf.first; a < leaf.store && rows.along >= 0; ++a)
    if (std::abs(f.stride(f.accesses[a], rows.along)) > 1) return {};
  return rows;
}

} // namespace

std::vector<Proposal> suggest_rows(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : leaves_of(f)) {
    if (!leaf.combine || leaf.merged || leaf.random || leaf.vectorised || leaf.stage < 0) continue;
    if (f.buffers[f.accesses[leaf.store].buffer].buffer->scope == ast::Scope::Register) continue;
    const Rows rows = rows_of(f, leaf);
    const int lanes = lanes_of(f, leaf, c.target);
    if (rows.along < 0 || rows.across < 0 || lanes < 2 || longest(f, rows.along) <= lanes) continue;
    const std::string i = loop_name(f, rows.along), r = loop_name(f, rows.across);
    for (int64_t count : c.thorough ? std::vector<int64_t>{4, 8, 16} : std::vector<int64_t>{8}) {
      if (longest(f, rows.across) <= count) continue;
      Proposal p{{}, fmt::format("{} rows at a time into {}", count, leaf.buffer)};
      p.moves = {move_split(r, count), move_split(i, lanes)};
      std::vector<std::string> order;
      for (size_t k = leaf.own; k < leaf.loops.size(); ++k)
        if (leaf.loops[k] != rows.along && leaf.loops[k] != rows.across)
          order.push_back(loop_name(f, leaf.loops[k]));
      order.insert(order.end(), {r + ".o", i + ".o", r + ".i", i + ".i"});
      const std::string copy = fmt::format("t{}.a{}", leaf.stage, next_scratch(c.kernel.kernel, leaf.stage));
      p.moves.push_back(move_reorder(order));
      p.moves.push_back(move_accumulate(leaf.buffer, r + ".i"));
      for (const std::string& lane : {i + ".i", copy + ".z0", copy + ".w0"})
        p.moves.push_back(move_vectorise(lane));
      p.moves.push_back(move_unroll(r + ".i"));
      proposals.push_back(std::move(p));
    }
  }
  return proposals;
}

} // namespace lathe::search
