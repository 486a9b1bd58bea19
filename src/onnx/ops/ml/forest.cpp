#include "onnx/ops/ml/forest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/tree_ends.hpp"
#include "onnx/ops/ml/tree_questions.hpp"
#include "onnx/ops/ml/tree_slots.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// Trees of a forest that are walked together.
struct Trees {
  std::vector<int64_t> roots;
  std::vector<std::vector<int64_t>> leaves; // below each root, as nodes
  Asking asking = Asking::OnTheWay;
};

Trees trees_of(const Forest& forest) {
  Trees trees{forest.roots, {}, Asking::OnTheWay};
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

/// The trees in parts that are asked together: of each way of asking one or two, cheap trees and dear ones.
/// Few trees stay together.
std::vector<Trees> by_cost(Call& call, const Forest& forest, const Trees& trees, const Tensor& x) {
  constexpr size_t kFew = 16;
  const std::vector<TreeCost> costs = costs_of(call, forest, trees.roots, x);
  std::vector<Trees> parts;
  for (const Asking asking : {Asking::AllNodes, Asking::OnTheWay}) {
    std::vector<size_t> order;
    for (size_t tree = 0; tree < costs.size(); ++tree)
      if (costs[tree].asking == asking) order.push_back(tree);
    if (order.empty()) continue;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return costs[a].questions < costs[b].questions; });
    std::vector<int64_t> sorted;
    for (const size_t tree : order) sorted.push_back(costs[tree].questions);
    size_t begin = 0;
    for (const size_t end : {order.size() < kFew ? order.size() : best_cut(sorted), order.size()}) {
      if (begin == end) continue;
      Trees& part = parts.emplace_back();
      part.asking = asking;
      for (; begin < end; ++begin) {
        part.roots.push_back(trees.roots[order[begin]]);
        part.leaves.push_back(trees.leaves[order[begin]]);
      }
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
Tensor sum_by_target(Call& call, const Forest& forest, const std::vector<int64_t>& roots, const Tensor& x,
                     Asking asking) {
  const Ends ends = find_ends(call, forest, roots, x, asking);
  std::vector<double> weights(ends.node.size());
  for (size_t place = 0; place < weights.size(); ++place)
    if (ends.node[place] != kNoTree)
      for (const Vote& vote : forest.votes[ends.node[place]]) weights[place] += vote.weight;
  const Tensor reached =
      numbers_as(weights, forest.computed, {static_cast<int64_t>(weights.size())}).take(ends.place);
  return reached.reshape({x.size(0), forest.targets, static_cast<int64_t>(roots.size()) / forest.targets})
      .sum({2});
}

/// A row of numbers for each leaf, one of each target.
struct LeafTable {
  std::vector<double> weights;
  std::vector<uint8_t> voted;
  std::vector<uint32_t> row_of; // of each place that rows may end at
  int64_t rows = 0;
};

LeafTable leaf_table(Call& call, const Forest& forest, const std::vector<int64_t>& leaves,
                     Aggregate aggregate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double absent = aggregate == Aggregate::Min   ? kInfinity
                        : aggregate == Aggregate::Max ? -kInfinity
                                                      : 0;
  LeafTable table;
  table.row_of.resize(leaves.size());
  table.rows = 1; // of a tree that is none
  for (size_t place = 0; place < leaves.size(); ++place)
    if (leaves[place] != kNoTree) table.row_of[place] = static_cast<uint32_t>(table.rows++);
  if (table.rows > kMaxTable / forest.targets)
    call.fail(ErrorKind::Limit, fmt::format("{} leaves of {} targets, expected at most {} weights",
                                            table.rows, forest.targets, kMaxTable));
  table.weights.assign(table.rows * forest.targets, absent);
  table.voted.assign(table.rows * forest.targets, 0);
  for (size_t place = 0; place < leaves.size(); ++place) {
    if (leaves[place] == kNoTree) continue;
    for (const Vote& vote : forest.votes[leaves[place]]) {
      const size_t cell = table.row_of[place] * forest.targets + vote.target;
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
      return {sum_by_target(call, forest, *roots, x, trees.asking), {}};
  const Ends ends = find_ends(call, forest, trees.roots, x, trees.asking);
  const LeafTable table = leaf_table(call, forest, ends.node, aggregate);
  const Tensor rows = Tensor::from(table.row_of).take(ends.place);
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
  for (const Trees& part : by_cost(call, forest, trees, values)) {
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
