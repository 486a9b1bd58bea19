#include "search/beam/families.hpp"

#include <cmath>

#include "core/hash.hpp"

namespace lathe::search {

constexpr double kHope = 0.2; // logarithm of a ratio; lowers the factor of a family without measurements
constexpr double kAsAll = 1;  // measurements of a family that weigh as much as the mean of all families

uint64_t family_of(const std::vector<Move>& moves) {
  uint64_t h = hash_text("family");
  for (const Move& move : moves) {
    if (move.kind == MoveKind::Split || move.kind == MoveKind::Unroll || move.kind == MoveKind::Vectorise ||
        move.kind == MoveKind::Accumulate)
      continue;
    h = mix(h, static_cast<uint64_t>(move.kind));
    for (const Argument& argument : move.arguments)
      if (!std::holds_alternative<int64_t>(argument)) h = mix(h, hash_text(to_string(argument)));
  }
  return h;
}

void Families::add(uint64_t family, double ratio) {
  for (Seen* seen : {&seen_[family], &all_}) {
    seen->logarithms += std::log(ratio);
    ++seen->count;
  }
}

double Families::factor(uint64_t family) const {
  const auto found = seen_.find(family);
  const Seen own = found == seen_.end() ? Seen{} : found->second;
  const double of_all = all_.count > 0 ? all_.logarithms / all_.count : 0;
  const double mean = (own.logarithms + kAsAll * of_all) / (own.count + kAsAll);
  return std::exp(mean - kHope / std::sqrt(own.count + 1));
}

} // namespace lathe::search
