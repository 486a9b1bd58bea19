// Pooling and convolutions of numbers of 8 bits, some with the channels last.
#include <algorithm>
#include <numeric>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/microsoft/channels.hpp"
#include "onnx/ops/microsoft/requantise.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/quantise.hpp"
#include "onnx/ops/spatial.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// Windows of up to so many elements are summed one after the other, as ONNX Runtime does: each addition
/// rounds, and quarters of a step are common among means.
constexpr int64_t kSummedInOrder = 128;

struct Pooling {
  Quantity x; // [N, C, ...]
  Scaling y;
  bool channels_last;

  std::vector<Value> result(const Tensor& y) const { return {channels_last ? channels_to_back(y) : y}; }
};

Pooling pooling(const Call& call) {
  const bool last = call.integer("channels_last", 0) != 0;
  Quantity x = quantity(call, 0);
  x.values = image_operand(call, 0, last);
  return {x, scaling(call, 3, 4, x.values.dtype()), last};
}

/// The mean over all spatial axes: integers are summed.
Tensor mean_of_all(const Pooling& p) {
  const int rank = p.x.values.rank();
  const Tensor total = p.x.centred().sum(axes_from(2, rank), true);
  const Tensor elements = Tensor::scalar(elements_between(p.x.values.shape(), 2, rank)).cast(DType::F32);
  const Tensor factor = quotient(p.x.scale, product_in_single(p.y.scale, elements));
  return requantise(total, factor, p.y.zero_point);
}

std::vector<Value> global_average_pool(Call& call) {
  const Pooling p = pooling(call);
  return p.result(mean_of_all(p));
}

/// Of [N, C, out..., kernel...], the sum of each window.
Tensor sum_in_order(const Tensor& windows, const Windows& w) {
  const int64_t elements = std::accumulate(w.kernel.begin(), w.kernel.end(), int64_t{1}, std::multiplies<>());
  if (elements > kSummedInOrder) return windows.sum(kernel_axes(windows, w));
  Tensor total;
  for (int64_t element = 0; element < elements; ++element) {
    Tensor part = windows;
    int64_t rest = element;
    for (size_t axis = w.axes(); axis-- > 0; rest /= w.kernel[axis])
      part = slice_at(part, part.rank() - 1, rest % w.kernel[axis]);
    total = element == 0 ? part : total + part;
  }
  return total;
}

/// The elements of the input in each window: [1, 1, out...].
Tensor counts(const Call& call, const Shape& input, const Windows& w) {
  Shape image = input;
  image[0] = image[1] = 1;
  const Tensor windows = spatial_windows(call, pad_spatial(Tensor::ones(image, DType::F32), w, 0), w);
  return windows.sum(kernel_axes(windows, w)).clamp(1.0, {});
}

std::vector<Value> average_pool(Call& call) {
  const Pooling p = pooling(call);
  const Shape& shape = p.x.values.shape();
  const Windows w = pooling_windows(call, shape);
  const bool padding_counts = call.integer("count_include_pad", 0) != 0;
  const std::vector<int64_t> none(w.axes(), 0);
  bool covers_all = w.before == none && w.after == none;
  for (size_t axis = 0; axis < w.axes(); ++axis) covers_all &= shape[2 + axis].is_const(w.kernel[axis]);
  if (covers_all) return p.result(mean_of_all(p)); // what ONNX Runtime takes it for

  const Tensor windows = spatial_windows(call, pad_spatial(p.x.real(), w, 0), w);
  const int64_t elements = std::accumulate(w.kernel.begin(), w.kernel.end(), int64_t{1}, std::multiplies<>());
  const Tensor count = padding_counts ? weak(elements, DType::F32) : counts(call, shape, w);
  const Tensor mean = quotient(sum_in_order(windows, w), count);
  const Tensor scaled = quotient(mean, p.y.scale) + p.y.zero_point.cast(DType::F32);
  return p.result(round_to(scaled, p.y.zero_point.dtype()));
}

std::vector<Value> max_pool_channels_last(Call& call) {
  const Tensor x = image_operand(call, 0, true);
  const Windows w = pooling_windows(call, x.shape());
  return {channels_to_back(largest_of_windows(call, pad_spatial(x, w, lowest(x.dtype())), w))};
}

std::vector<Value> quantised_conv(Call& call) {
  const bool last = call.integer("channels_last", 0) != 0;
  Quantity x = quantity(call, 0);
  x.values = image_operand(call, 0, last);
  const Tensor weight = centred(call, 3, 5, 0);
  const Scaling y = scaling(call, 6, 7, x.values.dtype());
  const Tensor sums = convolve(call, x.centred(), weight, call.optional_tensor(8));
  const Tensor weight_scale = spread(call.tensor(4), 1, sums.rank());
  const Tensor factor = quotient(product_in_single(x.scale, weight_scale), y.scale);
  const Tensor result = requantise(sums, factor, y.zero_point);
  return {last ? channels_to_back(result) : result};
}

const OpRow kMicrosoftPooledQuantisedOps[] = {
    {"QLinearGlobalAveragePool", 1, global_average_pool, kMicrosoft, 5},
    {"QLinearAveragePool", 1, average_pool, kMicrosoft, 5},
    {"NhwcMaxPool", 1, max_pool_channels_last, kMicrosoft, 1},
    {"QLinearConv", 1, quantised_conv, kMicrosoft, 9},
};

} // namespace

OpTable microsoft_pooled_quantised_ops() { return kMicrosoftPooledQuantisedOps; }

} // namespace lathe::onnx
