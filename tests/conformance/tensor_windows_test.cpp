// Convolutions and pooling against direct loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

// Direct convolution of [N, C, H, W] with [O, C/g, KH, KW].
std::vector<double> direct_conv(const Tensor& x, const Tensor& w, int64_t sh, int64_t sw, int64_t ph,
                                int64_t pw, int64_t dh, int64_t dw, int64_t groups) {
  const auto xs = static_sizes(x.shape()), ws = static_sizes(w.shape());
  const auto in = as_doubles(x), k = as_doubles(w);
  const int64_t oh = (xs[2] + 2 * ph - dh * (ws[2] - 1) - 1) / sh + 1,
                ow = (xs[3] + 2 * pw - dw * (ws[3] - 1) - 1) / sw + 1;
  std::vector<double> out;
  for (int64_t n = 0; n < xs[0]; ++n)
    for (int64_t o = 0; o < ws[0]; ++o)
      for (int64_t y = 0; y < oh; ++y)
        for (int64_t z = 0; z < ow; ++z) {
          double sum = 0;
          for (int64_t c = 0; c < ws[1]; ++c)
            for (int64_t i = 0; i < ws[2]; ++i)
              for (int64_t j = 0; j < ws[3]; ++j) {
                const int64_t row = y * sh + i * dh - ph, column = z * sw + j * dw - pw,
                              channel = o / (ws[0] / groups) * ws[1] + c;
                if (row < 0 || row >= xs[2] || column < 0 || column >= xs[3]) continue;
                sum += in[((n * xs[1] + channel) * xs[2] + row) * xs[3] + column] *
                       k[((o * ws[1] + c) * ws[2] + i) * ws[3] + j];
              }
          out.push_back(sum);
        }
  return out;
}

} // namespace

TEST_CASE("convolution against direct loops") {
  struct Case {
    Shape x, w;
    int64_t sh, sw, ph, pw, dh, dw, groups;
  };
  for (const Case& c : std::vector<Case>{{{1, 1, 1, 1}, {1, 1, 1, 1}, 1, 1, 0, 0, 1, 1, 1},
                                         {{2, 3, 7, 5}, {4, 3, 3, 3}, 1, 1, 1, 1, 1, 1, 1},
                                         {{1, 4, 7, 9}, {6, 2, 3, 2}, 2, 3, 2, 1, 2, 1, 2},
                                         {{2, 4, 5, 5}, {4, 1, 3, 3}, 1, 2, 1, 0, 1, 1, 4},
                                         {{1, 2, 11, 3}, {3, 2, 5, 1}, 3, 1, 0, 2, 2, 1, 1}}) {
    const Tensor x = random(c.x, 21), w = random(c.w, 22), bias = random({c.w[0]}, 23);
    const Tensor y = x.conv2d(
        w, {},
        {.stride = {c.sh, c.sw}, .padding = {c.ph, c.pw}, .dilation = {c.dh, c.dw}, .groups = c.groups});
    check_close(as_doubles(y), direct_conv(x, w, c.sh, c.sw, c.ph, c.pw, c.dh, c.dw, c.groups), 4e-6);
    const Tensor biased = x.conv2d(
        w, bias,
        {.stride = {c.sh, c.sw}, .padding = {c.ph, c.pw}, .dilation = {c.dh, c.dw}, .groups = c.groups});
    check_close(as_doubles(biased), as_doubles(y + bias.reshape({c.w[0], 1, 1})), 2e-6);
  }
  const Tensor x = random({2, 3, 9}, 24), w = random({4, 3, 3}, 25);
  check_close(as_doubles(x.conv1d(w, {}, {.stride = {2}, .padding = {1}})),
              direct_conv(x.unsqueeze(2), w.unsqueeze(2), 1, 2, 0, 1, 1, 1, 1), 4e-6);
  const Tensor volume = random({1, 2, 1, 5, 4}, 26), kernel = random({3, 2, 1, 2, 3}, 27);
  check_close(as_doubles(volume.conv3d(kernel)),
              direct_conv(volume.squeeze(2), kernel.squeeze(2), 1, 1, 0, 0, 1, 1, 1), 4e-6);
}

TEST_CASE("transposed convolution is the transpose of convolution") {
  // <conv(x), y> = <x, conv_transpose(y)> for every x and y.
  struct Case {
    int64_t h, k, stride, padding, dilation, groups;
  };
  for (const Case& c :
       std::vector<Case>{{5, 3, 1, 0, 1, 1},
                         {7, 3, 2, 1, 1, 1},
                         {7, 2, 3, 0, 2, 2},
                         {6, 4, 2, 3, 1, 1},
                         {9, 7, 1, 1, 1, 1},
                         {9, 4, 3, 2, 2, 2}, // here the kernels have more elements than the images
                         {15, 6, 2, 1, 2, 2}}) {
    const Tensor x = random({2, 4, c.h, c.h}, 31), w = random({6, 4 / c.groups, c.k, c.k}, 32);
    const ConvOptions forward{
        .stride = {c.stride}, .padding = {c.padding}, .dilation = {c.dilation}, .groups = c.groups};
    const Tensor image = x.conv2d(w, {}, forward);
    const Tensor y = random(image.shape(), 33);
    ConvOptions backward = forward;
    const int64_t reached =
        (image.shape()[2].value() - 1) * c.stride - 2 * c.padding + c.dilation * (c.k - 1) + 1;
    backward.output_padding = {c.h - reached};
    const Tensor back = y.conv_transpose2d(w, {}, backward);
    REQUIRE(back.shape() == x.shape());
    CHECK((image * y).sum().item<double>() == doctest::Approx((x * back).sum().item<double>()).epsilon(1e-4));
  }
}

namespace {

/// Means of two neighbours, of those that are inside; windows begin at -1, 1, 3 ...
std::vector<double> means(const std::vector<double>& in, int64_t rows, int64_t columns) {
  std::vector<double> out;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t begin = -1; begin + 2 <= columns + 1; begin += 2) {
      double sum = 0;
      int count = 0;
      for (int64_t column = begin; column < begin + 2; ++column)
        if (column >= 0 && column < columns) sum += in[static_cast<size_t>(row * columns + column)], ++count;
      out.push_back(sum / count);
    }
  return out;
}

} // namespace

TEST_CASE("means of means, whose windows read 0 / 0 beyond the edge and leave it out") {
  const PoolOptions beyond{.padding = {0, 1}, .count_include_pad = false};
  for (const DType dtype : {DType::F32, DType::F64})
    for (const int64_t columns : {2, 3, 4, 5, 8, 13, 16, 17, 33, 64}) {
      CAPTURE(columns);
      const Tensor x = random({1, 3, columns}, static_cast<unsigned>(columns)).cast(dtype);
      const std::vector<double> once = means(as_doubles(x), 3, columns);
      const auto half = static_cast<int64_t>(once.size()) / 3;
      check_close(as_doubles(x.avg_pool2d({1, 2}, beyond).avg_pool2d({1, 2}, beyond)), means(once, 3, half),
                  1e-6);
    }
}

TEST_CASE("pooling") {
  const Tensor x = random({2, 3, 7, 5}, 41);
  const auto in = as_doubles(x);
  struct Case {
    int64_t k, stride, padding, dilation;
    bool include, ceil;
  };
  for (const Case& c : std::vector<Case>{{1, 1, 0, 1, true, false},
                                         {2, 2, 0, 1, true, false},
                                         {3, 2, 1, 1, true, false},
                                         {3, 2, 1, 1, false, false},
                                         {2, 2, 0, 1, true, true},
                                         {3, 3, 1, 1, false, true},
                                         {3, 3, 1, 1, true, true},
                                         {2, 1, 0, 2, true, false},
                                         {4, 1, 0, 1, true, false}, // from here on an axis at a time
                                         {5, 1, 2, 1, false, false},
                                         {5, 1, 2, 1, true, true},
                                         {4, 1, 2, 2, false, false},
                                         {9, 2, 4, 1, true, false}}) {
    const PoolOptions options{.stride = {c.stride},
                              .padding = {c.padding},
                              .dilation = {c.dilation},
                              .count_include_pad = c.include,
                              .ceil_mode = c.ceil};
    const auto outputs = [&](int64_t n) {
      const int64_t span = n + 2 * c.padding - c.dilation * (c.k - 1) - 1;
      int64_t count = (c.ceil ? (span + c.stride - 1) / c.stride : span / c.stride) + 1;
      if (c.ceil && (count - 1) * c.stride >= n + c.padding) --count;
      return count;
    };
    std::vector<double> largest, average;
    for (int64_t plane = 0; plane < 6; ++plane)
      for (int64_t i = 0; i < outputs(7); ++i)
        for (int64_t j = 0; j < outputs(5); ++j) {
          double most = -kInf, sum = 0;
          int inside = 0, counted = 0;
          for (int64_t p = 0; p < c.k; ++p)
            for (int64_t q = 0; q < c.k; ++q) {
              const int64_t row = i * c.stride + p * c.dilation - c.padding,
                            column = j * c.stride + q * c.dilation - c.padding;
              counted += row < 7 + c.padding && column < 5 + c.padding;
              if (row < 0 || row >= 7 || column < 0 || column >= 5) continue;
              const double v = in[static_cast<size_t>((plane * 7 + row) * 5 + column)];
              most = std::max(most, v), sum += v, ++inside;
            }
          largest.push_back(most);
          average.push_back(sum / (c.include ? counted : inside));
        }
    check_close(as_doubles(x.max_pool2d({c.k}, options)), largest, 0);
    check_close(as_doubles(x.avg_pool2d({c.k}, options)), average, 2e-6);
  }
}
