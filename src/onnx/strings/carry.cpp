#include "onnx/strings/carry.hpp"

#include <map>

namespace lathe::onnx {
namespace {

bool has_strings(const Value& value) {
  return value.is_strings() ||
         (value.is_sequence() && !value.elements().empty() && has_strings(value.elements()[0]));
}

} // namespace

const CarriedStrings* carried_strings(const std::string& domain, const std::string& op) {
  constexpr CarriedStrings first{1, true}, all{~0u, true}, updated{0b101, true};
  static const std::map<std::pair<std::string_view, std::string_view>, CarriedStrings> ops = {
      {{"", "Reshape"}, first},
      {{"", "Flatten"}, first},
      {{"", "Squeeze"}, first},
      {{"", "Unsqueeze"}, first},
      {{"", "Transpose"}, first},
      {{"", "Slice"}, first},
      {{"", "Split"}, first},
      {{"", "Expand"}, first},
      {{"", "Tile"}, first},
      {{"", "Gather"}, first},
      {{"", "GatherElements"}, first},
      {{"", "GatherND"}, first},
      {{"", "Compress"}, first},
      {{"", "ReverseSequence"}, first},
      {{"", "DepthToSpace"}, first},
      {{"", "SpaceToDepth"}, first},
      {{"", "CenterCropPad"}, first},
      {{"", "Trilu"}, first},
      {{"", "SplitToSequence"}, first},
      {{"", "ConcatFromSequence"}, first},
      {{"", "Concat"}, all},
      {{"", "Pad"}, updated},
      {{"", "Scatter"}, updated},
      {{"", "ScatterElements"}, updated},
      {{"", "ScatterND"}, updated},
      {{"", "TensorScatter"}, {0b11, true}},
      {{"", "Where"}, {0b110, true}},
      {{"", "OneHot"}, {0b100, true}},
      {{"", "Equal"}, {0b11, false}},
      {{"ai.onnx.ml", "ArrayFeatureExtractor"}, first},
  };
  const auto found = ops.find({domain, op});
  return found == ops.end() ? nullptr : &found->second;
}

bool carries_strings(const Call& call, const CarriedStrings& carried) {
  bool some = false, others = false;
  for (size_t k = 0; k < call.input_count(); ++k) {
    if (!call.has(k)) continue;
    const bool may_be = k >= 8 * sizeof carried.inputs || carried.inputs >> k & 1;
    const bool is = has_strings(call.value(k));
    if (is && !may_be)
      call.fail(ErrorKind::DType, "input " + std::to_string(k) + " is " + type_text(call.value(k)) +
                                      ", expected no strings there");
    some |= is, others |= may_be && !is;
  }
  if (!some) return false;
  if (others) call.fail(ErrorKind::DType, "strings beside other elements, expected either");
  if (call.op().rfind("Scatter", 0) == 0 && call.text("reduction", "none") != "none")
    call.fail(ErrorKind::DType, "a reduction of strings, expected them to be replaced");
  return true;
}

} // namespace lathe::onnx
