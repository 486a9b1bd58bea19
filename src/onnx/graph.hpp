// An ONNX model as the importer sees it: read from protobuf and checked (parse.cpp), with no protobuf type
// left.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "lathe/onnx/model.hpp"

namespace lathe::onnx {

struct GraphDef;

/// A function's attribute that stands for one of the caller's.
struct AttributeRef {
  std::string name;
};

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, Value, std::shared_ptr<const GraphDef>, AttributeRef>;

struct NodeDef {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs; // "" is one left out
  std::map<std::string, Attribute, std::less<>> attributes;
};

struct GraphDef {
  std::string name;
  std::vector<NodeDef> nodes; // each after the nodes whose outputs it reads
  std::vector<Port> inputs;   // all of them, those with an initialiser too
  std::vector<Port> outputs;
  std::map<std::string, Value> initialisers;
  std::vector<std::string> captured; // names of the surroundings that it reads
  /// Of each value that the nodes read, the last that does (a body's reads are its node's); outputs: the
  /// number of nodes.
  std::unordered_map<std::string, size_t> last_use;
};

struct FunctionDef {
  std::string name, domain;
  GraphDef body;
  std::map<std::string, Attribute, std::less<>> defaults;
  std::map<std::string, int> opsets;
};

struct Model::Impl {
  std::string path; // or "model", for messages
  GraphDef graph;
  std::vector<Port> inputs;                                             // without an initialiser
  std::map<std::string, int> opsets;                                    // ONNX's own domain is ""
  std::map<std::pair<std::string, std::string>, FunctionDef> functions; // by domain and name
  std::map<std::string, std::string> metadata;

  /// Fills in `inputs`.
  void find_inputs();
};

/// The names that a node and its bodies read.
std::vector<std::string> names_read(const NodeDef& node);
/// Calls visit(body) for every graph among the node's attributes.
template <class Visit> void for_each_body(const NodeDef& node, Visit&& visit) {
  for (const auto& [name, attribute] : node.attributes)
    if (auto* body = std::get_if<std::shared_ptr<const GraphDef>>(&attribute)) visit(**body);
}

/// The domain of ops that train, and what attach_gradient_bodies adds to its Gradient.
inline constexpr const char* kTrainingDomain = "ai.onnx.preview.training";
inline constexpr const char* kGradientBody = "differentiated";

/// Bounds of sizes that a model names: kernels made for all of them have to place their memory.
inline constexpr int64_t kLargestNamedSize = 65536;
/// The name with `_` for what no identifier holds.
std::string identifier(const std::string& name);
/// The ports' names as identifiers, each another: of names that would be one, those that were identifiers stay, and
/// the others end in a number.
std::vector<std::string> identifiers(const std::vector<Port>& ports);
/// The variable of a size that a model calls `name`.
Expr size_variable(const std::string& name);

/// "ai.onnx" is another name of "".
std::string canonical_domain(const std::string& domain);
/// ONNX's number of an element type; nothing for strings, complex numbers and unknown ones.
std::optional<DType> dtype_of_onnx(int number);
inline constexpr int kOnnxString = 8; // ONNX's number of strings as an element type

} // namespace lathe::onnx
