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
  for (const Leaf& leaf : c.leaves()) {
    if (!leaf.combine || leaf.merged || leaf.random || leaf.vectorised) continue;
    if (f.buffers[f.accesses[leaf.store].buffer].buffer->scope == ast::Scope::Register) continue;
    const Rows rows = rows_of(f, leaf);
    const int lanes = lanes_of(f, leaf, c.target);
    if (rows.along < 0 || rows.across < 0 || lanes < 2 || longest(f, rows.along) <= lanes) continue;
    const LoopHandle i = c.loop(rows.along), r = c.loop(rows.across);
    for (int64_t count : c.thorough ? std::vector<int64_t>{4, 8, 16} : std::vector<int64_t>{8}) {
      if (longest(f, rows.across) <= count) continue;
      Script script(c.kernel);
      const Halves rs = script.split(r, count), is = script.split(i, lanes);
      std::vector<LoopHandle> order;
      for (size_t k = leaf.own; k < leaf.loops.size(); ++k)
        if (leaf.loops[k] != rows.along && leaf.loops[k] != rows.across)
          order.push_back(c.loop(leaf.loops[k]));
      order.insert(order.end(), {rs.outer, is.outer, rs.inner, is.inner});
      script.reorder(order);
      const Accumulator copy = script.accumulate(leaf.result, rs.inner);
      for (const LoopHandle lane : {is.inner, copy.setting(0), copy.writing(0)}) script.vectorise(lane);
      script.unroll(rs.inner);
      proposals.push_back(
          {script.take(), fmt::format("{} rows at a time into {}", count, leaf.result.name())});
    }
  }
  return proposals;
}

} // namespace lathe::search
