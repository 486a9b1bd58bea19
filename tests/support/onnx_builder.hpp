// ONNX models made by hand.
//
//   Graph g;
//   g.input("x", DType::F32, {2, "n"}).node("Add", {"x", "x"}, {"y"}).output("y", DType::F32, {2, "n"});
//   onnx::Program program = load(model(g)).compile();
#pragma once
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "lathe/onnx.hpp"
#include "lathe_onnx.pb.h"

namespace lathe::test {

/// ONNX's number of an element type.
inline int onnx_dtype(DType dtype) {
  constexpr int numbers[kAllDTypeCount] = {9,  3,  5,  6,  7,  2,  4,  12, 13, 10, 16, 1,
                                           11, 22, 21, 26, 25, 17, 18, 19, 20, 23, 24};
  return numbers[static_cast<int>(dtype)];
}

/// A size, or the name of one.
struct Dim : std::variant<int64_t, std::string> {
  Dim(int size) : variant(int64_t{size}) {}
  Dim(int64_t size) : variant(size) {}
  Dim(const char* name) : variant(std::string(name)) {}
};
using Dims = std::vector<Dim>;
using Names = std::vector<std::string>;

constexpr int kOnnxString = 8; // as an element type

inline void set_tensor_type(lathe_onnx::TypeProto& type, int element, const Dims& dims) {
  auto& tensor = *type.mutable_tensor_type();
  tensor.set_elem_type(element);
  tensor.mutable_shape();
  for (const Dim& dim : dims) {
    auto& made = *tensor.mutable_shape()->add_dim();
    if (dim.index() == 0)
      made.set_dim_value(std::get<0>(dim));
    else
      made.set_dim_param(std::get<1>(dim));
  }
}

inline void set_tensor_type(lathe_onnx::TypeProto& type, DType dtype, const Dims& dims) {
  set_tensor_type(type, onnx_dtype(dtype), dims);
}

inline lathe_onnx::TensorProto strings_proto(const std::vector<int64_t>& dims, const Names& values) {
  lathe_onnx::TensorProto proto;
  proto.set_data_type(kOnnxString);
  for (int64_t size : dims) proto.add_dims(size);
  for (const std::string& value : values) proto.add_string_data(value);
  return proto;
}

template <class T>
lathe_onnx::TensorProto tensor_proto(const std::vector<int64_t>& dims, const std::vector<T>& values) {
  lathe_onnx::TensorProto proto;
  proto.set_data_type(onnx_dtype(dtype_of<T>()));
  for (int64_t size : dims) proto.add_dims(size);
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  proto.set_raw_data(bytes);
  return proto;
}

class Graph;

/// attribute("axis", 1), attribute("alpha", 0.5), attribute("mode", "TF"), attribute("perm", {1, 0}), a
/// tensor, a body.
using Attribute = lathe_onnx::AttributeProto;
using Attributes = std::vector<Attribute>;

inline Attribute attribute_of_type(const std::string& name, Attribute::AttributeType type) {
  Attribute proto;
  proto.set_name(name);
  proto.set_type(type);
  return proto;
}
inline Attribute attribute(const std::string& name, int64_t value) {
  Attribute proto = attribute_of_type(name, Attribute::INT);
  proto.set_i(value);
  return proto;
}
inline Attribute attribute(const std::string& name, int value) { return attribute(name, int64_t{value}); }
inline Attribute attribute(const std::string& name, double value) {
  Attribute proto = attribute_of_type(name, Attribute::FLOAT);
  proto.set_f(static_cast<float>(value));
  return proto;
}
inline Attribute attribute(const std::string& name, const char* value) {
  Attribute proto = attribute_of_type(name, Attribute::STRING);
  proto.set_s(value);
  return proto;
}
inline Attribute attribute(const std::string& name, const std::vector<int64_t>& values) {
  Attribute proto = attribute_of_type(name, Attribute::INTS);
  for (int64_t value : values) proto.add_ints(value);
  return proto;
}
inline Attribute texts_attribute(const std::string& name, const Names& values) {
  Attribute proto = attribute_of_type(name, Attribute::STRINGS);
  for (const std::string& value : values) proto.add_strings(value);
  return proto;
}
inline Attribute attribute(const std::string& name, const lathe_onnx::TensorProto& value) {
  Attribute proto = attribute_of_type(name, Attribute::TENSOR);
  *proto.mutable_t() = value;
  return proto;
}
/// Inside a function: the attribute `from` of the node that calls it.
inline Attribute reference(const std::string& name, const std::string& from, Attribute::AttributeType type) {
  Attribute proto = attribute_of_type(name, type);
  proto.set_ref_attr_name(from);
  return proto;
}

inline void set_node(lathe_onnx::NodeProto& node, const std::string& op, const Names& inputs,
                     const Names& outputs, const Attributes& attributes, const std::string& domain) {
  node.set_op_type(op);
  node.set_name(op + "_" + (outputs.empty() ? "" : outputs[0]));
  node.set_domain(domain);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const Attribute& a : attributes) *node.add_attribute() = a;
}

/// `indices`: [values], or [values, axes of dims].
template <class T>
lathe_onnx::SparseTensorProto sparse_proto(const std::vector<int64_t>& dims, const std::vector<T>& values,
                                           const std::vector<int64_t>& shape_of_indices,
                                           const std::vector<int64_t>& indices) {
  lathe_onnx::SparseTensorProto proto;
  for (const int64_t size : dims) proto.add_dims(size);
  *proto.mutable_values() = tensor_proto({static_cast<int64_t>(values.size())}, values);
  *proto.mutable_indices() = tensor_proto(shape_of_indices, indices);
  return proto;
}

class Graph {
public:
  Graph& input(const std::string& name, DType dtype, const Dims& dims = {}) {
    auto& port = *proto_.add_input();
    port.set_name(name);
    set_tensor_type(*port.mutable_type(), dtype, dims);
    return *this;
  }
  Graph& input_strings(const std::string& name, const Dims& dims = {}) {
    return input_type(name, [&](lathe_onnx::TypeProto& type) { set_tensor_type(type, kOnnxString, dims); });
  }
  /// From strings or i64 to strings or numbers.
  Graph& input_map(const std::string& name, bool string_keys, std::optional<DType> values) {
    return input_type(name, [&](lathe_onnx::TypeProto& type) {
      type.mutable_map_type()->set_key_type(string_keys ? kOnnxString : onnx_dtype(DType::I64));
      type.mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(
          values ? onnx_dtype(*values) : kOnnxString);
    });
  }
  Graph& input_sequence(const std::string& name, DType dtype) {
    auto& port = *proto_.add_input();
    port.set_name(name);
    port.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(
        onnx_dtype(dtype));
    return *this;
  }
  /// Without dims the shape is left open.
  Graph& output(const std::string& name, DType dtype = DType::F32, const std::optional<Dims>& dims = {}) {
    auto& port = *proto_.add_output();
    port.set_name(name);
    if (dims)
      set_tensor_type(*port.mutable_type(), dtype, *dims);
    else
      port.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_dtype(dtype));
    return *this;
  }
  template <class T>
  Graph& initialiser(const std::string& name, const std::vector<int64_t>& dims,
                     const std::vector<T>& values) {
    return initialiser(name, tensor_proto(dims, values));
  }
  Graph& initialiser(const std::string& name, lathe_onnx::TensorProto tensor) {
    tensor.set_name(name);
    *proto_.add_initializer() = std::move(tensor);
    return *this;
  }
  Graph& sparse_initialiser(const std::string& name, lathe_onnx::SparseTensorProto tensor) {
    tensor.mutable_values()->set_name(name);
    *proto_.add_sparse_initializer() = std::move(tensor);
    return *this;
  }
  Graph& node(const std::string& op, const Names& inputs, const Names& outputs,
              const Attributes& attributes = {}, const std::string& domain = "") {
    set_node(*proto_.add_node(), op, inputs, outputs, attributes, domain);
    return *this;
  }
  const lathe_onnx::GraphProto& proto() const { return proto_; }

private:
  template <class Fill> Graph& input_type(const std::string& name, Fill fill) {
    auto& port = *proto_.add_input();
    port.set_name(name);
    fill(*port.mutable_type());
    return *this;
  }

  lathe_onnx::GraphProto proto_;
};

inline Attribute attribute(const std::string& name, const Graph& body) {
  Attribute proto = attribute_of_type(name, Attribute::GRAPH);
  *proto.mutable_g() = body.proto();
  proto.mutable_g()->set_name(name);
  return proto;
}

/// A model-local function.
class Function {
public:
  Function(const std::string& domain, const std::string& name, const Names& inputs, const Names& outputs) {
    proto_.set_domain(domain);
    proto_.set_name(name);
    for (const std::string& input : inputs) proto_.add_input(input);
    for (const std::string& output : outputs) proto_.add_output(output);
    opset("", 17);
  }
  Function& opset(const std::string& domain, int version) {
    auto& entry = *proto_.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(version);
    return *this;
  }
  /// An attribute that callers have to give.
  Function& takes(const std::string& attribute) {
    proto_.add_attribute(attribute);
    return *this;
  }
  Function& takes(const Attribute& with_default) {
    *proto_.add_attribute_proto() = with_default;
    return *this;
  }
  Function& node(const std::string& op, const Names& inputs, const Names& outputs,
                 const Attributes& attributes = {}, const std::string& domain = "") {
    set_node(*proto_.add_node(), op, inputs, outputs, attributes, domain);
    return *this;
  }
  const lathe_onnx::FunctionProto& proto() const { return proto_; }

private:
  lathe_onnx::FunctionProto proto_;
};

/// The bytes of a model file. `domains`: those of its functions and of the tests' own ops, at version 1.
inline std::string model(const Graph& graph, int opset = 17, const std::vector<Function>& functions = {},
                         const Names& domains = {}) {
  lathe_onnx::ModelProto proto;
  proto.set_ir_version(8);
  *proto.mutable_graph() = graph.proto();
  proto.mutable_graph()->set_name("graph");
  auto& own = *proto.add_opset_import();
  own.set_domain("");
  own.set_version(opset);
  for (const std::string& domain : domains) {
    auto& entry = *proto.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(1);
  }
  for (const Function& function : functions) *proto.add_functions() = function.proto();
  return proto.SerializeAsString();
}

inline onnx::Model load(const std::string& bytes) { return onnx::load(bytes.data(), bytes.size()); }

} // namespace lathe::test
