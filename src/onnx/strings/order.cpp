#include <map>
#include <string_view>

#include "onnx/strings/host_op.hpp"

namespace lathe::onnx {

std::vector<Value> host_places(const HostOp&, const HostInputs& inputs) {
  const std::vector<std::string>& texts = inputs.at(0).texts();
  std::map<std::string_view, int64_t> places;
  for (const std::string& text : texts) places.emplace(text, 0);
  int64_t next = 0;
  for (auto& [text, place] : places) place = next++;
  std::vector<int64_t> out;
  for (const std::string& text : texts) out.push_back(places.at(text));
  if (out.empty()) return {Tensor::zeros(inputs[0].shape(), DType::I64)};
  return {Tensor::from(out, inputs[0].shape())};
}

} // namespace lathe::onnx
