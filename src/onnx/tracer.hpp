// One pass over a model's nodes that makes tensors of them. Whoever runs it says what the inputs are
// (declared or at hand) and what happens where a value has to be looked at.
#pragma once
#include <functional>
#include <set>

#include "lathe/onnx/op.hpp"
#include "onnx/graph.hpp"
#include "onnx/loop_body.hpp"
#include "onnx/registry.hpp"
#include "onnx/strings/host_op.hpp"
#include "onnx/strings/table.hpp"

namespace lathe::onnx {

/// The values of one graph, function or body while it is traced.
struct Frame {
  const GraphDef& graph;
  const std::map<std::string, int>& opsets;
  const std::map<std::string, Attribute, std::less<>>* attributes = nullptr; // a function's, by its caller
  Frame* outer = nullptr;                                                    // whose values a body may read
  Frame* caller = nullptr;                                                   // whose node this is part of
  Looks looks = Looks::Allowed;
  std::unordered_map<std::string, Value> values{};
  size_t position = 0; // of the node being traced

  /// The value of this name here or in the surroundings; null if there is none.
  const Value* find(const std::string& name) const;
};

/// Knows values that depend on what the model is fed, and the strings that have ids.
class Looker {
public:
  virtual ~Looker() = default;
  /// The elements of `tensor`. `live` are the values that the rest of the trace may use: the looker may
  /// replace the tensors in them by inputs that hold what they are, so that the next segment starts there.
  virtual std::vector<Scalar> look(const Tensor& tensor, const std::vector<Value*>& live) = 0;
  /// The same of integers that are sizes: variables may stand for them, so that the next segment serves other
  /// sizes, too.
  virtual Shape look_at_sizes(const Tensor& tensor, const std::vector<Value*>& live) = 0;
  /// What an op of the host makes of its inputs, of shapes that may have variables, too. `live` as above.
  virtual std::vector<Value> on_host(const HostOp& op, const std::vector<Value>& inputs,
                                     const std::vector<Value*>& live) = 0;
  /// What a loop makes whose body is a program of its own: its last states, then its stacked outputs.
  virtual std::vector<Value> loop(const LoopCall& call, const std::vector<Value*>& live) = 0;
  /// Whether a loop of many iterations, of known number, is to be unrolled all the same.
  virtual bool unrolls_loops() const = 0;
  virtual StringTable& strings() = 0;
};

/// Thrown by a Looker that has no inputs to run with.
struct NeedsInputs {};

class Tracer {
public:
  using Observer = std::function<void(const Frame&, const NodeDef&, const std::vector<Value>& inputs,
                                      const std::vector<Value>& outputs)>;

  /// An observer that adds the tensors that nodes make, by the nodes' names and ops, to `names`.
  static Observer names_values(NamedTensors& names);
  Tracer(const Model::Impl& model, Looker& looker, Observer observer = {});
  /// `inputs`: one for each of the model's inputs.
  std::vector<Value> run(const std::vector<Value>& inputs);

  // For Call.
  std::vector<Value> run_body(Frame& surroundings, const GraphDef& body, const std::vector<Value>& arguments,
                              Looks looks);
  std::vector<Scalar> elements(Frame& frame, const Tensor& tensor, std::vector<Value>* kept);
  Shape sizes(Frame& frame, const Tensor& tensor, std::vector<Value>* kept);
  std::vector<Value> on_host(Frame& frame, const HostOp& op, const std::vector<Value>& inputs);
  /// What the loop makes whose body is a program of its own; nothing if it is to be unrolled. `is_counted`:
  /// whether the number of iterations is known.
  std::optional<std::vector<Value>> loop(Frame& frame, const LoopCall& call, bool is_counted);
  StringTable& strings() const { return looker_.strings(); }

private:
  std::vector<Value> run_frame(Frame& frame);
  std::vector<Value> run_node(Frame& frame, const NodeDef& node);
  std::vector<Value> run_function(Frame& caller, const NodeDef& node, const FunctionDef& function);
  /// Error where the op is not there, or not at the node's opset.
  FoundOp find_node_op(const Frame& frame, const NodeDef& node) const;
  std::vector<Value> import(Frame& frame, const NodeDef& node, const OpImporter& importer);
  std::string reported_; // the message of the error on its way out

  const Model::Impl& model_;
  Looker& looker_;
  Observer observer_;
  size_t depth_ = 0, nodes_ = 0;
  std::vector<std::pair<Tensor, std::vector<Scalar>>> seen_; // what was looked at
  std::vector<std::pair<Tensor, Shape>> seen_sizes_;
};

/// Calls change(tensor) for every tensor in a value, its elements' too and the ids of strings, and gives the
/// value with what it returns.
Value map_tensors(const Value& value, const std::function<Tensor(const Tensor&)>& change);
/// The elements of a tensor that depends on no input.
std::vector<Scalar> host_elements(const Tensor& tensor);

} // namespace lathe::onnx
