// Models: the file, its graphs, functions, nodes and attributes.
#include "onnx/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <set>

#include "lathe/detail/access.hpp"
#include "lathe_onnx_data.pb.h"
#include "onnx/mapped_file.hpp"

namespace lathe::onnx {
namespace {

using lathe_onnx::AttributeProto;
using lathe_onnx::GraphProto;
using lathe_onnx::ModelProto;
using lathe_onnx::NodeProto;

using Names = std::vector<std::string>;

GraphDef read_graph(const Source& source, const GraphProto& proto, const Names& outer_names);

template <class List> auto as_vector(const List& list) {
  using Element = std::decay_t<decltype(list[0])>;
  using Kept = std::conditional_t<std::is_same_v<Element, float>, double, Element>;
  return std::vector<Kept>(list.begin(), list.end());
}

Attribute read_attribute(const Source& source, const AttributeProto& proto, const std::string& node,
                         const Names& visible) {
  if (!proto.ref_attr_name().empty()) return AttributeRef{proto.ref_attr_name()};
  const std::string what = fmt::format("attribute '{}' of node '{}'", proto.name(), node);
  // Files older than IR version 2 leave the type out; what is filled in then says it.
  switch (proto.type()) {
  case AttributeProto::INT: return proto.i();
  case AttributeProto::FLOAT: return static_cast<double>(proto.f());
  case AttributeProto::STRING: return proto.s();
  case AttributeProto::INTS: return as_vector(proto.ints());
  case AttributeProto::FLOATS: return as_vector(proto.floats());
  case AttributeProto::STRINGS: return as_vector(proto.strings());
  case AttributeProto::TENSOR: return read_tensor(source, proto.t(), what);
  case AttributeProto::SPARSE_TENSOR: return read_sparse_tensor(source, proto.sparse_tensor(), what);
  case AttributeProto::GRAPH: return std::make_shared<const GraphDef>(read_graph(source, proto.g(), visible));
  case AttributeProto::TYPE_PROTO: {
    // What a value of this type is before anything is in it.
    const Port port = read_port(source, proto.name(), proto.tp());
    if (port.kind == Value::Kind::Sequence && !port.optional) return Value::sequence(port.dtype, {});
    return Value();
  }
  default: break;
  }
  if (proto.has_i()) return proto.i();
  if (proto.has_f()) return static_cast<double>(proto.f());
  if (proto.has_s()) return proto.s();
  if (proto.ints_size()) return as_vector(proto.ints());
  if (proto.floats_size()) return as_vector(proto.floats());
  source.fail(fmt::format("{} is of type {}, which is not supported", what, static_cast<int>(proto.type())));
}

NodeDef read_node(const Source& source, const NodeProto& proto, size_t position, const Names& visible) {
  NodeDef node{proto.name(),
               proto.op_type(),
               canonical_domain(proto.domain()),
               as_vector(proto.input()),
               as_vector(proto.output()),
               {}};
  for (const std::string& output : node.outputs)
    if (node.name.empty()) node.name = output;
  if (node.name.empty()) node.name = fmt::format("#{}", position);
  if (node.op.empty()) source.fail(fmt::format("node '{}' has no op", node.name));
  for (const AttributeProto& attribute : proto.attribute())
    if (!node.attributes.emplace(attribute.name(), read_attribute(source, attribute, node.name, visible))
             .second)
      source.fail(fmt::format("node '{}' has attribute '{}' twice", node.name, attribute.name()));
  return node;
}

/// Names that a body may read: those of the surroundings and all that its own graph defines.
template <class Nodes> Names visible_names(const Names& outer, const GraphDef& graph, const Nodes& nodes) {
  Names names = outer;
  for (const auto& [name, value] : graph.initialisers) names.push_back(name);
  for (const Port& port : graph.inputs) names.push_back(port.name);
  for (const NodeProto& node : nodes)
    for (const std::string& output : node.output()) names.push_back(output);
  return names;
}

template <class Nodes>
void read_nodes(const Source& source, GraphDef& graph, const Nodes& nodes, const Names& outer) {
  bool has_bodies = false;
  for (const NodeProto& node : nodes)
    for (const AttributeProto& attribute : node.attribute()) has_bodies |= attribute.has_g();
  const Names visible = has_bodies ? visible_names(outer, graph, nodes) : Names();
  for (const NodeProto& node : nodes)
    graph.nodes.push_back(read_node(source, node, graph.nodes.size(), visible));
  attach_gradient_bodies(source, graph, outer);
  order_nodes(source, graph, outer);
}

GraphDef read_graph(const Source& source, const GraphProto& proto, const Names& outer) {
  GraphDef graph;
  graph.name = proto.name();
  const auto add = [&](const std::string& tensor, const auto& read) {
    const std::string what = fmt::format("initialiser '{}'", tensor);
    if (!graph.initialisers.emplace(tensor, read(what)).second) source.fail(what + " is there twice");
  };
  for (const auto& tensor : proto.initializer())
    add(tensor.name(), [&](const std::string& what) { return read_tensor(source, tensor, what); });
  for (const auto& tensor : proto.sparse_initializer())
    add(tensor.values().name(),
        [&](const std::string& what) { return read_sparse_tensor(source, tensor, what); });
  for (const auto& input : proto.input())
    graph.inputs.push_back(read_port(source, input.name(), input.type()));
  for (const auto& output : proto.output())
    graph.outputs.push_back(read_port(source, output.name(), output.type()));
  read_nodes(source, graph, proto.node(), outer);
  return graph;
}

template <class List> std::map<std::string, int> read_opsets(const List& list) {
  std::map<std::string, int> opsets;
  for (const auto& entry : list)
    opsets[canonical_domain(entry.domain())] =
        static_cast<int>(std::clamp<int64_t>(entry.version(), 0, 1'000'000));
  return opsets;
}

FunctionDef read_function(const Source& source, const lathe_onnx::FunctionProto& proto) {
  FunctionDef function;
  function.name = proto.name();
  function.domain = canonical_domain(proto.domain());
  function.opsets = read_opsets(proto.opset_import());
  function.body.name = proto.name();
  for (const std::string& name : proto.input()) function.body.inputs.push_back({.name = name, .text = ""});
  for (const std::string& name : proto.output()) function.body.outputs.push_back({.name = name, .text = ""});
  for (const AttributeProto& attribute : proto.attribute_proto())
    function.defaults.emplace(attribute.name(), read_attribute(source, attribute, proto.name(), {}));
  read_nodes(source, function.body, proto.node(), {});
  return function;
}

Value map_value(const Source& source, const lathe_onnx::MapProto& proto, const Port& port);

Value sequence_value(const Source& source, const lathe_onnx::SequenceProto& proto, const Port& port) {
  std::vector<Value> elements;
  for (const auto& tensor : proto.tensor_values())
    elements.push_back(read_tensor(source, tensor, "an element"));
  for (const auto& sequence : proto.sequence_values())
    elements.push_back(sequence_value(source, sequence, port));
  for (const auto& map : proto.map_values()) elements.push_back(map_value(source, map, port));
  return Value::sequence(elements.empty() ? port.dtype : elements[0].dtype(), std::move(elements));
}

Value optional_value(const Source& source, const lathe_onnx::OptionalProto& proto, const Port& port) {
  if (proto.has_tensor_value()) return read_tensor(source, proto.tensor_value(), "its tensor");
  if (proto.has_sequence_value()) return sequence_value(source, proto.sequence_value(), port);
  if (proto.has_optional_value()) return optional_value(source, proto.optional_value(), port);
  return Value();
}

/// ONNX stores the values as a sequence of a tensor of them, or of one for each.
Value map_value(const Source& source, const lathe_onnx::MapProto& proto, const Port& port) {
  const bool strings = proto.string_keys_size() > 0 || port.string_keys;
  std::vector<std::string> texts(proto.string_keys().begin(), proto.string_keys().end());
  const std::vector<int64_t> numbers(proto.keys().begin(), proto.keys().end());
  const auto count = static_cast<int64_t>(strings ? texts.size() : numbers.size());
  const Value keys = strings      ? Value::strings(std::move(texts))
                     : count == 0 ? Value(Tensor::zeros({0}, DType::I64))
                                  : Value(Tensor::from(numbers));
  std::vector<Value> parts;
  for (const auto& tensor : proto.values().tensor_values())
    parts.push_back(read_tensor(source, tensor, "the map's values"));
  if (parts.empty() && count == 0)
    parts.push_back(port.string_values ? Value::strings(std::vector<std::string>())
                                       : Value(Tensor::zeros({0}, port.dtype)));
  std::vector<std::string> joined;
  std::vector<Tensor> tensors;
  for (const Value& part : parts) {
    if (part.is_strings())
      joined.insert(joined.end(), part.texts().begin(), part.texts().end());
    else
      tensors.push_back(part.tensor().flatten());
    if (part.kind() != parts[0].kind() || part.dtype() != parts[0].dtype())
      source.fail("has a map whose values differ in type");
  }
  if (parts.empty()) source.fail(fmt::format("has a map of {} keys without values", count));
  const Value values =
      tensors.empty() ? Value::strings(std::move(joined)) : Value(concat(tensors, 0).realise());
  if (!values.shape()[0].is_const(count))
    source.fail(fmt::format("has a map of {} keys and {} values", count, to_string(values.shape()[0])));
  return Value::map(keys, values);
}

template <class Message> Message parsed(const Source& source, const MappedFile& bytes) {
  Message message;
  if (bytes.size() > INT_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    source.fail("holds no value as ONNX stores them: protobuf can't read it");
  return message;
}

Model parse_model(const Source& source, const void* bytes, size_t size) {
  if (size > INT_MAX)
    source.fail(fmt::format(
        "has {} bytes, and protobuf can't hold 2^31: its weights belong in files beside it", size));
  ModelProto proto;
  if (!proto.ParseFromArray(bytes, static_cast<int>(size)))
    source.fail("is no ONNX model, or not all of one: protobuf can't read it");
  return detail::Access::make<Model>(read_model(source, proto));
}

} // namespace

void Source::fail(const std::string& message) const { throw Error(ErrorKind::File, name + ": " + message); }

std::shared_ptr<Model::Impl> read_model(const Source& source, const ModelProto& proto) {
  auto model = std::make_shared<Model::Impl>();
  model->path = source.name;
  if (!proto.has_graph()) source.fail("is no ONNX model: it has no graph");
  model->opsets = read_opsets(proto.opset_import());
  if (model->opsets.empty()) model->opsets[""] = 1; // before IR version 3
  for (const auto& function : proto.functions()) {
    FunctionDef read = read_function(source, function);
    auto key = std::pair(read.domain, read.name);
    if (!model->functions.emplace(key, std::move(read)).second)
      source.fail(fmt::format("defines function '{}' twice", function.name()));
  }
  model->graph = read_graph(source, proto.graph(), {});
  model->find_inputs();
  for (const auto& entry : proto.metadata_props()) model->metadata[entry.key()] = entry.value();
  model->metadata["ir_version"] = std::to_string(proto.ir_version());
  if (proto.has_producer_name())
    model->metadata["producer"] = proto.producer_name() + " " + proto.producer_version();
  return model;
}

std::string canonical_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::optional<DType> dtype_of_onnx(int number) {
  static const std::map<int, DType> known = {
      {1, DType::F32},         {2, DType::U8},        {3, DType::I8},          {4, DType::U16},
      {5, DType::I16},         {6, DType::I32},       {7, DType::I64},         {9, DType::Bool},
      {10, DType::F16},        {11, DType::F64},      {12, DType::U32},        {13, DType::U64},
      {16, DType::BF16},       {17, DType::F8E4M3FN}, {18, DType::F8E4M3FNUZ}, {19, DType::F8E5M2},
      {20, DType::F8E5M2FNUZ}, {21, DType::U4},       {22, DType::I4},         {23, DType::F4E2M1},
      {24, DType::F8E8M0},     {25, DType::U2},       {26, DType::I2}};
  auto found = known.find(number);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

Port read_port(const Source& source, const std::string& name, const lathe_onnx::TypeProto& type) {
  Port port;
  port.name = name;
  if (type.has_optional_type()) {
    port = read_port(source, name, type.optional_type().elem_type());
    port.optional = true;
    port.text = "optional(" + port.text + ")";
    return port;
  }
  if (type.has_sequence_type()) {
    port = read_port(source, name, type.sequence_type().elem_type());
    port.element = port.kind;
    port.kind = Value::Kind::Sequence;
    port.shape.reset();
    port.text = "seq(" + port.text + ")";
    return port;
  }
  if (type.has_map_type()) {
    const int key = type.map_type().key_type();
    if (key != kOnnxString && dtype_of_onnx(key) != DType::I64)
      source.fail(fmt::format("'{}' is a map from type {}, expected strings or i64", name, key));
    port = read_port(source, name, type.map_type().value_type());
    if (port.optional || (port.kind != Value::Kind::Tensor && port.kind != Value::Kind::Strings))
      source.fail(fmt::format("'{}' is a map to {}, expected numbers or strings", name, port.text));
    port.string_values = port.kind == Value::Kind::Strings;
    port.kind = Value::Kind::Map;
    port.string_keys = key == kOnnxString;
    port.text = fmt::format("map({}, {})", port.string_keys ? "str" : "i64",
                            port.string_values ? "str" : to_string(port.dtype));
    port.shape.reset();
    return port;
  }
  if (!type.has_tensor_type()) { // a body may leave the type of a port to what flows in
    port.text += '?';
    return port;
  }
  const auto& tensor = type.tensor_type();
  const std::optional<DType> dtype = dtype_of_onnx(tensor.elem_type());
  const bool strings = tensor.elem_type() == kOnnxString;
  port.text = dtype ? to_string(*dtype) : strings ? "str" : fmt::format("type{}", tensor.elem_type());
  if (strings)
    port.kind = Value::Kind::Strings;
  else if (!dtype)
    port.kind = Value::Kind::None;
  else
    port.dtype = *dtype;
  if (!tensor.has_shape()) return port;
  Shape shape;
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() != -1) { // exporters write -1 for a size that they don't know
      if (dim.dim_value() < 0)
        source.fail(fmt::format("'{}' has size {}, expected none below -1", name, dim.dim_value()));
      shape.push_back(Expr(dim.dim_value()));
    } else {
      shape.push_back(size_variable(dim.dim_param().empty() ? fmt::format("{}_{}", name, shape.size())
                                                            : dim.dim_param()));
    }
  }
  port.text += to_string(shape);
  port.shape = std::move(shape);
  return port;
}

namespace {

MappedFile opened(const std::string& path) {
  std::optional<MappedFile> file = MappedFile::open(path);
  if (!file) throw Error(ErrorKind::File, path + ": no file that can be read");
  return std::move(*file);
}

} // namespace

Value load_value(const std::string& path, const Port& port) {
  const Source source{path, ""};
  const MappedFile bytes = opened(path);
  if (port.optional) return optional_value(source, parsed<lathe_onnx::OptionalProto>(source, bytes), port);
  if (port.kind == Value::Kind::Sequence)
    return sequence_value(source, parsed<lathe_onnx::SequenceProto>(source, bytes), port);
  if (port.kind == Value::Kind::Map)
    return map_value(source, parsed<lathe_onnx::MapProto>(source, bytes), port);
  return read_tensor(source, parsed<lathe_onnx::TensorProto>(source, bytes), "its tensor");
}

std::string identifier(const std::string& name) {
  std::string made;
  for (char c : name) made += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return made.empty() || std::isdigit(static_cast<unsigned char>(made[0])) ? "n" + made : made;
}

std::vector<std::string> identifiers(const std::vector<Port>& ports) {
  std::set<std::string> taken;
  for (const Port& port : ports)
    if (identifier(port.name) == port.name) taken.insert(port.name);
  std::vector<std::string> names;
  for (const Port& port : ports) {
    const std::string plain = identifier(port.name);
    names.push_back(plain);
    if (plain == port.name) continue;
    for (int k = 2; !taken.insert(names.back()).second; ++k) names.back() = fmt::format("{}_{}", plain, k);
  }
  return names;
}

Expr size_variable(const std::string& name) { return Var(identifier(name), 1, kLargestNamedSize); }

Model load(const void* bytes, size_t size, const std::string& folder) {
  return parse_model({"model", folder}, bytes, size);
}

Model load(const std::string& path) {
  const MappedFile file = opened(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return parse_model({path, folder.empty() ? "." : folder}, file.data(), file.size());
}

} // namespace lathe::onnx
