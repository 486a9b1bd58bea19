// For which sizes there can be one tree of segments. See docs/decisions/versions-of-sizes.md.
#pragma once
#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// Traces the model with sizes that are symbols, as far as to its first look. Sets the sizes that the tree for
/// all sizes serves, whether it looks at values, and the sizes that versions fix. Makes nothing. Error where it
/// can't be traced so, NeedsInputs where the model does not say what its inputs are.
void find_bounds(Program::Impl& program);

} // namespace lathe::onnx
