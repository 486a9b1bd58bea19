// Pooling.
#include <algorithm>
#include <numeric>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/spatial.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// Of a window.
int64_t elements_of(const Windows& w) {
  return std::accumulate(w.kernel.begin(), w.kernel.end(), int64_t{1}, std::multiplies<>());
}

/// 0, 1, ... along one axis of `rank`.
Tensor counter(int64_t size, int axis, int rank) {
  Shape shape(rank, Expr(1));
  shape[axis] = size;
  return Tensor::arange(size).reshape(shape);
}

/// The place in its window of each maximum, the first on ties: [N, C, out...]. `windows` are of the padded x.
/// Padding is as small as a number can be, but no smaller, and never the place.
Tensor places_in_window(const Call& call, const Tensor& x, const Tensor& windows, const Windows& w) {
  Shape joined(windows.shape().begin(), windows.shape().begin() + x.rank());
  joined.push_back(-1);
  const std::vector<int64_t> none(w.axes(), 0);
  if (w.before == none && w.after == none) return windows.reshape(joined).argmax(-1);
  const Tensor ones = Tensor::ones(x.shape(), DType::Bool);
  const Tensor inside = spatial_windows(call, pad_spatial(ones, w, 0), w).reshape(joined);
  const Tensor values = windows.reshape(joined);
  const Tensor largest = values == values.max(-1, true);
  return (inside & (is_float(x.dtype()) ? largest | values.isnan() : largest)).cast(DType::I32).argmax(-1);
}

/// Where in x's memory each window's maximum lies; `columns`: as if the spatial axes were stored in reverse
/// order.
Tensor max_positions(Call& call, const Tensor& x, const Tensor& windows, const Windows& w, bool columns) {
  const std::vector<int64_t> in = call.fixed_shape(x), all = call.fixed_shape(windows);
  const int rank = x.rank();
  Tensor inside = places_in_window(call, x, windows, w);
  int64_t image = 1, stride = 1;
  for (int axis = 2; axis < rank; ++axis) image *= in[axis];
  Tensor position = (counter(in[0], 0, rank) * in[1] + counter(in[1], 1, rank)) * image;
  for (size_t k = 0; k < w.axes(); ++k) {
    const size_t i = w.axes() - 1 - k; // the position in the window varies fastest along the last axis
    const int axis = 2 + static_cast<int>(i);
    const Tensor coordinate =
        counter(all[axis], axis, rank) * w.stride[i] + (inside % w.kernel[i]) * w.dilation[i] - w.before[i];
    int64_t step = stride;
    if (columns) {
      step = 1;
      for (int faster = 2; faster < axis; ++faster) step *= in[faster];
    }
    position = position + coordinate * step;
    inside = floor_divide(inside, weak(w.kernel[i], DType::I64));
    stride *= in[axis];
  }
  return position;
}

std::vector<Value> max_pool(Call& call) {
  const Tensor x = call.tensor(0);
  const Windows w = pooling_windows(call, x.shape());
  const bool columns = call.integer("storage_order", 0) != 0;
  const Tensor padded = pad_spatial(x, w, lowest(x.dtype()));
  std::vector<Value> outputs{largest_of_windows(call, padded, w)};
  if (call.wants(1)) outputs.push_back(max_positions(call, x, spatial_windows(call, padded, w), w, columns));
  return outputs;
}

/// How many elements of each window count, along every axis alone: those of the input, and the padding's if
/// asked for. What ceil_mode adds behind never counts.
Tensor counted_elements(const Tensor& x, const Windows& w, const Windows& padded, bool padding_counts) {
  Tensor product = Tensor::ones({}, x.dtype());
  for (size_t i = 0; i < w.axes(); ++i) {
    const int64_t before = w.before[i], after = w.after[i], behind = padded.after[i] - after;
    const Tensor ones = Tensor::ones({x.size(2 + static_cast<int>(i))}, x.dtype())
                            .pad({{before, after}}, padding_counts ? 1 : 0)
                            .pad({{0, behind}});
    Shape along(w.axes(), Expr(1));
    along[i] = -1;
    product = product * ones.window(0, w.kernel[i], w.stride[i], w.dilation[i]).sum(1).reshape(along);
  }
  return product;
}

std::vector<Value> average_pool(Call& call) {
  const Tensor given = call.tensor(0);
  const Tensor x = given.cast(at_least_single(given.dtype())); // sums may overflow f16
  Windows w = read_windows(call, x.shape());
  read_padding(call, x.shape(), w);
  Windows padded = w;
  if (call.integer("ceil_mode", 0)) pad_to_ceiling(call, x.shape(), padded);
  const bool padding_counts = call.integer("count_include_pad", 0) != 0;
  const Tensor total = sum_of_windows(call, pad_spatial(x, padded, 0), padded);
  const std::vector<int64_t> none(w.axes(), 0);
  const bool all_count = w.after == padded.after && (padding_counts || (w.before == none && w.after == none));
  const Tensor count =
      all_count ? weak(elements_of(w), x.dtype()) : counted_elements(x, w, padded, padding_counts);
  // A dilated window may step over all elements: its mean is 0, as in ONNX Runtime.
  return {(total / maximum(count, weak(1.0, x.dtype()))).cast(given.dtype())};
}

/// The p-norm over axes of a tensor.
Tensor p_norm(const Tensor& x, int64_t p, const Axes& axes, bool keepdim) {
  if (p == 1) return x.abs().sum(axes, keepdim);
  if (p == 2) return x.square().sum(axes, keepdim).sqrt();
  const Tensor sum = pow(x.abs(), weak(p, x.dtype())).sum(axes, keepdim);
  return pow(sum, weak(1.0 / static_cast<double>(p), x.dtype()));
}

std::vector<Value> lp_pool(Call& call) {
  const Tensor x = call.tensor(0);
  const Windows w = pooling_windows(call, x.shape());
  const Tensor windows = spatial_windows(call, pad_spatial(x, w, 0), w);
  return {p_norm(windows, call.integer("p", 2), kernel_axes(windows, w), false)};
}

/// Error unless x has axes behind [N, C].
Tensor image(Call& call) {
  const Tensor x = call.tensor(0);
  if (x.rank() < 3)
    call.fail(ErrorKind::Shape, "input of shape " + to_string(x.shape()) + ", expected [N, C, ...]");
  return x;
}

std::vector<Value> global_average_pool(Call& call) {
  const Tensor x = image(call);
  return {x.mean(axes_from(2, x.rank()), true)};
}
std::vector<Value> global_max_pool(Call& call) {
  const Tensor x = image(call);
  return {x.max(axes_from(2, x.rank()), true)};
}
std::vector<Value> global_lp_pool(Call& call) {
  const Tensor x = image(call);
  return {p_norm(x, call.integer("p", 2), axes_from(2, x.rank()), true)};
}

std::vector<Value> max_unpool(Call& call) {
  const Tensor x = call.tensor(0), positions = call.tensor(1);
  Windows w = read_windows(call, x.shape());
  read_padding(call, x.shape(), w);
  const std::vector<int64_t> in = call.fixed_shape(x);
  Shape shape{in[0], in[1]};
  int64_t elements = in[0] * in[1];
  for (size_t i = 0; i < w.axes(); ++i) {
    const int64_t size = (in[2 + i] - 1) * w.stride[i] + w.kernel[i] - w.before[i] - w.after[i];
    if (size < 1) call.fail(ErrorKind::Value, "pads leave no output, expected less");
    shape.push_back(size);
    elements *= size;
  }
  const Tensor zeros = Tensor::zeros({elements}, x.dtype());
  const Tensor y = zeros.scatter(0, positions.flatten(), x.flatten()).reshape(shape);
  if (!call.has(2)) return {y};
  // Positions are those in the shape that the windows give, whatever the output's.
  const std::vector<int64_t> wanted = call.integers(2);
  std::vector<std::pair<int64_t, int64_t>> amounts;
  for (size_t i = 0; i < wanted.size() && i < shape.size(); ++i)
    amounts.emplace_back(0, wanted[i] - shape[i].value());
  if (wanted.size() != shape.size() ||
      std::any_of(amounts.begin(), amounts.end(), [](auto a) { return a.second < 0; }))
    call.fail(ErrorKind::Shape,
              "output_shape does not hold " + to_string(shape) + ", expected at least that");
  return {y.pad(amounts)};
}

/// Which of `size` elements each of `bins` parts of every region covers, [regions, bins, size]. first and
/// last: [regions], in elements.
Tensor covered(const Tensor& first, const Tensor& last, int64_t bins, int64_t size) {
  const Tensor extent = maximum(last - first + 1, weak(int64_t{1}, first.dtype()));
  const Tensor bin = (extent / bins).reshape({-1, 1, 1});
  const Tensor number = Tensor::arange(bins).cast(first.dtype()).reshape({1, bins, 1}),
               start = first.reshape({-1, 1, 1});
  const Tensor element = Tensor::arange(size).cast(first.dtype());
  return logical_and(element >= start + (number * bin).floor(),
                     element < start + ((number + 1) * bin).ceil());
}

std::vector<Value> max_roi_pool(Call& call) {
  const Tensor x = call.tensor(0), regions = call.tensor(1); // regions: [batch, x1, y1, x2, y2] each
  const std::vector<int64_t> pooled = call.integers("pooled_shape");
  const double scale = call.number("spatial_scale", 1.0);
  if (x.rank() != 4 || regions.rank() != 2 || !regions.size(1).is_const(5) || pooled.size() != 2)
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + " and regions " +
                                    to_string(regions.shape()) +
                                    ", expected [N, C, H, W], [R, 5] and two numbers in pooled_shape");
  const std::vector<int64_t> in = call.fixed_shape(x);
  const auto corner = [&](int64_t which) {
    return (regions.index({Ellipsis{}, which}) * scale + 0.5).floor();
  };
  const Tensor images = x.take(regions.index({Ellipsis{}, 0}).cast(DType::I64), 0); // [R, C, H, W]
  const Tensor columns = covered(corner(1), corner(3), pooled[1], in[3]).unsqueeze(1).unsqueeze(2);
  const Tensor rows = covered(corner(2), corner(4), pooled[0], in[2]).unsqueeze(1).unsqueeze(3);
  const Tensor least = weak(lowest(x.dtype()), x.dtype());
  const Tensor by_columns = where(columns, images.unsqueeze(3), least).max(-1); // [R, C, H, PW]
  const Tensor result =
      where(rows, by_columns.transpose(-1, -2).unsqueeze(2), least).max(-1); // [R, C, PH, PW]
  return {where(result == least, Tensor::zeros({}, x.dtype()), result)};
}

const OpRow kPoolOps[] = {{"MaxPool", 1, max_pool},
                          {"AveragePool", 1, average_pool},
                          {"LpPool", 1, lp_pool},
                          {"GlobalAveragePool", 1, global_average_pool},
                          {"GlobalMaxPool", 1, global_max_pool},
                          {"GlobalLpPool", 1, global_lp_pool},
                          {"MaxUnpool", 1, max_unpool},
                          {"MaxRoiPool", 1, max_roi_pool}};

} // namespace

OpTable pool_ops() { return kPoolOps; }

} // namespace lathe::onnx
