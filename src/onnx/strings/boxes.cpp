// Which boxes of an image are kept: the best of those that overlap.
#include <algorithm>
#include <cmath>

#include "onnx/strings/host_op.hpp"

namespace lathe::onnx {
namespace {

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

/// Of four numbers: two corners in any order, y before x, or x and y of the centre, width and height.
Box box_of(const float* numbers, bool centred) {
  const auto [a, b, c, d] = std::array{numbers[0], numbers[1], numbers[2], numbers[3]};
  if (centred) return {b - d * 0.5f, a - c * 0.5f, b + d * 0.5f, a + c * 0.5f};
  return {std::min(a, c), std::min(b, d), std::max(a, c), std::max(b, d)};
}

/// Whether they overlap by more than a part of their union.
bool overlap(const Box& a, const Box& b, float part) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0)) return false;
  const float shared = height * width;
  return shared > 0 && shared / (a.area() + b.area() - shared) > part;
}

/// What is chosen by, and how.
struct Limits {
  int64_t most; // of a class
  float overlap;
  std::optional<float> score; // better ones alone
};

/// The boxes of one class that are kept, best first; of equal scores the first. A NaN is better than any
/// number.
std::vector<int64_t> best_of(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> left;
  for (size_t k = 0; k < boxes.size(); ++k)
    if (!limits.score || scores[k] > *limits.score) left.push_back(static_cast<int64_t>(k));
  const auto is_worse = [&](int64_t a, int64_t b) {
    const float x = scores[a], y = scores[b];
    const bool x_is_nan = std::isnan(x), y_is_nan = std::isnan(y);
    if (x_is_nan != y_is_nan) return y_is_nan;
    return x_is_nan || x == y ? b < a : x < y;
  };
  std::make_heap(left.begin(), left.end(), is_worse);
  std::vector<int64_t> kept;
  while (!left.empty() && static_cast<int64_t>(kept.size()) < limits.most) {
    std::pop_heap(left.begin(), left.end(), is_worse);
    const Box& box = boxes[static_cast<size_t>(left.back())];
    if (std::none_of(kept.begin(), kept.end(), [&](int64_t other) {
          return overlap(boxes[static_cast<size_t>(other)], box, limits.overlap);
        }))
      kept.push_back(left.back());
    left.pop_back();
  }
  return kept;
}

} // namespace

std::vector<Value> host_best_boxes(const HostOp& op, const HostInputs& inputs) {
  const bool centred = op.integers.at(0) != 0, has_least_score = op.integers.at(1) != 0;
  const std::vector<int64_t> sizes = static_sizes(inputs.at(1).shape()); // images, classes, boxes
  const std::vector<float> numbers = inputs.at(0).tensor().to_vector<float>(),
                           scores = inputs.at(1).tensor().to_vector<float>();
  if (sizes.size() != 3 || static_cast<int64_t>(numbers.size()) != sizes[0] * sizes[2] * 4)
    throw Error(ErrorKind::Shape, op.name + " of " + type_text(inputs.at(0)) + " and " +
                                      type_text(inputs.at(1)) + ", expected [B, N, 4] and [B, C, N]");
  const auto scalar = [&](size_t input) { return inputs.at(input).tensor(); };
  Limits limits{scalar(2).item<int64_t>(), scalar(3).item<float>(), {}};
  if (!(limits.overlap >= 0 && limits.overlap <= 1))
    throw Error(ErrorKind::Value,
                "NonMaxSuppression: iou_threshold " + std::to_string(limits.overlap) + ", expected 0 to 1");
  if (has_least_score) limits.score = scalar(4).item<float>();
  std::vector<int64_t> chosen;
  for (int64_t image = 0; image < sizes[0]; ++image) {
    std::vector<Box> boxes;
    for (int64_t k = 0; k < sizes[2]; ++k)
      boxes.push_back(box_of(numbers.data() + (image * sizes[2] + k) * 4, centred));
    for (int64_t type = 0; type < sizes[1]; ++type)
      for (const int64_t box : best_of(boxes, scores.data() + (image * sizes[1] + type) * sizes[2], limits))
        chosen.insert(chosen.end(), {image, type, box});
  }
  return {Tensor::from(chosen, {static_cast<int64_t>(chosen.size() / 3), 3})};
}

} // namespace lathe::onnx
