// Non-maximum suppression.
#include "onnx/ops/tables.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

Value number_or(const Call& call, size_t input, Scalar otherwise) {
  const Tensor given = call.has(input) ? call.tensor(input).reshape({}) : Tensor::full({}, otherwise);
  return given.cast(otherwise.dtype());
}

/// The program stops here for the number of boxes anyhow, so that the host can as well choose them.
std::vector<Value> non_max_suppression(Call& call) {
  const bool centred = call.integer("center_point_box", 0) != 0;
  const Value nothing = Tensor::zeros({0, 3}, DType::I64);
  if (!call.has(2) || call.value(0).is_empty() || call.value(1).is_empty()) return {nothing};
  const Shape boxes = call.value(0).shape(), scores = call.value(1).shape();
  if (scores.size() != 3 || boxes != Shape{scores[0], scores[2], 4})
    call.fail(ErrorKind::Shape, "boxes " + to_string(boxes) + " and scores " + to_string(scores) +
                                    ", expected [B, N, 4] and [B, C, N]");
  return on_host(call, {"best_boxes", {}, {centred, call.has(4)}},
                 {call.tensor(0).cast(DType::F32), call.tensor(1).cast(DType::F32),
                  number_or(call, 2, Scalar::of_int(DType::I64, 0)),
                  number_or(call, 3, Scalar::of_float(DType::F32, 0)),
                  number_or(call, 4, Scalar::of_float(DType::F32, 0))});
}

const OpRow kDetectionOps[] = {{"NonMaxSuppression", 10, non_max_suppression}};

} // namespace

OpTable detection_ops() { return kDetectionOps; }

} // namespace lathe::onnx
