// Workloads bound by arithmetic: matrix products and convolutions.
#include "convolution.hpp"

namespace lathe::bench {

namespace {
/// Blocks of random bits, [rows, bytes of a row], whose numbers are of about the size of 1.
HostTensor random_blocks(BlockFormat format, int64_t rows, int64_t blocks, uint64_t seed) {
  const int64_t bytes = block_bytes(format);
  HostTensor tensor = uniform(DType::U8, {rows, blocks * bytes}, seed, 0, 256);
  const bool is_q6 = format == BlockFormat::Q6_K, is_k = block_elements(format) == 256;
  const bool has_offset = format == BlockFormat::Q4_1 || format == BlockFormat::Q5_1 || (is_k && !is_q6);
  // The upper byte of each f16 scale: an exponent of 2^-10 to 2^-7 where scales of 6 or 8 bits multiply it,
  // of 2^-4 to 2^-1 elsewhere.
  const int exponent = is_k ? 0x14 : 0x2c;
  for (int64_t block = 0; block < rows * blocks; ++block)
    for (int half = 0; half <= (has_offset ? 1 : 0); ++half) {
      auto& upper = tensor.as<uint8_t>()[block * bytes + (is_q6 ? 208 : 0) + 2 * half + 1];
      upper = static_cast<uint8_t>((upper & 0x8f) + exponent);
    }
  return tensor;
}

/// [M, K] times the transpose of a constant [N, K] in blocks. The reference takes the weights as dequantise()
/// has them, which unit/block_formats_test compares with loops.
void build_block_product(Case& c) {
  const int64_t m = c.shape[0], n = c.shape[1], k = c.shape[2], each = block_elements(*c.blocks);
  if (k % each != 0)
    throw Error(ErrorKind::Value, "linear " + to_string(c.shape) + ": K of " + std::to_string(k) + " as " +
                                      lathe::to_string(*c.blocks) + ", expected a multiple of " +
                                      std::to_string(each));
  const Tensor weights = dequantise(c.constant("b", random_blocks(*c.blocks, n, k / each, 2)), *c.blocks);
  c.output("c", c.input("a", {m, k}, 1).matmul(weights.transpose()));
  c.flops = 2.0 * static_cast<double>(m * n * k);
  c.tolerance = sum_tolerance(c.dtype, k);
  c.reference = [=, format = *c.blocks](const HostTensors& in) {
    const HostTensor& b = in.at("b");
    const Tensor bytes = Tensor::from_memory(b.data(), b.bytes(), DType::U8, {n, b.shape()[1]});
    const std::vector<float> numbers = dequantise(bytes, format).to_vector<float>();
    Matrix transposed(n, k);
    std::copy(numbers.begin(), numbers.end(), transposed.data());
    return Reference{{"c", flat(matrix(in.at("a"), m, k) * transposed.transpose())}};
  };
}

/// [M, K] times [K, N], or `batch` of them where the shape begins with a batch. B is a constant or an input.
void build_product(Case& c, bool constant) {
  bool batched = c.shape.size() == 4;
  int64_t batch = batched ? c.shape[0] : 1;
  int64_t m = c.shape.end()[-3], n = c.shape.end()[-2], k = c.shape.end()[-1];
  Sizes a_sizes{m, k}, b_sizes{k, n};
  if (batched) {
    a_sizes.insert(a_sizes.begin(), batch);
    b_sizes.insert(b_sizes.begin(), batch);
  }
  Tensor a = c.input("a", a_sizes, 1), b = c.weights("b", b_sizes, 2, constant);
  c.output("c", c.term(a).matmul(c.term(b)));
  c.flops = 2.0 * static_cast<double>(batch * m * n * k);
  c.tolerance = sum_tolerance(c.dtype, k);
  c.reference = [=](const HostTensors& in) {
    std::vector<double> out;
    for (int64_t i = 0; i < batch; ++i)
      append(out, matrix(in.at("a"), m, k, i * m * k) * matrix(in.at("b"), k, n, i * k * n));
    return Reference{{"c", out}};
  };
}

/// A tensor held as [1, C / 16, H, W, 16] seen as [1, C, H, W], and back.
Tensor from_blocked(const Tensor& x, int64_t channels, int64_t height, int64_t width) {
  return x.permute({0, 1, 4, 2, 3}).reshape({1, channels, height, width});
}
Tensor to_blocked(const Tensor& x, int64_t channels, int64_t height, int64_t width) {
  return x.reshape({1, channels / kChannelBlock, kChannelBlock, height, width})
      .permute({0, 1, 3, 4, 2})
      .contiguous();
}

/// A row of a matrix for each channel of a tensor held in either layout; and a matrix as the blocked layout
/// has it.
Matrix channel_rows(const HostTensor& x, int64_t channels, int64_t pixels, bool blocked) {
  if (!blocked) return matrix(x, channels, pixels);
  Matrix rows(channels, pixels);
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t i = 0; i < pixels; ++i)
      rows(channel, i) =
          x.get((channel / kChannelBlock * pixels + i) * kChannelBlock + channel % kChannelBlock);
  return rows;
}
std::vector<double> in_blocks(const Matrix& rows) {
  std::vector<double> out;
  for (int64_t block = 0; block < rows.rows(); block += kChannelBlock)
    append(out, rows.middleRows(block, kChannelBlock).transpose());
  return out;
}
} // namespace

void build_convolution(Case& c) {
  const auto [g, depthwise, blocked] = conv_case(c.workload, c.shape);
  int64_t depth = depthwise ? 1 : g.channels, taps = g.kernel_h * g.kernel_w;
  bool blocked_in = blocked && is_blocked(g.channels), blocked_out = blocked && is_blocked(g.out_channels);
  Sizes x_sizes{1, g.channels, g.height, g.width};
  if (blocked) x_sizes = blocked_sizes(g.channels, g.height, g.width);
  Tensor x = c.input("x", x_sizes, 1);
  Tensor w = c.weights("w", {g.out_channels, depth, g.kernel_h, g.kernel_w}, 2, true);
  ConvOptions options{.stride = {g.stride}, .padding = {g.pad_h, g.pad_w}};
  if (depthwise) options.groups = g.channels;
  if (blocked_in) x = from_blocked(x, g.channels, g.height, g.width);
  Tensor y = c.term(x).conv2d(c.term(w), {}, options);
  c.output("y", blocked_out ? to_blocked(y, g.out_channels, g.out_h, g.out_w) : y);
  c.flops = 2.0 * static_cast<double>(g.out_channels * g.out_h * g.out_w * depth * taps);
  c.tolerance = sum_tolerance(c.dtype, depth * taps);
  c.reference = [=, g = g, depthwise = depthwise](const HostTensors& in) {
    Matrix image = channel_rows(in.at("x"), g.channels, g.height * g.width, blocked_in);
    Matrix weights = matrix(in.at("w"), g.out_channels, depth * taps), y;
    if (depthwise) {
      y.resize(g.channels, g.out_h * g.out_w);
      for (int64_t channel = 0; channel < g.channels; ++channel)
        y.row(channel) = convolve(g, image.row(channel), weights.row(channel));
    } else {
      y = convolve(g, image, weights);
    }
    return Reference{{"y", blocked_out ? in_blocks(y) : flat(y)}};
  };
}

void build_matmul(Case& c) { build_product(c, false); }
void build_linear(Case& c) { c.blocks ? build_block_product(c) : build_product(c, true); }

} // namespace lathe::bench
