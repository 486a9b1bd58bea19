#include "search/suggest/tile.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "search/machine/machine_limits.hpp"
#include "search/moves/draft.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kSmallOperand = 256 << 10;         // bytes: stays in the second level while it is worked on
constexpr int64_t kLeastSteps = 8, kMostSteps = 32; // of the reduction, asked for at once
constexpr int64_t kLeastAhead = 64 << 10, kMostAhead = 512 << 10; // bytes, of what is read only once

/// A loop after splitting: outer part (may be empty), inner part.
struct Parts {
  std::string outer, inner;
};

class Builder {
public:
  Builder(const TileProblem& p, const TileChoice& c) : p_(p), c_(c) {}

  Proposal build() {
    const TileProblem::Loop& n = p_.out[c_.vector];
    const int64_t width = int64_t{p_.lanes} * c_.vectors;
    // The loops that are cut: the consumer's, if there is one.
    std::string n_rest = n.around_inner.empty() ? nest_name(n) : n.around_inner;
    int64_t n_extent = n.around_inner.empty() ? n.extent : n.inner_extent;
    std::string lanes_loop; // of its own, where the consumer's inner loop is just one vector
    if (!n.around_inner.empty() && n_extent < width) {
      if (n_extent != p_.lanes || c_.vector_block > 0) return {};
      lanes_loop = n.around_inner;
      n_rest = n.around;
      n_extent = n.extent / n.inner_extent;
    }
    if (c_.vector_block > 0) {
      const Parts b = split(n_rest, n_extent, c_.vector_block);
      block_ = b.outer;
      n_rest = b.inner;
    }
    Parts n_tile, n_vector;
    if (lanes_loop.empty()) {
      n_tile = split(n_rest, c_.vector_block > 0 ? c_.vector_block : n_extent, width);
      n_vector = split(n_tile.inner, std::min(n_extent, width), p_.lanes);
    } else {
      n_tile = split(n_rest, n_extent, c_.vectors);
      if (c_.vectors == 1) n_tile = {n_rest, ""};
      n_vector = {n_tile.inner, lanes_loop};
    }
    Parts m_tile;
    if (c_.rows >= 0) {
      const TileProblem::Loop& m = p_.out[c_.rows];
      const std::string name = m.around_inner.empty() ? nest_name(m) : m.around_inner;
      m_tile = split(name, m.around_inner.empty() ? m.extent : m.inner_extent, c_.height);
      if (c_.height == 1) m_tile = {name, ""};
    }

    std::vector<std::string> reduce_outer, reduce;
    int longest = 0;
    for (size_t i = 0; i < p_.reduce.size(); ++i)
      if (p_.reduce[i].extent > p_.reduce[longest].extent) longest = static_cast<int>(i);
    for (int i : reduce_order()) {
      std::string name = p_.reduce[i].name;
      if (c_.reduce_block > 0 && i == longest && !p_.fused()) {
        const Parts r = split(name, p_.reduce[i].extent, c_.reduce_block);
        if (!r.outer.empty()) reduce_outer.push_back(r.outer);
        name = r.inner;
      }
      reduce.push_back(name);
    }

    const std::string asking = cut_for_hints(reduce, m_tile.outer);

    // Outside the tile: batch axes, blocks of the reduction and of the columns, then the two tile loops.
    std::vector<std::string> outside;
    if (c_.panels_outside) add(outside, n_tile.outer);
    for (size_t i = 0; i < p_.out.size(); ++i) {
      const bool in_tile = static_cast<int>(i) == c_.vector || static_cast<int>(i) == c_.rows;
      if (in_tile && !p_.out[i].around_inner.empty() && n_rest != p_.out[i].around)
        outside.push_back(p_.out[i].around);
      if (in_tile) continue;
      outside.push_back(nest_name(p_.out[i]));
      add(outside, p_.out[i].around_inner);
    }
    for (auto& r : reduce_outer) outside.push_back(r);
    add(outside, block_);
    const bool inside_vectors = !c_.rows_outside && c_.vector_block <= 0 && !n_tile.outer.empty();
    const size_t vector_pack = c_.panels_outside ? 1 : outside.size() + (inside_vectors ? 1 : 0);
    const std::string panels = c_.panels_outside ? "" : n_tile.outer;
    add(outside, c_.rows_outside || c_.vector_block > 0 ? m_tile.outer : panels);
    const bool has_first = outside.size() > 0;
    add(outside, c_.rows_outside || c_.vector_block > 0 ? panels : m_tile.outer);
    std::vector<std::string> tile;
    add(tile, m_tile.inner);
    add(tile, n_vector.outer);
    tile.push_back(n_vector.inner);

    if (p_.fused()) return fused(outside, tile, n, reduce, vector_pack, m_tile, n_tile.outer, has_first);

    std::vector<std::string> order = outside;
    order.insert(order.end(), reduce.begin(), reduce.end());
    order.insert(order.end(), tile.begin(), tile.end());
    if (order.size() > 1) moves_.push_back(move_reorder(order));
    prefetch(n_tile.outer, m_tile.outer, asking);
    pack(outside, vector_pack, m_tile.outer);
    prefetch_constants(outside, reduce.back());
    moves_.push_back(move_accumulate(p_.stage, reduce.front()));
    const std::string copy = p_.stage + ".a" + std::to_string(scratch_);
    finish_tile(tile);
    std::vector<std::string> clear, write;
    for (size_t d = 0; d < tile.size(); ++d) {
      clear.push_back(copy + ".z" + std::to_string(d));
      write.push_back(copy + ".w" + std::to_string(d));
    }
    finish_tile(clear);
    finish_tile(write);
    // The first block of the reduction stores what the others add to.
    if (!reduce_outer.empty()) moves_.push_back(move_store_first(p_.stage, reduce_outer.front()));
    return {std::move(moves_), describe()};
  }

private:
  std::string nest_name(const TileProblem::Loop& l) const { return l.around.empty() ? l.name : l.around; }
  static void add(std::vector<std::string>& to, const std::string& name) {
    if (!name.empty()) to.push_back(name);
  }

  /// The reducing loops, those with the longest steps outermost: so an operand is read line by line. A
  /// constant's copy follows any order.
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

  Parts split(const std::string& name, int64_t extent, int64_t factor) {
    if (factor <= 1) return {name, ""};
    if (extent <= factor) return {"", name};
    moves_.push_back(move_split(name, factor));
    trips_[name + ".o"] = (extent + factor - 1) / factor;
    return {name + ".o", name + ".i"};
  }

  /// The last loop is the vector, the others are copies of it.
  void finish_tile(const std::vector<std::string>& tile) {
    moves_.push_back(move_vectorise(tile.back()));
    for (size_t i = 0; i + 1 < tile.size(); ++i) moves_.push_back(move_unroll(tile[i]));
  }

  /// The next tile along the lanes may ask for what it reads of this operand.
  bool is_asked_for(const TileProblem::Operand& operand) const {
    return operand.packable && !operand.constant && operand.out_strides[c_.vector] != 0;
  }

  /// The reducing loop that asks for what the next tile along the lanes reads: where the tiles of rows are
  /// more than the lines of one step, a few steps are asked for at once, so that most tiles ask for as much.
  std::string cut_for_hints(std::vector<std::string>& reduce, const std::string& spread) {
    const std::string last = reduce.back();
    const bool asks = std::any_of(p_.operands.begin(), p_.operands.end(),
                                  [&](const auto& operand) { return is_asked_for(operand); });
    if (c_.hint_streams == 0 || !asks || spread.empty() || p_.fused() || p_.reduce.size() != 1) return last;
    const int64_t whole = p_.reduce[0].extent;
    const int64_t extent = c_.reduce_block > 0 ? std::min(c_.reduce_block, whole) : whole;
    int64_t bytes = 1; // of one element, of the widest operand that is asked for
    for (const auto& operand : p_.operands)
      if (is_asked_for(operand)) bytes = std::max(bytes, operand.element_bytes);
    const int64_t lines = std::max<int64_t>(1, int64_t{p_.lanes} * c_.vectors * bytes / kCacheLine);
    const int64_t evenly = std::max<int64_t>(1, trips(spread) / lines);
    if (evenly == 1) return last;
    const auto steps = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(evenly)));
    const Parts r = split(last, extent, std::clamp(steps, kLeastSteps, kMostSteps));
    if (r.outer.empty()) return last;
    reduce.back() = r.outer;
    reduce.push_back(r.inner);
    return r.outer;
  }

  /// What the operand along the lanes will be read at by the next tile is asked for during this one; by the
  /// next of a batch of small operands, if there is one.
  void prefetch(const std::string& ahead, const std::string& spread, const std::string& at) {
    if (c_.hint_streams == 0 || ahead.empty() || spread.empty()) return;
    for (const auto& operand : p_.operands) {
      if (!is_asked_for(operand)) continue;
      const auto bytes = static_cast<double>(operand.element_bytes);
      std::string next = ahead;
      for (size_t i = 0; i < p_.out.size(); ++i)
        if (static_cast<int>(i) != c_.vector && static_cast<int>(i) != c_.rows &&
            operand.out_strides[i] != 0 && std::abs(operand.out_strides[i]) * bytes <= kSmallOperand)
          next = nest_name(p_.out[i]);
      moves_.push_back(move_prefetch_tile(p_.stage, operand.buffer, next, spread, at, c_.hint_streams));
    }
  }

  /// Copies of the operands, as far outside as they are reused from. `vector_at` loops of `outside` lie
  /// around the place where the operand along the lanes is wanted again and again.
  void pack(const std::vector<std::string>& outside, size_t vector_at, const std::string& rows_outer) {
    for (const auto& operand : p_.operands) {
      if (!operand.packable) continue;
      if (operand.constant) {
        moves_.push_back(move_prepack(p_.stage, operand.buffer));
        continue;
      }
      const bool along_vector = operand.out_strides[c_.vector] != 0;
      const bool along_rows = c_.rows >= 0 && operand.out_strides[c_.rows] != 0;
      if (along_vector && !along_rows && c_.pack_vector && vector_at > 0) {
        moves_.push_back(move_pack(p_.stage, operand.buffer, outside[vector_at - 1], "packed"));
        // Its last loop runs along the lanes: the copy is made with vectors too.
        moves_.push_back(move_vectorise(p_.stage + ".p" + std::to_string(p_.scratch + packs_) + ".c" +
                                        std::to_string(pack_dimensions(operand, outside, vector_at) - 1)));
        ++packs_;
        ++scratch_;
      } else if (along_rows && !along_vector && c_.pack_rows && !rows_outer.empty() && c_.rows_outside) {
        moves_.push_back(move_pack(p_.stage, operand.buffer, rows_outer, "packed"));
        ++packs_;
        ++scratch_;
      }
    }
  }

  /// A loop that is one of the whole's, or was split off it.
  static bool belongs(const std::string& part, const std::string& whole) {
    return part.size() >= whole.size() && part.compare(0, whole.size(), whole) == 0 &&
           (part.size() == whole.size() || part[whole.size()] == '.');
  }
  bool moves_along(const TileProblem::Operand& operand, const std::string& loop) const {
    for (size_t i = 0; i < p_.out.size(); ++i) {
      const std::string& inner = p_.out[i].around_inner;
      if (belongs(loop, nest_name(p_.out[i])) || (!inner.empty() && belongs(loop, inner)))
        return operand.out_strides[i] != 0;
    }
    for (size_t i = 0; i < p_.reduce.size(); ++i)
      if (belongs(loop, p_.reduce[i].name)) return operand.reduce_strides[i] != 0;
    return false;
  }

  /// Of constants the next block is asked for while rows are multiplied with this one: where all constants of
  /// a program are more than a cache holds, each run reads them from afar.
  void prefetch_constants(const std::vector<std::string>& outside, const std::string& at) {
    if (c_.hint_streams == 0) return;
    int copies = 0;
    for (const auto& operand : p_.operands) {
      if (!operand.packable || !operand.constant) continue;
      const std::string copy = p_.stage + ".k" + std::to_string(copies++);
      if (operand.out_strides[c_.vector] == 0) continue;
      const auto reused = std::find_if(outside.begin(), outside.end(),
                                       [&](const std::string& loop) { return !moves_along(operand, loop); });
      if (reused == outside.begin()) continue;
      if (reused != outside.end())
        moves_.push_back(move_prefetch_tile(p_.stage, copy, *(reused - 1), *reused, at, c_.hint_streams));
      else if (const std::string ahead = read_once_by(outside, operand); !ahead.empty())
        moves_.push_back(move_prefetch_tile(p_.stage, copy, ahead, at, at, c_.hint_streams));
    }
  }

  /// Of loops that all read a constant on and on: the innermost whose iterations read enough to be asked for
  /// in several streams. Empty if that is too much to lie in a near cache twice.
  std::string read_once_by(const std::vector<std::string>& outside,
                           const TileProblem::Operand& operand) const {
    if (outside.empty()) return {};
    int64_t bytes =
        operand.element_bytes * std::min<int64_t>(p_.out[c_.vector].extent, int64_t{p_.lanes} * c_.vectors);
    for (const auto& r : p_.reduce) bytes *= r.extent;
    size_t k = outside.size() - 1;
    while (bytes < kLeastAhead && k > 0) bytes *= trips(outside[k--]);
    return bytes > kMostAhead ? "" : outside[k];
  }
  int64_t trips(const std::string& loop) const {
    if (const auto split = trips_.find(loop); split != trips_.end()) return split->second;
    for (const auto& l : p_.out)
      if (nest_name(l) == loop) return l.extent;
    return 1;
  }

  /// Loops inside outside[at - 1] along which the operand moves.
  size_t pack_dimensions(const TileProblem::Operand& operand, const std::vector<std::string>& outside,
                         size_t at) const {
    size_t n = 0;
    for (size_t i = at; i < outside.size(); ++i) {
      for (size_t j = 0; j < p_.out.size(); ++j)
        n += belongs(outside[i], nest_name(p_.out[j])) && operand.out_strides[j] != 0;
      for (size_t j = 0; j < p_.reduce.size(); ++j)
        n += belongs(outside[i], p_.reduce[j].name) && operand.reduce_strides[j] != 0;
    }
    for (double s : operand.reduce_strides) n += s != 0;
    n += 1 + (c_.vectors > 1 && p_.out[c_.vector].extent > p_.lanes ? 1 : 0);
    return n;
  }

  Proposal fused(std::vector<std::string>& outside, const std::vector<std::string>& tile,
                 const TileProblem::Loop& n, const std::vector<std::string>& reduce, size_t vector_pack,
                 const Parts& m_tile, const std::string& n_outer, bool has_first) {
    if (!has_first || outside.empty()) return {};
    std::vector<std::string> order = outside;
    order.insert(order.end(), tile.begin(), tile.end());
    if (order.size() > 1) moves_.push_back(move_reorder(order));
    moves_.push_back(move_fuse_at(p_.stage, outside.back(), "register"));
    // Under the loop the reduction has loops of its own over the tile: cut and order them alike.
    const auto inner_tile = [&](const std::string& n_name, const std::string& m_name,
                                const std::vector<std::string>& reducing) {
      std::vector<std::string> own;
      if (!m_tile.inner.empty()) own.push_back(m_name);
      const Parts v = split(n_name, std::min<int64_t>(n.extent, int64_t{p_.lanes} * c_.vectors), p_.lanes);
      add(own, v.outer);
      own.push_back(v.inner);
      std::vector<std::string> all = reducing;
      all.insert(all.end(), own.begin(), own.end());
      if (all.size() > 1) moves_.push_back(move_reorder(all));
      return own;
    };
    const std::string m_name = c_.rows >= 0 ? p_.out[c_.rows].name : "";
    const std::vector<std::string> update = inner_tile(n.name, m_name, reduce);
    const std::vector<std::string> clear =
        inner_tile(clear_name(n.name), m_name.empty() ? "" : clear_name(m_name), {});
    prefetch(n_outer, m_tile.outer, reduce.back());
    pack(outside, vector_pack, m_tile.outer);
    prefetch_constants(outside, reduce.back());
    finish_tile(update);
    finish_tile(clear);
    finish_tile(tile);
    return {std::move(moves_), describe()};
  }

  static std::string clear_name(std::string name) { // "t3.i1" -> "t3.z1"
    name[name.find('.') + 1] = 'z';
    return name;
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
  std::vector<Move> moves_;
  std::map<std::string, int64_t> trips_; // of the loops that were split off
  std::string block_;
  int packs_ = 0;
  int scratch_ = p_.scratch;
};

} // namespace

Proposal tile_moves(const TileProblem& problem, const TileChoice& choice) {
  return Builder(problem, choice).build();
}

namespace {

bool read_tile_problem(const Features& f, const Leaf& update, const lower::Program& program,
                       const ast::Kernel& kernel, const Target& target, TileProblem& out) {
  if (!update.combine || update.random || update.stage < 0) return false;
  out = {};
  out.stage = update.buffer;
  out.lanes = lanes_of(f, update, target);
  out.scratch = next_scratch(kernel, update.stage);
  out.whole = update.own == 0;
  const AccessInfo& store = f.accesses[update.store];
  std::vector<int> out_loops, reduce_loops;
  for (size_t i = update.own; i < update.loops.size(); ++i) {
    const int l = update.loops[i];
    if (!is_serial(f, l)) return false;
    const double stride = f.stride(store, l);
    (stride != 0 ? out_loops : reduce_loops).push_back(l);
    (stride != 0 ? out.out : out.reduce)
        .push_back({loop_name(f, l), "", longest(f, l), std::max(1.0, f.loops[l].extent), stride, {}, 0});
  }
  if (out.out.empty() || out.reduce.empty()) return false;
  for (int a = update.first; a < update.store; ++a) {
    const AccessInfo& access = f.accesses[a];
    const std::string& name = f.buffers[access.buffer].buffer->name;
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
                                            const ast::Kernel& kernel, const Target& target) {
  std::vector<TileProblem> problems;
  TileProblem problem;
  for (const Leaf& leaf : leaves_of(f))
    if (read_tile_problem(f, leaf, program, kernel, target, problem)) problems.push_back(std::move(problem));
  return problems;
}

} // namespace lathe::search
