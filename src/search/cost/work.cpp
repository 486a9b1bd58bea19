#include "search/cost/work.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "ast/flat_index.hpp"
#include "ast/instruction.hpp"
#include "ast/machine/access.hpp"
#include "ast/machine/moved_up.hpp"
#include "ast/passes/interleave.hpp"
#include "ast/passes/prepare.hpp"
#include "core/per_thread.hpp"
#include "search/cost/constants.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/dependence_map.hpp"
#include "search/cost/op_cost.hpp"
#include "search/cost/taken_branches.hpp"
#include "search/cost/tensor_work.hpp"

namespace lathe::search {
namespace {

/// The unrolled and vector loops right around a store: straight-line code.
struct Tile {
  size_t begin = 0;    // depth of its first loop
  uint64_t inside = 0; // depths of its loops
  int vector = -1;     // depth of its vector loop
  double lanes = 1;
  bool partial = false;   // the vector loop never fills its lanes
  double tail_factor = 1; // what ragged executions add
};

/// Without shape variables: once the loops around are partitioned it is a constant.
bool is_known(Expr e) {
  std::vector<Expr> vars;
  collect_vars(e, vars);
  return std::all_of(vars.begin(), vars.end(), [](Expr v) { return v.id() >= 0; });
}

Tile tile_inside(const LoopsAround& loops) {
  Tile t;
  t.begin = loops.size();
  while (t.begin > 0) {
    const LoopInfo& l = loops[t.begin - 1];
    if (!is_straight(l.loop->kind)) break;
    --t.begin;
    t.inside |= uint64_t{1} << std::min<size_t>(t.begin, 63);
    if (l.loop->kind == ast::LoopKind::Vector) {
      t.vector = static_cast<int>(t.begin);
      t.lanes = std::max(1, l.loop->width);
      t.partial = l.loop->extent.is_const() && l.loop->extent.value() < l.loop->width;
    }
    // The ragged remainder of an unrolled loop is a smaller tile of its own, or, where its size is not
    // known, a plain loop over memory.
    if (l.loop->kind == ast::LoopKind::Unroll && l.tail > 0)
      t.tail_factor *=
          1 + (is_known(l.loop->extent) ? cost_constants.small_tile : cost_constants.plain_loop) * l.tail;
  }
  return t;
}

/// Of one combine; `fused`: with the product that it adds.
Chain chain_of(Op op, DType dtype, bool fused) {
  Chain chain;
  if (!is_float(dtype))
    chain.others = op_cost(op, dtype).latency;
  else if (op == Op::Max)
    chain.maxima = 1;
  else
    (fused || op == Op::Mul ? chain.multiply_adds : chain.adds) = 1;
  return chain;
}

/// Instructions so many times over, which the program asked for once.
void add(const Work& from, double times, Work& to) {
  to.arithmetic += from.arithmetic * times;
  to.multiplications += from.multiplications * times;
  to.loads += from.loads * times;
  to.stores += from.stores * times;
  to.other += from.other * times;
  for (int i = 0; i < 3; ++i) to.divisions[i] += from.divisions[i] * times;
  to.waits += from.waits * times;
  to.stalls += from.stalls * times;
  to.operations += from.operations;
}

/// Registers, by what they hold.
struct Pressure {
  double accumulators = 0, operands = 0, largest = 0, windows = 0;
};

constexpr uint64_t kAllLoops = ~uint64_t{0};
constexpr double kLoadCycles = 5; // from the first level till a load's value is there

bool has(uint64_t mask, int depth) { return depth >= 0 && (mask >> depth & 1); }

/// The values that were counted, with the loops they depend on; memory that is reused.
struct Counted {
  DependenceMap masks;
  std::vector<ast::ValueRef> wholes; // of lanes moved up: counted, too, and not another's address meanwhile
  std::vector<const ast::Value*> pending;
};

class StoreCounter {
public:
  StoreCounter(const Target& target, LoopsAround& loops, Counted& counted)
      : target_(target), loops_(loops), features_(loops.features()), masks_(counted.masks),
        wholes_(counted.wholes), pending_(counted.pending), tile_(tile_inside(loops)) {}

  void count_store(const ast::Store& s) {
    if (const std::optional<Work> tensor = tensor_work(tile_.begin, target_, loops_)) {
      work_ = *tensor;
      return add_to_body();
    }
    const bool fused = ast::instruction_for(s).has_value();
    const uint64_t value_mask = count_values(s.value, fused ? s.value.get() : nullptr);
    uint64_t index_mask = 0;
    if (s.scatter) index_mask = count_values(s.scatter, nullptr);
    AccessInfo access{};
    access.store = true;
    access.combine = s.combine.has_value();
    access.streaming = s.streaming;
    access.random = static_cast<bool>(s.scatter);
    index_mask |= loops_.add_access(s.buffer.get(), s.index, access);
    const AccessInfo added = features_.accesses.back();

    const int body = tile_.begin > 0 ? static_cast<int>(tile_.begin) - 1 : -1;
    // A tile that is made anew in every iteration depends on nothing from the one before.
    const bool carried =
        body >= 0 && !has(index_mask, body) && static_cast<int>(loops_.made_at(*s.buffer)) <= body;
    const bool across = s.combine && has(value_mask, tile_.vector) && !has(index_mask, tile_.vector);
    // What a loop combines into the same element is kept in registers till it ends
    // (ast/passes/accumulators.cpp): one for each lane that meets others there, and for each unrolled copy.
    const bool kept = s.combine && !s.scatter && carried && !target_.groups &&
                      (across || s.buffer->scope != ast::Scope::Register) &&
                      loops_[body].loop->kind == ast::LoopKind::Serial;
    const bool in_registers = kept || stays_in_registers(*s.buffer, added, index_mask);
    const bool vector = has(index_mask, tile_.vector) || has(value_mask, tile_.vector);
    const double n = copies(index_mask), parts = registers_for(vector, s.value->dtype);
    if (in_registers)
      pressure_.accumulators =
          std::max(pressure_.accumulators, (kept ? copies(index_mask | value_mask) : n) * parts);
    else
      count_access(added, index_mask, n, s.buffer->dtype, work_.stores);
    if (s.combine) {
      const OpCost cost = op_cost(*s.combine, s.value->dtype);
      // Combines into one element, one after the other; also those of a value that is the same in all.
      const double steps = copies(kAllLoops) / std::max(1.0, n);
      work_.arithmetic += n * steps * parts * cost.instructions;
      if (fused || *s.combine == Op::Mul) work_.multiplications += n * steps * parts * cost.instructions;
      work_.operations += n * steps * (vector ? tile_.lanes : 1);
      if (!in_registers) {
        count_access(added, index_mask, n, s.buffer->dtype, work_.loads);
        // A masked store is not forwarded to the load that follows: that one waits until it is written.
        if (tile_.partial && has(index_mask, tile_.vector))
          work_.waits += n * steps * cost_constants.masked_forward;
      }
      const double times = kept ? 1 / std::max(1.0, loops_[body].extent) : steps;
      if (across) work_.arithmetic += n * times * std::log2(tile_.lanes) * (cost.instructions + 1);
      if (carried) {
        work_.chain = chain_of(*s.combine, s.value->dtype, fused) * (kept ? 1 : steps);
        work_.chain.through_memory = in_registers ? 0 : 1;
      }
    }
    if (tile_.vector >= 0 && loops_[tile_.vector].loop->extent != Expr(static_cast<int64_t>(tile_.lanes)))
      work_.other += 2 * n;
    work_.registers = pressure_.accumulators == 0 ? 0
                                                  : pressure_.accumulators + pressure_.operands -
                                                        pressure_.largest + pressure_.windows + 1;
    if (!target_.groups) work_.stalls = stalls_of(s);
    add_to_body();
  }

private:
  /// Cycles of the copies of a value whose operations wait for each other. At once a core computes as many
  /// copies as fill its schedulers or, if they advance together (ast/passes/interleave.hpp), as many as do
  /// that.
  double stalls_of(const ast::Store& s) {
    const double all = copies(kAllLoops),
                 instructions =
                     std::max(1.0, (work_.arithmetic + work_.loads + work_.stores + work_.other) / all);
    const bool advance = !s.combine && !s.scatter && tile_.vector >= 0 && !tile_.partial &&
                         work_.arithmetic >= all * static_cast<double>(ast::kLeastSteps);
    const double together = advance ? std::min(all, static_cast<double>(ast::kMostTogether)) : 1;
    return all * depth_of(s.value) / std::max(together, cost_constants.waiting / instructions);
  }

  /// How many copies unrolling makes of what depends on the loops of `mask`.
  double copies(uint64_t mask) const {
    double n = 1;
    for (size_t d = tile_.begin; d < loops_.size(); ++d)
      if (static_cast<int>(d) != tile_.vector && mask >> d & 1)
        n *=
            static_cast<int>(d) == branch_loop_ ? loops_[d].extent * share_ : std::max(1.0, loops_[d].extent);
    return n;
  }

  /// Within how many loops a value is computed that depends on those of `mask`: renderers leave out all
  /// that it is the same in.
  size_t home_of(uint64_t mask) const {
    const uint64_t around = mask & ((uint64_t{1} << std::min<size_t>(tile_.begin, 63)) - 1);
    return static_cast<size_t>(std::bit_width(around));
  }
  /// What count() adds to the work of the body belongs to the loops that a value with this mask changes in.
  template <class F> void at_home(uint64_t mask, F&& count) {
    const size_t home = home_of(mask);
    if (home >= tile_.begin) return count();
    Work body = std::exchange(work_, {});
    count();
    std::swap(body, work_);
    Work& outer = loops_.body(home);
    add(body, 1, outer);
  }

  double registers_for(bool vector, DType dtype) const {
    if (!vector) return 1;
    const int bytes = is_float(dtype) ? std::max(4, size_of(dtype)) : size_of(dtype);
    return std::max(1.0, std::ceil(tile_.lanes * bytes / target_.vector_bytes));
  }

  /// The share of the vectors that end before their last lane: all, or the last of some.
  double masked_tails() const {
    if (tile_.vector < 0) return 0;
    if (tile_.partial) return 1;
    return std::clamp(2 * (1 - loops_[tile_.vector].extent / tile_.lanes), 0.0, 1.0);
  }

  /// Lanes that are picked from the vectors between them: each pair of vectors takes a shuffle, or two and a
  /// blend.
  void count_spaced(double stride, double n, double parts) {
    work_.loads += n * parts * stride;
    work_.arithmetic += 2 * n * parts * (stride - 1);
  }

  /// Whether the target picks the lanes from one vector: their step, which is an average, is none.
  bool is_picked(const ast::LoadAttr& attr, double stride) const {
    if (target_.groups || stride == std::floor(stride)) return false;
    return ast::picked_load(*attr.buffer, flat_index(*attr.buffer, attr.index),
                            loops_[tile_.vector].loop->var, static_cast<int>(tile_.lanes))
        .has_value();
  }

  /// Whether the target loads such lanes of a Gather as part of a vector.
  bool loads_row(double stride, DType dtype) const {
    return stride == 1 && target_.device == "cpu" && ast::masks_loads(target_.vector_bytes, dtype);
  }

  /// One memory access of the body: `n` copies of it.
  /// `masked`: the share of vectors of which some lanes are left out.
  void count_access(const AccessInfo& access, uint64_t mask, double n, DType dtype, double& slots,
                    double masked = 0) {
    const bool vector = has(mask, tile_.vector);
    const double parts = registers_for(vector, dtype);
    if (!vector) {
      slots += n;
      return;
    }
    if (access.in_registers && target_.byte_table == 128) {
      work_.arithmetic += 6 * n * parts; // two permutations, which have one port, and a choice
      return;
    }
    if (access.in_registers && tile_.lanes >= 16) {
      // For each of the table's 16 parts: a load, a shuffle, a subtraction and an `xor`. The last three count as two,
      // since four ports do them.
      const double vectors = 16 * n * parts;
      work_.arithmetic += 2 * vectors;
      slots += vectors;
      return;
    }
    double stride = features_.strides[access.strides + tile_.vector];
    if (access.random && !loads_row(stride, dtype)) stride = 0.5;
    if (access.random && stride == 1) work_.arithmetic += 2 * n * parts; // which lanes are in range
    if (ast::is_one_vector(stride)) {
      // A vector that isn't aligned to its size touches two cache lines now and then.
      const double line = 64.0 / size_of(dtype);
      double crossing = 1;
      for (size_t d = 0; d < loops_.size() && crossing == 1; ++d)
        if (static_cast<int>(d) != tile_.vector &&
            std::fmod(features_.strides[access.strides + d], std::min(line, tile_.lanes)) != 0)
          crossing = 1 + std::min(1.0, tile_.lanes / line) * 0.9;
      slots += n * parts * crossing;
      if (stride < 0) work_.other += n * parts;
    } else {
      slots += n * tile_.lanes;
      work_.other += n * tile_.lanes;
      work_.arithmetic += n * tile_.lanes * 0.5; // inserts and extracts share a vector port
      // No instruction gathers bytes and words: each lane's index comes out of a vector, and its value goes
      // into one. A lane that a mask may leave out is a branch.
      if (size_of(dtype) < 4) {
        const double one_by_one = access.random ? n : n * masked;
        work_.other += 3 * one_by_one * tile_.lanes;
        work_.arithmetic += 6 * one_by_one * tile_.lanes;
      }
    }
  }

  /// A target promotes an array to registers if whole vectors of it are used, contiguous along the lanes.
  bool stays_in_registers(const ast::Buffer& buffer, const AccessInfo& access, uint64_t mask) const {
    if (buffer.scope != ast::Scope::Register || (mask & ~tile_.inside) != 0) return false;
    if (!has(mask, tile_.vector)) return true;
    return ast::is_one_vector(features_.strides[access.strides + tile_.vector]) && !lies_across(access);
  }

  /// Of what goes along the lanes: it is not whole vectors of the array, counted from its beginning.
  bool lies_across(const AccessInfo& access) const {
    if (std::fmod(access.offset, tile_.lanes) != 0) return true;
    for (size_t d = 0; d < loops_.size(); ++d)
      if (static_cast<int>(d) != tile_.vector &&
          std::fmod(features_.strides[access.strides + d], tile_.lanes) != 0)
        return true;
    return false;
  }

  /// Elements of a register tile, one from each of as many whole vectors.
  bool is_column(const ast::Buffer& buffer, const AccessInfo& access, uint64_t mask) const {
    if (buffer.scope != ast::Scope::Register || (mask & ~tile_.inside) != 0) return false;
    return has(mask, tile_.vector) && !tile_.partial &&
           ast::is_column_step(features_.strides[access.strides + tile_.vector], tile_.lanes);
  }

  /// With what the operands tell: the distance of a shift that unrolling makes a constant needs no check, and
  /// integers become wider, or those of 32 bits f32, by one instruction.
  OpCost cost_of(const ast::Value& v, DType dtype, bool vector) {
    OpCost cost = op_cost(v.op, dtype, vector && target_.vector_bytes >= 64);
    if (v.op == Op::Shl || v.op == Op::Shr) {
      const uint64_t distance = mask_of(v.sources[1]);
      if ((distance & ~tile_.inside) == 0 && !has(distance, tile_.vector))
        cost.instructions = cost.latency = 1;
    }
    if (v.op == Op::Cast && is_integer(v.sources[0]->dtype) && size_of(dtype) == 4 &&
        size_of(v.sources[0]->dtype) <= 4 && (is_integer(dtype) || size_of(v.sources[0]->dtype) == 4))
      cost.instructions = 1;
    return cost;
  }

  void count_op(const ast::Value& v, uint64_t mask, bool fused) {
    const double n = copies(mask);
    const bool vector = has(mask, tile_.vector);
    // Comparisons work on registers of what they compare.
    const DType dtype = v.sources.empty() || v.dtype != DType::Bool ? v.dtype : v.sources[0]->dtype;
    const double parts = registers_for(vector, dtype);
    const OpCost cost = cost_of(v, dtype, vector);
    if (!fused) {
      work_.arithmetic += n * parts * cost.instructions;
      if (v.op == Op::Mul) work_.multiplications += n * parts * cost.instructions;
    }
    work_.operations += n * (vector ? tile_.lanes : 1) * (cost.instructions > 0 || cost.per_lane > 0 ? 1 : 0);
    if (v.op == Op::Index) work_.other += n * parts;
    const double bytes = vector ? tile_.lanes * size_of(dtype) / parts : 0;
    work_.divisions[bytes > 32 ? 2 : bytes > 16 ? 1 : 0] += n * parts * cost.divisions;
    work_.waits += n * cost.per_lane * (vector ? tile_.lanes : 1);
  }

  /// Quotients and remainders that change from one iteration of the body to the next.
  /// A part that occurs twice in one load's index is computed once, and counts once.
  void count_divisions(Expr e) {
    if (e.is_const() || e.is_var() || std::find(seen_.begin(), seen_.end(), e) != seen_.end()) return;
    seen_.push_back(e);
    const uint64_t mask = loops_.dependence(e);
    const uint64_t innermost = tile_.begin > 0 ? uint64_t{1} << std::min<size_t>(tile_.begin - 1, 63) : 0;
    if ((mask & (tile_.inside | innermost)) == 0) return;
    if (e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod)
      work_.other += cost_constants.division_instructions * copies(mask);
    count_divisions(e.lhs());
    count_divisions(e.rhs());
  }

  /// How many different elements (or vectors) the copies of a load read, where unrolled loops move along the
  /// same elements. A compiler loads such a window once and keeps all of it.
  double window_of(const AccessInfo& access) const {
    double span = 1, step = 0;
    for (size_t d = tile_.begin; d < loops_.size(); ++d) {
      const double stride = std::abs(features_.strides[access.strides + d]);
      if (static_cast<int>(d) == tile_.vector || stride == 0) continue;
      span += std::max(0.0, loops_[d].extent - 1) * stride; // a loop may run less than once on average
      step = step == 0 ? stride : std::min(step, stride);
    }
    return step == 0 ? span : 1 + (span - 1) / step;
  }

  /// Where the guard stays once loops are peeled and unrolled.
  double share_guarded(Expr guard, uint64_t mask) const {
    double share = 1;
    for (size_t d = 0; d < loops_.size(); ++d)
      if (has(mask, static_cast<int>(d))) share = std::min(share, ast::share_guarded(*loops_[d].loop, guard));
    return share;
  }

  /// Lanes that a shuffle makes of a whole vector, which is loaded once for all of them.
  uint64_t count_moved_up(const ast::MovedUp& moved) {
    if (!masks_.find(moved.whole.get())) {
      wholes_.push_back(moved.whole);
      const uint64_t loaded = count_load(*moved.whole, 0);
      masks_.insert(moved.whole.get(), loaded, kLoadCycles);
    }
    const uint64_t mask = mask_of(moved.whole);
    at_home(mask, [&] { work_.arithmetic += copies(mask) * registers_for(true, moved.whole->dtype); });
    return mask;
  }

  uint64_t count_load(const ast::Value& v, uint64_t source_mask) {
    const auto& attr = std::get<ast::LoadAttr>(v.attr);
    if (const ast::For* lanes = tile_.vector < 0 ? nullptr : loops_[tile_.vector].loop;
        lanes && lanes->extent.is_const(lanes->width))
      if (const auto moved = ast::as_moved_up(attr, lanes->var, lanes->width)) return count_moved_up(*moved);
    AccessInfo access{};
    access.random = v.op == Op::Gather;
    access.in_registers = access.random && target_.byte_table > 0 && ast::is_byte_look_up(v);
    access.ahead = attr.ahead;
    uint64_t mask = source_mask | loops_.add_access(attr.buffer.get(), attr.index, access,
                                                    access.random && !access.in_registers ? &v : nullptr);
    const AccessInfo& added = features_.accesses.back();
    double guarded = 0, masked = masked_tails(); // shares of its executions
    for (const Expr& guard : attr.guards) {
      const uint64_t guard_mask = loops_.dependence(guard);
      const double share = share_guarded(guard, guard_mask);
      if (has(guard_mask, tile_.vector)) masked = std::min(1.0, masked + share);
      work_.other += 2 * share * copies(guard_mask);
      guarded = std::min(1.0, guarded + share);
      mask |= guard_mask;
    }
    const size_t changed = std::min(loops_.changed_within(*attr.buffer), tile_.begin);
    const uint64_t changes = mask | (changed > 0 ? uint64_t{1} << std::min<size_t>(changed - 1, 63) : 0);
    at_home(changes, [&] { count_access_of(attr, added, mask, guarded, masked, v); });
    return changes;
  }

  void count_access_of(const ast::LoadAttr& attr, const AccessInfo& added, uint64_t mask, double guarded,
                       double masked, const ast::Value& v) {
    const double n = copies(mask);
    const bool vector = has(mask, tile_.vector);
    // A scalar load under a condition: the conditions joined, the address chosen, the value apart from its
    // use.
    if (!vector) work_.other += 6 * guarded * n;
    seen_.clear();
    for (const Expr& e : attr.index) count_divisions(e);
    if (is_column(*attr.buffer, added, mask)) { // of a tile transposed by shuffles, which have one port
      const double parts = registers_for(vector, v.dtype);
      work_.arithmetic += 2 * n * parts * std::log2(tile_.lanes);
      pressure_.operands += n * parts;
      pressure_.largest = std::max(pressure_.largest, n * parts);
      return;
    }
    if (stays_in_registers(*attr.buffer, added, mask)) {
      pressure_.accumulators = std::max(pressure_.accumulators, n * registers_for(vector, v.dtype));
      return;
    }
    if (attr.buffer->scope == ast::Scope::Register && vector && lies_across(added))
      work_.waits += n * cost_constants.across_forward;
    // Averages of ragged loops are fractions, equal but for rounding.
    const double window = added.random ? n : window_of(added);
    const bool shared = window < 0.999 * n;
    const double different = shared ? window : n;
    work_.other += attr.ahead ? different : 0;
    work_.loads += attr.ahead ? cost_constants.hint_loads * different : 0;
    const double stride = vector ? features_.strides[added.strides + tile_.vector] : 0;
    const bool can_mask = target_.device == "cpu"; // VectorForms::masks_spaced
    if (vector && !added.random && (can_mask || masked < 0.5) && attr.buffer->scope != ast::Scope::Register &&
        ast::is_spaced_step(stride, v.dtype))
      count_spaced(stride, different, registers_for(vector, v.dtype));
    else if (vector && !added.random && masked < 0.5 && is_picked(attr, stride))
      count_spaced(1.5, different, registers_for(vector, v.dtype)); // a load, and a shuffle
    else
      count_access(added, mask, different, v.dtype, work_.loads, masked);
    if (added.random) work_.other += 3 * n;
    const double live = different * registers_for(vector, v.dtype);
    if (shared) {
      pressure_.windows += live;
      return;
    }
    pressure_.operands += live;
    pressure_.largest = std::max(pressure_.largest, live);
  }

  uint64_t mask_of(const ast::ValueRef& v) {
    const auto* known = masks_.find(v.get());
    return known ? known->mask : 0;
  }
  double depth_of(const ast::ValueRef& v) {
    const auto* known = masks_.find(v.get());
    return known ? known->depth : 0;
  }

  /// The branches in an unrolled loop, of which branch_loop_ becomes the depth.
  std::optional<TakenBranches> find_branches(const ast::ValueRef& root) {
    for (size_t d = tile_.begin; d < loops_.size(); ++d) {
      if (loops_[d].loop->kind != ast::LoopKind::Unroll) continue;
      TakenBranches branches(root, *loops_[d].loop);
      if (branches.empty()) continue;
      branch_loop_ = static_cast<int>(d);
      return branches;
    }
    return std::nullopt;
  }

  uint64_t count_values(const ast::ValueRef& root, const ast::Value* fused) {
    const std::optional<TakenBranches> branches = find_branches(root);
    pending_.assign(1, root.get());
    while (!pending_.empty()) {
      const ast::Value* v = pending_.back();
      if (masks_.find(v)) {
        pending_.pop_back();
        continue;
      }
      bool ready = true;
      for (const auto& s : v->sources)
        if (!masks_.find(s.get())) {
          pending_.push_back(s.get());
          ready = false;
        }
      if (!ready) continue;
      pending_.pop_back();
      share_ = branches ? branches->share(*v) : 1;
      uint64_t mask = 0;
      double depth = 0;
      for (const auto& s : v->sources) {
        mask |= mask_of(s);
        depth = std::max(depth, depth_of(s));
      }
      if (v->op == Op::Load || v->op == Op::Gather) {
        mask = count_load(*v, mask);
        depth += kLoadCycles;
      } else {
        depth += share_ * op_cost(v->op, v->dtype).latency;
        if (v->op == Op::Index) mask = loops_.dependence(std::get<Expr>(v->attr));
        at_home(mask, [&] { count_op(*v, mask, v == fused); });
      }
      masks_.insert(v, mask, home_of(mask) < tile_.begin ? 0 : depth);
    }
    share_ = 1;
    return mask_of(root);
  }

  void add_to_body() const {
    Work& body = loops_.body(tile_.begin);
    add(work_, tile_.tail_factor, body);
    if (const Chain chain = work_.chain * tile_.tail_factor; chain.cycles({}) > body.chain.cycles({}))
      body.chain = chain;
    body.registers = std::max(body.registers, work_.registers);
  }

  const Target& target_;
  LoopsAround& loops_;
  const Features& features_;
  DependenceMap& masks_;
  std::vector<ast::ValueRef>& wholes_;
  std::vector<Expr> seen_; // parts of one load's index
  std::vector<const ast::Value*>& pending_;
  const Tile tile_;
  int branch_loop_ = -1; // depth of an unrolled loop in whose iterations different values are computed
  double share_ = 1;     // of these iterations, in which the value at hand is computed
  Work work_;
  Pressure pressure_;
};

} // namespace

void count_store(const ast::Store& store, bool goes_on, const Target& target, LoopsAround& loops) {
  auto& counted = per_thread<Counted, struct CountedValues>();
  if (!goes_on) {
    counted.masks.clear();
    counted.wholes.clear();
  }
  StoreCounter(target, loops, counted).count_store(store);
}

} // namespace lathe::search
