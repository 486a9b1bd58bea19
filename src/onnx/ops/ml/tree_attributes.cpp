#include "onnx/ops/ml/tree_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "onnx/ops/ml/scores.hpp"

namespace lathe::onnx {
namespace {

/// TreeEnsemble's number of the mode that asks whether a feature is in a set.
constexpr int64_t kMember = 6;

std::vector<double> numbers_of(const Value& tensor) {
  return tensor.is_empty() ? std::vector<double>() : tensor.tensor().cast(DType::F64).to_vector<double>();
}

void check_size(const Call& call, const std::string& name, size_t size, size_t expected) {
  if (size != expected)
    call.fail(ErrorKind::Value, fmt::format("{} has {} entries, expected {}", name, size, expected));
}

std::vector<int64_t> integers_of(const Call& call, const std::string& name, size_t expected) {
  std::vector<int64_t> values = call.integers(name, {});
  check_size(call, name, values.size(), expected);
  return values;
}

/// Which nodes count NaN as a comparison that holds; all that are not named don't.
std::vector<bool> missing_holds(const Call& call, size_t nodes) {
  const std::vector<int64_t> given = call.integers("nodes_missing_value_tracks_true", {});
  if (!given.empty()) check_size(call, "nodes_missing_value_tracks_true", given.size(), nodes);
  std::vector<bool> holds(nodes);
  for (size_t k = 0; k < given.size(); ++k) holds[k] = given[k] == 1;
  return holds;
}

int64_t checked_target_count(const Call& call, int64_t targets) {
  constexpr int64_t kMostTargets = int64_t{1} << 20;
  if (targets < 1) call.fail(ErrorKind::Value, fmt::format("n_targets {}, expected 1 or more", targets));
  if (targets > kMostTargets)
    call.fail(ErrorKind::Limit, fmt::format("{} targets, expected at most {}", targets, kMostTargets));
  return targets;
}

int64_t checked_target(const Call& call, int64_t target, int64_t targets) {
  if (target < 0 || target >= targets)
    call.fail(ErrorKind::Value, fmt::format("a vote for target {}, expected one of {}", target, targets));
  return target;
}

Branch branch_of(const Call& call, const std::string& name) {
  static const std::map<std::string, Branch> known = {{"BRANCH_LEQ", Branch::LessEqual},
                                                      {"BRANCH_LT", Branch::Less},
                                                      {"BRANCH_GTE", Branch::GreaterEqual},
                                                      {"BRANCH_GT", Branch::Greater},
                                                      {"BRANCH_EQ", Branch::Equal},
                                                      {"BRANCH_NEQ", Branch::NotEqual},
                                                      {"LEAF", Branch::Leaf}};
  const auto found = known.find(name);
  if (found == known.end()) call.fail(ErrorKind::Value, fmt::format("node mode \"{}\" is not known", name));
  return found->second;
}

/// Nodes by the tree and the number in it that a model gives them.
class NodeNames {
public:
  explicit NodeNames(const Call& call) : call_(call) {}

  void add(int64_t tree, int64_t number, int64_t node) {
    if (!nodes_.emplace(std::pair(tree, number), node).second)
      call_.fail(ErrorKind::Value, fmt::format("node {} of tree {} is there twice", number, tree));
  }
  int64_t find(int64_t tree, int64_t number) const {
    const auto found = nodes_.find({tree, number});
    if (found == nodes_.end())
      call_.fail(ErrorKind::Value, fmt::format("node {} of tree {} is not there", number, tree));
    return found->second;
  }

private:
  const Call& call_;
  std::map<std::pair<int64_t, int64_t>, int64_t> nodes_;
};

void read_nodes(const Call& call, Forest& forest, const std::vector<int64_t>& trees, NodeNames& names) {
  const size_t count = trees.size();
  const std::vector<std::string> modes = call.texts("nodes_modes");
  check_size(call, "nodes_modes", modes.size(), count);
  const std::vector<double> thresholds = numbers_or_tensor(call, "nodes_values");
  check_size(call, "nodes_values", thresholds.size(), count);
  const std::vector<int64_t> numbers = integers_of(call, "nodes_nodeids", count);
  const std::vector<int64_t> features = integers_of(call, "nodes_featureids", count);
  const std::vector<int64_t> holds = integers_of(call, "nodes_truenodeids", count);
  const std::vector<int64_t> fails = integers_of(call, "nodes_falsenodeids", count);
  const std::vector<bool> missing = missing_holds(call, count);
  for (size_t k = 0; k < count; ++k) {
    names.add(trees[k], numbers[k], static_cast<int64_t>(k));
    forest.nodes.push_back({branch_of(call, modes[k]), features[k], thresholds[k], missing[k]});
  }
  for (size_t k = 0; k < count; ++k) {
    if (forest.nodes[k].branch == Branch::Leaf) continue;
    forest.nodes[k].holds = names.find(trees[k], holds[k]);
    forest.nodes[k].fails = names.find(trees[k], fails[k]);
  }
}

/// A tree for the nodes that compare a feature with one member after the other: of sorted members, so that it
/// is as deep as the logarithm of their number. All its ends are `node`'s two nodes below. Returns the root.
int64_t add_member_tree(Forest& forest, ForestNode node, std::span<const double> members) {
  const auto root = static_cast<int64_t>(forest.nodes.size());
  const size_t half = members.size() / 2;
  forest.nodes.push_back(node);
  forest.nodes[root].branch = members.size() == 1 ? Branch::Equal : Branch::Less;
  forest.nodes[root].threshold = members[half];
  if (members.size() > 1) {
    const int64_t below = add_member_tree(forest, node, members.first(half));
    const int64_t from_half = add_member_tree(forest, node, members.subspan(half));
    forest.nodes[root].holds = below;
    forest.nodes[root].fails = from_half;
  }
  return root;
}

/// The sets of BRANCH_MEMBER in their order, each ended by a NaN.
std::vector<std::vector<double>> member_sets(const std::vector<double>& values) {
  std::vector<std::vector<double>> sets;
  bool open = false;
  for (const double value : values) {
    if (!open) sets.emplace_back();
    open = !std::isnan(value);
    if (open) sets.back().push_back(value);
  }
  return sets;
}

/// Trees for the nodes whose modes ask for a set.
void expand_sets(const Call& call, Forest& forest, const std::vector<double>& modes) {
  std::vector<std::vector<double>> sets;
  if (call.has_attribute("membership_values"))
    sets = member_sets(numbers_of(call.constant("membership_values")));
  size_t set = 0;
  for (size_t k = 0; k < modes.size(); ++k) {
    if (modes[k] != kMember) continue;
    if (set == sets.size() || sets[set].empty())
      call.fail(ErrorKind::Value, "membership_values, expected a set for each node that asks for one");
    std::sort(sets[set].begin(), sets[set].end());
    const int64_t root = add_member_tree(forest, forest.nodes[k], sets[set++]);
    forest.nodes[k] = forest.nodes[root];
  }
}

} // namespace

std::vector<double> numbers_or_tensor(const Call& call, const std::string& name) {
  const std::string as_tensor = name + "_as_tensor";
  const std::vector<double> numbers = call.numbers(name);
  if (!call.has_attribute(as_tensor)) return numbers;
  if (!numbers.empty())
    call.fail(ErrorKind::Value, fmt::format("both {} and {}, expected one", name, as_tensor));
  return numbers_of(call.constant(as_tensor));
}

Forest forest_of_votes(const Call& call, const std::string& votes, int64_t targets, const Tensor& x) {
  Forest forest;
  forest.targets = checked_target_count(call, targets);
  bool doubles = x.dtype() == DType::F64;
  for (const std::string& name : {std::string("nodes_values_as_tensor"), votes + "_weights_as_tensor"})
    doubles |= call.has_attribute(name) && call.constant(name).dtype() == DType::F64;
  forest.computed = doubles ? DType::F64 : DType::F32;
  const std::vector<int64_t> trees = call.integers("nodes_treeids");
  NodeNames names(call);
  read_nodes(call, forest, trees, names);
  std::map<int64_t, bool> begun;
  for (size_t k = 0; k < trees.size(); ++k)
    if (begun.emplace(trees[k], true).second) forest.roots.push_back(static_cast<int64_t>(k));

  const std::vector<double> weights = numbers_or_tensor(call, votes + "_weights");
  const std::vector<int64_t> ids = integers_of(call, votes + "_ids", weights.size());
  const std::vector<int64_t> numbers = integers_of(call, votes + "_nodeids", weights.size());
  const std::vector<int64_t> tree_of = integers_of(call, votes + "_treeids", weights.size());
  forest.votes.resize(forest.nodes.size());
  for (size_t k = 0; k < weights.size(); ++k)
    forest.votes[names.find(tree_of[k], numbers[k])].push_back(
        {checked_target(call, ids[k], targets), weights[k]});
  if (forest.roots.empty()) call.fail(ErrorKind::Value, "there are no nodes, expected trees");
  call.ignore("nodes_hitrates");
  call.ignore("nodes_hitrates_as_tensor");
  return forest;
}

Forest forest_of_leaves(const Call& call, const Tensor& x) {
  Forest forest;
  forest.targets = checked_target_count(call, call.integer("n_targets", 0));
  forest.computed = computed_dtype(x);
  const std::vector<double> modes = numbers_of(call.constant("nodes_modes"));
  const size_t count = modes.size();
  const std::vector<double> thresholds = numbers_of(call.constant("nodes_splits"));
  check_size(call, "nodes_splits", thresholds.size(), count);
  const std::vector<int64_t> features = integers_of(call, "nodes_featureids", count);
  const std::vector<bool> missing = missing_holds(call, count);
  const std::vector<double> weights = numbers_of(call.constant("leaf_weights"));
  const std::vector<int64_t> targets = integers_of(call, "leaf_targetids", weights.size());

  // Nodes that compare come first, then leaves, then the nodes that sets are made of.
  const auto below = [&](const std::string& side) {
    std::vector<int64_t> nodes = integers_of(call, "nodes_" + side + "nodeids", count);
    const std::vector<int64_t> is_leaf = integers_of(call, "nodes_" + side + "leafs", count);
    for (size_t k = 0; k < count; ++k) {
      const size_t limit = is_leaf[k] ? weights.size() : count;
      if (nodes[k] < 0 || nodes[k] >= static_cast<int64_t>(limit))
        call.fail(ErrorKind::Value,
                  fmt::format("nodes_{}nodeids has {}, expected less than {}", side, nodes[k], limit));
      if (is_leaf[k]) nodes[k] += static_cast<int64_t>(count);
    }
    return nodes;
  };
  const std::vector<int64_t> holds = below("true"), fails = below("false");
  for (size_t k = 0; k < count; ++k) {
    if (modes[k] < 0 || modes[k] > kMember)
      call.fail(ErrorKind::Value, fmt::format("node mode {}, expected 0 to {}", modes[k], kMember));
    const auto branch = static_cast<Branch>(modes[k]);
    forest.nodes.push_back({branch, features[k], thresholds[k], missing[k], holds[k], fails[k]});
  }
  forest.nodes.resize(count + weights.size());
  forest.votes.resize(forest.nodes.size());
  for (size_t k = 0; k < weights.size(); ++k)
    forest.votes[count + k].push_back({checked_target(call, targets[k], forest.targets), weights[k]});

  expand_sets(call, forest, modes);
  forest.votes.resize(forest.nodes.size());

  forest.roots = call.integers("tree_roots");
  for (const int64_t root : forest.roots)
    if (root < 0 || root >= static_cast<int64_t>(count))
      call.fail(ErrorKind::Value, fmt::format("tree_roots has {}, expected less than {}", root, count));
  if (forest.roots.empty()) call.fail(ErrorKind::Value, "tree_roots is empty, expected trees");
  call.ignore("nodes_hitrates");
  return forest;
}

} // namespace lathe::onnx
