#include "onnx/program/run_segment.hpp"

#include "lathe/detail/instruction_timer.hpp"
#include "lathe/detail/sizes.hpp"
#include "onnx/integers.hpp"
#include "onnx/program/run_loop.hpp"
#include "onnx/program/versions.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {

Value at_sizes(const Value& value, const Sizes& sizes) {
  Integers known{value.dtype(), static_sizes(value.shape()), *value.integers()};
  for (Expr& element : known.elements)
    element = evaluate(element, [&](Expr variable) { return sizes.at(variable.name()); });
  return *constant_of(known);
}

void run(const Segment& segment, Store& store) {
  if (!segment.code) return;
  NamedTensors inputs;
  const Executable code = segment.code->now();
  for (const KernelParam& param : code.inputs())
    inputs.emplace(param.name, store.values.at(param.name));
  for (auto& [name, value] : detail::call_at(code, inputs, store.sizes)) store.values.insert_or_assign(name, value);
}

Value at_hand(const Value& value, const Store& store) {
  const auto computed = [&](const Tensor& tensor) {
    const std::vector<std::string> named = tensor.inputs();
    return named.empty() ? tensor : store.values.at(named[0]);
  };
  switch (value.kind()) {
  case Value::Kind::None: return value;
  case Value::Kind::Tensor: return map_tensors(value, computed);
  case Value::Kind::Strings: return value.ids() ? store.strings.strings(computed(*value.ids())) : value;
  case Value::Kind::Map: return Value::map(at_hand(value.keys(), store), at_hand(value.values(), store));
  case Value::Kind::MapRows:
    return maps_of_rows(Value::map_rows(at_hand(value.keys(), store), computed(value.values().tensor())));
  case Value::Kind::Sequence: break;
  }
  std::vector<Value> elements;
  for (const Value& element : value.elements()) elements.push_back(at_hand(element, store));
  return Value::sequence(value.dtype(), std::move(elements));
}

std::vector<Scalar> run(const HostStep& step, Store& store, std::vector<Value>* made) {
  const detail::InstructionTimer timer("host", step.op.name);
  std::vector<Value> inputs;
  for (const Value& input : step.inputs) inputs.push_back(at_hand(input, store));
  const std::vector<Value> outputs = step.loop_body ? run_loop(step, inputs) : run_host_op(step.op, inputs);
  for (size_t k = 0; k < outputs.size(); ++k)
    store.values.insert_or_assign(step.outputs.at(k), outputs[k].is_strings() ? store.strings.ids(outputs[k])
                                                                              : outputs[k].tensor());
  if (made) *made = outputs;
  return sizes_of(outputs);
}

std::vector<Scalar> look_at(const Store& store, const std::string& name) {
  const detail::InstructionTimer timer("look", name);
  return host_elements(store.values.at(name));
}

} // namespace lathe::onnx
