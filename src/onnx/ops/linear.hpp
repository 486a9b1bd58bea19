// Products and inverses of matrices, as several domains' ops need them.
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// alpha * A B + beta * C, as the node's inputs 0 to 2 and its attributes say.
Tensor general_product(Call& call);

} // namespace lathe::onnx
