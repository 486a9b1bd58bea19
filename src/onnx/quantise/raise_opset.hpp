// Models of older opsets as models of a newer one that mean the same.
#pragma once
#include "onnx/graph.hpp"

namespace lathe::onnx {

/// Rewrites the nodes whose ops a later version defines otherwise, those of bodies too; functions keep their
/// own opsets. `opset` is at most 21. Error(Name) naming a node that has no equal in it, and for a model
/// below opset 6.
void raise_opset(Model::Impl& model, int opset);

} // namespace lathe::onnx
