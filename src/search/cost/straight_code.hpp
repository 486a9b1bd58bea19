// Straight-line code: a store with the unrolled and vector loops right around it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "search/cost/loops_around.hpp"
#include "search/machine/target.hpp"

namespace lathe::search {

/// The unrolled and vector loops right around a store: straight-line code.
struct Tile {
  size_t begin = 0;    // depth of its first loop
  uint64_t inside = 0; // depths of its loops
  int vector = -1;     // depth of its vector loop
  double lanes = 1;
  bool partial = false;   // the vector loop never fills its lanes
  double tail_factor = 1; // what ragged executions add
};

constexpr uint64_t kAllLoops = ~uint64_t{0};

inline bool has(uint64_t mask, int depth) { return depth >= 0 && (mask >> depth & 1); }

/// Registers, by what they hold.
struct Pressure {
  double accumulators = 0, operands = 0, largest = 0, windows = 0;
  /// 0: nothing is accumulated. Else with room for the largest operand's parts one after the other.
  double in_all() const { return accumulators == 0 ? 0 : accumulators + operands - largest + windows + 1; }
};

/// What is counted of such code. A mask says which loops something depends on, a bit for each depth.
class StraightCode {
public:
  StraightCode(const Target& target, LoopsAround& loops);

  bool is_vector(uint64_t mask) const { return has(mask, tile.vector); }
  /// How many copies unrolling makes of what depends on the loops of `mask`.
  double copies(uint64_t mask) const;
  /// Within how many loops a value is computed that depends on those of `mask`: renderers leave out all that
  /// it is the same in.
  size_t home_of(uint64_t mask) const;
  /// The vector registers of a value, or 1.
  double registers_for(bool vector, DType dtype) const;

  /// What count() adds to the work belongs to the loops that a value with this mask changes in.
  template <class F> void at_home(uint64_t mask, F&& count) {
    const size_t home = home_of(mask);
    if (home >= tile.begin) return count();
    Work own = std::exchange(work, {});
    count();
    std::swap(own, work);
    add_to(home, own);
  }
  /// Adds what was counted to the body that the code stands in.
  void add_to_body() const;

  const Target& target;
  LoopsAround& loops;
  const Features& features;
  const Tile tile;
  Work work;
  Pressure pressure;
  int branch_loop = -1; // depth of an unrolled loop in whose iterations different values are computed
  double share = 1;     // of these iterations, in which the value at hand is computed

private:
  void add_to(size_t depth, const Work& counted) const;
};

} // namespace lathe::search
