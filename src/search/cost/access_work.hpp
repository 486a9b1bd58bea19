// The instructions of the loads and stores of straight-line code, and the registers that hold what is loaded.
#pragma once
#include <cstdint>
#include <vector>

#include "search/cost/straight_code.hpp"

namespace lathe::search {

/// Counts into the work and the pressure of the code. A mask says which loops an access depends on.
class AccessWork {
public:
  explicit AccessWork(StraightCode& code)
      : code_(code), target_(code.target), loops_(code.loops), features_(code.features), tile_(code.tile),
        work_(code.work), pressure_(code.pressure) {}

  /// One memory access: `n` copies of it. `slots`: the loads or the stores. `masked`: the share of vectors of
  /// which some lanes are left out.
  void count(const AccessInfo& access, uint64_t mask, double n, DType dtype, double& slots,
             double masked = 0);
  /// A load, or the element that a Gather reads. `guarded`: the share of its executions that a condition
  /// guards.
  void count_load(const ast::LoadAttr& attr, const AccessInfo& access, uint64_t mask, double guarded,
                  double masked, DType dtype);
  /// A target promotes an array to registers if whole vectors of it are used, contiguous along the lanes.
  bool stays_in_registers(const ast::Buffer& buffer, const AccessInfo& access, uint64_t mask) const;
  /// The share of the vectors that end before their last lane: all, or the last of some.
  double masked_tails() const;

private:
  /// Lanes that are picked from the vectors between them: each pair of vectors takes a shuffle, or two and a
  /// blend.
  void count_spaced(double stride, double n, double parts);
  /// Quotients and remainders that change from one iteration of the body to the next. A part that occurs
  /// twice in one load's index is computed once, and counts once.
  void count_divisions(Expr e);
  /// Whether the target picks the lanes from one vector: their step, which is an average, is none.
  bool is_picked(const ast::LoadAttr& attr, double stride) const;
  /// Whether the target loads such lanes of a Gather as part of a vector.
  bool loads_row(double stride, DType dtype) const;
  /// Of what goes along the lanes: it is not whole vectors of the array, counted from its beginning.
  bool lies_across(const AccessInfo& access) const;
  /// Elements of a register tile, one from each of as many whole vectors.
  bool is_column(const ast::Buffer& buffer, const AccessInfo& access, uint64_t mask) const;
  /// How many different elements (or vectors) the copies of a load read, where unrolled loops move along the
  /// same elements. A compiler loads such a window once and keeps all of it.
  double window_of(const AccessInfo& access) const;

  const StraightCode& code_;
  const Target& target_;
  LoopsAround& loops_;
  const Features& features_;
  const Tile& tile_;
  Work& work_;
  Pressure& pressure_;
  std::vector<Expr> seen_; // parts of one load's index
};

} // namespace lathe::search
