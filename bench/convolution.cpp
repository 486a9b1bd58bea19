#include "convolution.hpp"

namespace lathe::bench {

ConvGeometry conv_geometry(int64_t channels, int64_t height, int64_t width, int64_t out_channels,
                           int64_t kernel_h, int64_t kernel_w, int64_t stride) {
  int64_t pad_h = kernel_h / 2, pad_w = kernel_w / 2;
  return {channels,
          height,
          width,
          out_channels,
          kernel_h,
          kernel_w,
          stride,
          pad_h,
          pad_w,
          (height + 2 * pad_h - kernel_h) / stride + 1,
          (width + 2 * pad_w - kernel_w) / stride + 1};
}

bool is_convolution(const std::string& workload) { return workload.find("conv2d") != std::string::npos; }

ConvCase conv_case(const std::string& workload, const Sizes& s) {
  bool depthwise = workload.starts_with("depthwise");
  return {depthwise ? conv_geometry(s[0], s[1], s[2], s[0], s[3], s[4], s[5])
                    : conv_geometry(s[0], s[1], s[2], s[3], s[4], s[5], s[6]),
          depthwise, workload.ends_with("blocked")};
}

bool is_blocked(int64_t channels) { return channels % kChannelBlock == 0; }

Sizes blocked_sizes(int64_t channels, int64_t height, int64_t width) {
  if (!is_blocked(channels)) return {1, channels, height, width};
  return {1, channels / kChannelBlock, height, width, kChannelBlock};
}

Matrix convolve(const ConvGeometry& g, const Matrix& image, const Matrix& weights) {
  int64_t taps = g.kernel_h * g.kernel_w;
  Matrix windows = Matrix::Zero(image.rows() * taps, g.out_h * g.out_w);
  for (int64_t channel = 0; channel < image.rows(); ++channel)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t y = 0; y < g.out_h; ++y)
        for (int64_t x = 0; x < g.out_w; ++x) {
          int64_t iy = y * g.stride + tap / g.kernel_w - g.pad_h,
                  ix = x * g.stride + tap % g.kernel_w - g.pad_w;
          if (iy >= 0 && iy < g.height && ix >= 0 && ix < g.width)
            windows(channel * taps + tap, y * g.out_w + x) = image(channel, iy * g.width + ix);
        }
  return weights * windows;
}

} // namespace lathe::bench
