// Workloads bound by arithmetic: matrix products and convolutions.
#include "reference.hpp"

namespace lathe::bench {

void build_matmul(Case& c) {
  int64_t m = c.shape[0], n = c.shape[1], k = c.shape[2];
  Tensor a = c.input("a", {m, k}, 1), b = c.input("b", {k, n}, 2);
  c.output("c", a.matmul(b));
  c.flops = 2.0 * static_cast<double>(m * n * k);
  c.tolerance = sum_tolerance(c.dtype, k);
  c.reference = [=](const HostTensors& in) {
    return Reference{{"c", flat(matrix(in.at("a"), m, k) * matrix(in.at("b"), k, n))}};
  };
}

void build_batched_matmul(Case& c) {
  int64_t batch = c.shape[0], m = c.shape[1], n = c.shape[2], k = c.shape[3];
  Tensor a = c.input("a", {batch, m, k}, 1), b = c.input("b", {batch, k, n}, 2);
  c.output("c", a.matmul(b));
  c.flops = 2.0 * static_cast<double>(batch * m * n * k);
  c.tolerance = sum_tolerance(c.dtype, k);
  c.reference = [=](const HostTensors& in) {
    std::vector<double> out;
    for (int64_t i = 0; i < batch; ++i)
      append(out, matrix(in.at("a"), m, k, i * m * k) * matrix(in.at("b"), k, n, i * k * n));
    return Reference{{"c", out}};
  };
}

namespace {
ConvGeometry geometry(int64_t c, int64_t h, int64_t w, int64_t oc, int64_t kh, int64_t kw, int64_t stride) {
  int64_t ph = kh / 2, pw = kw / 2;
  return {
      c, h, w, oc, kh, kw, stride, ph, pw, (h + 2 * ph - kh) / stride + 1, (w + 2 * pw - kw) / stride + 1};
}

/// One output channel from one input channel, added to `out`.
void convolve_plane(const ConvGeometry& g, const Matrix& image, const Matrix& kernel, Matrix& out) {
  for (int64_t kh = 0; kh < g.kernel_h; ++kh)
    for (int64_t kw = 0; kw < g.kernel_w; ++kw)
      for (int64_t y = 0; y < g.out_h; ++y)
        for (int64_t x = 0; x < g.out_w; ++x) {
          int64_t iy = y * g.stride + kh - g.pad_h, ix = x * g.stride + kw - g.pad_w;
          if (iy >= 0 && iy < g.height && ix >= 0 && ix < g.width)
            out(y, x) += kernel(kh, kw) * image(iy, ix);
        }
}

void build_convolution(Case& c, const ConvGeometry& g, bool depthwise) {
  int64_t depth = depthwise ? 1 : g.channels;
  Tensor x = c.input("x", {1, g.channels, g.height, g.width}, 1);
  Tensor w = c.input("w", {g.out_channels, depth, g.kernel_h, g.kernel_w}, 2);
  ConvOptions options{.stride = {g.stride}, .padding = {g.pad_h, g.pad_w}};
  if (depthwise) options.groups = g.channels;
  c.output("y", x.conv2d(w, {}, options));
  int64_t taps = depth * g.kernel_h * g.kernel_w;
  c.flops = 2.0 * static_cast<double>(g.out_channels * g.out_h * g.out_w * taps);
  c.tolerance = sum_tolerance(c.dtype, taps);
  c.reference = [=](const HostTensors& in) {
    std::vector<Matrix> planes;
    for (int64_t i = 0; i < g.channels; ++i)
      planes.push_back(matrix(in.at("x"), g.height, g.width, i * g.height * g.width));
    std::vector<double> out;
    for (int64_t o = 0; o < g.out_channels; ++o) {
      Matrix sum = Matrix::Zero(g.out_h, g.out_w);
      for (int64_t i = 0; i < depth; ++i) {
        Matrix kernel = matrix(in.at("w"), g.kernel_h, g.kernel_w, (o * depth + i) * g.kernel_h * g.kernel_w);
        convolve_plane(g, planes[static_cast<size_t>(depthwise ? o : i)], kernel, sum);
      }
      append(out, sum);
    }
    return Reference{{"y", out}};
  };
}
} // namespace

ConvGeometry conv2d_geometry(const Sizes& s) { return geometry(s[0], s[1], s[2], s[3], s[4], s[5], s[6]); }
ConvGeometry depthwise_geometry(const Sizes& s) { return geometry(s[0], s[1], s[2], s[0], s[3], s[4], s[5]); }

void build_conv2d(Case& c) { build_convolution(c, conv2d_geometry(c.shape), false); }
void build_depthwise_conv2d(Case& c) { build_convolution(c, depthwise_geometry(c.shape), true); }

} // namespace lathe::bench
