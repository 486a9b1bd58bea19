#include "search/cost/work.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ast/instruction.hpp"
#include "ast/machine/access.hpp"
#include "ast/machine/moved_up.hpp"
#include "ast/passes/interleave.hpp"
#include "ast/passes/prepare.hpp"
#include "core/per_thread.hpp"
#include "search/cost/access_work.hpp"
#include "search/cost/constants.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/dependence_map.hpp"
#include "search/cost/op_cost.hpp"
#include "search/cost/straight_code.hpp"
#include "search/cost/taken_branches.hpp"
#include "search/cost/tensor_work.hpp"

namespace lathe::search {
namespace {

constexpr double kLoadCycles = 5; // from the first level till a load's value is there

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

/// The values that were counted, with the loops they depend on; memory that is reused.
struct Counted {
  DependenceMap masks;
  std::vector<ast::ValueRef> wholes; // of lanes moved up: counted, too, and not another's address meanwhile
  std::vector<const ast::Value*> pending;
};

class StoreCounter {
public:
  StoreCounter(const Target& target, LoopsAround& loops, Counted& counted)
      : code_(target, loops), masks_(counted.masks), wholes_(counted.wholes), pending_(counted.pending) {}

  void count_store(const ast::Store& s) {
    if (const std::optional<Work> tensor = tensor_work(tile_.begin, target_, loops_)) {
      work_ = *tensor;
      return code_.add_to_body();
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
    index_mask |= loops_.add_access(s.buffer.get(), s.index, access, s.scatter.get());
    const AccessInfo added = code_.features.accesses.back();

    const int body = tile_.begin > 0 ? static_cast<int>(tile_.begin) - 1 : -1;
    // A tile that is made anew in every iteration depends on nothing from the one before.
    const bool carried =
        body >= 0 && !has(index_mask, body) && static_cast<int>(loops_.made_at(*s.buffer)) <= body;
    const bool across = s.combine && code_.is_vector(value_mask) && !code_.is_vector(index_mask);
    // What a loop combines into the same element is kept in registers till it ends
    // (ast/passes/accumulators.cpp): one for each lane that meets others there, and for each unrolled copy.
    const bool kept = s.combine && !s.scatter && carried && !target_.groups &&
                      (across || s.buffer->scope != ast::Scope::Register) &&
                      loops_[body].loop->kind == ast::LoopKind::Serial;
    const bool in_registers = kept || accesses_.stays_in_registers(*s.buffer, added, index_mask);
    const bool vector = code_.is_vector(index_mask) || code_.is_vector(value_mask);
    const double n = code_.copies(index_mask), parts = code_.registers_for(vector, s.value->dtype);
    Pressure& pressure = code_.pressure;
    if (in_registers)
      pressure.accumulators =
          std::max(pressure.accumulators, (kept ? code_.copies(index_mask | value_mask) : n) * parts);
    else
      accesses_.count(added, index_mask, n, s.buffer->dtype, work_.stores);
    if (s.combine) {
      const OpCost cost = op_cost(*s.combine, s.value->dtype);
      // Combines into one element, one after the other; also those of a value that is the same in all.
      const double steps = code_.copies(kAllLoops) / std::max(1.0, n);
      work_.arithmetic += n * steps * parts * cost.instructions;
      if (fused || *s.combine == Op::Mul) work_.multiplications += n * steps * parts * cost.instructions;
      work_.operations += n * steps * (vector ? tile_.lanes : 1);
      if (!in_registers) {
        accesses_.count(added, index_mask, n, s.buffer->dtype, work_.loads);
        // A masked store is not forwarded to the load that follows: that one waits until it is written.
        if (tile_.partial && code_.is_vector(index_mask))
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
    work_.registers = pressure.in_all();
    if (!target_.groups) work_.stalls = stalls_of(s);
    code_.add_to_body();
  }

private:
  /// Cycles of the copies of a value whose operations wait for each other. At once a core computes as many
  /// copies as fill its schedulers or, if they advance together (ast/passes/interleave.hpp), as many as do
  /// that.
  double stalls_of(const ast::Store& s) {
    const double all = code_.copies(kAllLoops),
                 instructions =
                     std::max(1.0, (work_.arithmetic + work_.loads + work_.stores + work_.other) / all);
    const bool advance = !s.combine && !s.scatter && tile_.vector >= 0 && !tile_.partial &&
                         work_.arithmetic >= all * static_cast<double>(ast::kLeastSteps);
    const double together = advance ? std::min(all, static_cast<double>(ast::kMostTogether)) : 1;
    return all * depth_of(s.value) / std::max(together, cost_constants.waiting / instructions);
  }

  /// With what the operands tell: the distance of a shift that unrolling makes a constant needs no check, and
  /// integers become wider, or those of 32 bits f32, by one instruction.
  OpCost cost_of(const ast::Value& v, DType dtype, bool vector) {
    OpCost cost = op_cost(v.op, dtype, vector && target_.vector_bytes >= 64);
    if (v.op == Op::Shl || v.op == Op::Shr) {
      const uint64_t distance = mask_of(v.sources[1]);
      if ((distance & ~tile_.inside) == 0 && !code_.is_vector(distance)) cost.instructions = cost.latency = 1;
    }
    if (v.op == Op::Cast && is_integer(v.sources[0]->dtype) && size_of(dtype) == 4 &&
        size_of(v.sources[0]->dtype) <= 4 && (is_integer(dtype) || size_of(v.sources[0]->dtype) == 4))
      cost.instructions = 1;
    return cost;
  }

  void count_op(const ast::Value& v, uint64_t mask, bool fused) {
    const double n = code_.copies(mask);
    const bool vector = code_.is_vector(mask);
    // Comparisons work on registers of what they compare.
    const DType dtype = v.sources.empty() || v.dtype != DType::Bool ? v.dtype : v.sources[0]->dtype;
    const double parts = code_.registers_for(vector, dtype);
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
    code_.at_home(mask, [&] {
      work_.arithmetic += code_.copies(mask) * code_.registers_for(true, moved.whole->dtype);
    });
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
    uint64_t mask =
        source_mask | loops_.add_access(attr.buffer.get(), attr.index, access,
                                        access.random && !access.in_registers ? v.sources[0].get() : nullptr);
    const AccessInfo& added = code_.features.accesses.back();
    double guarded = 0, masked = accesses_.masked_tails(); // shares of its executions
    for (const Expr& guard : attr.guards) {
      const uint64_t guard_mask = loops_.dependence(guard);
      const double share = share_guarded(guard, guard_mask);
      if (code_.is_vector(guard_mask)) masked = std::min(1.0, masked + share);
      work_.other += 2 * share * code_.copies(guard_mask);
      guarded = std::min(1.0, guarded + share);
      mask |= guard_mask;
    }
    const size_t changed = std::min(loops_.changed_within(*attr.buffer), tile_.begin);
    const uint64_t changes = mask | (changed > 0 ? uint64_t{1} << std::min<size_t>(changed - 1, 63) : 0);
    code_.at_home(changes, [&] { accesses_.count_load(attr, added, mask, guarded, masked, v.dtype); });
    return changes;
  }

  uint64_t mask_of(const ast::ValueRef& v) {
    const auto* known = masks_.find(v.get());
    return known ? known->mask : 0;
  }
  double depth_of(const ast::ValueRef& v) {
    const auto* known = masks_.find(v.get());
    return known ? known->depth : 0;
  }

  /// The branches in an unrolled loop, whose depth is noted.
  std::optional<TakenBranches> find_branches(const ast::ValueRef& root) {
    for (size_t d = tile_.begin; d < loops_.size(); ++d) {
      if (loops_[d].loop->kind != ast::LoopKind::Unroll) continue;
      TakenBranches branches(root, *loops_[d].loop);
      if (branches.empty()) continue;
      code_.branch_loop = static_cast<int>(d);
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
      code_.share = branches ? branches->share(*v) : 1;
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
        depth += code_.share * op_cost(v->op, v->dtype).latency;
        if (v->op == Op::Index) mask = loops_.dependence(std::get<Expr>(v->attr));
        code_.at_home(mask, [&] { count_op(*v, mask, v == fused); });
      }
      masks_.insert(v, mask, code_.home_of(mask) < tile_.begin ? 0 : depth);
    }
    code_.share = 1;
    return mask_of(root);
  }

  StraightCode code_;
  AccessWork accesses_{code_};
  const Target& target_ = code_.target;
  LoopsAround& loops_ = code_.loops;
  const Tile& tile_ = code_.tile;
  Work& work_ = code_.work;
  DependenceMap& masks_;
  std::vector<ast::ValueRef>& wholes_;
  std::vector<const ast::Value*>& pending_;
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
