#include "onnx/traced_values.hpp"

#include "onnx/program/inputs.hpp"

namespace lathe::onnx {

TracedValues trace_values(const Model::Impl& model, const ImportOptions& options) {
  TracedValues seen;
  NoInputs looker(true);
  auto note = [&](const Frame& frame, const std::string& name) {
    const Value* value = frame.find(name);
    if (value) seen[&frame.graph].insert_or_assign(name, *value);
  };
  Tracer tracer(model, looker,
                [&](const Frame& frame, const NodeDef& node, const auto&, const std::vector<Value>& outputs) {
                  for (const std::string& name : node.inputs) note(frame, name);
                  for (size_t k = 0; k < node.outputs.size() && k < outputs.size(); ++k)
                    seen[&frame.graph].insert_or_assign(node.outputs[k], outputs[k]);
                });
  try {
    tracer.run(declared_inputs(model, options));
  } catch (const NeedsInputs&) {
  } catch (const Error&) {
  }
  return seen;
}

} // namespace lathe::onnx
