#include "onnx/write_model.hpp"

#include <algorithm>

#include "lathe/detail/access.hpp"
#include "lathe_onnx.pb.h"

namespace lathe::onnx {
namespace {

using lathe_onnx::AttributeProto;
using lathe_onnx::GraphProto;
using lathe_onnx::TensorProto;
using lathe_onnx::TypeProto;

int onnx_number(DType dtype) {
  for (int number = 1;; ++number)
    if (dtype_of_onnx(number) == dtype) return number;
}

TensorProto write_tensor(const Value& value, TensorTable& tensors) {
  TensorProto proto;
  proto.set_data_type(value.is_strings() ? TensorProto::STRING : onnx_number(value.dtype()));
  for (const int64_t size : static_sizes(value.shape())) proto.add_dims(size);
  if (value.is_empty()) return proto;
  if (value.is_strings()) {
    for (const std::string& text : value.texts()) proto.add_string_data(text);
    return proto;
  }
  if (value.integers() || tensors.where() == TensorTable::Where::InMessages) {
    const Tensor& tensor = value.tensor();
    std::string& bytes = *proto.mutable_raw_data();
    bytes.resize(static_cast<size_t>(bytes_of(tensor.dtype(), tensor.element_count())));
    tensor.read(bytes.data(), tensor.dtype());
    return proto;
  }
  proto.set_data_location(TensorProto::EXTERNAL);
  auto& entry = *proto.add_external_data();
  entry.set_key("location");
  entry.set_value(std::to_string(tensors.add(value.tensor())));
  return proto;
}

TypeProto write_type(const Port& port) {
  TypeProto type;
  if (port.optional) {
    Port inner = port;
    inner.optional = false;
    *type.mutable_optional_type()->mutable_elem_type() = write_type(inner);
    return type;
  }
  if (port.kind == Value::Kind::Sequence) {
    Port element = port;
    element.kind = port.element;
    *type.mutable_sequence_type()->mutable_elem_type() = write_type(element);
    return type;
  }
  if (port.kind == Value::Kind::Map) {
    Port values = port;
    values.kind = port.string_values ? Value::Kind::Strings : Value::Kind::Tensor;
    type.mutable_map_type()->set_key_type(port.string_keys ? TensorProto::STRING : TensorProto::INT64);
    *type.mutable_map_type()->mutable_value_type() = write_type(values);
    return type;
  }
  if (port.text == "?") return type;
  auto& tensor = *type.mutable_tensor_type();
  // Other types than lathe's stay unknown.
  tensor.set_elem_type(port.kind == Value::Kind::None      ? TensorProto::UNDEFINED
                       : port.kind == Value::Kind::Strings ? TensorProto::STRING
                                                           : onnx_number(port.dtype));
  if (!port.shape) return type;
  tensor.mutable_shape();
  for (const Expr size : *port.shape) {
    auto& dim = *tensor.mutable_shape()->add_dim();
    if (size.is_const())
      dim.set_dim_value(size.value());
    else
      dim.set_dim_param(size.name());
  }
  return type;
}

GraphProto write_graph(const GraphDef& graph, TensorTable& tensors);

/// Fills in an attribute by what it holds.
struct AttributeWriter {
  AttributeProto& proto;
  TensorTable& tensors;

  void operator()(int64_t value) const { set(AttributeProto::INT).set_i(value); }
  void operator()(double value) const { set(AttributeProto::FLOAT).set_f(static_cast<float>(value)); }
  void operator()(const std::string& value) const { set(AttributeProto::STRING).set_s(value); }
  void operator()(const std::vector<int64_t>& values) const {
    set(AttributeProto::INTS);
    for (const int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<double>& values) const {
    set(AttributeProto::FLOATS);
    for (const double value : values) proto.add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) const {
    set(AttributeProto::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
  /// What is no tensor was made of the type of an optional or a sequence.
  void operator()(const Value& value) const {
    if (value.has_shape()) {
      *set(AttributeProto::TENSOR).mutable_t() = write_tensor(value, tensors);
      return;
    }
    const Port type{.name = "",
                    .kind = value.is_sequence() ? Value::Kind::Sequence : Value::Kind::Tensor,
                    .optional = value.is_none(),
                    .dtype = value.dtype(),
                    .text = ""};
    *set(AttributeProto::TYPE_PROTO).mutable_tp() = write_type(type);
  }
  void operator()(const std::shared_ptr<const GraphDef>& body) const {
    *set(AttributeProto::GRAPH).mutable_g() = write_graph(*body, tensors);
  }
  void operator()(const AttributeRef& reference) const { proto.set_ref_attr_name(reference.name); }

private:
  AttributeProto& set(AttributeProto::AttributeType type) const {
    proto.set_type(type);
    return proto;
  }
};

void write_attribute(AttributeProto& proto, const std::string& name, const Attribute& attribute,
                     TensorTable& tensors) {
  proto.set_name(name);
  std::visit(AttributeWriter{proto, tensors}, attribute);
}

template <class Message> void write_nodes(Message& proto, const GraphDef& graph, TensorTable& tensors) {
  for (const NodeDef& node : graph.nodes) {
    auto& written = *proto.add_node();
    written.set_name(node.name);
    written.set_op_type(node.op);
    written.set_domain(node.domain);
    for (const std::string& name : node.inputs) written.add_input(name);
    for (const std::string& name : node.outputs) written.add_output(name);
    for (const auto& [name, attribute] : node.attributes)
      write_attribute(*written.add_attribute(), name, attribute, tensors);
  }
}

GraphProto write_graph(const GraphDef& graph, TensorTable& tensors) {
  GraphProto proto;
  proto.set_name(graph.name);
  for (const Port& port : graph.inputs) *proto.add_input() = write_port(port);
  for (const Port& port : graph.outputs) *proto.add_output() = write_port(port);
  for (const auto& [name, value] : graph.initialisers) {
    TensorProto& tensor = *proto.add_initializer();
    tensor = write_tensor(value, tensors);
    tensor.set_name(name);
  }
  write_nodes(proto, graph, tensors);
  return proto;
}

template <class Message> void write_opsets(Message& proto, const std::map<std::string, int>& opsets) {
  for (const auto& [domain, version] : opsets) {
    auto& entry = *proto.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(version);
  }
}

} // namespace

uint32_t TensorTable::add(const Tensor& tensor) {
  const auto [known, is_new] =
      positions_.emplace(&*detail::impl(tensor), static_cast<uint32_t>(tensors_.size()));
  if (is_new) tensors_.push_back(tensor);
  return known->second;
}

lathe_onnx::ValueInfoProto write_port(const Port& port) {
  lathe_onnx::ValueInfoProto proto;
  proto.set_name(port.name);
  *proto.mutable_type() = write_type(port);
  return proto;
}

lathe_onnx::ModelProto write_model(const Model::Impl& model, TensorTable& tensors) {
  lathe_onnx::ModelProto proto;
  write_opsets(proto, model.opsets);
  *proto.mutable_graph() = write_graph(model.graph, tensors);
  // Initialisers that nothing reads are gone: an input of such a name must not become one that has to be fed.
  auto& inputs = *proto.mutable_graph()->mutable_input();
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(),
                              [&](const auto& input) {
                                return !model.graph.initialisers.count(input.name()) &&
                                       std::none_of(
                                           model.inputs.begin(), model.inputs.end(),
                                           [&](const Port& port) { return port.name == input.name(); });
                              }),
               inputs.end());
  for (const auto& [key, function] : model.functions) {
    auto& written = *proto.add_functions();
    written.set_name(function.name);
    written.set_domain(function.domain);
    write_opsets(written, function.opsets);
    for (const Port& port : function.body.inputs) written.add_input(port.name);
    for (const Port& port : function.body.outputs) written.add_output(port.name);
    for (const auto& [name, attribute] : function.defaults)
      write_attribute(*written.add_attribute_proto(), name, attribute, tensors);
    write_nodes(written, function.body, tensors);
  }
  return proto;
}

} // namespace lathe::onnx
