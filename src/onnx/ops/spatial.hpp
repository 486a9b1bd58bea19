// What convolutions and pooling share: windows over the axes behind [N, C].
#pragma once
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// One number per spatial axis.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;

  size_t axes() const { return kernel.size(); }
  /// Elements from a window's first to its last, both included.
  int64_t reach(size_t axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
};

/// Kernel, strides and dilations from the node's attributes kernel_shape, strides and dilations. Without
/// kernel_shape, `kernel` is taken; where both are there, they have to agree. Padding is left at 0.
Windows read_windows(const Call& call, const Shape& input, const std::vector<int64_t>& kernel = {});
/// Sets the padding by the attributes pads and auto_pad; what is behind a symbolic size may be more than
/// windows see.
void read_padding(const Call& call, const Shape& input, Windows& windows);
/// Adds padding behind, as far as the last window that begins inside the padded input reaches. Of a symbolic
/// size perhaps more, which no window sees; Error(Shape) where a window could begin behind the input.
void pad_to_ceiling(const Call& call, const Shape& input, Windows& windows);

/// [N, C, in...] -> [N, C, in padded...].
Tensor pad_spatial(const Tensor& x, const Windows& windows, double value);
/// [N, C, in padded...] -> [N, C, out..., kernel...].
Tensor spatial_windows(const Call& call, Tensor x, const Windows& windows);
/// The largest element of each of these windows, and the sum of its elements: [N, C, out...].
Tensor largest_of_windows(const Call& call, const Tensor& x, const Windows& windows);
Tensor sum_of_windows(const Call& call, const Tensor& x, const Windows& windows);

/// The windows that a pooling node's attributes describe, with padding for ceil_mode.
Windows pooling_windows(const Call& call, const Shape& input);
/// Of [N, C, out..., kernel...].
Axes kernel_axes(const Tensor& windows, const Windows& w);

/// The convolution of x [N, C, in...] with weight [M, C / groups, kernel...], and bias [M], of 1 to 3 spatial
/// axes.
Tensor correlate(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                 const Windows& windows, int64_t groups);
/// The convolution that the node's attributes auto_pad, dilations, group, kernel_shape, pads and strides
/// describe: x [N, C, in...], weight [M, C / group, kernel...], bias [M]. The result's dtype is promote() of
/// x's and weight's.
Tensor convolve(const Call& call, const Tensor& x, const Tensor& weight,
                const std::optional<Tensor>& bias = {});

} // namespace lathe::onnx
