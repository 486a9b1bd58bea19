// ResNet-18 with batch norms folded into the convolutions, as every library runs it, on seeded weights.
#include <limits>

#include "resnet.hpp"

namespace lathe::bench {

Resnet18::Resnet18(int64_t size) : stem{"stem", conv_geometry(3, size, size, 64, 7, 7, 2)} {
  pooled = (stem.geometry.out_h - 1) / 2 + 1;
  int64_t channels = 64, at = pooled;
  for (int stage = 0; stage < 4; ++stage)
    for (int k = 0; k < 2; ++k) {
      std::string name = std::to_string(stage + 1) + "_" + std::to_string(k + 1);
      int64_t out = 64 << stage, stride = stage > 0 && k == 0 ? 2 : 1;
      ConvGeometry first = conv_geometry(channels, at, at, out, 3, 3, stride);
      blocks.push_back({{name + "a", first},
                        {name + "b", conv_geometry(out, first.out_h, first.out_w, out, 3, 3, 1)},
                        stride == 2,
                        {name + "s", conv_geometry(channels, at, at, out, 1, 1, stride)}});
      channels = out;
      at = first.out_h;
    }
}

namespace {
/// The case's convolution with weights that keep the size of the activations.
class Builder {
public:
  explicit Builder(Case& c) : case_(c) {}

  Tensor convolution(const Tensor& x, const ResnetConv& layer) {
    const ConvGeometry& g = layer.geometry;
    double terms = static_cast<double>(g.channels * g.kernel_h * g.kernel_w), bound = std::sqrt(3 / terms);
    Tensor w = case_.constant("w_" + layer.name, {g.out_channels, g.channels, g.kernel_h, g.kernel_w},
                              ++seed_, -bound, bound);
    Tensor b = case_.constant("b_" + layer.name, {g.out_channels}, ++seed_, -0.5, 0.5);
    case_.flops += 2 * terms * static_cast<double>(case_.shape[0] * g.out_channels * g.out_h * g.out_w);
    return x.conv2d(w, b, {.stride = {g.stride}, .padding = {g.pad_h, g.pad_w}});
  }

private:
  Case& case_;
  uint64_t seed_ = 100;
};

/// Channels as rows, pixels as columns.
Matrix convolution(const HostTensors& in, const Matrix& x, const ResnetConv& layer) {
  const ConvGeometry& g = layer.geometry;
  Matrix y =
      convolve(g, x, matrix(in.at("w_" + layer.name), g.out_channels, g.channels * g.kernel_h * g.kernel_w));
  y.colwise() += matrix(in.at("b_" + layer.name), 1, g.out_channels).row(0).transpose();
  return y;
}

Matrix max_pool(const Matrix& x, int64_t size, int64_t pooled) {
  Matrix y = Matrix::Constant(x.rows(), pooled * pooled, -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < pooled * 3; ++i)
    for (int64_t j = 0; j < pooled * 3; ++j) {
      int64_t row = i / 3 * 2 + i % 3 - 1, column = j / 3 * 2 + j % 3 - 1;
      if (row < 0 || row >= size || column < 0 || column >= size) continue;
      auto best = y.col(i / 3 * pooled + j / 3);
      best = best.cwiseMax(x.col(row * size + column));
    }
  return y;
}

/// The classes of image k.
Matrix resnet18(const HostTensors& in, const Resnet18& net, int64_t k, int64_t size) {
  Matrix x = matrix(in.at("x"), 3, size * size, k * 3 * size * size);
  x = convolution(in, x, net.stem).cwiseMax(0);
  x = max_pool(x, net.stem.geometry.out_h, net.pooled);
  for (const ResnetBlock& block : net.blocks) {
    Matrix h = convolution(in, convolution(in, x, block.first).cwiseMax(0), block.second);
    x = (h + (block.has_shortcut ? convolution(in, x, block.shortcut) : x)).cwiseMax(0);
  }
  return x.rowwise().mean().transpose() * matrix(in.at("w_fc"), Resnet18::kFeatures, Resnet18::kClasses) +
         matrix(in.at("b_fc"), 1, Resnet18::kClasses);
}
} // namespace

void build_resnet18(Case& c) {
  int64_t batch = c.shape[0], size = c.shape[1];
  Resnet18 net(size);
  Builder builder(c);
  Tensor x = builder.convolution(c.input("x", {batch, 3, size, size}, 1), net.stem).relu();
  x = x.max_pool2d({3}, {.stride = {2}, .padding = {1}});
  for (const ResnetBlock& block : net.blocks) {
    Tensor h = builder.convolution(builder.convolution(x, block.first).relu(), block.second);
    x = (h + (block.has_shortcut ? builder.convolution(x, block.shortcut) : x)).relu();
  }
  double bound = std::sqrt(3.0 / Resnet18::kFeatures);
  Tensor w = c.constant("w_fc", {Resnet18::kFeatures, Resnet18::kClasses}, 2, -bound, bound);
  c.output("y", x.mean({2, 3}).matmul(w) + c.constant("b_fc", {Resnet18::kClasses}, 3));
  c.flops += 2.0 * static_cast<double>(batch * Resnet18::kFeatures * Resnet18::kClasses);
  c.tolerance = sum_tolerance(c.dtype, 18 * 9 * 256);
  c.reference = [=](const HostTensors& in) {
    std::vector<double> y;
    for (int64_t k = 0; k < batch; ++k) append(y, resnet18(in, net, k, size));
    return Reference{{"y", y}};
  };
}

} // namespace lathe::bench
