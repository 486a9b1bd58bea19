#include "onnx/strings/host_op.hpp"
#include "onnx/strings/pattern.hpp"

namespace lathe::onnx {

std::vector<Value> host_match(const HostOp& op, const HostInputs& inputs) {
  const Pattern pattern(op.texts.at(0));
  std::vector<uint8_t> matches;
  for (const std::string& text : inputs.at(0).texts()) matches.push_back(pattern.matches_all_of(text));
  if (matches.empty()) return {Tensor::zeros(inputs[0].shape(), DType::Bool)};
  return {Tensor::from_memory(matches.data(), matches.size(), DType::Bool, inputs[0].shape())};
}

} // namespace lathe::onnx
