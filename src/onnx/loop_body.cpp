#include "onnx/loop_body.hpp"

#include "onnx/ops/values.hpp"
#include "onnx/tracer.hpp"

namespace lathe::onnx {
namespace {

/// A port that takes any shape of the value's dtype.
Port port_like(const std::string& name, const Value& value) {
  return {.name = name, .dtype = value.dtype(), .text = std::string(to_string(value.dtype()))};
}

/// The graph with what a function's attributes are in place of references to them.
GraphDef with_attributes(const GraphDef& graph,
                         const std::map<std::string, Attribute, std::less<>>& attributes) {
  GraphDef copy = graph;
  for (NodeDef& node : copy.nodes)
    for (auto it = node.attributes.begin(); it != node.attributes.end();) {
      auto& [name, attribute] = *it;
      if (const auto* body = std::get_if<std::shared_ptr<const GraphDef>>(&attribute))
        attribute = std::make_shared<const GraphDef>(with_attributes(**body, attributes));
      const auto* reference = std::get_if<AttributeRef>(&attribute);
      const auto given = reference ? attributes.find(reference->name) : attributes.end();
      if (given != attributes.end()) attribute = Attribute(given->second);
      it = reference && given == attributes.end() ? node.attributes.erase(it) : std::next(it);
    }
  return copy;
}

} // namespace

bool can_be_model(const LoopCall& loop) {
  for (const Frame* frame = &loop.surroundings; frame; frame = frame->outer)
    if (frame->looks == Looks::Refused) return false;
  for (const Value& state : loop.states)
    if (!state.is_tensor()) return false;
  for (const std::string& name : loop.body.captured)
    if (const Value* value = loop.surroundings.find(name); value && !value->is_tensor()) return false;
  return loop.body.inputs.size() == 2 + loop.states.size();
}

LoopModel model_of_body(const Model::Impl& model, const LoopCall& loop) {
  LoopModel made;
  auto body = std::make_shared<Model::Impl>();
  body->path = model.path;
  const auto* attributes = loop.surroundings.attributes;
  body->graph = attributes ? with_attributes(loop.body, *attributes) : loop.body;
  body->graph.captured.clear();
  body->opsets = loop.surroundings.opsets;
  body->functions = model.functions;
  std::map<std::string, Value>& known = body->graph.initialisers;
  // The body only runs while the condition holds.
  known.insert_or_assign(loop.body.inputs[1].name, known_integer(1, DType::Bool));
  std::vector<Port> ports{port_like(loop.body.inputs[0].name, known_integer(0))};
  for (size_t k = 0; k < loop.states.size(); ++k)
    ports.push_back(port_like(loop.body.inputs[2 + k].name, loop.states[k]));
  for (const std::string& name : loop.body.captured) {
    const Value* value = loop.surroundings.find(name);
    if (!value) continue;
    if (is_constant(value->tensor())) {
      known.insert_or_assign(name, *value);
    } else {
      ports.push_back(port_like(name, *value));
      made.captured.push_back(*value);
    }
  }
  body->graph.inputs = ports;
  body->inputs = std::move(ports);
  made.model = std::move(body);
  return made;
}

} // namespace lathe::onnx
