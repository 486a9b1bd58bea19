#include "onnx/program/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lathe::onnx {
namespace {

/// Checks one value that is fed against its port, and binds its tensors' names.
void bind_input(const Port& port, const std::string& called, const Value& value, Store& store) {
  auto expected = [&](const std::string& got) {
    throw Error(ErrorKind::Shape, fmt::format("input '{}' is {}, expected {}", port.name, got, port.text));
  };
  if (value.is_none()) {
    if (!port.optional) expected("left out");
    return;
  }
  if (value.kind() != port.kind) expected(type_text(value));
  if (value.is_sequence()) {
    const Port element{.name = port.name,
                       .kind = port.element,
                       .dtype = port.dtype,
                       .text = port.text,
                       .string_keys = port.string_keys,
                       .string_values = port.string_values};
    for (size_t k = 0; k < value.elements().size(); ++k)
      bind_input(element, fmt::format("{}_{}", called, k), value.elements()[k], store);
    return;
  }
  if (value.is_map()) {
    const auto bind_part = [&](bool strings, DType dtype, const char* what, const Value& part) {
      const Port vector{.name = port.name,
                        .kind = strings ? Value::Kind::Strings : Value::Kind::Tensor,
                        .dtype = dtype,
                        .text = port.text};
      bind_input(vector, called + what, part, store);
    };
    bind_part(port.string_keys, DType::I64, "_keys", value.keys());
    const std::vector<int64_t> keys = store.values.at(called + "_keys").to_vector<int64_t>(); // or their ids
    if (std::set<int64_t>(keys.begin(), keys.end()).size() != keys.size())
      throw Error(ErrorKind::Value,
                  fmt::format("input '{}' has a key twice, expected different ones", port.name));
    bind_part(port.string_values, port.dtype, "_values", value.values());
    return;
  }
  if (value.is_tensor() && value.dtype() != port.dtype)
    throw Error(ErrorKind::DType,
                fmt::format("input '{}' is {}, expected {}", port.name, type_text(value), port.text));
  if (!is_static(value.shape())) expected(type_text(value));
  if (port.shape) {
    if (port.shape->size() != value.shape().size()) expected(type_text(value));
    for (size_t k = 0; k < value.shape().size(); ++k)
      if ((*port.shape)[k].is_const() && (*port.shape)[k] != value.shape()[k]) expected(type_text(value));
  }
  store.values.emplace(called, value.is_strings() ? store.strings.ids(value) : value.tensor());
}

Value input_like(const std::string& called, const Value& fed) {
  if (fed.is_sequence()) {
    std::vector<Value> elements;
    for (size_t k = 0; k < fed.elements().size(); ++k)
      elements.push_back(input_like(fmt::format("{}_{}", called, k), fed.elements()[k]));
    return Value::sequence(fed.dtype(), std::move(elements));
  }
  if (fed.is_map())
    return Value::map(input_like(called + "_keys", fed.keys()), input_like(called + "_values", fed.values()));
  if (fed.is_strings()) return Value::strings(Tensor::input(called, fed.shape(), DType::I64));
  if (!fed.is_tensor()) return fed;
  return Tensor::input(called, fed.shape(), fed.dtype());
}

} // namespace

namespace {

int64_t number_of(const Sizes& sizes, Expr size, int64_t otherwise) {
  const auto found = sizes.find(size.name());
  return found == sizes.end() ? otherwise : found->second;
}

} // namespace

std::string name_of_multiple(const std::string& size, int64_t step) {
  return step == 1 ? size : fmt::format("{}_by_{}", size, step);
}

Declared declared_for_all_sizes(const Program::Impl& program) {
  return {.largest = program.largest_size,
          .smallest = program.smallest_sizes,
          .steps = program.steps,
          .pinned = program.pinned};
}

Var variable_of_size(Expr size, const Declared& declared) {
  const int64_t step = number_of(declared.steps, size, 1), bound = std::min(declared.largest, size.hi());
  const int64_t least = (std::max(size.lo(), number_of(declared.smallest, size, 0)) + step - 1) / step;
  const int64_t largest = std::max(least, bound / step);
  const std::string name = name_of_multiple(size.name(), step);
  if (!declared.typical) return Var(name, least, largest);
  return Var(name, least, largest, std::clamp(declared.typical->at(size.name()) / step, least, largest));
}

std::vector<Value> in_order(const Model::Impl& model, const NamedValues& inputs, Store& store) {
  std::vector<Value> ordered;
  size_t found = 0;
  for (const Port& port : model.inputs) {
    auto given = inputs.find(port.name);
    if (given == inputs.end() && !port.optional)
      throw Error(ErrorKind::Name, fmt::format("input '{}' is missing, expected {}", port.name, port.text));
    found += given != inputs.end();
    ordered.push_back(given == inputs.end() ? Value() : given->second);
    bind_input(port, fmt::format("x{}", ordered.size() - 1), ordered.back(), store);
  }
  for (const auto& given : inputs)
    if (found < inputs.size() &&
        std::none_of(
            model.inputs.begin(), model.inputs.end(), [&](const Port& p) { return p.name == given.first; }))
      throw Error(ErrorKind::Name, fmt::format("input '{}' is not one of the model's", given.first));
  return ordered;
}

std::vector<Value> declared_inputs(const Model::Impl& model, const ImportOptions& options,
                                   const Declared& declared) {
  std::vector<Value> inputs;
  const std::vector<std::string> names = identifiers(model.inputs);
  for (const Port& port : model.inputs) {
    const size_t position = inputs.size();
    const bool strings = port.kind == Value::Kind::Strings;
    if ((port.kind != Value::Kind::Tensor && !strings) || port.optional || !port.shape) throw NeedsInputs();
    Shape shape = *port.shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Expr size = shape[axis];
      if (!size.is_var()) continue;
      if (auto fixed = options.sizes.find(size.name()); fixed != options.sizes.end())
        shape[axis] = Expr(fixed->second);
      else if (auto pinned = declared.pinned.find(size.name()); pinned != declared.pinned.end())
        shape[axis] = Expr(pinned->second);
      else
        shape[axis] = variable_of_size(size, declared).expr() * number_of(declared.steps, size, 1);
    }
    const std::string called = declared.by_name ? names[position] : fmt::format("x{}", position);
    const Tensor input = Tensor::input(called, shape, strings ? DType::I64 : port.dtype);
    inputs.push_back(strings ? Value::strings(input) : Value(input));
  }
  return inputs;
}

std::vector<Value> inputs_like(const std::vector<Value>& fed) {
  std::vector<Value> inputs;
  for (const Value& value : fed) inputs.push_back(input_like(fmt::format("x{}", inputs.size()), value));
  return inputs;
}

} // namespace lathe::onnx
