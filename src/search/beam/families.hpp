// The model's errors, as a search learns them from its measurements. Schedules that differ only in numbers,
// such as the sizes of tiles, form a family. Errors are much alike in a family and differ between families.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::search {

/// Hash of the family of these moves. It leaves out numbers, splits, unrolled loops, vector loops and
/// accumulators.
uint64_t family_of(const std::vector<Move>& moves);

class Families {
public:
  /// Records a measurement of the family; `ratio` is the measured time over the predicted one.
  void add(uint64_t family, double ratio);
  /// Factor applied to a predicted time; taken from measurements of the family, or of all families if there
  /// are few. The fewer there are, the lower the factor, so that each family that may hold the best gets its
  /// turn.
  double factor(uint64_t family) const;

private:
  struct Seen {
    double logarithms = 0, count = 0;
  };
  std::unordered_map<uint64_t, Seen> seen_;
  Seen all_;
};

} // namespace lathe::search
