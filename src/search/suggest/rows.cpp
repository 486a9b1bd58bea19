// Proposes reductions across rows that combine a few rows in registers before they reach the results. The
// results are read and written again and again and stay in a near cache. So every row is read in its whole
// length, from beginning to end.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// Two of the leaf's own loops: along the results, and across the rows that lie closest; -1: none.
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

/// Whether an operand is read once, from beginning to end. Its rows are then streams that the hardware
/// foresees, and the longer each read, the better.
bool streams(const Features& f, const Leaf& leaf, const Rows& rows) {
  for (int a = leaf.first; a < leaf.store; ++a) {
    bool once = f.stride(f.accesses[a], rows.along) == 1;
    for (size_t i = leaf.own; i < leaf.loops.size(); ++i) once &= f.stride(f.accesses[a], leaf.loops[i]) != 0;
    if (once) return true;
  }
  return false;
}

/// Number of rows, and of vectors of each row, that are read at a time.
struct Block {
  int64_t rows, vectors;
};

Proposal by_blocks(const SuggestContext& c, const Leaf& leaf, const Rows& rows, Block block, int64_t lanes,
                   bool sets_by_vectors) {
  Script script(c.kernel);
  const LoopHandle along = c.loop(rows.along);
  const Halves rs = script.split(c.loop(rows.across), block.rows),
               is = script.split(along, lanes * block.vectors);
  LoopHandle lane = is.inner, vectors;
  if (block.vectors > 1) {
    const Halves halves = script.split(is.inner, lanes);
    vectors = halves.outer;
    lane = halves.inner;
  }
  std::vector<LoopHandle> order;
  for (size_t k = leaf.own; k < leaf.loops.size(); ++k)
    if (leaf.loops[k] != rows.along && leaf.loops[k] != rows.across) order.push_back(c.loop(leaf.loops[k]));
  order.insert(order.end(), {rs.outer, is.outer, rs.inner});
  if (vectors) order.push_back(vectors);
  order.push_back(lane);
  script.reorder(order);
  const Accumulator copy = script.accumulate(leaf.result, rs.inner);
  script.vectorise(lane);
  script.vectorise(copy.setting(vectors ? 1 : 0));
  script.vectorise(copy.writing(vectors ? 1 : 0));
  script.unroll(vectors ? vectors : rs.inner);
  if (vectors) {
    script.unroll(copy.setting(0));
    script.unroll(copy.writing(0));
  }
  if (sets_by_vectors) script.vectorise(script.split(along.setting(), lanes).inner);
  return {script.take(), fmt::format("{} rows at a time into {}, {} vectors of each", block.rows,
                                     leaf.result.name(), block.vectors)};
}

} // namespace

std::vector<Proposal> suggest_rows(const SuggestContext& c) {
  static const std::vector<Block> kFew{{8, 1}}, kSome{{4, 1}, {8, 1}, {16, 1}},
      kFewOfStreams{{8, 1}, {16, 8}},
      kManyOfStreams{{4, 1}, {8, 1}, {16, 1}, {4, 8}, {8, 8}, {16, 8}, {32, 8}, {8, 4}, {16, 4}, {8, 16}};
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : c.leaves()) {
    if (!leaf.combine || leaf.merged || leaf.random || leaf.vectorised) continue;
    if (f.buffers[f.accesses[leaf.store].buffer].buffer->scope == ast::Scope::Register) continue;
    const Rows rows = rows_of(f, leaf);
    const int lanes = lanes_of(f, leaf, c.target);
    if (rows.along < 0 || rows.across < 0 || lanes < 2 || longest(f, rows.along) <= lanes) continue;
    const bool is_stream = streams(f, leaf, rows);
    for (const Block block : is_stream    ? c.thorough ? kManyOfStreams : kFewOfStreams
                             : c.thorough ? kSome
                                          : kFew)
      if (longest(f, rows.across) > block.rows && longest(f, rows.along) > lanes * block.vectors)
        proposals.push_back(by_blocks(c, leaf, rows, block, lanes, is_stream));
  }
  return proposals;
}

} // namespace lathe::search
