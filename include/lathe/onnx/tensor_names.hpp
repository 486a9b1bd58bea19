// What a model's inputs and outputs are called as tensors.
#pragma once
#include <string>
#include <vector>

#include "lathe/onnx/model.hpp"

namespace lathe::onnx {

/// The names that Model::tensors() gives the inputs, and behind them those of the outputs, in the model's order.
std::vector<std::string> tensor_names(const Model& model);

}  // namespace lathe::onnx
