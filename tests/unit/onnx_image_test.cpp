// GridSample of any rank, Col2Im, CenterCropPad, AffineGrid and DeformConv against plain loops in doubles.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "support/messages.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
using Sizes = std::vector<int64_t>;

int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}
Shape shape_of(const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); }
Value tensor(const Sizes& sizes, const Floats& values) { return Tensor::from(values, shape_of(sizes)); }
Value integers_of(const Sizes& values) { return Tensor::from(values); }

/// The places of a box, the last axis fastest.
void for_each_place(const Sizes& sizes, const std::function<void(const Sizes&)>& visit) {
  Sizes at(sizes.size(), 0);
  for (int64_t k = 0; k < product(sizes); ++k) {
    visit(at);
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++at[axis] < sizes[axis]) break;
      at[axis] = 0;
    }
  }
}

int64_t offset_in(const Sizes& sizes, const Sizes& at) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) offset = offset * sizes[axis] + at[axis];
  return offset;
}

Sizes joined(Sizes a, const Sizes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The value of an image, 0 outside, at a place between its elements.
double linear_at(const float* image, const Sizes& sizes, const Doubles& place) {
  double sum = 0;
  for_each_place(Sizes(sizes.size(), 2), [&](const Sizes& corner) {
    double weight = 1;
    Sizes at;
    bool inside = true;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const double low = std::floor(place[axis]);
      at.push_back(static_cast<int64_t>(low) + corner[axis]);
      weight *= corner[axis] ? place[axis] - low : 1 - (place[axis] - low);
      inside &= at.back() >= 0 && at.back() < sizes[axis];
    }
    if (inside) sum += weight * image[offset_in(sizes, at)];
  });
  return sum;
}

double nearest_at(const float* image, const Sizes& sizes, const Doubles& place) {
  Sizes at;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    at.push_back(static_cast<int64_t>(std::nearbyint(place[axis])));
    if (at.back() < 0 || at.back() >= sizes[axis]) return 0;
  }
  return image[offset_in(sizes, at)];
}

} // namespace

// ---- sampling ----

TEST_CASE("since opset 20 a grid may point into signals, images and volumes") {
  for (const Sizes& sizes : std::vector<Sizes>{{7}, {1}, {5, 3}, {4, 3, 5}, {2, 1, 3}, {2, 3, 2, 2}})
    for (const bool align : {false, true})
      for (const char* mode : {"linear", "nearest"}) {
        CAPTURE(sizes.size());
        CAPTURE(mode);
        CAPTURE(align);
        const Sizes out(sizes.size(), 2),
            grid_sizes = joined(joined({2}, out), {static_cast<int64_t>(sizes.size())});
        const Sizes images = joined({2, 3}, sizes);
        const Floats x = numbers(product(images), 1);
        Floats grid = numbers(product(grid_sizes), 2);
        for (float& g : grid) g *= 1.2f; // some places lie outside
        Doubles expected;
        const auto rank = static_cast<int64_t>(sizes.size());
        for (int64_t image = 0; image < 6; ++image)
          for (int64_t point = 0; point < product(out); ++point) {
            Doubles place;
            for (int64_t axis = 0; axis < rank; ++axis) {
              const double g = grid[(image / 3 * product(out) + point) * rank + (rank - 1 - axis)];
              const auto n = static_cast<double>(sizes[axis]);
              place.push_back(align ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2);
            }
            const float* from = x.data() + image * product(sizes);
            expected.push_back(mode[0] == 'l' ? linear_at(from, sizes, place)
                                              : nearest_at(from, sizes, place));
          }
        const Value y = one("GridSample", {tensor(images, x), tensor(grid_sizes, grid)},
                            {attribute("mode", mode), attribute("align_corners", align ? 1 : 0)}, 22);
        CHECK(y.shape() == shape_of(joined({2, 3}, out)));
        check_close(y, expected, 1e-4);
      }
  mentions(message_of([&] {
             one("GridSample",
                 {tensor({1, 1, 2, 2, 2}, numbers(8, 1)), tensor({1, 1, 1, 1, 3}, numbers(3, 1))}, {}, 16);
           }),
           "expected images [N, C, H, W]");
  mentions(message_of([&] {
             one("GridSample", {tensor({1, 1, 2, 2}, numbers(4, 1)), tensor({1, 1, 1, 3}, numbers(3, 1))}, {},
                 20);
           }),
           "expected [N, C, D1, ..., Dr]");
}

TEST_CASE("cubic sampling of volumes and signals") {
  const auto weight = [](double distance) {
    const double a = -0.75, d = std::abs(distance);
    if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
  };
  for (const Sizes& sizes : std::vector<Sizes>{{5}, {3, 4, 2}}) {
    const auto rank = static_cast<int64_t>(sizes.size());
    const Sizes out(sizes.size(), 2), grid_sizes = joined(joined({1}, out), {rank});
    const Floats x = numbers(product(sizes), 6), grid = numbers(product(grid_sizes), 7);
    Doubles expected;
    for (int64_t point = 0; point < product(out); ++point) {
      double sum = 0;
      for_each_place(sizes, [&](const Sizes& at) {
        double product_of_weights = 1;
        for (int64_t axis = 0; axis < rank; ++axis) {
          const double g = grid[point * rank + (rank - 1 - axis)];
          const double place = ((g + 1) * static_cast<double>(sizes[axis]) - 1) / 2;
          product_of_weights *= weight(place - static_cast<double>(at[axis]));
        }
        sum += product_of_weights * x[offset_in(sizes, at)];
      });
      expected.push_back(sum);
    }
    check_close(one("GridSample", {tensor(joined({1, 1}, sizes), x), tensor(grid_sizes, grid)},
                    {attribute("mode", "cubic")}, 20),
                expected, 1e-4);
  }
}

// ---- patches ----

TEST_CASE("Col2Im sums what the blocks hold of each place") {
  struct Case {
    Sizes image, block, strides, dilations, pads; // pads: before each axis, then behind
  };
  for (const Case& c : std::vector<Case>{{{5, 7}, {2, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                                         {{5, 7}, {2, 3}, {2, 3}, {1, 1}, {1, 0, 2, 1}},
                                         {{7, 5}, {3, 2}, {1, 2}, {2, 3}, {0, 1, 1, 0}},
                                         {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
                                         {{6}, {3}, {4}, {1}, {1, 1}},
                                         {{3, 4, 5}, {2, 1, 3}, {1, 3, 2}, {1, 1, 1}, {0, 1, 0, 0, 0, 1}}}) {
    const size_t axes = c.image.size();
    CAPTURE(axes);
    Sizes windows;
    for (size_t i = 0; i < axes; ++i)
      windows.push_back((c.image[i] + c.pads[i] + c.pads[axes + i] - (c.block[i] - 1) * c.dilations[i] - 1) /
                            c.strides[i] +
                        1);
    const int64_t elements = product(c.block), count = product(windows);
    const Floats x = numbers(2 * 3 * elements * count, 5);
    Doubles expected(static_cast<size_t>(6 * product(c.image)), 0.0);
    for (int64_t image = 0; image < 6; ++image)
      for_each_place(c.block, [&](const Sizes& k) {
        for_each_place(windows, [&](const Sizes& o) {
          Sizes at;
          for (size_t i = 0; i < axes; ++i) {
            at.push_back(o[i] * c.strides[i] + k[i] * c.dilations[i] - c.pads[i]);
            if (at.back() < 0 || at.back() >= c.image[i]) return;
          }
          expected[image * product(c.image) + offset_in(c.image, at)] +=
              x[(image * elements + offset_in(c.block, k)) * count + offset_in(windows, o)];
        });
      });
    const Value y =
        one("Col2Im", {tensor({2, 3 * elements, count}, x), integers_of(c.image), integers_of(c.block)},
            {attribute("strides", c.strides), attribute("dilations", c.dilations), attribute("pads", c.pads)},
            18);
    CHECK(y.shape() == shape_of(joined({2, 3}, c.image)));
    check_close(y, expected);
  }
  mentions(message_of([&] {
             one("Col2Im", {tensor({1, 4, 5}, numbers(20, 1)), integers_of({3, 3}), integers_of({2, 2})}, {},
                 18);
           }),
           "expected 4 blocks");
}

// ---- centres ----

TEST_CASE("CenterCropPad cuts and pads by half of the difference, rounded down in front") {
  const Floats x = numbers(5 * 4 * 7, 3);
  for (const Sizes& target : std::vector<Sizes>{{5, 4, 7}, {2, 4, 4}, {8, 7, 8}, {1, 9, 3}, {4, 3, 12}}) {
    Doubles expected;
    for_each_place(target, [&](const Sizes& at) {
      Sizes from;
      bool inside = true;
      const Sizes sizes{5, 4, 7};
      for (size_t i = 0; i < 3; ++i) {
        // C++ divides towards zero, which is down in front for a cut and for a pad alike.
        from.push_back(at[i] + (sizes[i] - target[i]) / 2);
        inside &= from.back() >= 0 && from.back() < sizes[i];
      }
      expected.push_back(inside ? x[offset_in(sizes, from)] : 0);
    });
    check_close(one("CenterCropPad", {tensor({5, 4, 7}, x), integers_of(target)}, {}, 18), expected, 0);
    const Value some = one("CenterCropPad", {tensor({5, 4, 7}, x), integers_of({target[2], target[0]})},
                           {attribute("axes", Sizes{-1, 0})}, 18);
    CHECK(some.shape() == Shape{target[0], 4, target[2]});
  }
  CHECK(integers(one("CenterCropPad", {Tensor::from({1, 2, 3}), integers_of({6})}, {}, 18)) ==
        Sizes{0, 1, 2, 3, 0, 0});
}

// ---- grids ----

TEST_CASE("AffineGrid maps the middles of elements, or corners") {
  for (const Sizes& sizes : std::vector<Sizes>{{3, 5}, {1, 2}, {2, 3, 4}, {7, 1, 2}})
    for (const bool align : {false, true}) {
      CAPTURE(align);
      const auto rank = static_cast<int64_t>(sizes.size());
      const Floats theta = numbers(2 * rank * (rank + 1), 4);
      Doubles expected;
      for (int64_t n = 0; n < 2; ++n)
        for_each_place(sizes, [&](const Sizes& at) {
          Doubles place; // x first
          for (int64_t axis = rank; axis-- > 0;) {
            const auto size = static_cast<double>(sizes[axis]), i = static_cast<double>(at[axis]);
            place.push_back(!align ? (2 * i + 1) / size - 1 : size == 1 ? 0 : 2 * i / (size - 1) - 1);
          }
          place.push_back(1);
          for (int64_t row = 0; row < rank; ++row) {
            double sum = 0;
            for (int64_t k = 0; k <= rank; ++k) sum += theta[(n * rank + row) * (rank + 1) + k] * place[k];
            expected.push_back(sum);
          }
        });
      const Value y =
          one("AffineGrid", {tensor({2, rank, rank + 1}, theta), integers_of(joined({2, 3}, sizes))},
              {attribute("align_corners", align ? 1 : 0)}, 20);
      CHECK(y.shape() == shape_of(joined(joined({2}, sizes), {rank})));
      check_close(y, expected);
    }
}

// ---- displaced convolutions ----

TEST_CASE("DeformConv reads each element of a kernel at a place of its own") {
  struct Case {
    Sizes in, kernel;
    int64_t channels, outputs, group, displaced;
    Sizes strides, dilations, pads;
    bool bias, mask;
  };
  for (const Case& c : std::vector<Case>{
           {{5, 4}, {2, 2}, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, false, false},
           {{5, 7}, {3, 2}, 4, 6, 2, 1, {2, 1}, {1, 2}, {1, 0, 2, 1}, true, true},
           {{5, 7}, {1, 3}, 4, 2, 1, 2, {1, 3}, {1, 1}, {0, 1, 0, 1}, false, true},
           {{6}, {3}, 2, 4, 2, 2, {1}, {1}, {1, 1}, true, false},
           {{3, 4, 3}, {2, 1, 2}, 2, 3, 1, 1, {1, 2, 1}, {1, 1, 1}, {0, 0, 1, 0, 0, 0}, true, true}}) {
    const size_t axes = c.in.size();
    CAPTURE(axes);
    Sizes out;
    for (size_t i = 0; i < axes; ++i)
      out.push_back((c.in[i] + c.pads[i] + c.pads[axes + i] - (c.kernel[i] - 1) * c.dilations[i] - 1) /
                        c.strides[i] +
                    1);
    const int64_t elements = product(c.kernel), points = product(out), per_group = c.channels / c.group;
    const auto rank = static_cast<int64_t>(axes);
    const Floats x = numbers(2 * c.channels * product(c.in), 1),
                 w = numbers(c.outputs * per_group * elements, 2);
    Floats offset = numbers(2 * c.displaced * elements * rank * points, 3);
    for (float& o : offset) o *= 1.5f;
    const Floats bias = numbers(c.outputs, 4), mask = numbers(2 * c.displaced * elements * points, 5);
    Doubles expected;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t m = 0; m < c.outputs; ++m)
        for_each_place(out, [&](const Sizes& o) {
          double sum = c.bias ? bias[m] : 0;
          const int64_t point = offset_in(out, o);
          for (int64_t i = 0; i < per_group; ++i) {
            const int64_t channel = m / (c.outputs / c.group) * per_group + i;
            const int64_t set = n * c.displaced + channel / (c.channels / c.displaced);
            for_each_place(c.kernel, [&](const Sizes& k) {
              const int64_t element = set * elements + offset_in(c.kernel, k);
              Doubles place;
              for (int64_t a = 0; a < rank; ++a)
                place.push_back(static_cast<double>(o[a] * c.strides[a] + k[a] * c.dilations[a] - c.pads[a]) +
                                offset[(element * rank + a) * points + point]);
              const double read =
                  linear_at(x.data() + (n * c.channels + channel) * product(c.in), c.in, place);
              sum += read * w[(m * per_group + i) * elements + offset_in(c.kernel, k)] *
                     (c.mask ? mask[element * points + point] : 1);
            });
          }
          expected.push_back(sum);
        });
    const Value y =
        one("DeformConv",
            {tensor(joined({2, c.channels}, c.in), x), tensor(joined({c.outputs, per_group}, c.kernel), w),
             tensor(joined({2, c.displaced * elements * rank}, out), offset),
             c.bias ? tensor({c.outputs}, bias) : Value(),
             c.mask ? tensor(joined({2, c.displaced * elements}, out), mask) : Value()},
            {attribute("strides", c.strides), attribute("dilations", c.dilations), attribute("pads", c.pads),
             attribute("group", c.group), attribute("offset_group", c.displaced)},
            22);
    CHECK(y.shape() == shape_of(joined({2, c.outputs}, out)));
    check_close(y, expected, 1e-4);
  }
}
