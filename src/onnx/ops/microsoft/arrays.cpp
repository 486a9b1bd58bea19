// Inverses, distances, crops of images and other functions of arrays.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// One step on [..., n, 2 n], whose right half begins as the identity: column `at` of the left half becomes
/// that of the identity. The row with the largest entry in it, of those from `at` on, changes places with row
/// `at`.
Tensor sweep(const Tensor& m, int64_t at, int64_t size) {
  const Tensor row = Tensor::arange(size).reshape({size, 1}), zero = weak(0.0, m.dtype());
  const Tensor column = m.index({Ellipsis{}, Slice{at, at + 1}});
  const Tensor best = where(row >= at, column.abs(), weak(-1.0, m.dtype())).argmax(-2, true);
  const Tensor pivot_row = where(row == best, m, zero).sum(-2, true);
  const Tensor own = m.index({Ellipsis{}, Slice{at, at + 1}, Slice{}});
  const Tensor others = where(row == best, own, m);
  const Tensor scaled = pivot_row / pivot_row.index({Ellipsis{}, Slice{at, at + 1}});
  const Tensor rest = others - others.index({Ellipsis{}, Slice{at, at + 1}}) * scaled;
  return where(row == at, scaled, rest);
}

std::vector<Value> inverse(Call& call) {
  const Tensor input = call.tensor(0);
  if (input.rank() < 2 || input.size(-1) != input.size(-2))
    call.fail(ErrorKind::Shape, "input " + to_string(input.shape()) + ", expected square matrices");
  const int64_t size = unrolled_size(call, input, input.rank() - 1);
  return {in_single(input, [&](const Tensor& matrices) {
    const Tensor identity = Tensor::eye(size, size, matrices.dtype()).expand(matrices.shape());
    Tensor both = concat({matrices, identity}, -1);
    // Stored, since every entry of the next step reads many of this one's.
    for (int64_t at = 0; at < size; ++at) both = sweep(both, at, size).contiguous();
    return both.index({Ellipsis{}, Slice{size, 2 * size}});
  })};
}

std::vector<Value> distances(Call& call) {
  const std::string metric = call.text("metric", "sqeuclidean");
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (metric != "sqeuclidean" && metric != "euclidean")
    call.fail(ErrorKind::Value, "metric " + metric + ", expected sqeuclidean or euclidean");
  if (a.rank() != 2 || b.rank() != 2)
    call.fail(ErrorKind::Shape,
              "inputs " + to_string(a.shape()) + " and " + to_string(b.shape()) + ", expected matrices");
  const Tensor squares = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1);
  return {metric == "euclidean" ? squares.sqrt() : squares};
}

std::vector<Value> expand_dims(Call& call) {
  const Tensor x = call.tensor(0);
  return {x.unsqueeze(normalise_axis(call, call.integer_at(1), x.rank() + 1))};
}

// ---- crops ----

/// Where the points of a crop lie along an axis of an image of `size` elements: [regions, points].
Tensor crop_places(const Tensor& first, const Tensor& last, int64_t points, int64_t size) {
  const double end = static_cast<double>(size - 1);
  if (points == 1) return ((first + last) * (0.5 * end)).unsqueeze(1);
  const Tensor step = (last - first) * end / static_cast<double>(points - 1);
  const Tensor point = Tensor::arange(points).cast(first.dtype());
  return (first * end).unsqueeze(1) + point * step.unsqueeze(1);
}

/// Values at places along an axis of [R, C, H, W], 2 or 3: of the nearest elements or between two.
Tensor sample_axis(const Tensor& images, int axis, const Tensor& places, bool nearest) {
  Shape along{places.size(0), 1, 1, 1}, shape = images.shape();
  along[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)] = places.size(1);
  const Tensor place = places.reshape(along);
  const auto at = [&](const Tensor& element) {
    return images.gather(axis, element.cast(DType::I64).expand(shape));
  };
  if (nearest) return at((place + 0.5).floor());
  const Tensor before = place.floor(), low = at(before);
  return low + (at(place.ceil()) - low) * (place - before);
}

std::vector<Value> crop_and_resize(Call& call) {
  const Tensor x = call.tensor(0), regions = call.tensor(1), batch = call.tensor(2); // regions: y, x, y, x
  const std::vector<int64_t> crop = call.integers(3);
  const std::string mode = call.text("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest")
    call.fail(ErrorKind::Value, "mode " + mode + ", expected bilinear or nearest");
  if (x.rank() != 4 || regions.rank() != 2 || !regions.size(1).is_const(4) || crop.size() != 2 ||
      crop[0] < 1 || crop[1] < 1)
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + " and regions " +
                                    to_string(regions.shape()) +
                                    ", expected [N, C, H, W], [R, 4] and two sizes of at least 1");
  const int64_t height = fixed_size(call, x, 2), width = fixed_size(call, x, 3);
  const double outside = call.number("extrapolation_value", 0.0);
  return {in_single(x, [&](const Tensor& images) {
    const Tensor corners = regions.cast(images.dtype());
    const auto corner = [&](int64_t which) { return slice_at(corners, 1, which); };
    const Tensor rows = crop_places(corner(0), corner(2), crop[0], height);
    const Tensor columns = crop_places(corner(1), corner(3), crop[1], width);
    const auto inside = [](const Tensor& places, int64_t size) {
      return (places >= 0.0) & (places <= static_cast<double>(size - 1));
    };
    const bool nearest = mode == "nearest";
    const Tensor chosen = images.take(batch.cast(DType::I64), 0);
    const Tensor values = sample_axis(sample_axis(chosen, 2, rows, nearest), 3, columns, nearest);
    const Tensor seen =
        inside(rows, height).unsqueeze(1).unsqueeze(3) & inside(columns, width).unsqueeze(1).unsqueeze(1);
    return where(seen, values, weak(outside, values.dtype()));
  })};
}

// ---- text that is generated ----

/// -infinity for each token that would repeat a group of `ngram_size` tokens.
std::vector<Value> block_repeats(Call& call) {
  const Tensor tokens = call.tensor(0), scores = call.tensor(1);
  const int64_t size = call.integer("ngram_size");
  if (tokens.rank() != 2 || scores.rank() != 2 || size < 1)
    call.fail(ErrorKind::Shape, "tokens " + to_string(tokens.shape()) + " and scores " +
                                    to_string(scores.shape()) + ", expected matrices and a positive size");
  const int64_t length = fixed_size(call, tokens, 1);
  if (length < size) return {scores};
  const Tensor groups = tokens.window(1, size); // [batch, groups, size]
  Tensor blocked = slice_at(groups, 2, size - 1).unsqueeze(2) ==
                   Tensor::iota({scores.size(1)}, 0).cast(tokens.dtype()); // [batch, groups, vocabulary]
  if (size > 1) {
    const Tensor begun = tokens.index({Slice{}, Slice{length - size + 1, {}}}).unsqueeze(1);
    blocked = blocked & (groups.index({Ellipsis{}, Slice{0, size - 1}}) == begun).all(-1, true);
  }
  return {where(blocked.any(1), weak(lowest(scores.dtype()), scores.dtype()), scores)};
}

const OpRow kMicrosoftArrayOps[] = {
    {"Inverse", 1, inverse, kMicrosoft, 1},
    {"CDist", 1, distances, kMicrosoft, 2},
    {"ExpandDims", 1, expand_dims, kMicrosoft, 2},
    {"CropAndResize", 1, crop_and_resize, kMicrosoft, 4},
    {"NGramRepeatBlock", 1, block_repeats, kMicrosoft, 2},
};

} // namespace

OpTable microsoft_array_ops() { return kMicrosoftArrayOps; }

} // namespace lathe::onnx
