#include "onnx/ops/spatial.hpp"

#include <algorithm>
#include <tuple>

#include "lathe/detail/windows.hpp"
#include "onnx/ops/attributes.hpp"

namespace lathe::onnx {
namespace {

std::vector<int64_t> per_axis(const Call& call, std::string_view name, size_t count, int64_t otherwise) {
  const std::vector<int64_t> values = call.integers(name, std::vector<int64_t>(count, otherwise));
  if (values.size() != count)
    call.fail(ErrorKind::Value, std::string(name) + " has " + std::to_string(values.size()) +
                                    " numbers, expected " + std::to_string(count));
  if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 1; }))
    call.fail(ErrorKind::Value, std::string(name) + " has a number below 1, expected at least 1");
  return values;
}

/// Padding in front of an axis and behind it.
using Around = std::pair<int64_t, int64_t>;

/// Such that the output has ceil(size / stride) elements; where the number is odd, one more goes behind if
/// `upper`.
Around padding_of_size(int64_t size, int64_t reach, int64_t stride, bool upper) {
  const int64_t outputs = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>((outputs - 1) * stride + reach - size, 0), less = total / 2;
  return upper ? Around{less, total - less} : Around{total - less, less};
}

/// The same of a size that may be symbolic, if it leaves the padding in front no choice. What is behind may
/// then be more than the last window sees.
Around same_padding(const Call& call, Expr size, int64_t reach, int64_t stride, bool upper) {
  if (size.is_const()) return padding_of_size(size.value(), reach, stride, upper);
  Around widest = padding_of_size(stride, reach, stride, upper);
  for (int64_t rest = 1; rest < stride; ++rest) { // only the size's remainder matters
    const auto [before, after] = padding_of_size(stride + rest, reach, stride, upper);
    if (before != widest.first)
      call.fail(ErrorKind::Shape,
                "auto_pad with strides over an axis of size " + to_string(size) + ", expected a fixed size");
    widest.second = std::max(widest.second, after);
  }
  return widest;
}

} // namespace

Windows read_windows(const Call& call, const Shape& input, const std::vector<int64_t>& kernel) {
  if (input.size() < 3)
    call.fail(ErrorKind::Shape, "input of shape " + to_string(input) + ", expected [N, C, ...]");
  const size_t count = input.size() - 2;
  if (kernel.empty() && !call.has_attribute("kernel_shape"))
    call.fail(ErrorKind::Value, "no kernel_shape, expected it");
  Windows w;
  w.kernel = kernel.empty() || call.has_attribute("kernel_shape") ? per_axis(call, "kernel_shape", count, 1)
                                                                  : kernel;
  if (w.kernel.size() != count || (!kernel.empty() && kernel != w.kernel))
    call.fail(ErrorKind::Shape, "kernel_shape and weight differ for input " + to_string(input) +
                                    ", expected the weight's spatial sizes, one per spatial axis");
  w.stride = per_axis(call, "strides", count, 1);
  w.dilation = per_axis(call, "dilations", count, 1);
  w.before = w.after = std::vector<int64_t>(count, 0);
  return w;
}

void read_padding(const Call& call, const Shape& input, Windows& w) {
  const std::string automatic = call.text("auto_pad", "NOTSET");
  const std::vector<int64_t> pads = call.integers("pads", std::vector<int64_t>(2 * w.axes(), 0));
  if (automatic == "VALID") return;
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < w.axes(); ++i)
      std::tie(w.before[i], w.after[i]) =
          same_padding(call, input[2 + i], w.reach(i), w.stride[i], automatic == "SAME_UPPER");
    return;
  }
  if (automatic != "NOTSET")
    call.fail(ErrorKind::Value,
              "auto_pad " + automatic + ", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  if (pads.size() != 2 * w.axes() || std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; }))
    call.fail(ErrorKind::Value, "pads has " + std::to_string(pads.size()) + " numbers, expected " +
                                    std::to_string(2 * w.axes()) + " of at least 0");
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(w.axes());
  w.before.assign(pads.begin(), middle);
  w.after.assign(middle, pads.end());
}

void pad_to_ceiling(const Call& call, const Shape& input, Windows& w) {
  for (size_t i = 0; i < w.axes(); ++i) {
    const Expr size = input[2 + i];
    if (w.stride[i] == 1) continue;
    if (!size.is_const()) {
      // No window begins behind the input; what the last one does not see does not matter.
      if (w.after[i] + w.stride[i] > w.reach(i))
        call.fail(ErrorKind::Shape,
                  "ceil_mode over an axis of size " + to_string(size) + ", expected a fixed size");
      w.after[i] += w.stride[i] - 1;
      continue;
    }
    const int64_t span = size.value() + w.before[i] + w.after[i] - w.reach(i);
    if (span <= -w.stride[i]) continue; // not even one window
    const int64_t last = (span + w.stride[i] - 1) / w.stride[i] * w.stride[i];
    // A window that begins behind the input sees padding only.
    if (last < size.value() + w.before[i]) w.after[i] += std::max<int64_t>(last - span, 0);
  }
}

Tensor pad_spatial(const Tensor& x, const Windows& w, double value) {
  std::vector<std::pair<int64_t, int64_t>> amounts(2, {0, 0});
  for (size_t i = 0; i < w.axes(); ++i) amounts.emplace_back(w.before[i], w.after[i]);
  const bool pads = std::any_of(amounts.begin(), amounts.end(), [](auto p) { return p.first || p.second; });
  return pads ? x.pad(amounts, value) : x;
}

namespace {

void check_fit(const Call& call, const Tensor& x, const Windows& w) {
  for (size_t i = 0; i < w.axes(); ++i) {
    const Expr size = x.size(2 + static_cast<int>(i));
    if (w.reach(i) > size.lo())
      call.fail(ErrorKind::Shape, "a window of " + std::to_string(w.reach(i)) + " in " + to_string(size) +
                                      " padded elements, expected it to fit");
  }
}

} // namespace

Tensor spatial_windows(const Call& call, Tensor x, const Windows& w) {
  check_fit(call, x, w);
  for (size_t i = 0; i < w.axes(); ++i)
    x = x.window(2 + static_cast<int>(i), w.kernel[i], w.stride[i], w.dilation[i]);
  return x;
}

Tensor largest_of_windows(const Call& call, const Tensor& x, const Windows& w) {
  check_fit(call, x, w);
  return detail::combine_windows(x, 2, w.kernel, w.stride, w.dilation,
                                 [](const Tensor& windows, const Axes& axes) { return windows.max(axes); });
}

Tensor sum_of_windows(const Call& call, const Tensor& x, const Windows& w) {
  check_fit(call, x, w);
  return detail::combine_windows(x, 2, w.kernel, w.stride, w.dilation,
                                 [](const Tensor& windows, const Axes& axes) { return windows.sum(axes); });
}

Windows pooling_windows(const Call& call, const Shape& input) {
  Windows w = read_windows(call, input);
  read_padding(call, input, w);
  if (call.integer("ceil_mode", 0)) pad_to_ceiling(call, input, w);
  return w;
}

Axes kernel_axes(const Tensor& windows, const Windows& w) {
  return axes_from(windows.rank() - static_cast<int>(w.axes()), windows.rank());
}

Tensor correlate(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, const Windows& w,
                 int64_t groups) {
  ConvOptions options{.stride = w.stride, .dilation = w.dilation, .groups = groups};
  const bool symmetric = w.before == w.after;
  if (symmetric) options.padding = w.before;
  // One copy of the padded input serves every window, as where the convolution pads by itself.
  const Tensor input = symmetric ? x : pad_spatial(x, w, 0).contiguous();
  if (w.axes() == 1) return input.conv1d(weight, bias, options);
  if (w.axes() == 2) return input.conv2d(weight, bias, options);
  return input.conv3d(weight, bias, options);
}

Tensor convolve(const Call& call, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  if (weight.rank() != x.rank() || x.rank() < 3 || x.rank() > 5)
    call.fail(ErrorKind::Shape,
              "input " + to_string(x.shape()) + " and weight " + to_string(weight.shape()) +
                  ", expected [N, C, ...] and [M, C / group, ...] with 1 to 3 spatial axes");
  const std::vector<int64_t> sizes = call.fixed_shape(weight);
  Windows w = read_windows(call, x.shape(), {sizes.begin() + 2, sizes.end()});
  read_padding(call, x.shape(), w);
  return correlate(x, weight, bias, w, call.integer("group", 1));
}

} // namespace lathe::onnx
