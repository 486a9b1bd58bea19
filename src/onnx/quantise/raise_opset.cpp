#include "onnx/quantise/raise_opset.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/node_attribute.hpp"
#include "onnx/parse.hpp"
#include "onnx/quantise/fresh_names.hpp"

namespace lathe::onnx {
namespace {

using Integers = std::vector<int64_t>;

/// One graph whose nodes are rewritten, and what rewriting them adds to it.
class Raised {
public:
  Raised(const Model::Impl& model, GraphDef& graph, FreshNames& names)
      : model_(model), graph_(graph), names_(names) {}

  std::vector<NodeDef> nodes; // in their order

  [[noreturn]] void fail(const NodeDef& node, int opset, const std::string& why) const {
    throw Error(
        ErrorKind::Name,
        fmt::format("{}: node '{}': {} of opset {} has no equal: {}, expected a model of opset {} or later",
                    model_.path, node.name, node.op, opset - 1, why, opset));
  }

  std::string fresh(const std::string& wanted) { return names_(wanted); }

  std::string constant(const NodeDef& node, const char* what, Value value) {
    const std::string name = fresh(node.name + "." + what);
    graph_.initialisers.emplace(name, std::move(value));
    return name;
  }

  std::string integers(const NodeDef& node, const char* what, const Integers& values) {
    Value value = Tensor::from(values);
    return constant(node, what, value.with_integers({values.begin(), values.end()}));
  }

  /// The attribute as input `input`, if the node has it.
  void to_input(NodeDef& node, const char* name, size_t input) {
    if (auto values = attribute<Integers>(node, name)) set_input(node, input, integers(node, name, *values));
    node.attributes.erase(name);
  }

  static void set_input(NodeDef& node, size_t input, const std::string& name) {
    if (node.inputs.size() <= input) node.inputs.resize(input + 1);
    node.inputs[input] = name;
  }

private:
  const Model::Impl& model_;
  GraphDef& graph_;
  FreshNames& names_;
};

using Rule = void (*)(Raised& graph, NodeDef& node, int opset);

void axes_to_input(Raised& graph, NodeDef& node, int) { graph.to_input(node, "axes", 1); }

/// Before opset 7 an attribute asks for broadcasting, by other rules. Without it shapes are equal.
void without_broadcast(Raised& graph, NodeDef& node, int opset) {
  if (attribute<int64_t>(node, "broadcast").value_or(0) != 0)
    graph.fail(node, opset, "it broadcasts by other rules");
  node.attributes.erase("broadcast");
  node.attributes.erase("axis");
}

void gemm_broadcasts(Raised&, NodeDef& node, int) { node.attributes.erase("broadcast"); }

/// Files that leave the attribute out mean a test.
void is_a_test(Raised& graph, NodeDef& node, int opset) {
  if (attribute<int64_t>(node, "is_test").value_or(1) == 0) graph.fail(node, opset, "it trains");
  node.attributes.erase("is_test");
}

void gives_sequences(Raised&, NodeDef& node, int) { node.attributes.erase("output_sequence"); }

void plain_batch_norm(Raised& graph, NodeDef& node, int opset) {
  if (attribute<int64_t>(node, "spatial").value_or(1) == 0) graph.fail(node, opset, "it is not spatial");
  node.attributes.erase("spatial");
}

/// Before opset 14 further outputs are what training computes.
void test_batch_norm(Raised& graph, NodeDef& node, int opset) {
  if (node.outputs.size() > 1) graph.fail(node, opset, "it trains");
}

void slice_by_inputs(Raised& graph, NodeDef& node, int) {
  size_t input = 1;
  for (const char* name : {"starts", "ends", "axes"}) graph.to_input(node, name, input++);
}

void top_k_by_input(Raised& graph, NodeDef& node, int) {
  graph.set_input(node, 1, graph.integers(node, "k", {attribute<int64_t>(node, "k").value_or(1)}));
  node.attributes.erase("k");
}

void upsample_by_input(Raised& graph, NodeDef& node, int) {
  const auto given = attribute<std::vector<double>>(node, "scales").value_or(std::vector<double>());
  graph.set_input(
      node, 1, graph.constant(node, "scales", Tensor::from(std::vector<float>(given.begin(), given.end()))));
  node.attributes.erase("scales");
}

void upsample_is_resize(Raised&, NodeDef& node, int) { node.op = "Resize"; }

/// Sizes are rounded down and places computed from the first element.
void resize_by_scales(Raised&, NodeDef& node, int) {
  node.inputs.insert(node.inputs.begin() + 1, "");
  node.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  node.attributes["nearest_mode"] = std::string("floor");
}

void clip_by_inputs(Raised& graph, NodeDef& node, int) {
  size_t input = 1;
  for (const char* name : {"min", "max"}) {
    if (const auto bound = attribute<double>(node, name))
      graph.set_input(
          node, input,
          graph.constant(node, name, Tensor::from(std::vector<float>{static_cast<float>(*bound)}, {})));
    node.attributes.erase(name);
    ++input;
  }
}

void pad_by_inputs(Raised& graph, NodeDef& node, int) {
  graph.to_input(node, "pads", 1);
  const auto value = static_cast<float>(attribute<double>(node, "value").value_or(0));
  graph.set_input(node, 2, graph.constant(node, "value", Tensor::from(std::vector<float>{value}, {})));
  node.attributes.erase("value");
}

void dropout_without_ratio(Raised&, NodeDef& node, int) { node.attributes.erase("ratio"); }

/// Over all axes from one on, as if they were one: of the flattened input, in the input's shape.
void softmax_of_one_axis(Raised& graph, NodeDef& node, int) {
  const int64_t axis = attribute<int64_t>(node, "axis").value_or(1);
  const std::string input = node.inputs.at(0), output = node.outputs.at(0);
  const std::string shape = graph.fresh(node.name + ".shape"), flat = graph.fresh(node.name + ".flat"),
                    result = graph.fresh(node.name + ".result");
  graph.nodes.push_back({shape, "Shape", "", {input}, {shape}, {}});
  graph.nodes.push_back({flat, "Flatten", "", {input}, {flat}, {{"axis", axis}}});
  node.inputs[0] = flat, node.outputs[0] = result;
  node.attributes["axis"] = int64_t{1};
  graph.nodes.push_back(node);
  node = {graph.fresh(node.name + ".reshaped"), "Reshape", "", {result, shape}, {output}, {}};
}

void split_by_input(Raised& graph, NodeDef& node, int) { graph.to_input(node, "split", 1); }

void split_counts_outputs(Raised&, NodeDef& node, int) {
  const bool has_sizes = node.inputs.size() > 1 && !node.inputs[1].empty();
  if (!has_sizes) node.attributes["num_outputs"] = static_cast<int64_t>(node.outputs.size());
}

void roi_align_as_before(Raised&, NodeDef& node, int) {
  node.attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
}

void dft_by_axis(Raised& graph, NodeDef& node, int) {
  const int64_t axis = attribute<int64_t>(node, "axis").value_or(1);
  const Value number = Tensor::from(Integers{axis}, {});
  graph.set_input(node, 2, graph.constant(node, "axis", number.with_integers({Expr(axis)})));
  node.attributes.erase("axis");
}

void grid_sample_by_new_names(Raised&, NodeDef& node, int) {
  const auto mode = attribute<std::string>(node, "mode").value_or("bilinear");
  if (mode == "bilinear") node.attributes["mode"] = std::string("linear");
  if (mode == "bicubic") node.attributes["mode"] = std::string("cubic");
}

void refused(Raised& graph, NodeDef& node, int opset) { graph.fail(node, opset, "its meaning has changed"); }

/// By the opset that changed what a node means, or how it says it. Versions that are not listed take more
/// dtypes or have further inputs and attributes, whose defaults mean what was before.
struct Change {
  int opset;
  std::vector<const char*> ops;
  Rule rule;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {7,
       {"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"},
       without_broadcast},
      {7, {"Gemm"}, gemm_broadcasts},
      {7, {"BatchNormalization", "Dropout"}, is_a_test},
      {7, {"GRU", "LSTM", "RNN"}, gives_sequences},
      {7, {"Upsample"}, refused},
      {9, {"BatchNormalization"}, plain_batch_norm},
      {9, {"Upsample"}, upsample_by_input},
      {9, {"Scan"}, refused},
      {10, {"Slice"}, slice_by_inputs},
      {10, {"TopK"}, top_k_by_input},
      {10, {"Upsample"}, upsample_is_resize},
      {11, {"Clip"}, clip_by_inputs},
      {11, {"Pad"}, pad_by_inputs},
      {11, {"Resize"}, resize_by_scales},
      {12, {"Dropout"}, dropout_without_ratio},
      {13, {"Softmax", "LogSoftmax", "Hardmax"}, softmax_of_one_axis},
      {13, {"Squeeze", "Unsqueeze", "ReduceSum"}, axes_to_input},
      {13, {"Split"}, split_by_input},
      {14, {"BatchNormalization"}, test_batch_norm},
      {16, {"RoiAlign"}, roi_align_as_before},
      {18,
       {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
        "ReduceProd", "ReduceSumSquare"},
       axes_to_input},
      {18, {"Split"}, split_counts_outputs},
      {20, {"DFT"}, dft_by_axis},
      {20, {"GridSample"}, grid_sample_by_new_names},
      {21, {"GroupNormalization"}, refused},
  };
  return all;
}

/// Anew, after nodes came to a graph. What it reads of its surroundings stays the same.
void order(const Model::Impl& model, GraphDef& graph) {
  const std::vector<std::string> captured = std::move(graph.captured);
  graph.captured.clear();
  graph.last_use.clear();
  order_nodes({model.path, ""}, graph, captured);
}

void raise_graph(const Model::Impl& model, GraphDef& graph, const Change& change, FreshNames& names) {
  Raised raised(model, graph, names);
  for (NodeDef& node : graph.nodes) {
    for (auto& [name, attribute] : node.attributes)
      if (auto* body = std::get_if<std::shared_ptr<const GraphDef>>(&attribute)) {
        auto copy = std::make_shared<GraphDef>(**body);
        raise_graph(model, *copy, change, names);
        order(model, *copy);
        attribute = std::move(copy);
      }
    const bool is_own = node.domain.empty() && !model.functions.count({node.domain, node.op});
    const bool changed = is_own && std::any_of(change.ops.begin(), change.ops.end(),
                                               [&](const char* op) { return node.op == op; });
    if (changed) change.rule(raised, node, change.opset);
    raised.nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(raised.nodes);
}

} // namespace

void raise_opset(Model::Impl& model, int opset) {
  int& own = model.opsets[""];
  if (own >= opset) return;
  if (own < 6)
    throw Error(ErrorKind::Name, fmt::format("{}: is of opset {}, expected 6 or later", model.path, own));
  FreshNames names(model.graph);
  for (const Change& change : changes())
    if (own < change.opset && change.opset <= opset) raise_graph(model, model.graph, change, names);
  own = opset;
  order(model, model.graph);
}

} // namespace lathe::onnx
