// Non-maximum suppression.
#include <algorithm>

#include "lathe/scan.hpp"
#include "onnx/ops/select.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

struct Boxes {
  Tensor top, left, bottom, right;

  template <class Function> Boxes each(const Function& function) const {
    return {function(top), function(left), function(bottom), function(right)};
  }
  Tensor area() const { return (bottom - top) * (right - left); }
};

/// Of [..., 4]: two corners in any order, y before x, or x and y of the centre, width and height.
Boxes corners(const Tensor& boxes, bool centred) {
  const auto number = [&](int which) { return slice_at(boxes, boxes.rank() - 1, which); };
  if (!centred)
    return {minimum(number(0), number(2)), minimum(number(1), number(3)), maximum(number(0), number(2)),
            maximum(number(1), number(3))};
  const Tensor half_width = number(2) * 0.5, half_height = number(3) * 0.5;
  return {number(1) - half_height, number(0) - half_width, number(1) + half_height, number(0) + half_width};
}

/// Which boxes of a and b, broadcast, overlap by more than a part of their union.
Tensor overlap(const Boxes& a, const Boxes& b, const Tensor& threshold) {
  const Tensor none = Tensor::zeros({}, a.top.dtype());
  const Tensor height = minimum(a.bottom, b.bottom) - maximum(a.top, b.top);
  const Tensor width = minimum(a.right, b.right) - maximum(a.left, b.left);
  const Tensor shared = maximum(height, none) * maximum(width, none);
  return logical_and(shared > none, shared / (a.area() + b.area() - shared) > threshold);
}

/// Of boxes in order of their scores, those that no better one that is kept suppresses. Each round is right
/// about one box more at least, mostly about many, and a round that changes nothing is right about all.
Tensor suppress(Call& call, const Tensor& valid, const Tensor& conflicts) {
  constexpr int kRoundsBetweenLooks = 4;
  std::vector<Value> kept{valid, conflicts, valid};
  for (;;) {
    Tensor before = kept[2].tensor(), after = before;
    for (int round = 0; round < kRoundsBetweenLooks; ++round) {
      before = after;
      const Tensor suppressed = logical_and(kept[1].tensor(), before.unsqueeze(-1)).any({-2});
      after = logical_and(kept[0].tensor(), suppressed.logical_not());
    }
    kept[2] = after;
    if (call.look((before != after).any(), &kept).at(0) == 0) return kept[2].tensor();
  }
}

/// The same by steps, each of which keeps the best box that is left and suppresses others: up to `most` boxes
/// of a class.
Tensor suppress_by_steps(const Boxes& boxes, const Tensor& good, const Tensor& threshold, int64_t most) {
  const Tensor place = Tensor::iota(good.shape(), good.rank() - 1, DType::I32);
  const Tensor end = Tensor::full({}, static_cast<int32_t>(good.size(-1).value()));
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>&) -> ScanStep {
    const Tensor &left = state[0], &kept = state[1];
    const Tensor best = where(left, place, end).min(-1, true), is_best = place == best;
    const Tensor box = minimum(best, end - 1); // of a class that has no box left: any
    const Boxes chosen = boxes.each([&](const Tensor& t) { return t.gather(-1, box); });
    const Tensor goes = logical_or(is_best, overlap(chosen, boxes, threshold));
    return {{logical_and(left, goes.logical_not()), logical_or(kept, logical_and(left, is_best))}, {}};
  };
  const Tensor none = Tensor::zeros(good.shape(), DType::Bool);
  return scan(step, {good, none}, {}, {.steps = Expr(most)}).state[1];
}

/// The candidates of every class, best first.
struct Candidates {
  Tensor box, good; // [B, C, candidate]: which box it is, and whether its score is high enough
  int64_t count;
};

/// Their number is that of the class with the most good boxes, rounded up to a power of two: what comes after
/// is made once for each number that is seen.
Candidates best_boxes(Call& call, const Tensor& scores) {
  const std::vector<int64_t> size = call.fixed_shape(scores);
  const Tensor good =
      call.has(4) ? scores > call.tensor(4).reshape({}) : Tensor::ones(scores.shape(), DType::Bool);
  const Tensor most = good.cast(DType::I64).sum(-1).max(), order = scores.argsort(-1, true);
  const Tensor powers = weak(int64_t{1}, DType::I64) << Tensor::arange(62);
  std::vector<Value> kept{order, good.gather(2, order)};
  const int64_t rounded = int64_t{1} << call.look((powers < most).cast(DType::I64).sum(), &kept).at(0);
  const int64_t count = std::min(size[2], rounded);
  const std::vector<std::pair<Expr, Expr>> part{{0, size[0]}, {0, size[1]}, {0, count}};
  return {kept[0].tensor().shrink(part), kept[1].tensor().shrink(part), count};
}

/// [B, N, 4] -> [B, C, candidate, 4].
Tensor boxes_of(const Tensor& boxes, const Tensor& candidate) {
  Shape all{boxes.size(0), candidate.size(1), boxes.size(1), 4}, index = candidate.shape();
  index.push_back(4);
  return boxes.unsqueeze(1).expand(all).gather(2, candidate.unsqueeze(-1).expand(index));
}

std::vector<Value> non_max_suppression(Call& call) {
  const bool centred = call.integer("center_point_box", 0) != 0;
  const int64_t asked = call.has(2) ? call.integer_at(2) : 0;
  const Value nothing = Tensor::zeros({0, 3}, DType::I64);
  if (asked < 1 || call.value(0).is_empty() || call.value(1).is_empty()) return {nothing};
  const Shape boxes = call.value(0).shape(), scores = call.value(1).shape();
  if (scores.size() != 3 || boxes != Shape{scores[0], scores[2], 4})
    call.fail(ErrorKind::Shape, "boxes " + to_string(boxes) + " and scores " + to_string(scores) +
                                    ", expected [B, N, 4] and [B, C, N]");
  const Candidates candidates = best_boxes(call, call.tensor(1));
  const int64_t most = std::min(asked, candidates.count); // exporters ask for as many as an integer can say
  const Tensor sorted = boxes_of(call.tensor(0), candidates.box);
  const Tensor limit = call.has(3) ? call.tensor(3).reshape({}) : Tensor::zeros({}, sorted.dtype());
  const Boxes all = corners(sorted, centred);
  const auto by_pairs = [&] {
    const Shape pairs{candidates.count, candidates.count};
    const Tensor better = Tensor::iota(pairs, 0) < Tensor::iota(pairs, 1);
    const Boxes rows = all.each([](const Tensor& t) { return t.unsqueeze(-1); }),
                columns = all.each([](const Tensor& t) { return t.unsqueeze(-2); });
    return suppress(call, candidates.good, logical_and(overlap(rows, columns, limit), better));
  };
  // A step passes over the candidates several times, the pairs over all of them for each.
  constexpr int64_t kPassesOfStep = 4;
  const Tensor selected = most * kPassesOfStep < candidates.count
                              ? suppress_by_steps(all, candidates.good, limit, most)
                              : by_pairs();
  const Tensor within = logical_and(selected, selected.cast(DType::I64).cumsum(-1) <= most);
  const Value found = true_positions(call, within.flatten());
  if (found.is_empty()) return {nothing};
  const Tensor position = found.tensor(),
               class_of = floor_divide(position, weak(candidates.count, DType::I64));
  const Tensor classes = weak(candidates.box.size(1).value(), DType::I64);
  return {stack(
      {floor_divide(class_of, classes), class_of % classes, candidates.box.flatten().take(position)}, 1)};
}

const OpRow kDetectionOps[] = {{"NonMaxSuppression", 10, non_max_suppression}};

} // namespace

OpTable detection_ops() { return kDetectionOps; }

} // namespace lathe::onnx
