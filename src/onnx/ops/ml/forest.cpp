#include "onnx/ops/ml/forest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "lathe/functions.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

constexpr int64_t kMaxSteps = 4096;
/// Of slots, and of weights in a table of leaves and targets.
constexpr int64_t kMaxTable = int64_t{1} << 28;
constexpr int64_t kMaxFeature = int64_t{1} << 27;
constexpr int64_t kNoTree = -1;

/// What a value may be to a threshold, as bits: those for which a node's comparison holds are beside its
/// feature.
enum Relation : uint32_t { kBelow = 1, kSame = 2, kAbove = 4, kMissing = 8 };
constexpr int kRelationBits = 4;

uint32_t relations(const ForestNode& node) {
  constexpr std::array<uint32_t, 7> of = {kBelow | kSame,  kBelow, kAbove | kSame, kAbove, kSame,
                                          kBelow | kAbove, 0};
  return of[static_cast<size_t>(node.branch)] | (node.missing_holds ? uint32_t{kMissing} : 0);
}

struct Slots {
  std::vector<int64_t> node;     // kNoTree: none, a leaf without votes
  std::vector<uint32_t> child;   // a leaf's own slot
  std::vector<uint8_t> forwards; // whether it only leads to the slot `child`, which several nodes share
  std::vector<int64_t> roots;
  int64_t steps = 0; // that the longest way takes

  bool is_leaf(size_t slot) const { return child[slot] == slot; }
};

class SlotMaker {
public:
  SlotMaker(Call& call, const Forest& forest)
      : call_(call), forest_(forest), placed_(forest.nodes.size(), -1) {}

  Slots make(const std::vector<int64_t>& roots) {
    for (int64_t root : roots) {
      slots_.roots.push_back(static_cast<int64_t>(slots_.node.size()));
      place(root);
      // Breadth first, so that the slots that most rows pass lie together.
      for (; next_ < slots_.node.size(); ++next_) place_below(next_);
    }
    measure_ways();
    return std::move(slots_);
  }

private:
  void place(int64_t node) {
    const auto slot = static_cast<uint32_t>(slots_.node.size());
    if (slot >= kMaxTable)
      call_.fail(ErrorKind::Limit, fmt::format("expected at most {} nodes", kMaxTable / 2));
    const bool shared = node != kNoTree && placed_[node] >= 0;
    if (node != kNoTree && !shared) placed_[node] = slot;
    slots_.node.push_back(shared ? kNoTree : node);
    slots_.child.push_back(shared ? static_cast<uint32_t>(placed_[node]) : slot);
    slots_.forwards.push_back(shared);
  }

  void place_below(size_t slot) {
    const int64_t node = slots_.node[slot];
    if (node == kNoTree || forest_.nodes[node].branch == Branch::Leaf) return;
    slots_.child[slot] = static_cast<uint32_t>(slots_.node.size());
    place(forest_.nodes[node].fails);
    place(forest_.nodes[node].holds);
  }

  // Of each slot the longest way from it, by an explicit stack: a tree may be as deep as it has nodes.
  void measure_ways() {
    constexpr int64_t kUnknown = -1, kOpen = -2;
    std::vector<int64_t> ways(slots_.node.size(), kUnknown);
    std::vector<size_t> open;
    for (int64_t root : slots_.roots) {
      open.push_back(root);
      while (!open.empty()) {
        const size_t slot = open.back();
        int64_t longest = slots_.is_leaf(slot) ? 0 : 1;
        bool known = true;
        for (size_t k = 0; !slots_.is_leaf(slot) && k < (slots_.forwards[slot] ? 1u : 2u); ++k) {
          const size_t below = slots_.child[slot] + k;
          if (ways[below] == kOpen) call_.fail(ErrorKind::Value, "nodes go in a circle, expected trees");
          if (ways[below] == kUnknown) open.push_back(below);
          known &= ways[below] >= 0;
          longest = std::max(longest, ways[below] + 1);
        }
        ways[slot] = known ? longest : kOpen;
        if (known) open.pop_back();
      }
      slots_.steps = std::max(slots_.steps, ways[root]);
    }
    if (slots_.steps > kMaxSteps)
      call_.fail(ErrorKind::Limit,
                 fmt::format("a tree of {} levels, expected at most {}", slots_.steps, kMaxSteps));
  }

  Call& call_;
  const Forest& forest_;
  std::vector<int64_t> placed_;
  Slots slots_;
  size_t next_ = 0;
};

Tensor numbers_as(const std::vector<double>& values, DType dtype, const Shape& shape) {
  if (dtype == DType::F64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

/// The comparison of all nodes where they have one, and NaN never counts as a comparison that holds.
std::optional<Branch> one_branch(const Forest& forest) {
  std::optional<Branch> common;
  for (const ForestNode& node : forest.nodes) {
    if (node.branch == Branch::Leaf) continue;
    if (node.branch == Branch::NotEqual || node.missing_holds || (common && *common != node.branch))
      return {};
    common = node.branch;
  }
  return common;
}

Tensor holds(Branch branch, const Tensor& value, const Tensor& threshold) {
  switch (branch) {
  case Branch::LessEqual: return value <= threshold;
  case Branch::Less: return value < threshold;
  case Branch::GreaterEqual: return value >= threshold;
  case Branch::Greater: return value > threshold;
  default: return value == threshold;
  }
}

/// What a step reads of slots.
struct Nodes {
  Tensor feature, threshold, child;

  Nodes at(const Tensor& slots) const {
    return {feature.take(slots), threshold.take(slots), child.take(slots)};
  }
};

/// One step of each row through each tree. With one comparison, `feature` is that and no more; a leaf's
/// threshold is NaN, with which none holds.
Tensor step(const Nodes& nodes, const Tensor& value, std::optional<Branch> branch) {
  if (branch) return nodes.child + holds(*branch, value, nodes.threshold).cast(DType::U32);
  const auto relation = [](uint32_t bit) { return Tensor::full({}, bit); };
  const Tensor found = where(value < nodes.threshold, relation(kBelow),
                             where(value == nodes.threshold, relation(kSame),
                                   where(value > nodes.threshold, relation(kAbove), relation(kMissing))));
  return nodes.child + ((nodes.feature & found) != 0).cast(DType::U32);
}

/// The slots of the leaves that the rows end at: [rows, trees].
Tensor walk(Call& call, const Forest& forest, const Slots& slots, const Tensor& x) {
  const std::optional<Branch> branch = one_branch(forest);
  const int64_t features = fixed_size(call, x, 1);
  const size_t count = slots.node.size();
  std::vector<uint32_t> feature(count);
  std::vector<double> threshold(count, std::numeric_limits<double>::quiet_NaN());
  for (size_t slot = 0; slot < count; ++slot) {
    if (slots.is_leaf(slot) || slots.forwards[slot]) continue;
    const ForestNode& node = forest.nodes[slots.node[slot]];
    if (node.feature < 0 || node.feature >= std::min(features, kMaxFeature))
      call.fail(ErrorKind::Shape,
                fmt::format("a node asks for feature {}, expected one of {}", node.feature, features));
    if (std::isnan(node.threshold)) call.fail(ErrorKind::Value, "a threshold is NaN, expected a number");
    threshold[slot] = node.threshold;
    feature[slot] = static_cast<uint32_t>(node.feature);
    if (!branch) feature[slot] = feature[slot] << kRelationBits | relations(node);
  }
  const Shape flat{static_cast<int64_t>(count)};
  const Nodes nodes{Tensor::from(feature, flat), numbers_as(threshold, forest.computed, flat),
                    Tensor::from(slots.child, flat)};
  const auto column = [&](const Tensor& read) {
    return branch ? read : read >> Tensor::full({}, static_cast<uint32_t>(kRelationBits));
  };
  const Shape pairs{x.size(0), static_cast<int64_t>(slots.roots.size())};
  const Tensor roots = Tensor::from(slots.roots).cast(DType::U32);
  if (slots.steps == 0) return roots.expand(pairs);
  // All rows begin at the roots: what is read there has no axis of rows.
  const Nodes first = nodes.at(roots);
  Tensor at = step(first, x.take(column(first.feature), 1), branch);
  for (int64_t k = 1; k < slots.steps; ++k) {
    const Nodes here = nodes.at(at);
    at = step(here, x.gather(1, column(here.feature)), branch);
  }
  return at;
}

/// The leaves below each root, as nodes.
std::vector<std::vector<int64_t>> leaves_of(const Forest& forest) {
  std::vector<std::vector<int64_t>> all;
  std::vector<int64_t> seen_by(forest.nodes.size(), -1), open;
  for (int64_t root : forest.roots) {
    const auto tree = static_cast<int64_t>(all.size());
    std::vector<int64_t>& leaves = all.emplace_back();
    open.push_back(root);
    while (!open.empty()) {
      const int64_t node = open.back();
      open.pop_back();
      if (std::exchange(seen_by[node], tree) == tree) continue;
      if (forest.nodes[node].branch == Branch::Leaf) {
        leaves.push_back(node);
      } else {
        open.push_back(forest.nodes[node].fails);
        open.push_back(forest.nodes[node].holds);
      }
    }
  }
  return all;
}

/// Whether each target gets a vote of every row: some tree votes for it with all of its leaves.
bool all_are_voted(const Forest& forest, const std::vector<std::vector<int64_t>>& leaves) {
  std::vector<bool> voted(forest.targets);
  std::vector<size_t> votes(forest.targets), last_leaf(forest.targets);
  size_t leaf_number = 0;
  for (const std::vector<int64_t>& tree : leaves) {
    std::fill(votes.begin(), votes.end(), 0);
    for (int64_t leaf : tree) {
      ++leaf_number;
      for (const Vote& vote : forest.votes[leaf])
        if (std::exchange(last_leaf[vote.target], leaf_number) != leaf_number) ++votes[vote.target];
    }
    for (int64_t target = 0; target < forest.targets; ++target)
      if (votes[target] == tree.size()) voted[target] = true;
  }
  return std::find(voted.begin(), voted.end(), false) == voted.end();
}

/// The trees in groups of one size for each target, filled up with kNoTree, if every tree votes for one
/// target and that does not take many more trees.
std::optional<std::vector<int64_t>> roots_by_target(const Forest& forest,
                                                    const std::vector<std::vector<int64_t>>& leaves) {
  std::vector<std::vector<int64_t>> groups(forest.targets);
  for (size_t tree = 0; tree < leaves.size(); ++tree) {
    std::optional<int64_t> target;
    for (int64_t leaf : leaves[tree])
      for (const Vote& vote : forest.votes[leaf]) {
        if (target && *target != vote.target) return {};
        target = vote.target;
      }
    groups[target.value_or(0)].push_back(forest.roots[tree]);
  }
  size_t most = 0;
  for (const auto& group : groups) most = std::max(most, group.size());
  if (most * groups.size() > forest.roots.size() * 2) return {};
  std::vector<int64_t> roots;
  for (auto& group : groups) {
    group.resize(most, kNoTree);
    roots.insert(roots.end(), group.begin(), group.end());
  }
  return roots;
}

/// Sums of weights where a slot's votes are for its tree's target: [rows, targets].
Tensor sum_by_target(Call& call, const Forest& forest, const std::vector<int64_t>& roots, const Tensor& x) {
  const Slots slots = SlotMaker(call, forest).make(roots);
  std::vector<double> weights(slots.node.size());
  for (size_t slot = 0; slot < weights.size(); ++slot)
    if (slots.is_leaf(slot) && slots.node[slot] != kNoTree)
      for (const Vote& vote : forest.votes[slots.node[slot]]) weights[slot] += vote.weight;
  const Tensor reached = numbers_as(weights, forest.computed, {static_cast<int64_t>(weights.size())})
                             .take(walk(call, forest, slots, x));
  return reached.reshape({x.size(0), forest.targets, -1}).sum({2});
}

/// A row of numbers for each leaf, one of each target.
struct LeafTable {
  std::vector<double> weights;
  std::vector<uint8_t> voted;
  std::vector<uint32_t> row_of; // each slot's
  int64_t rows = 0;
};

LeafTable leaf_table(Call& call, const Forest& forest, const Slots& slots, Aggregate aggregate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double absent = aggregate == Aggregate::Min   ? kInfinity
                        : aggregate == Aggregate::Max ? -kInfinity
                                                      : 0;
  LeafTable table;
  table.row_of.resize(slots.node.size());
  for (size_t slot = 0; slot < slots.node.size(); ++slot)
    if (slots.is_leaf(slot)) table.row_of[slot] = static_cast<uint32_t>(table.rows++);
  if (table.rows > kMaxTable / forest.targets)
    call.fail(ErrorKind::Limit, fmt::format("{} leaves of {} targets, expected at most {} weights",
                                            table.rows, forest.targets, kMaxTable));
  table.weights.assign(table.rows * forest.targets, absent);
  table.voted.assign(table.rows * forest.targets, 0);
  for (size_t slot = 0; slot < slots.node.size(); ++slot) {
    if (!slots.is_leaf(slot) || slots.node[slot] == kNoTree) continue;
    for (const Vote& vote : forest.votes[slots.node[slot]]) {
      const size_t cell = table.row_of[slot] * forest.targets + vote.target;
      double& weight = table.weights[cell];
      if (aggregate == Aggregate::Min)
        weight = std::min(weight, vote.weight);
      else if (aggregate == Aggregate::Max)
        weight = std::max(weight, vote.weight);
      else
        weight += vote.weight;
      table.voted[cell] = 1;
    }
  }
  return table;
}

} // namespace

Votes count_votes(Call& call, const Forest& forest, const Tensor& x, Aggregate aggregate, bool ask_voted) {
  const std::vector<std::vector<int64_t>> leaves = leaves_of(forest);
  const bool sums = aggregate == Aggregate::Sum || aggregate == Aggregate::Average;
  const bool everywhere = (sums && !ask_voted) || all_are_voted(forest, leaves);
  const Tensor values = x.cast(forest.computed);
  const auto shared = [&](const Tensor& sum) {
    return aggregate == Aggregate::Average ? sum / static_cast<double>(forest.roots.size()) : sum;
  };
  if (sums && everywhere)
    if (const auto roots = roots_by_target(forest, leaves))
      return {shared(sum_by_target(call, forest, *roots, values)), {}};

  const Slots slots = SlotMaker(call, forest).make(forest.roots);
  const LeafTable table = leaf_table(call, forest, slots, aggregate);
  const Tensor rows = Tensor::from(table.row_of).take(walk(call, forest, slots, values));
  const Shape shape{table.rows, forest.targets};
  const Tensor weights = numbers_as(table.weights, forest.computed, shape).take(rows);
  Votes votes{sums                          ? shared(weights.sum({1}))
              : aggregate == Aggregate::Min ? weights.min({1})
                                            : weights.max({1}),
              {}};
  if (everywhere) return votes;
  votes.voted = Tensor::from(table.voted, shape).take(rows).max({1}) != 0;
  if (!sums) votes.scores = where(*votes.voted, votes.scores, 0.0);
  return votes;
}

} // namespace lathe::onnx
