// Convolutions of one or more images: what the workloads and the peers both need to know.
#pragma once
#include "reference.hpp"

namespace lathe::bench {

/// Height and width of a convolution's output, with padding of half the kernel.
struct ConvGeometry {
  int64_t channels, height, width, out_channels, kernel_h, kernel_w, stride, pad_h, pad_w, out_h, out_w;
};
ConvGeometry conv_geometry(int64_t channels, int64_t height, int64_t width, int64_t out_channels,
                           int64_t kernel_h, int64_t kernel_w, int64_t stride);

/// Of the workloads conv2d, depthwise-conv2d and their blocked forms.
struct ConvCase {
  ConvGeometry geometry;
  bool depthwise, blocked;
};
bool is_convolution(const std::string& workload);
ConvCase conv_case(const std::string& workload, const Sizes& shape);

constexpr int64_t kChannelBlock = 16;
/// [1, C, H, W] as the blocked workloads hold it: [1, C / 16, H, W, 16], or as it is if 16 doesn't divide C.
bool is_blocked(int64_t channels);
Sizes blocked_sizes(int64_t channels, int64_t height, int64_t width);

/// Rows are output channels, columns output pixels: the product of weights [out_channels, channels * taps]
/// and the image's windows, in f64. `image` has a row per channel.
Matrix convolve(const ConvGeometry& g, const Matrix& image, const Matrix& weights);

} // namespace lathe::bench
