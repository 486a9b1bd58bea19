#include "onnx/ops/ml/forest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/tree_slots.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

constexpr int64_t kMaxFeature = int64_t{1} << 27;

/// What a value may be to a threshold, as bits: those for which a node's comparison holds are beside its
/// feature.
enum Relation : uint32_t { kBelow = 1, kSame = 2, kAbove = 4, kMissing = 8 };
constexpr int kRelationBits = 4;

uint32_t relations(const ForestNode& node) {
  constexpr std::array<uint32_t, 7> of = {kBelow | kSame,  kBelow, kAbove | kSame, kAbove, kSame,
                                          kBelow | kAbove, 0};
  return of[static_cast<size_t>(node.branch)] | (node.missing_holds ? uint32_t{kMissing} : 0);
}

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
  const int64_t steps = *std::max_element(slots.steps.begin(), slots.steps.end());
  if (steps == 0) return roots.expand(pairs);
  // All rows begin at the roots: what is read there has no axis of rows.
  const Nodes first = nodes.at(roots);
  Tensor at = step(first, x.take(column(first.feature), 1), branch);
  for (int64_t k = 1; k < steps; ++k) {
    const Nodes here = nodes.at(at);
    at = step(here, x.gather(1, column(here.feature)), branch);
  }
  return at;
}

/// Trees of a forest that are walked together.
struct Trees {
  std::vector<int64_t> roots;
  std::vector<std::vector<int64_t>> leaves; // below each root, as nodes
};

Trees trees_of(const Forest& forest) {
  Trees trees{forest.roots, {}};
  std::vector<int64_t> seen_by(forest.nodes.size(), -1), open;
  for (int64_t root : forest.roots) {
    const auto tree = static_cast<int64_t>(trees.leaves.size());
    std::vector<int64_t>& leaves = trees.leaves.emplace_back();
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
  return trees;
}

/// Where a list of numbers of steps, ascending, is cut in two so that both parts together walk the least:
/// each walks as many steps as its last tree needs. The list's size where a cut does not save enough.
size_t best_cut(const std::vector<int64_t>& steps) {
  constexpr double kWorthwhile = 0.9; // of the steps without a cut; two parts are twice the kernels
  const auto count = static_cast<int64_t>(steps.size());
  size_t best = steps.size();
  auto least = static_cast<int64_t>(kWorthwhile * static_cast<double>(count * steps.back()));
  for (int64_t k = 1; k < count; ++k) {
    const int64_t walked = k * steps[k - 1] + (count - k) * steps.back();
    if (walked >= least) continue;
    least = walked;
    best = static_cast<size_t>(k);
  }
  return best;
}

/// The trees in one or two parts, shallow ones and deep ones. Few trees stay together.
std::vector<Trees> by_depth(Call& call, const Forest& forest, const Trees& trees) {
  constexpr size_t kFew = 16;
  const std::vector<int64_t> steps = make_slots(call, forest, trees.roots).steps;
  if (trees.roots.size() < kFew) return {trees};
  std::vector<size_t> order(trees.roots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return steps[a] < steps[b]; });
  std::vector<int64_t> sorted;
  for (const size_t tree : order) sorted.push_back(steps[tree]);
  std::vector<Trees> parts;
  size_t begin = 0;
  for (const size_t end : {best_cut(sorted), sorted.size()}) {
    if (begin == end) continue;
    Trees& part = parts.emplace_back();
    for (; begin < end; ++begin) {
      part.roots.push_back(trees.roots[order[begin]]);
      part.leaves.push_back(trees.leaves[order[begin]]);
    }
  }
  return parts;
}

/// Whether each target gets a vote of every row: some tree votes for it with all of its leaves.
bool all_are_voted(const Forest& forest, const Trees& trees) {
  std::vector<bool> voted(forest.targets);
  std::vector<size_t> votes(forest.targets), last_leaf(forest.targets);
  size_t leaf_number = 0;
  for (const std::vector<int64_t>& tree : trees.leaves) {
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

/// The roots in groups of one size for each target, filled up with kNoTree, if every tree votes for one
/// target and that does not take many more trees.
std::optional<std::vector<int64_t>> roots_by_target(const Forest& forest, const Trees& trees) {
  std::vector<std::vector<int64_t>> groups(forest.targets);
  for (size_t tree = 0; tree < trees.roots.size(); ++tree) {
    std::optional<int64_t> target;
    for (int64_t leaf : trees.leaves[tree])
      for (const Vote& vote : forest.votes[leaf]) {
        if (target && *target != vote.target) return {};
        target = vote.target;
      }
    groups[target.value_or(0)].push_back(trees.roots[tree]);
  }
  size_t most = 0;
  for (const auto& group : groups) most = std::max(most, group.size());
  constexpr double kMostFilled = 1.25; // a table of leaves and targets is better than more trees
  if (static_cast<double>(most * groups.size()) > kMostFilled * static_cast<double>(trees.roots.size()))
    return {};
  std::vector<int64_t> roots;
  for (auto& group : groups) {
    group.resize(most, kNoTree);
    roots.insert(roots.end(), group.begin(), group.end());
  }
  return roots;
}

/// Sums of weights where a slot's votes are for its tree's target: [rows, targets].
Tensor sum_by_target(Call& call, const Forest& forest, const std::vector<int64_t>& roots, const Tensor& x) {
  const Slots slots = make_slots(call, forest, roots);
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

/// The votes of some trees for each target, summed, or their least or most. `everywhere`: each target has
/// one.
Votes count_part(Call& call, const Forest& forest, const Trees& trees, const Tensor& x, Aggregate aggregate,
                 bool everywhere) {
  const bool sums = aggregate == Aggregate::Sum;
  if (sums && everywhere)
    if (const auto roots = roots_by_target(forest, trees))
      return {sum_by_target(call, forest, *roots, x), {}};
  const Slots slots = make_slots(call, forest, trees.roots);
  const LeafTable table = leaf_table(call, forest, slots, aggregate);
  const Tensor rows = Tensor::from(table.row_of).take(walk(call, forest, slots, x));
  const Shape shape{table.rows, forest.targets};
  const Tensor weights = numbers_as(table.weights, forest.computed, shape).take(rows);
  Votes votes{sums                          ? weights.sum({1})
              : aggregate == Aggregate::Min ? weights.min({1})
                                            : weights.max({1}),
              {}};
  if (!everywhere) votes.voted = Tensor::from(table.voted, shape).take(rows).max({1}) != 0;
  return votes;
}

} // namespace

Votes count_votes(Call& call, const Forest& forest, const Tensor& x, Aggregate aggregate, bool ask_voted) {
  const Trees trees = trees_of(forest);
  const bool sums = aggregate == Aggregate::Sum || aggregate == Aggregate::Average;
  const bool everywhere = (sums && !ask_voted) || all_are_voted(forest, trees);
  const Tensor values = x.cast(forest.computed);
  if (!sums) {
    Votes votes = count_part(call, forest, trees, values, aggregate, everywhere);
    if (votes.voted) votes.scores = where(*votes.voted, votes.scores, 0.0);
    return votes;
  }
  std::optional<Votes> all;
  for (const Trees& part : by_depth(call, forest, trees)) {
    const Votes votes = count_part(call, forest, part, values, Aggregate::Sum, everywhere);
    if (!all) {
      all = votes;
      continue;
    }
    all->scores = all->scores + votes.scores;
    if (votes.voted) all->voted = *all->voted | *votes.voted;
  }
  if (aggregate == Aggregate::Average) all->scores = all->scores / static_cast<double>(trees.roots.size());
  return *all;
}

} // namespace lathe::onnx
