// From protobuf to graph.hpp, checked. Only the files parse*.cpp see protobuf's classes.
#pragma once
#include <string>

#include "onnx/graph.hpp"

namespace lathe_onnx {
class AttributeProto;
class ModelProto;
class SparseTensorProto;
class TensorProto;
class TypeProto;
} // namespace lathe_onnx

namespace lathe::onnx {

class MappedFile;

/// Where a model comes from: begins the messages of errors, and bounds where weights may be read from.
struct Source {
  std::string name;                           // the file's path, or "model"
  std::string folder;                         // of external weights; "" if there is none
  const std::vector<Tensor>* saved = nullptr; // of a saved program, whose model names its weights by position
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> weights{}; // files mapped so far, by path
  [[noreturn]] void fail(const std::string& message) const;                   // Error(File)
};

std::shared_ptr<Model::Impl> read_model(const Source& source, const lathe_onnx::ModelProto& proto);
/// Of numbers, bools or strings. Every size checked, no byte read outside the file. `what` names the tensor in
/// messages.
Value read_tensor(const Source& source, const lathe_onnx::TensorProto& proto, const std::string& what);
/// The same of a sparse tensor, with its zeros; up to 1 GiB.
Value read_sparse_tensor(const Source& source, const lathe_onnx::SparseTensorProto& proto,
                         const std::string& what);
/// A declaration of `name`; sizes that the model names become Vars of that name.
Port read_port(const Source& source, const std::string& name, const lathe_onnx::TypeProto& type);
/// Gives each Gradient node the nodes that it differentiates as a body: the attribute kGradientBody.
void attach_gradient_bodies(const Source& source, GraphDef& graph, const std::vector<std::string>& outer);
/// Puts the nodes in an order in which each follows those it reads from, and fills in `captured` and
/// `last_use`. Fails where a node reads what nothing makes (`outer` are the names of the surroundings), where
/// two make the same, and where nodes wait for each other.
void order_nodes(const Source& source, GraphDef& graph, const std::vector<std::string>& outer);

} // namespace lathe::onnx
