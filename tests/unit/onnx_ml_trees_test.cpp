// Trees of ai.onnx.ml, against a walk node by node.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/onnx_ml.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

const Names kModes = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};

struct Node {
  int64_t tree, number;
  std::string mode;
  int64_t feature;
  double threshold;
  int64_t yes, no;
  bool missing_yes;
};
struct Vote {
  int64_t tree, number, target;
  double weight;
};

struct Trees {
  std::vector<Node> nodes;
  std::vector<Vote> votes;

  const Node& node(int64_t tree, int64_t number) const {
    for (const Node& n : nodes)
      if (n.tree == tree && n.number == number) return n;
    throw std::logic_error("no such node");
  }
  int64_t count() const {
    int64_t most = -1;
    for (const Node& n : nodes) most = std::max(most, n.tree);
    return most + 1;
  }
  /// The votes of one row, by target.
  std::vector<std::vector<double>> ask(const double* row, int64_t targets) const {
    std::vector<std::vector<double>> out(targets);
    for (int64_t tree = 0; tree < count(); ++tree) {
      const Node* n = &node(tree, 0);
      while (n->mode != "LEAF") {
        const double v = row[n->feature], t = n->threshold;
        const bool yes = std::isnan(v)             ? n->missing_yes
                         : n->mode == "BRANCH_LEQ" ? v <= t
                         : n->mode == "BRANCH_LT"  ? v < t
                         : n->mode == "BRANCH_GTE" ? v >= t
                         : n->mode == "BRANCH_GT"  ? v > t
                         : n->mode == "BRANCH_EQ"  ? v == t
                                                   : v != t;
        n = &node(tree, yes ? n->yes : n->no);
      }
      for (const Vote& vote : votes)
        if (vote.tree == tree && vote.number == n->number) out[vote.target].push_back(vote.weight);
    }
    return out;
  }
};

/// Trees whose thresholds and weights are multiples of 1/8.
Trees random_trees(std::mt19937& random, const Names& modes, int64_t features, int64_t targets, bool missing,
                   bool dense, int64_t count = 5) {
  Trees trees;
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
  for (int64_t tree = 0; tree < count; ++tree) {
    std::vector<int64_t> depths{0};
    for (int64_t number = 0; number < static_cast<int64_t>(depths.size()); ++number) {
      if (depths[number] == 5 || below(4) == 0) {
        trees.nodes.push_back({tree, number, "LEAF", 0, 0, 0, 0, false});
        for (int64_t k = 0; k < (dense ? targets : 1); ++k)
          trees.votes.push_back({tree, number, dense ? k : below(targets), below(17) / 8.0 - 1});
        continue;
      }
      const auto yes = static_cast<int64_t>(depths.size());
      trees.nodes.push_back({tree, number, modes[below(modes.size())], below(features), below(33) / 8.0 - 2,
                             yes, yes + 1, missing && below(2) == 0});
      depths.insert(depths.end(), 2, depths[number] + 1);
    }
  }
  return trees;
}

/// Adds a tree that grows at a random leaf until it has so many, or always at the same end.
void add_tree(Trees& trees, std::mt19937& random, const Names& modes, int64_t features, int64_t leaves,
              bool chain) {
  const int64_t tree = trees.count();
  std::vector<int64_t> open{0};
  int64_t nodes = 1;
  while (static_cast<int64_t>(open.size()) < leaves) {
    const size_t at = chain ? open.size() - 1 : random() % open.size();
    const int64_t number = open[at];
    trees.nodes.push_back({tree, number, modes[random() % modes.size()],
                           static_cast<int64_t>(random() % features),
                           static_cast<int>(random() % 33) / 8.0 - 2, nodes, nodes + 1, random() % 2 == 0});
    open[at] = nodes;
    open.push_back(nodes + 1);
    nodes += 2;
  }
  for (const int64_t number : open) {
    trees.nodes.push_back({tree, number, "LEAF", 0, 0, 0, 0, false});
    trees.votes.push_back({tree, number, 0, static_cast<int>(random() % 65) / 8.0 - 4});
  }
}

Attributes attributes_of(const Trees& trees, const std::string& votes, bool doubles = false) {
  std::vector<int64_t> tree, number, feature, yes, no, missing, vote_tree, vote_number, target;
  std::vector<double> threshold, weight;
  Names mode;
  for (const Node& n : trees.nodes) {
    tree.push_back(n.tree), number.push_back(n.number), feature.push_back(n.feature), yes.push_back(n.yes);
    no.push_back(n.no), missing.push_back(n.missing_yes), threshold.push_back(n.threshold),
        mode.push_back(n.mode);
  }
  for (const Vote& v : trees.votes) {
    vote_tree.push_back(v.tree), vote_number.push_back(v.number), target.push_back(v.target);
    weight.push_back(v.weight);
  }
  const auto size = [](const auto& list) { return std::vector<int64_t>{static_cast<int64_t>(list.size())}; };
  return {attribute("nodes_treeids", tree),
          attribute("nodes_nodeids", number),
          attribute("nodes_featureids", feature),
          attribute("nodes_truenodeids", yes),
          attribute("nodes_falsenodeids", no),
          attribute("nodes_missing_value_tracks_true", missing),
          texts_attribute("nodes_modes", mode),
          doubles ? attribute("nodes_values_as_tensor", tensor_proto(size(threshold), threshold))
                  : floats_attribute("nodes_values", threshold),
          attribute(votes + "_treeids", vote_tree),
          attribute(votes + "_nodeids", vote_number),
          attribute(votes + "_ids", target),
          doubles ? attribute(votes + "_weights_as_tensor", tensor_proto(size(weight), weight))
                  : floats_attribute(votes + "_weights", weight)};
}

Attributes operator+(Attributes a, const Attributes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Multiples of 1/8, which thresholds are too, and some NaN.
std::vector<double> random_rows(std::mt19937& random, int64_t count, bool missing) {
  std::vector<double> values(count);
  for (double& v : values)
    v = missing && random() % 8 == 0 ? kNaN : static_cast<int>(random() % 33) / 8.0 - 2;
  return values;
}

double aggregated(const std::string& how, const std::vector<double>& votes, int64_t trees) {
  if (votes.empty()) return 0;
  if (how == "MIN") return *std::min_element(votes.begin(), votes.end());
  if (how == "MAX") return *std::max_element(votes.begin(), votes.end());
  double sum = 0;
  for (double v : votes) sum += v;
  return how == "AVERAGE" ? sum / static_cast<double>(trees) : sum;
}

/// What a regressor has to say of rows, before any transform.
std::vector<double> regressed(const Trees& trees, const std::vector<double>& rows, int64_t features,
                              int64_t targets, const std::string& how, const std::vector<double>& base) {
  std::vector<double> out;
  for (size_t row = 0; row * features < rows.size(); ++row) {
    const auto votes = trees.ask(&rows[row * features], targets);
    for (int64_t target = 0; target < targets; ++target)
      out.push_back(aggregated(how, votes[target], trees.count()) + (base.empty() ? 0 : base[target]));
  }
  return out;
}

} // namespace

TEST_CASE(
    "TreeEnsembleRegressor: every comparison, aggregate and kind of votes; NaN; inputs that are thresholds") {
  std::mt19937 random(1);
  const int64_t features = 3, rows = 7;
  std::vector<Names> comparisons{kModes};
  for (const std::string& mode : kModes) comparisons.push_back({mode});
  for (const Names& modes : comparisons)
    for (const char* how : {"SUM", "AVERAGE", "MIN", "MAX"})
      for (const bool missing : {false, true}) {
        if (modes.size() == 1 && random() % 3 != 0) continue;
        CAPTURE(modes);
        CAPTURE(how);
        CAPTURE(missing);
        const int64_t targets = 1 + random() % 3;
        const Trees trees = random_trees(random, modes, features, targets, missing, random() % 2 == 0);
        const std::vector<double> x = random_rows(random, rows * features, true);
        const std::vector<double> base(random() % 2 ? targets : 0, 0.5);
        Attributes attributes =
            attributes_of(trees, "target") +
            Attributes{attribute("n_targets", targets), attribute("aggregate_function", how)};
        if (!base.empty()) attributes.push_back(floats_attribute("base_values", base));
        const Tensor fed = Tensor::from(x, {rows, features}).cast(DType::F32);
        const auto y = ml_node("TreeEnsembleRegressor", {fed}, attributes, 1, 1)[0];
        CHECK(y.dtype() == DType::F32);
        CHECK(y.shape() == Shape{rows, targets});
        check_close(y, regressed(trees, x, features, targets, how, base));
      }
}

TEST_CASE("TreeEnsembleRegressor: dtypes, thresholds that only f64 holds, one row as a vector, any number of "
          "rows") {
  std::mt19937 random(2);
  const int64_t features = 2, rows = 5, targets = 2;
  Trees trees = random_trees(random, {"BRANCH_LEQ"}, features, targets, false, true);
  const Attributes more{attribute("n_targets", targets), floats_attribute("nodes_hitrates", {1})};
  std::vector<double> x = random_rows(random, rows * features, false);
  const auto as = [&](DType dtype) { return Tensor::from(x, {rows, features}).cast(dtype); };
  const std::vector<double> expected = regressed(trees, x, features, targets, "SUM", {});
  for (const DType dtype : {DType::F32, DType::F64}) {
    check_close(ml_node("TreeEnsembleRegressor", {as(dtype)}, attributes_of(trees, "target") + more)[0],
                expected);
    check_close(ml_node("TreeEnsembleRegressor", {as(dtype)}, attributes_of(trees, "target", true) + more)[0],
                expected);
  }
  check_close(
      ml_node("TreeEnsembleRegressor", {as(DType::F32)}, attributes_of(trees, "target") + more, 1, 3, "n")[0],
      expected);
  const Tensor row = Tensor::from(std::vector<double>(x.begin(), x.begin() + features)).cast(DType::F32);
  check_close(ml_node("TreeEnsembleRegressor", {row}, attributes_of(trees, "target") + more)[0],
              std::vector<double>(expected.begin(), expected.begin() + targets));

  for (double& v : x) v = std::trunc(v);
  for (const DType dtype : {DType::I32, DType::I64})
    check_close(ml_node("TreeEnsembleRegressor", {as(dtype)}, attributes_of(trees, "target") + more)[0],
                regressed(trees, x, features, targets, "SUM", {}));

  // 0.1 as f64 is less than as f32, and so are the thresholds.
  for (Node& n : trees.nodes) n.threshold = 0.1;
  for (double& v : x) v = random() % 2 ? 0.1 : static_cast<double>(0.1f);
  for (const DType dtype : {DType::F32, DType::F64}) {
    std::vector<double> seen = x;
    if (dtype == DType::F32)
      for (double& v : seen) v = static_cast<float>(v);
    check_close(ml_node("TreeEnsembleRegressor", {as(dtype)}, attributes_of(trees, "target", true) + more)[0],
                regressed(trees, seen, features, targets, "SUM", {}));
  }
}

TEST_CASE("TreeEnsembleRegressor: transforms of several targets") {
  std::mt19937 random(3);
  const int64_t features = 2, rows = 4, targets = 3;
  const Trees trees = random_trees(random, {"BRANCH_LT"}, features, targets, false, false);
  const std::vector<double> x = random_rows(random, rows * features, false);
  const std::vector<double> scores = regressed(trees, x, features, targets, "SUM", {});
  for (const std::string transform : {"SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"}) {
    CAPTURE(transform);
    std::vector<double> expected;
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < targets; ++k)
        if (const double s = scores[row * targets + k]; transform == "SOFTMAX" || s != 0) sum += std::exp(s);
      for (int64_t k = 0; k < targets; ++k) {
        const double s = scores[row * targets + k];
        expected.push_back(transform == "LOGISTIC"            ? 1 / (1 + std::exp(-s))
                           : transform == "SOFTMAX" || s != 0 ? std::exp(s) / sum
                                                              : 0);
      }
    }
    check_close(ml_node("TreeEnsembleRegressor", {Tensor::from(x, {rows, features}).cast(DType::F32)},
                        attributes_of(trees, "target") +
                            Attributes{attribute("n_targets", targets),
                                       attribute("post_transform", transform.c_str())})[0],
                expected);
  }
}

TEST_CASE("Many trees of many depths, whose votes are for one target each or for any") {
  std::mt19937 random(6);
  const int64_t features = 3, rows = 5, targets = 3;
  for (const char* how : {"SUM", "AVERAGE", "MAX"})
    for (const bool one_target : {false, true}) {
      CAPTURE(how);
      CAPTURE(one_target);
      Trees trees = random_trees(random, {"BRANCH_LEQ", "BRANCH_GT"}, features, targets, true, false, 40);
      if (one_target)
        for (Vote& vote : trees.votes) vote.target = vote.tree % targets;
      const std::vector<double> x = random_rows(random, rows * features, true);
      check_close(
          ml_node("TreeEnsembleRegressor", {Tensor::from(x, {rows, features}).cast(DType::F32)},
                  attributes_of(trees, "target") +
                      Attributes{attribute("n_targets", targets), attribute("aggregate_function", how)})[0],
          regressed(trees, x, features, targets, how, {}));
    }
}

TEST_CASE("Trees of as many leaves as a word has bits, and of one more, for few rows and many") {
  std::mt19937 random(8);
  const int64_t features = 4;
  for (const bool doubles : {false, true})
    for (const int64_t leaves : {2, 32, 33, 64, 65})
      for (const int64_t rows : {0, 4, 17}) {
        CAPTURE(doubles);
        CAPTURE(leaves);
        CAPTURE(rows);
        const Names modes = (leaves + rows) % 2 == 0 ? Names{"BRANCH_LEQ"} : Names{"BRANCH_GT", "BRANCH_EQ"};
        Trees trees;
        for (const int64_t more : {0, 0, 1, 40})
          add_tree(trees, random, modes, features, leaves + more, random() % 2 == 0);
        const std::vector<double> x = random_rows(random, rows * features, true);
        const Tensor fed = Tensor::from(x, {rows, features}).cast(doubles ? DType::F64 : DType::F32);
        check_close(
            ml_node("TreeEnsembleRegressor", {fed},
                    attributes_of(trees, "target", doubles) + Attributes{attribute("n_targets", 1)})[0],
            regressed(trees, x, features, 1, "SUM", {}));
      }
}

TEST_CASE("TreeEnsembleClassifier: the class with most, of those with votes") {
  std::mt19937 random(4);
  const int64_t features = 3, rows = 9, classes = 4;
  const std::vector<int64_t> labels{7, 3, -2, 100};
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    const bool with_base = round % 3 == 2;
    const Trees trees = random_trees(random, kModes, features, classes, true, round % 2 == 0, 3);
    const std::vector<double> x = random_rows(random, rows * features, true);
    const std::vector<double> base(with_base ? classes : 0, -0.25);
    const std::vector<double> scores = regressed(trees, x, features, classes, "SUM", base);
    Attributes attributes =
        attributes_of(trees, "class") + Attributes{attribute("classlabels_int64s", labels)};
    if (with_base) attributes.push_back(floats_attribute("base_values", base));
    const auto got = ml_node("TreeEnsembleClassifier", {Tensor::from(x, {rows, features}).cast(DType::F32)},
                             attributes, 2);
    check_close(got[1], scores);
    std::vector<int64_t> expected;
    for (int64_t row = 0; row < rows; ++row) {
      const auto votes = trees.ask(&x[row * features], classes);
      int64_t best = -1;
      for (int64_t k = 0; k < classes; ++k)
        if ((with_base || !votes[k].empty()) &&
            (best < 0 || scores[row * classes + k] > scores[row * classes + best]))
          best = k;
      expected.push_back(labels[best]);
    }
    CHECK(integers(got[0]) == expected);
  }
}

TEST_CASE("TreeEnsembleClassifier: two classes of which votes name one") {
  const auto stump = [](int64_t id, double left, double right) {
    Trees trees;
    trees.nodes = {{0, 0, "BRANCH_LEQ", 0, 0, 1, 2, false},
                   {0, 1, "LEAF", 0, 0, 0, 0, false},
                   {0, 2, "LEAF", 0, 0, 0, 0, false}};
    trees.votes = {{0, 1, id, left}, {0, 2, id, right}};
    return attributes_of(trees, "class") +
           Attributes{attribute("classlabels_int64s", std::vector<int64_t>{3, 7})};
  };
  const Tensor x = Tensor::from({-1.f, 1.f}).reshape({2, 1});
  const auto run = [&](const Attributes& attributes) {
    return ml_node("TreeEnsembleClassifier", {x}, attributes, 2);
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  // Weights of at least 0 are probabilities.
  auto got = run(stump(0, 0.7, 0.2));
  CHECK(integers(got[0]) == std::vector<int64_t>{7, 3});
  check_close(got[1], {0.3, 0.7, 0.8, 0.2});
  got = run(stump(0, 0.45, 0.2) + Attributes{floats_attribute("base_values", {0.1})});
  CHECK(integers(got[0]) == std::vector<int64_t>{7, 3});
  check_close(got[1], {0.45, 0.55, 0.7, 0.3});
  // Others are distances.
  got = run(stump(0, -0.7, 0.2));
  CHECK(integers(got[0]) == std::vector<int64_t>{3, 7});
  check_close(got[1], {0.7, -0.7, -0.2, 0.2});
  got = run(stump(0, -0.7, 0.2) + Attributes{attribute("post_transform", "LOGISTIC")});
  CHECK(integers(got[0]) == std::vector<int64_t>{3, 7});
  check_close(got[1], {sigmoid(0.7), sigmoid(-0.7), sigmoid(-0.2), sigmoid(0.2)});
  // Votes for the second class leave the first at 0.
  got = run(stump(1, 0.7, 0.2));
  CHECK(integers(got[0]) == std::vector<int64_t>{7, 3});
  check_close(got[1], {0, 0.7, 0, 0.2});
  // Votes for both are two classes like any others.
  Trees both;
  both.nodes = {{0, 0, "BRANCH_LEQ", 0, 0, 1, 2, false},
                {0, 1, "LEAF", 0, 0, 0, 0, false},
                {0, 2, "LEAF", 0, 0, 0, 0, false}};
  both.votes = {{0, 1, 0, 0.75}, {0, 1, 1, 0.25}, {0, 2, 0, 0.375}, {0, 2, 1, 0.625}};
  got = run(attributes_of(both, "class") +
            Attributes{attribute("classlabels_int64s", std::vector<int64_t>{3, 7}),
                       floats_attribute("base_values", {0, 0.5})});
  CHECK(integers(got[0]) == std::vector<int64_t>{3, 7});
  check_close(got[1], {0.75, 0.75, 0.375, 1.125});
}

TEST_CASE("TreeEnsemble: leaves apart from nodes, sets, and a tree that is a leaf") {
  // Feature 0 in {2, -1, 5} asks feature 1; a second tree is one leaf.
  const auto bytes = [](std::vector<uint8_t> v) { return tensor_proto({static_cast<int64_t>(v.size())}, v); };
  const auto numbers = [](std::vector<float> v) { return tensor_proto({static_cast<int64_t>(v.size())}, v); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool missing : {false, true}) {
    const Attributes attributes{attribute("tree_roots", std::vector<int64_t>{0, 2}),
                                attribute("n_targets", 2),
                                attribute("nodes_featureids", {0, 1, 0}),
                                attribute("nodes_modes", bytes({6, 3, 0})),
                                attribute("nodes_splits", numbers({0, 0.5f, 0})),
                                attribute("nodes_truenodeids", {1, 0, 3}),
                                attribute("nodes_trueleafs", {0, 1, 1}),
                                attribute("nodes_falsenodeids", {2, 1, 3}),
                                attribute("nodes_falseleafs", {1, 1, 1}),
                                attribute("nodes_missing_value_tracks_true", {missing ? 1 : 0, 0, 0}),
                                attribute("leaf_targetids", {0, 1, 0, 1}),
                                attribute("leaf_weights", numbers({1, 2, 4, 8})),
                                attribute("membership_values", numbers({2, -1, 5, nan}))};
    const std::vector<float> x{2, 1, -1, 0, 5, 0.5f, 3, 1, 2.5f, 1, nan, 1, 6, 0};
    std::vector<double> expected;
    for (size_t row = 0; row < x.size() / 2; ++row) {
      const float a = x[2 * row], b = x[2 * row + 1];
      const bool in_set = std::isnan(a) ? missing : a == 2 || a == -1 || a == 5;
      const int leaf = !in_set ? 2 : b > 0.5f ? 0 : 1;
      expected.push_back(leaf == 0 ? 1 : leaf == 2 ? 4 : 0);
      expected.push_back((leaf == 1 ? 2 : 0) + 8);
    }
    for (const DType dtype : {DType::F32, DType::F64, DType::F16}) {
      const auto y = ml_node("TreeEnsemble", {Tensor::from(x, {7, 2}).cast(dtype)}, attributes, 1, 5)[0];
      CHECK(y.dtype() == dtype);
      check_close(y, expected);
    }
    check_close(
        ml_node("TreeEnsemble", {Tensor::from(x, {7, 2})},
                attributes + Attributes{attribute("aggregate_function", 3), attribute("post_transform", 2)},
                1, 5)[0],
        [&] {
          std::vector<double> most;
          for (size_t k = 0; k < expected.size(); ++k) {
            const double v = k % 2 ? 8 : expected[k];
            most.push_back(1 / (1 + std::exp(-v)));
          }
          return most;
        }());
  }
}

TEST_CASE("Trees that are refused say why") {
  std::mt19937 random(5);
  const Tensor x = Tensor::from({1.f, 2.f}).reshape({1, 2});
  const auto error = [&](const Trees& trees, const Attributes& more) {
    return ml_error("TreeEnsembleRegressor", {x}, attributes_of(trees, "target") + more);
  };
  const Attributes one{attribute("n_targets", 1)};
  Trees trees;
  trees.nodes = {{0, 0, "BRANCH_LEQ", 0, 0, 1, 2, false},
                 {0, 1, "LEAF", 0, 0, 0, 0, false},
                 {0, 2, "LEAF", 0, 0, 0, 0, false}};
  trees.votes = {{0, 1, 0, 1}, {0, 2, 0, 2}};
  CHECK(error(trees, one) == "");
  CHECK(contains(error(trees, {}), "n_targets"));
  CHECK(contains(error(trees, {attribute("n_targets", 0)}), "n_targets 0"));
  CHECK(contains(error(trees, {attribute("n_targets", int64_t{1} << 40)}), "1099511627776 targets"));
  CHECK(contains(error(trees, one + Attributes{attribute("post_transform", "LOGISTIC")}),
                 "one score by itself"));
  CHECK(contains(error(trees, one + Attributes{attribute("post_transform", "TANH")}), "\"TANH\""));
  CHECK(contains(error(trees, one + Attributes{attribute("aggregate_function", "MEDIAN")}), "\"MEDIAN\""));
  CHECK(contains(error(trees, one + Attributes{floats_attribute("base_values", {1, 2})}), "2 base_values"));
  CHECK(contains(error(trees, one + Attributes{attribute("surprise", 1)}), "'surprise'"));
  Trees bad = trees;
  bad.nodes[0].feature = 2;
  CHECK(contains(error(bad, one), "feature 2"));
  bad = trees;
  bad.nodes[0].no = 0;
  CHECK(contains(error(bad, one), "circle"));
  bad = trees;
  bad.nodes[0].yes = 5;
  CHECK(contains(error(bad, one), "node 5 of tree 0"));
  bad = trees;
  bad.nodes[0].mode = "BRANCH_NEAR";
  CHECK(contains(error(bad, one), "BRANCH_NEAR"));
  bad = trees;
  bad.nodes[0].threshold = kNaN;
  CHECK(contains(error(bad, one), "threshold"));
  bad = trees;
  bad.votes[0].target = 1;
  CHECK(contains(error(bad, one), "target 1"));
  bad = trees;
  bad.nodes[1].number = 2;
  CHECK(contains(error(bad, one), "twice"));
  // Two nodes may lead to the same one.
  Trees shared = trees;
  shared.nodes[0].no = 1;
  CHECK(error(shared, one) == "");
}
