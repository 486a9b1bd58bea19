// Random walks: plans that search could reach, made by trying random moves and keeping the legal ones.
#pragma once
#include <random>

#include "search/moves/draw.hpp"

namespace lathe::test {

class Walker {
public:
  Walker(uint64_t seed, const search::Target& target) : random_(seed), target_(target) {}

  /// Tries `attempts` random moves on the plan, and keeps those that are legal. Half of the walks begin with
  /// some that rewrite the graph, which nothing else may come before.
  search::Plan walk(search::Plan plan, int attempts) {
    if (!plan.history && random_() % 2)
      for (int i = 0; i < kRewrites; ++i) attempt(plan, true);
    for (int i = 0; i < attempts; ++i) attempt(plan, false);
    return plan;
  }

private:
  static constexpr int kRewrites = 12; // attempts

  void attempt(search::Plan& plan, bool rewrites) {
    search::Draw draw(plan, target_, random_);
    const search::Move move = rewrites ? draw.rewrite() : draw.other();
    if (auto applied = search::apply(plan, move, target_); applied.plan) plan = std::move(*applied.plan);
  }

  std::mt19937_64 random_;
  search::Target target_;
};

} // namespace lathe::test
