// What the values of a model are, as far as that follows without inputs.
#pragma once
#include <map>
#include <string>

#include "onnx/graph.hpp"

namespace lathe::onnx {

/// What a trace saw of the values of each graph, by name.
using TracedValues = std::map<const GraphDef*, std::map<std::string, Value>>;

/// As far as shapes follow: a model may ask for values that it has to be fed, or hold ops that can't be
/// imported.
TracedValues trace_values(const Model::Impl& model, const ImportOptions& options);

} // namespace lathe::onnx
