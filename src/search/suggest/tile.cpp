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
  Builder(const TileProblem& p, const TileChoice& c) : p_(p), c_(c), script_(p.numbers) {}

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
      m_tile = split(loop, m.around_inner ? m.inner_extent : m.extent, c_.height);
      if (c_.height == 1) m_tile = {loop, {}};
    }

    std::vector<LoopHandle> reduce_outer, reduce;
    int longest = 0;
    for (size_t i = 0; i < p_.reduce.size(); ++i)
      if (p_.reduce[i].extent > p_.reduce[longest].extent) longest = static_cast<int>(i);
    for (int i : reduce_order()) {
      LoopHandle loop = p_.reduce[i].name;
      if (c_.reduce_block > 0 && i == longest && !p_.fused()) {
        const Halves r = split(loop, p_.reduce[i].extent, c_.reduce_block);
        if (r.outer) reduce_outer.push_back(r.outer);
        loop = r.inner;
      }
      reduce.push_back(loop);
    }

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
    for (auto& r : reduce_outer) outside.push_back(r);
    add(outside, block_);
    const bool inside_vectors = !c_.rows_outside && c_.vector_block <= 0 && n_tile.outer;
    const size_t vector_pack = c_.panels_outside ? 1 : outside.size() + (inside_vectors ? 1 : 0);
    const LoopHandle panels = c_.panels_outside ? LoopHandle() : n_tile.outer;
    add(outside, c_.rows_outside || c_.vector_block > 0 ? m_tile.outer : panels);
    const bool has_first = outside.size() > 0;
    add(outside, c_.rows_outside || c_.vector_block > 0 ? panels : m_tile.outer);
    std::vector<LoopHandle> tile;
    add(tile, m_tile.inner);
    add(tile, n_vector.outer);
    tile.push_back(n_vector.inner);

    if (p_.fused()) return fused(outside, tile, n, reduce, vector_pack, m_tile, n_tile.outer, has_first);

    std::vector<LoopHandle> order = outside;
    order.insert(order.end(), reduce.begin(), reduce.end());
    order.insert(order.end(), tile.begin(), tile.end());
    if (order.size() > 1) script_.reorder(order);
    prefetch(n_tile.outer, m_tile.outer, asking);
    pack(outside, vector_pack, m_tile.outer);
    prefetch_constants(outside, reduce.back());
    const Accumulator copy = script_.accumulate(p_.result, reduce.front());
    finish_tile(tile);
    std::vector<LoopHandle> clear, write;
    for (size_t d = 0; d < tile.size(); ++d) {
      clear.push_back(copy.setting(static_cast<int>(d)));
      write.push_back(copy.writing(static_cast<int>(d)));
    }
    finish_tile(clear);
    finish_tile(write);
    // The first block of the reduction stores its results; the others add to them.
    if (!reduce_outer.empty()) script_.add(MoveKind::StoreFirst, p_.result, reduce_outer.front());
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

  /// Splits the loop. Where there is nothing to split, one of the halves is empty.
  Halves split(LoopHandle loop, int64_t extent, int64_t factor) {
    if (factor <= 1) return {loop, {}};
    if (extent <= factor) return {{}, loop};
    const Halves halves = script_.split(loop, factor);
    trips_.emplace_back(halves.outer, (extent + factor - 1) / factor);
    return halves;
  }

  /// Vectorises the last loop of the tile and unrolls the others, which are copies of it.
  void finish_tile(const std::vector<LoopHandle>& tile) {
    script_.vectorise(tile.back());
    for (size_t i = 0; i + 1 < tile.size(); ++i) script_.unroll(tile[i]);
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
    if (c_.hint_streams == 0 || !asks || !spread || p_.fused() || p_.reduce.size() != 1) return last;
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
  void pack(const std::vector<LoopHandle>& outside, size_t vector_at, LoopHandle rows_outer) {
    for (const auto& operand : p_.operands) {
      if (!operand.packable) continue;
      if (operand.constant) {
        constants_.push_back(script_.prepack(StageHandle(p_.result.stage()), operand.buffer));
        continue;
      }
      const bool along_vector = operand.out_strides[c_.vector] != 0;
      const bool along_rows = c_.rows >= 0 && operand.out_strides[c_.rows] != 0;
      if (along_vector && !along_rows && c_.pack_vector && vector_at > 0) {
        const PackedCopy copy =
            script_.pack(p_.result, operand.buffer, outside[vector_at - 1], ast::Scope::Packed);
        // The last filling loop runs along the lanes, so the copy is made with vectors, too.
        script_.vectorise(copy.filling(pack_dimensions(operand, outside, vector_at) - 1));
      } else if (along_rows && !along_vector && c_.pack_rows && rows_outer && c_.rows_outside) {
        script_.pack(p_.result, operand.buffer, rows_outer, ast::Scope::Packed);
      }
    }
  }

  bool moves_along(const TileProblem::Operand& operand, LoopHandle loop) const {
    for (size_t i = 0; i < p_.out.size(); ++i) {
      const LoopHandle inner = p_.out[i].around_inner;
      if (loop.is_part_of(nest_loop(p_.out[i])) || (inner && loop.is_part_of(inner)))
        return operand.out_strides[i] != 0;
    }
    for (size_t i = 0; i < p_.reduce.size(); ++i)
      if (loop.is_part_of(p_.reduce[i].name)) return operand.reduce_strides[i] != 0;
    return false;
  }

  /// Prefetches the next block of each constant while rows are multiplied with this one. If all constants of
  /// a program exceed a cache, each run reads them from a farther level.
  void prefetch_constants(const std::vector<LoopHandle>& outside, LoopHandle at) {
    if (c_.hint_streams == 0) return;
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
  int pack_dimensions(const TileProblem::Operand& operand, const std::vector<LoopHandle>& outside,
                      size_t at) const {
    int n = 0;
    for (size_t i = at; i < outside.size(); ++i) {
      for (size_t j = 0; j < p_.out.size(); ++j)
        n += outside[i].is_part_of(nest_loop(p_.out[j])) && operand.out_strides[j] != 0;
      for (size_t j = 0; j < p_.reduce.size(); ++j)
        n += outside[i].is_part_of(p_.reduce[j].name) && operand.reduce_strides[j] != 0;
    }
    for (double s : operand.reduce_strides) n += s != 0;
    n += 1 + (c_.vectors > 1 && p_.out[c_.vector].extent > p_.lanes ? 1 : 0);
    return n;
  }

  Proposal fused(std::vector<LoopHandle>& outside, const std::vector<LoopHandle>& tile,
                 const TileProblem::Loop& n, const std::vector<LoopHandle>& reduce, size_t vector_pack,
                 const Halves& m_tile, LoopHandle n_outer, bool has_first) {
    if (!has_first || outside.empty()) return {};
    std::vector<LoopHandle> order = outside;
    order.insert(order.end(), tile.begin(), tile.end());
    if (order.size() > 1) script_.reorder(order);
    script_.add(MoveKind::FuseAt, StageHandle(p_.result.stage()), Place(outside.back()),
                ast::Scope::Register);
    // The fused reduction has loops of its own over the tile: split and order them like the consumer's.
    const auto inner_tile = [&](LoopHandle n_loop, LoopHandle m_loop,
                                const std::vector<LoopHandle>& reducing) {
      std::vector<LoopHandle> own;
      if (m_tile.inner) own.push_back(m_loop);
      const Halves v = split(n_loop, std::min<int64_t>(n.extent, int64_t{p_.lanes} * c_.vectors), p_.lanes);
      add(own, v.outer);
      own.push_back(v.inner);
      std::vector<LoopHandle> all = reducing;
      all.insert(all.end(), own.begin(), own.end());
      if (all.size() > 1) script_.reorder(all);
      return own;
    };
    const LoopHandle m_loop = c_.rows >= 0 ? p_.out[c_.rows].name : LoopHandle();
    const std::vector<LoopHandle> update = inner_tile(n.name, m_loop, reduce);
    const std::vector<LoopHandle> clear =
        inner_tile(n.name.setting(), m_loop ? m_loop.setting() : m_loop, {});
    prefetch(n_outer, m_tile.outer, reduce.back());
    pack(outside, vector_pack, m_tile.outer);
    prefetch_constants(outside, reduce.back());
    finish_tile(update);
    finish_tile(clear);
    finish_tile(tile);
    return {script_.take(), describe()};
  }

  std::string describe() const {
    return "tile of " + std::to_string(c_.height) + " x " + std::to_string(c_.vectors) + " vectors" +
           (c_.panels_outside ? ", panels outermost" : "") + (c_.pack_vector ? ", packed" : "") +
           (c_.pack_rows ? ", rows packed" : "") +
           (c_.vector_block ? ", blocks of " + std::to_string(c_.vector_block) : "") +
           (c_.reduce_block ? ", reduction by " + std::to_string(c_.reduce_block) : "") +
           (c_.hint_streams > 0 ? ", the next one prefetched" : "");
  }

  const TileProblem& p_;
  const TileChoice& c_;
  Script script_;
  std::vector<std::pair<LoopHandle, int64_t>> trips_; // of the outer loops that splits made
  std::vector<BufferHandle> constants_;               // the copies, in the order of the operands
  LoopHandle block_;
};

} // namespace

Proposal tile_moves(const TileProblem& problem, const TileChoice& choice) {
  return Builder(problem, choice).build();
}

namespace {

bool read_tile_problem(const Features& f, const Leaf& update, const lower::Program& program,
                       const KernelPlan& kernel, const Target& target, TileProblem& out) {
  if (!update.combine || update.random) return false;
  out = {};
  out.result = update.result;
  out.lanes = lanes_of(f, update, target);
  out.numbers = ScratchNumbers(kernel);
  out.whole = update.own == 0;
  const AccessInfo& store = f.accesses[update.store];
  std::vector<int> out_loops, reduce_loops;
  for (size_t i = update.own; i < update.loops.size(); ++i) {
    const int l = update.loops[i];
    if (!is_serial(f, l)) return false;
    const double stride = f.stride(store, l);
    (stride != 0 ? out_loops : reduce_loops).push_back(l);
    (stride != 0 ? out.out : out.reduce)
        .push_back({kernel.handles.loop(*f.loops[l].loop),
                    {},
                    longest(f, l),
                    std::max(1.0, f.loops[l].extent),
                    stride,
                    {},
                    0});
  }
  if (out.out.empty() || out.reduce.empty()) return false;
  for (int a = update.first; a < update.store; ++a) {
    const AccessInfo& access = f.accesses[a];
    const BufferHandle name = handle_of(program, kernel.handles, *f.buffers[access.buffer].buffer);
    TileProblem::Operand operand{name,
                                 !access.random,
                                 find_constant(program, name) != nullptr,
                                 f.buffers[access.buffer].element_bytes,
                                 {},
                                 {}};
    for (int l : out_loops) operand.out_strides.push_back(f.stride(access, l));
    for (int l : reduce_loops) operand.reduce_strides.push_back(f.stride(access, l));
    // A buffer that is read at two places has no single copy.
    for (auto& other : out.operands)
      if (other.buffer == operand.buffer) other.packable = operand.packable = false;
    out.operands.push_back(std::move(operand));
  }
  return true;
}

} // namespace

std::vector<TileProblem> read_tile_problems(const Features& f, const lower::Program& program,
                                            const KernelPlan& kernel, const Target& target) {
  std::vector<TileProblem> problems;
  TileProblem problem;
  for (const Leaf& leaf : leaves_of(program, kernel, f))
    if (read_tile_problem(f, leaf, program, kernel, target, problem)) problems.push_back(std::move(problem));
  return problems;
}

} // namespace lathe::search
