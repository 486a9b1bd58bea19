// What a search learns of the model's mistakes while it measures. They are much alike among schedules that
// differ in numbers only, such as the sizes of tiles, and differ from one kind of schedule to another.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::search {

/// Equal for lists of moves that differ in numbers, or in how loops inside a tile are split, unrolled and run
/// on vectors.
uint64_t family_of(const std::vector<Move>& moves);

class Families {
public:
  /// A variant of this family took so many times as long as predicted.
  void add(uint64_t family, double ratio);
  /// By how much a prediction is to be multiplied: by what was measured of the family, and of all where that
  /// is little. The less is known, the more is hoped for, so that each family that may hold the best gets its
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
