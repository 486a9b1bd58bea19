// Random walks: plans that search could reach, made by trying random moves and keeping the legal ones.
#pragma once
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "search/moves/move.hpp"

namespace lathe::test {

using search::Move;
using search::MoveKind;

/// Of all kinds of moves: what parse_move() says that it knows.
inline std::vector<std::string> move_names() {
  std::string known;
  try {
    search::parse_move("?()");
  } catch (const Error& error) {
    known = error.what();
  }
  const std::string before = "one of ";
  known.erase(0, known.find(before) + before.size());
  std::vector<std::string> names;
  for (size_t at = 0, end = 0; end != std::string::npos; at = end + 2) {
    end = known.find(", ", at);
    names.push_back(known.substr(at, end == std::string::npos ? end : end - at));
  }
  return names;
}

struct LoopNames {
  std::vector<std::string> all;                 // every loop of the plan
  std::vector<std::vector<std::string>> chains; // loops of perfect nests, outermost first
};

inline void collect_loops(const ast::Block& block, LoopNames& out, std::vector<std::string> chain = {}) {
  for (const ast::Stmt& stmt : block) {
    if (auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      collect_loops(alloc->body, out);
    } else if (auto* loop = std::get_if<ast::For>(&stmt.node)) {
      out.all.push_back(loop->var.name());
      std::vector<std::string> longer = block.size() == 1 ? chain : std::vector<std::string>{};
      longer.push_back(loop->var.name());
      if (longer.size() > 1) out.chains.push_back(longer);
      collect_loops(loop->body, out, longer);
    }
  }
}

class Walker {
public:
  Walker(uint64_t seed, const search::Target& target) : random_(seed), target_(target) {}

  /// Tries `attempts` random moves on the plan, and keeps those that are legal. Half of the walks begin with
  /// some that rewrite the graph, which nothing else may come before.
  search::Plan walk(search::Plan plan, int attempts) {
    if (!plan.history && random_() % 2)
      for (int i = 0; i < kRewrites; ++i)
        if (auto applied = search::apply(plan, propose_rewrite(plan), target_); applied.plan)
          plan = std::move(*applied.plan);
    for (int i = 0; i < attempts; ++i)
      if (auto applied = search::apply(plan, propose(plan), target_); applied.plan)
        plan = std::move(*applied.plan);
    return plan;
  }

private:
  static constexpr int kRewrites = 12; // attempts

  template <class T> const T& pick(const std::vector<T>& from) { return from[random_() % from.size()]; }

  Move propose_rewrite(const search::Plan& plan) {
    std::vector<std::string> names;
    for (const auto& stage : plan.program->stages) names.push_back(stage.buffer->name);
    std::shuffle(names.begin(), names.end(), random_);
    names.resize(random_() % 4 ? 1 : std::min<size_t>(2, names.size()));
    switch (random_() % 3) {
    case 0: return {MoveKind::Winograd, names, {random_() % 2 ? 2 : 4}};
    case 1: return {MoveKind::Strassen, names, {random_() % 2 ? 1 : 2}};
    default: return {MoveKind::Innermost, names, {static_cast<int64_t>(random_() % 4)}};
    }
  }

  Move propose(const search::Plan& plan) {
    LoopNames loops;
    std::vector<std::string> stages, buffers;
    for (const auto& kernel : plan.kernels) {
      collect_loops(kernel->kernel.body, loops);
      for (int s : kernel->stages) stages.push_back(fmt::format("t{}", s));
      for (const auto& param : kernel->kernel.params) buffers.push_back(param.buffer->name);
    }
    if (loops.all.empty()) loops.all.push_back("t0.i0");
    static const std::vector<int64_t> factors{2, 3, 4, 5, 7, 8, 16, 32, 64};
    static const std::vector<std::string> scopes{"packed", "packed", "register", "local"};
    switch (random_() % (target_.groups ? 41 : 32)) {
    case 0:
    case 1:
    case 2: return {MoveKind::Inline, {pick(stages)}, {}};
    case 3:
    case 4:
    case 5:
      return {MoveKind::FuseAt, {pick(stages), random_() % 6 ? pick(loops.all) : "root", pick(scopes)}, {}};
    case 6:
    case 7:
    case 8: return {MoveKind::Split, {pick(loops.all)}, {pick(factors)}};
    case 9:
    case 10: {
      if (loops.chains.empty()) return {MoveKind::Unroll, {pick(loops.all)}, {}};
      std::vector<std::string> names = pick(loops.chains);
      std::shuffle(names.begin(), names.end(), random_);
      return {MoveKind::Reorder, names, {}};
    }
    case 11: return {MoveKind::Unroll, {pick(loops.all)}, {}};
    case 12:
    case 13: return {MoveKind::Vectorise, {pick(loops.all)}, {}};
    case 14: return {MoveKind::Parallelise, {pick(loops.all)}, {}};
    case 15: return {MoveKind::Pack, {pick(stages), pick(buffers), pick(loops.all), pick(scopes)}, {}};
    case 16: return {MoveKind::Accumulate, {pick(stages), pick(loops.all)}, {}};
    case 17: return {MoveKind::Accumulate, {pick(stages), pick(loops.all), pick(loops.all)}, {}};
    case 18: return {MoveKind::Stream, {pick(stages)}, {}};
    case 19: return {MoveKind::Prepack, {pick(stages), pick(buffers)}, {}};
    case 20:
    case 21:
    case 22:
    case 23:
    case 24:
    case 25: { // three loops of one nest, from outside inwards
      if (loops.chains.empty()) return {MoveKind::Unroll, {pick(loops.all)}, {}};
      const std::vector<std::string>& chain = pick(loops.chains);
      std::vector<size_t> at{random_() % chain.size(), random_() % chain.size(), random_() % chain.size()};
      std::sort(at.begin(), at.end());
      return {MoveKind::PrefetchTile,
              {pick(stages), pick(buffers), chain[at[0]], chain[at[1]], chain[at[2]]},
              {int64_t{1} << random_() % 3}};
    }
    case 26: return {MoveKind::Prefetch, {pick(stages), pick(buffers), pick(loops.all)}, {pick(factors)}};
    case 27: return {MoveKind::Merge, {pick(stages), pick(stages)}, {}};
    case 28: return {MoveKind::Border, {pick(stages)}, {}};
    case 29: return {MoveKind::Join, {pick(stages)}, {static_cast<int64_t>(random_() % 4)}};
    case 30: return {MoveKind::StoreFirst, {pick(stages), pick(loops.all)}, {}};
    case 31: return {MoveKind::Carry, {pick(stages), pick(loops.all)}, {}};
    case 32:
    case 33:
    case 34: return {MoveKind::Bind, {pick(loops.all), "group"}, {static_cast<int64_t>(random_() % 3)}};
    case 35: return {MoveKind::Pack, {pick(stages), pick(buffers), pick(loops.all), "local"}, {}};
    case 36: return {MoveKind::FuseAt, {pick(stages), pick(loops.all), "local"}, {}};
    default: return {MoveKind::Bind, {pick(loops.all), "local"}, {static_cast<int64_t>(random_() % 3)}};
    }
  }

  std::mt19937_64 random_;
  search::Target target_;
};

} // namespace lathe::test
