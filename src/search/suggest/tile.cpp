#include "search/suggest/tile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "search/machine/machine_limits.hpp"
#include "search/moves/draft.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kSmallOperand = 256 << 10;         // bytes; stays in the second-level cache while in use
constexpr int64_t kLeastSteps = 8, kMostSteps = 32; // of the reduction, prefetched for at once
constexpr int64_t kLeastAhead = 64 << 10, kMostAhead = 512 << 10; // bytes of a constant read only once

class Builder {
public:
  Builder(const TileProblem& p, const TileChoice& c)
      : p_(p), c_(c), row_(info(c.instruction.value_or(Instruction::MultiplyAdd))), script_(p.numbers) {}

  Proposal build() {
    const TileProblem::Loop& n = p_.out[c_.vector];
    const int64_t width = int64_t{p_.lanes} * c_.vectors;
    // The loops to split: those of the consumer, if there is one.
    LoopHandle n_rest = n.around_inner ? n.around_inner : nest_loop(n);
    int64_t n_extent = n.around_inner ? n.inner_extent : n.extent;
    LoopHandle lanes_loop; // set where the consumer's inner loop is just one vector
    if (n.around_inner && n_extent < width) {
      if (n_extent != p_.lanes || c_.vector_block > 0) return {};
      lanes_loop = n.around_inner;
      n_rest = n.around;
      n_extent = n.extent / n.inner_extent;
    }
    if (c_.vector_block > 0) {
      const Halves b = split(n_rest, n_extent, c_.vector_block);
      block_ = b.outer;
      n_rest = b.inner;
    }
    Halves n_tile, n_vector;
    if (!lanes_loop) {
      n_tile = split(n_rest, c_.vector_block > 0 ? c_.vector_block : n_extent, width);
      n_vector = split(n_tile.inner, std::min(n_extent, width), p_.lanes);
    } else {
      n_tile = split(n_rest, n_extent, c_.vectors);
      if (c_.vectors == 1) n_tile = {n_rest, {}};
      n_vector = {n_tile.inner, lanes_loop};
    }
    Halves m_tile;
    if (c_.rows >= 0) {
      const TileProblem::Loop& m = p_.out[c_.rows];
      const LoopHandle loop = m.around_inner ? m.around_inner : nest_loop(m);
      m_tile = split(loop, m.around_inner ? m.inner_extent : m.extent, tall());
      if (tall() == 1) m_tile = {loop, {}};
    }

    std::vector<LoopHandle> reduce_outer, reduce;
    cut_reduction(reduce_outer, reduce);
    const LoopHandle asking = cut_for_hints(reduce, m_tile.outer);

    // Outside the tile: batch axes, blocks of the reduction and of the columns, then the two tile loops.
    std::vector<LoopHandle> outside;
    if (c_.panels_outside) add(outside, n_tile.outer);
    for (size_t i = 0; i < p_.out.size(); ++i) {
      const bool in_tile = static_cast<int>(i) == c_.vector || static_cast<int>(i) == c_.rows;
      if (in_tile && p_.out[i].around_inner && n_rest != p_.out[i].around)
        outside.push_back(p_.out[i].around);
      if (in_tile) continue;
      outside.push_back(nest_loop(p_.out[i]));
      add(outside, p_.out[i].around_inner);
    }
    outside.insert(outside.end(), reduce_outer.begin(), reduce_outer.end());
    add(outside, block_);
    const bool inside_vectors = !c_.rows_outside && c_.vector_block <= 0 && n_tile.outer;
    const size_t vector_pack = c_.panels_outside ? 1 : outside.size() + (inside_vectors ? 1 : 0);
    const LoopHandle panels = c_.panels_outside ? LoopHandle() : n_tile.outer;
    add(outside, c_.rows_outside || c_.vector_block > 0 ? m_tile.outer : panels);
    const bool has_first = outside.size() > 0;
    add(outside, c_.rows_outside || c_.vector_block > 0 ? panels : m_tile.outer);
    if (p_.fused()) {
      std::vector<LoopHandle> tile;
      add(tile, m_tile.inner);
      add(tile, n_vector.outer);
      tile.push_back(n_vector.inner);
      return fused(outside, tile, n, reduce, vector_pack, m_tile, n_tile.outer, has_first);
    }
    const Tile tile = tile_of(m_tile.inner, n_vector);
    const TensorLoops tensor = cut_for_instruction(reduce);
    if (c_.instruction && (!tensor.k || (row_.is_tile() && !tensor.k_rows))) return {};
    const std::vector<LoopHandle> nest = tensor.with(tile.loops);
    std::vector<LoopHandle> order = outside;
    order.insert(order.end(), reduce.begin(), reduce.end());
    order.insert(order.end(), nest.begin(), nest.end());
    if (order.size() > 1) script_.reorder(order);
    StoredHandle sums = p_.result;
    Accumulator copy;
    const auto accumulate = [&] {
      copy = script_.accumulate(p_.result, reduce.empty() ? nest[0] : reduce[0]);
    };
    if (c_.instruction) { // before operands are packed: their copies hold zeros for what is past the ends
      accumulate();
      sums = copy.buffer;
      tensorise(sums, nest, tensor);
    }
    prefetch(n_tile.outer, m_tile.outer, asking);
    pack(sums, outside, vector_pack, m_tile.outer, inside_of(reduce, nest));
    prefetch_constants(outside, reduce.empty() ? LoopHandle() : reduce.back());
    if (!c_.instruction) {
      accumulate();
      finish_tile(tile);
    }
    Tile clear{{}, tile.rows}, write{{}, tile.rows};
    for (size_t d = 0; d < tile.loops.size(); ++d) {
      clear.loops.push_back(copy.setting(static_cast<int>(d)));
      write.loops.push_back(copy.writing(static_cast<int>(d)));
    }
    finish_tile(clear);
    finish_tile(write);
    // The first block of the reduction stores its results; the others add to them.
    if (reduce_outer.size() == 1) script_.add(MoveKind::StoreFirst, p_.result, reduce_outer.front());
    return {script_.take(), describe()};
  }

private:
  LoopHandle nest_loop(const TileProblem::Loop& l) const { return l.around ? l.around : l.name; }
  static void add(std::vector<LoopHandle>& to, LoopHandle loop) {
    if (loop) to.push_back(loop);
  }

  /// Order of the reducing loops: those with the longest steps outermost, so that an operand is read line by
  /// line. Packable constants don't count, since their copies follow any order.
  std::vector<int> reduce_order() const {
    std::vector<double> step(p_.reduce.size(), 0);
    for (const auto& operand : p_.operands)
      for (size_t i = 0; i < step.size(); ++i)
        if (!operand.constant || !operand.packable) step[i] += std::abs(operand.reduce_strides[i]);
    std::vector<int> order(step.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return step[a] > step[b]; });
    return order;
  }

  /// The reducing loops outside of a block and inside, outermost first. A block is a part of the loop along
  /// an instruction's k, or else of the longest loop. Where no loop is as long as a block, it is as many
  /// iterations of the innermost loops together.
  void cut_reduction(std::vector<LoopHandle>& outside, std::vector<LoopHandle>& inside) {
    const std::vector<int> order = reduce_order();
    const auto extent = [&](int i) { return p_.reduce[i].extent; };
    int along = c_.instruction ? c_.inner : 0;
    for (int i = 1; i < static_cast<int>(order.size()) && !c_.instruction; ++i)
      if (extent(i) > extent(along)) along = i;
    const bool blocks = c_.reduce_block > 0 && !p_.fused();
    const bool together = blocks && !c_.instruction && extent(along) <= c_.reduce_block;
    int64_t left = c_.reduce_block; // iterations of the loops not yet visited that a block still takes
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      Halves halves{{}, p_.reduce[*i].name};
      if (together || (blocks && *i == along)) halves = split(halves.inner, extent(*i), left);
      if (together) left = halves.outer ? 1 : left / std::max<int64_t>(1, extent(*i));
      if (blocks && *i == along) reduce_outer_ = halves.outer;
      if (halves.outer) outside.insert(outside.begin(), halves.outer);
      if (halves.inner) inside.insert(inside.begin(), halves.inner);
    }
  }

  /// Splits the loop. Where there is nothing to split, one of the halves is empty.
  Halves split(LoopHandle loop, int64_t extent, int64_t factor) {
    if (factor <= 1) return {loop, {}};
    if (extent <= factor) return {{}, loop};
    const Halves halves = script_.split(loop, factor);
    trips_.emplace_back(halves.outer, (extent + factor - 1) / factor);
    return halves;
  }

  /// The loops of a tile, outermost first. `rows`: the position of the rows of an instruction on tiles; -1:
  /// none.
  struct Tile {
    std::vector<LoopHandle> loops;
    int rows = -1;
  };
  /// `rows`: the loop over the rows of the tile. Those of one instruction lie inside the tiles along the
  /// lanes.
  Tile tile_of(LoopHandle rows, const Halves& vectors) {
    Tile tile;
    Halves tiles{rows, {}};
    if (row_.is_tile()) tiles = split(rows, std::min(p_.out[c_.rows].extent, tall()), c_.each);
    add(tile.loops, tiles.outer);
    add(tile.loops, vectors.outer);
    if (row_.is_tile()) tile.rows = static_cast<int>(tile.loops.size());
    add(tile.loops, tiles.inner);
    tile.loops.push_back(vectors.inner);
    return tile;
  }

  /// The rows of the whole tile.
  int64_t tall() const { return c_.height * c_.each; }

  /// Vectorises the last loop of the tile and unrolls the others, which are copies of it.
  void finish_tile(const Tile& tile) {
    script_.vectorise(tile.loops.back());
    for (size_t i = 0; i + 1 < tile.loops.size(); ++i)
      if (static_cast<int>(i) != tile.rows) script_.unroll(tile.loops[i]);
  }

  /// The loops that an instruction takes besides those of the tile: rows of k, and k.
  struct TensorLoops {
    LoopHandle k_rows, k;
    size_t count() const { return k_rows ? 4 : 2; }
    std::vector<LoopHandle> with(std::vector<LoopHandle> tile) const {
      if (k_rows) tile.insert(tile.end() - 1, k_rows);
      add(tile, k);
      return tile;
    }
  };
  /// Cuts the loops that an instruction takes off the reducing loops.
  TensorLoops cut_for_instruction(std::vector<LoopHandle>& reduce) {
    if (!c_.instruction) return {};
    const LoopHandle inner = p_.reduce[c_.inner].name;
    const auto place = std::find_if(reduce.begin(), reduce.end(), [&](LoopHandle loop) {
      return loop.is_part_of(inner) && loop != reduce_outer_;
    });
    const LoopHandle loop = *place;
    reduce.erase(place);
    int64_t extent = p_.reduce[c_.inner].extent;
    if (reduce_outer_) extent = std::min(extent, c_.reduce_block);
    const Halves steps = split(loop, extent, c_.depth);
    add(reduce, steps.outer);
    if (!row_.is_tile()) return {{}, steps.inner};
    const Halves k = split(steps.inner, std::min(extent, c_.depth), row_.pack);
    return {k.outer, k.inner};
  }

  static std::vector<LoopHandle> inside_of(std::vector<LoopHandle> reduce,
                                           const std::vector<LoopHandle>& nest) {
    reduce.insert(reduce.end(), nest.begin(), nest.end());
    return reduce;
  }

  void tensorise(StoredHandle sums, const std::vector<LoopHandle>& nest, const TensorLoops& tensor) {
    const auto first = nest.end() - static_cast<std::ptrdiff_t>(tensor.count());
    Move move{MoveKind::Tensorise, {sums}};
    move.arguments.insert(move.arguments.end(), first, nest.end());
    script_.add({std::move(move)});
    for (auto loop = nest.begin(); loop != first; ++loop) script_.unroll(*loop);
  }

  /// Whether prefetches for the next tile along the lanes cover this operand.
  bool is_asked_for(const TileProblem::Operand& operand) const {
    return operand.packable && !operand.constant && operand.out_strides[c_.vector] != 0;
  }

  /// The reducing loop that prefetches operands of the next tile along the lanes. Where there are more tiles
  /// of rows than cache lines in a step of the loop, it is split. Each iteration then covers a few steps, so
  /// that most tiles prefetch equally many lines.
  LoopHandle cut_for_hints(std::vector<LoopHandle>& reduce, LoopHandle spread) {
    const LoopHandle last = reduce.back();
    const bool asks = std::any_of(p_.operands.begin(), p_.operands.end(),
                                  [&](const auto& operand) { return is_asked_for(operand); });
    if (c_.hint_streams == 0 || c_.instruction || !asks || !spread || p_.fused() || p_.reduce.size() != 1)
      return last;
    const int64_t whole = p_.reduce[0].extent;
    const int64_t extent = c_.reduce_block > 0 ? std::min(c_.reduce_block, whole) : whole;
    int64_t bytes = 1; // of one element of the widest prefetched operand
    for (const auto& operand : p_.operands)
      if (is_asked_for(operand)) bytes = std::max(bytes, operand.element_bytes);
    const int64_t lines = std::max<int64_t>(1, int64_t{p_.lanes} * c_.vectors * bytes / kCacheLine);
    const int64_t evenly = std::max<int64_t>(1, trips(spread) / lines);
    if (evenly == 1) return last;
    const auto steps = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(evenly)));
    const Halves r = split(last, extent, std::clamp(steps, kLeastSteps, kMostSteps));
    if (!r.outer) return last;
    reduce.back() = r.outer;
    reduce.push_back(r.inner);
    return r.outer;
  }

  void ask(BufferHandle buffer, LoopHandle ahead, LoopHandle spread, LoopHandle at) {
    script_.add(MoveKind::PrefetchTile, p_.result, buffer, ahead, spread, at, c_.hint_streams);
  }

  /// Prefetches the operand along the lanes for the next tile during this one; in a batch of small operands,
  /// for the next of the batch.
  void prefetch(LoopHandle ahead, LoopHandle spread, LoopHandle at) {
    if (c_.hint_streams == 0 || !ahead || !spread) return;
    for (const auto& operand : p_.operands) {
      if (!is_asked_for(operand)) continue;
      const auto bytes = static_cast<double>(operand.element_bytes);
      LoopHandle next = ahead;
      for (size_t i = 0; i < p_.out.size(); ++i)
        if (static_cast<int>(i) != c_.vector && static_cast<int>(i) != c_.rows &&
            operand.out_strides[i] != 0 && std::abs(operand.out_strides[i]) * bytes <= kSmallOperand)
          next = nest_loop(p_.out[i]);
      ask(operand.buffer, next, spread, at);
    }
  }

  /// Packs each operand at the outermost loop inside which it is reused. For the operand along the lanes,
  /// `vector_at` loops of `outside` lie around that place.
  /// `inside`: the loops inside `outside`, in order.
  void pack(StoredHandle sums, const std::vector<LoopHandle>& outside, size_t vector_at,
            LoopHandle rows_outer, const std::vector<LoopHandle>& inside) {
    for (const auto& operand : p_.operands) {
      if (!operand.packable) continue;
      if (operand.constant) {
        constants_.push_back(script_.prepack(StageHandle(p_.result.stage()), operand.buffer));
        if (c_.widen_rows && operand.out_strides[c_.vector] == 0)
          script_.add(MoveKind::Widen, constants_.back());
        continue;
      }
      const bool along_vector = operand.out_strides[c_.vector] != 0;
      const bool along_rows = c_.rows >= 0 && operand.out_strides[c_.rows] != 0;
      if (along_vector && !along_rows && c_.pack_vector && vector_at > 0) {
        const PackedCopy copy =
            script_.pack(sums, operand.buffer, outside[vector_at - 1], ast::Scope::Packed);
        // The last filling loop runs along the lanes, so the copy is made with vectors, too.
        const int dimensions = pack_dimensions(operand, outside, vector_at, inside);
        if (c_.instruction) {
          script_.add(MoveKind::Tensorise, StoredHandle(copy.buffer), copy.filling(dimensions - 2),
                      copy.filling(dimensions - 1));
        } else {
          script_.vectorise(copy.filling(dimensions - 1));
        }
      } else if (along_rows && !along_vector && c_.pack_rows && rows_outer && c_.rows_outside) {
        const PackedCopy copy = script_.pack(sums, operand.buffer, rows_outer, ast::Scope::Packed);
        if (c_.widen_rows) script_.add(MoveKind::Widen, copy.buffer);
      }
    }
  }

  bool moves_along(const TileProblem::Operand& operand, LoopHandle loop) const {
    for (size_t i = 0; i < p_.out.size(); ++i) {
      const TileProblem::Loop& out = p_.out[i];
      for (const LoopHandle whole : {out.name, out.around, out.around_inner})
        if (whole && loop.is_part_of(whole)) return operand.out_strides[i] != 0;
    }
    for (size_t i = 0; i < p_.reduce.size(); ++i)
      if (loop.is_part_of(p_.reduce[i].name)) return operand.reduce_strides[i] != 0;
    return false;
  }

  /// Prefetches the next block of each constant while rows are multiplied with this one. If all constants of
  /// a program exceed a cache, each run reads them from a farther level.
  void prefetch_constants(const std::vector<LoopHandle>& outside, LoopHandle at) {
    if (c_.hint_streams == 0 || c_.instruction) return;
    auto copy = constants_.begin();
    for (const auto& operand : p_.operands) {
      if (!operand.packable || !operand.constant) continue;
      const BufferHandle constant = *copy++;
      if (operand.out_strides[c_.vector] == 0) continue;
      const auto reused = std::find_if(outside.begin(), outside.end(),
                                       [&](LoopHandle loop) { return !moves_along(operand, loop); });
      if (reused == outside.begin()) continue;
      if (reused != outside.end())
        ask(constant, *(reused - 1), *reused, at);
      else if (const LoopHandle ahead = read_once_by(outside, operand))
        ask(constant, ahead, at, at);
    }
  }

  /// The loop by which to prefetch a constant that no outer loop reuses: the innermost whose iterations read
  /// enough for several streams. Empty if two such iterations do not fit a near cache.
  LoopHandle read_once_by(const std::vector<LoopHandle>& outside, const TileProblem::Operand& operand) const {
    if (outside.empty()) return {};
    int64_t bytes =
        operand.element_bytes * std::min<int64_t>(p_.out[c_.vector].extent, int64_t{p_.lanes} * c_.vectors);
    for (const auto& r : p_.reduce) bytes *= r.extent;
    size_t k = outside.size() - 1;
    while (bytes < kLeastAhead && k > 0) bytes *= trips(outside[k--]);
    return bytes > kMostAhead ? LoopHandle() : outside[k];
  }
  int64_t trips(LoopHandle loop) const {
    for (const auto& [outer, trips] : trips_)
      if (outer == loop) return trips;
    for (const auto& l : p_.out)
      if (nest_loop(l) == loop) return l.extent;
    return 1;
  }

  /// Number of loops inside outside[at - 1] along which the operand moves.
  int pack_dimensions(const TileProblem::Operand& operand, const std::vector<LoopHandle>& outside, size_t at,
                      const std::vector<LoopHandle>& inside) const {
    int n = 0;
    for (size_t i = at; i < outside.size(); ++i) n += moves_along(operand, outside[i]);
    for (const LoopHandle loop : inside) n += moves_along(operand, loop);
    return n;
  }

  Proposal fused(std::vector<LoopHandle>& outside, const std::vector<LoopHandle>& tile,
                 const TileProblem::Loop& n, std::vector<LoopHandle> reduce, size_t vector_pack,
                 const Halves& m_tile, LoopHandle n_outer, bool has_first) {
    if (!has_first || outside.empty()) return {};
    std::vector<LoopHandle> order = outside;
    order.insert(order.end(), tile.begin(), tile.end());
    if (order.size() > 1) script_.reorder(order);
    script_.add(MoveKind::FuseAt, StageHandle(p_.result.stage()), Place(outside.back()),
                ast::Scope::Register);
    // The fused reduction has loops of its own over the tile: split and order them like the consumer's.
    const auto inner_tile = [&](LoopHandle n_loop, LoopHandle m_loop) {
      return tile_of(m_loop,
                     split(n_loop, std::min<int64_t>(n.extent, int64_t{p_.lanes} * c_.vectors), p_.lanes));
    };
    const auto put_in_order = [&](std::vector<LoopHandle> loops, const std::vector<LoopHandle>& inside) {
      loops.insert(loops.end(), inside.begin(), inside.end());
      if (loops.size() > 1) script_.reorder(loops);
    };
    const LoopHandle m_loop = m_tile.inner ? p_.out[c_.rows].name : LoopHandle();
    const Tile update = inner_tile(n.name, m_loop);
    const TensorLoops tensor = cut_for_instruction(reduce);
    if (c_.instruction && (!tensor.k || (row_.is_tile() && !tensor.k_rows))) return {};
    const std::vector<LoopHandle> nest = tensor.with(update.loops);
    put_in_order(reduce, nest);
    const Tile clear = inner_tile(n.name.setting(), m_loop ? m_loop.setting() : m_loop);
    put_in_order({}, clear.loops);
    if (c_.instruction) tensorise(p_.result, nest, tensor);
    prefetch(n_outer, m_tile.outer, reduce.empty() ? LoopHandle() : reduce.back());
    pack(p_.result, outside, vector_pack, m_tile.outer, inside_of(reduce, nest));
    prefetch_constants(outside, reduce.empty() ? LoopHandle() : reduce.back());
    if (!c_.instruction) finish_tile(update);
    finish_tile(clear);
    finish_tile({tile, row_.is_tile() && m_tile.inner ? 0 : -1});
    return {script_.take(), describe()};
  }

  std::string describe() const {
    return "tile of " + std::to_string(c_.height) + " x " + std::to_string(c_.vectors) +
           (c_.instruction ? " of " + std::string(row_.name) : " vectors") +
           (c_.panels_outside ? ", panels outermost" : "") + (c_.pack_vector ? ", packed" : "") +
           (c_.pack_rows ? ", rows packed" : "") + (c_.widen_rows ? ", rows widened" : "") +
           (c_.vector_block ? ", blocks of " + std::to_string(c_.vector_block) : "") +
           (c_.reduce_block ? ", reduction by " + std::to_string(c_.reduce_block) : "") +
           (c_.hint_streams > 0 ? ", the next one prefetched" : "");
  }

  const TileProblem& p_;
  const TileChoice& c_;
  const InstructionInfo& row_;
  Script script_;
  std::vector<std::pair<LoopHandle, int64_t>> trips_; // of the outer loops that splits made
  std::vector<BufferHandle> constants_;               // the copies, in the order of the operands
  LoopHandle block_, reduce_outer_;
};

} // namespace

Proposal tile_moves(const TileProblem& problem, const TileChoice& choice) {
  return Builder(problem, choice).build();
}

} // namespace lathe::search
