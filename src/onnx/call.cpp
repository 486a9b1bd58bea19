// Call: inputs, attributes, values and bodies of the node that is being imported.
#include "onnx/call.hpp"

#include <fmt/format.h>

#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

std::string describe(const Attribute& attribute) {
  static constexpr const char* names[] = {"an integer", "a number", "a text",  "integers",   "numbers",
                                          "texts",      "a tensor", "a graph", "a reference"};
  return names[attribute.index()];
}

/// The attribute as a T; Error if it is something else.
template <class T> const T& as(const Call& call, std::string_view name, const Attribute& attribute) {
  if (const T* value = std::get_if<T>(&attribute)) return *value;
  call.fail(ErrorKind::Value,
            fmt::format("attribute '{}' is {}, expected {}", name, describe(attribute), describe(T())));
}

[[noreturn]] void fail_missing(const Call& call, std::string_view name) {
  call.fail(ErrorKind::Name, fmt::format("attribute '{}' is missing", name));
}

} // namespace

const Attribute* Call::Impl::attribute(std::string_view name) const {
  asked.emplace(name);
  auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  const auto* reference = std::get_if<AttributeRef>(&found->second);
  if (!reference) return &found->second;
  if (!frame.attributes) return nullptr;
  auto given = frame.attributes->find(reference->name);
  return given == frame.attributes->end() ? nullptr : &given->second;
}

void Call::Impl::check_all_asked(const Call& call) const {
  for (const auto& [name, value] : node.attributes)
    if (!asked.count(name) && attribute(name))
      call.fail(ErrorKind::Value, fmt::format("attribute '{}' is not supported", name));
}

const std::string& Call::op() const { return impl_.node.op; }
const std::string& Call::node() const { return impl_.node.name; }
int Call::opset() const { return impl_.opset; }

void Call::fail(ErrorKind kind, const std::string& message) const { throw Error(kind, message); }

size_t Call::input_count() const { return impl_.node.inputs.size(); }
size_t Call::output_count() const { return impl_.node.outputs.size(); }
bool Call::has(size_t input) const { return !value(input).is_none(); }
bool Call::wants(size_t output) const {
  return output < impl_.node.outputs.size() && !impl_.node.outputs[output].empty();
}

Value Call::value(size_t input) const {
  if (input >= impl_.node.inputs.size() || impl_.node.inputs[input].empty()) return Value();
  const Value* value = impl_.frame.find(impl_.node.inputs[input]);
  if (!value) return Value();
  if (value->is_map_rows()) return maps_of_rows(*value);
  return impl_.strings_as_ids ? as_ids(impl_.tracer.strings(), *value) : *value;
}

Tensor Call::tensor(size_t input) const {
  const Value v = value(input);
  if (!v.is_tensor())
    fail(ErrorKind::Value, fmt::format("input {} {}, expected a tensor of numbers", input,
                                       v.is_none() ? "is left out" : "is " + type_text(v)));
  return v.tensor();
}

std::optional<Tensor> Call::optional_tensor(size_t input) const {
  return has(input) ? std::optional(tensor(input)) : std::nullopt;
}

// ---- values ----

Shape Call::sizes(size_t input) {
  const Value v = value(input);
  if (v.is_empty()) return {};
  if (v.integers()) return *v.integers();
  if (is_float(tensor(input).dtype()))
    fail(ErrorKind::DType, fmt::format("input {} is {}, expected integers", input, to_string(v.dtype())));
  return look_at_sizes(v.tensor());
}

std::vector<int64_t> Call::integers(size_t input) {
  const Value v = value(input);
  if (v.is_empty()) return {};
  if (v.integers()) {
    if (!is_static(*v.integers()))
      fail(ErrorKind::Shape,
           fmt::format("input {} is {}, expected fixed sizes", input, to_string(*v.integers())));
    return static_sizes(*v.integers());
  }
  if (is_float(tensor(input).dtype()))
    fail(ErrorKind::DType, fmt::format("input {} is {}, expected integers", input, to_string(v.dtype())));
  return look(v.tensor());
}

int64_t Call::integer_at(size_t input) {
  const std::vector<int64_t> all = integers(input);
  if (all.size() != 1)
    fail(ErrorKind::Shape, fmt::format("input {} has {} elements, expected one", input, all.size()));
  return all[0];
}

std::vector<double> Call::numbers(size_t input) {
  const Value v = value(input);
  if (v.is_empty()) return {};
  std::vector<double> out;
  for (const Scalar& s : impl_.tracer.elements(impl_.frame, tensor(input), nullptr))
    out.push_back(s.as_float());
  return out;
}

double Call::number_at(size_t input) {
  const std::vector<double> all = numbers(input);
  if (all.size() != 1)
    fail(ErrorKind::Shape, fmt::format("input {} has {} elements, expected one", input, all.size()));
  return all[0];
}

Shape Call::look_at_sizes(const Tensor& tensor, std::vector<Value>* kept) {
  return impl_.tracer.sizes(impl_.frame, tensor, kept);
}

std::vector<int64_t> Call::look(const Tensor& tensor, std::vector<Value>* kept) {
  std::vector<int64_t> out;
  for (const Scalar& s : impl_.tracer.elements(impl_.frame, tensor, kept)) out.push_back(s.as_int());
  return out;
}

std::vector<int64_t> Call::fixed_shape(const Tensor& tensor) const {
  if (!is_static(tensor.shape()))
    fail(ErrorKind::Shape, fmt::format("shape {}, expected fixed sizes", to_string(tensor.shape())));
  return static_sizes(tensor.shape());
}

// ---- attributes ----

bool Call::has_attribute(std::string_view name) const { return impl_.attribute(name) != nullptr; }
void Call::ignore(std::string_view name) const { impl_.asked.emplace(name); }

int64_t Call::integer(std::string_view name) const {
  const Attribute* found = impl_.attribute(name);
  if (!found) fail_missing(*this, name);
  return as<int64_t>(*this, name, *found);
}
int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  return has_attribute(name) ? integer(name) : otherwise;
}

double Call::number(std::string_view name) const {
  const Attribute* found = impl_.attribute(name);
  if (!found) fail_missing(*this, name);
  return as<double>(*this, name, *found);
}
double Call::number(std::string_view name, double otherwise) const {
  return has_attribute(name) ? number(name) : otherwise;
}

std::string Call::text(std::string_view name) const {
  const Attribute* found = impl_.attribute(name);
  if (!found) fail_missing(*this, name);
  return as<std::string>(*this, name, *found);
}
std::string Call::text(std::string_view name, std::string_view otherwise) const {
  return has_attribute(name) ? text(name) : std::string(otherwise);
}

std::vector<int64_t> Call::integers(std::string_view name) const {
  const Attribute* found = impl_.attribute(name);
  if (!found) fail_missing(*this, name);
  return as<std::vector<int64_t>>(*this, name, *found);
}
std::vector<int64_t> Call::integers(std::string_view name, std::vector<int64_t> otherwise) const {
  return has_attribute(name) ? integers(name) : otherwise;
}

std::vector<double> Call::numbers(std::string_view name, std::vector<double> otherwise) const {
  const Attribute* found = impl_.attribute(name);
  return found ? as<std::vector<double>>(*this, name, *found) : otherwise;
}

std::vector<std::string> Call::texts(std::string_view name, std::vector<std::string> otherwise) const {
  const Attribute* found = impl_.attribute(name);
  return found ? as<std::vector<std::string>>(*this, name, *found) : otherwise;
}

Value Call::constant(std::string_view name) const {
  const Attribute* found = impl_.attribute(name);
  if (!found) fail_missing(*this, name);
  return as<Value>(*this, name, *found);
}

DType Call::dtype(std::string_view name) const {
  const int64_t number = integer(name);
  if (auto dtype = dtype_of_onnx(static_cast<int>(number))) return *dtype;
  fail(ErrorKind::DType,
       fmt::format("attribute '{}' is element type {}, expected one of numbers or bool", name, number));
}
DType Call::dtype(std::string_view name, DType otherwise) const {
  return has_attribute(name) ? dtype(name) : otherwise;
}

// ---- bodies ----

namespace {

const GraphDef& body_of(const Call& call, const Call::Impl& impl, std::string_view name) {
  const Attribute* found = impl.attribute(name);
  if (!found) fail_missing(call, name);
  return *as<std::shared_ptr<const GraphDef>>(call, name, *found);
}

} // namespace

size_t Call::body_input_count(std::string_view attribute) const {
  return body_of(*this, impl_, attribute).inputs.size();
}
size_t Call::body_output_count(std::string_view attribute) const {
  return body_of(*this, impl_, attribute).outputs.size();
}

const Port& Call::body_output(std::string_view attribute, size_t output) const {
  return body_of(*this, impl_, attribute).outputs.at(output);
}

std::optional<std::vector<Value>> run_loop_body(Call& call, const std::vector<Value>& states,
                                                bool is_counted) {
  Call::Impl& impl = Call::Impl::of(call);
  const LoopCall loop{call.node(), body_of(call, impl, "body"), impl.frame, call.value(0), call.value(1),
                      states};
  return impl.tracer.loop(impl.frame, loop, is_counted);
}

std::vector<Value> Call::run_body(std::string_view attribute, const std::vector<Value>& arguments,
                                  Looks looks) {
  return impl_.tracer.run_body(impl_.frame, body_of(*this, impl_, attribute), arguments, looks);
}

} // namespace lathe::onnx
