// Padding, patches of images and interpolation against plain loops, and PyTorch's numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "support/errors.hpp"
#include "support/moved_elements.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

/// Where the element before or behind an axis comes from: one edge after the other, until it is inside.
int64_t source(int64_t i, int64_t size, PadMode mode) {
  while (i < 0 || i >= size) {
    const bool before = i < 0;
    switch (mode) {
    case PadMode::Edge: i = before ? 0 : size - 1; break;
    case PadMode::Reflect: i = before ? -i : 2 * (size - 1) - i; break;
    case PadMode::Symmetric: i = before ? -1 - i : 2 * size - 1 - i; break;
    case PadMode::Wrap: i += before ? size : -size; break;
    }
  }
  return i;
}

constexpr PadMode kPadModes[] = {PadMode::Edge, PadMode::Reflect, PadMode::Symmetric, PadMode::Wrap};

} // namespace

TEST_CASE("padding with the tensor itself") {
  struct Pads {
    Sizes shape;
    std::vector<std::pair<int64_t, int64_t>> by;
  };
  for (const Pads& c : std::vector<Pads>{{{3}, {{2, 1}}},
                                         {{3}, {{11, 8}}},
                                         {{2}, {{5, 6}}},
                                         {{5}, {{0, 4}}},
                                         {{5}, {{5, 0}}},
                                         {{7}, {{6, 7}}},
                                         {{3, 5}, {{1, 3}, {2, 4}}},
                                         {{2, 3, 2}, {{0, 0}, {4, 7}, {1, 3}}},
                                         {{1, 4}, {{0, 0}, {9, 0}}},
                                         {{}, {}}}) {
    const PlainArray x = numbered(c.shape);
    for (const PadMode mode : kPadModes) {
      CAPTURE(static_cast<int>(mode));
      Sizes shape = c.shape;
      for (size_t k = 0; k < shape.size(); ++k) shape[k] += c.by[k].first + c.by[k].second;
      const PlainArray want = made(DType::I64, shape, [&](Place p) {
        for (size_t k = 0; k < p.size(); ++k) p[k] = source(p[k] - c.by[k].first, c.shape[k], mode);
        return x.at(p);
      });
      check_equal(pad(tensor_of(x), c.by, mode), want);
    }
  }
  for (const PadMode mode : {PadMode::Edge, PadMode::Symmetric, PadMode::Wrap})
    check_equal(pad(Tensor::from({int64_t{5}}), {{2, 3}}, mode), {DType::I64, {6}, {5, 5, 5, 5, 5, 5}});
  for (const PadMode mode : kPadModes)
    check_every_dtype([&](const Tensor& x) { return pad(x, {{1, 0}, {2, 6}}, mode); }, {2, 3});
  // An axis that is not padded may have any size.
  const Tensor x = Tensor::input("x", {Var("n", 1, 9), 2}, DType::I64);
  check_equal(run_at(pad(x, {{0, 0}, {1, 0}}, PadMode::Reflect), Tensor::arange(1, 5).reshape({2, 2}), 2),
              {DType::I64, {2, 3}, {2, 1, 2, 4, 3, 4}});
}

namespace {

struct Patches {
  Sizes image, kernel, stride{1, 1}, padding{0, 0}, dilation{1, 1};

  PoolOptions options() const { return {.stride = stride, .padding = padding, .dilation = dilation}; }
  int64_t count(int k) const {
    return (image[2 + k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) / stride[k] + 1;
  }
  Sizes columns() const { return {image[0], image[1] * kernel[0] * kernel[1], count(0) * count(1)}; }
  /// The pixel that an element of the columns is; nothing if that is padding.
  std::optional<Place> pixel(const Place& p) const {
    const int64_t taps = kernel[0] * kernel[1], tap[] = {p[1] % taps / kernel[1], p[1] % kernel[1]},
                  window[] = {p[2] / count(1), p[2] % count(1)};
    Place at{p[0], p[1] / taps, 0, 0};
    for (int k = 0; k < 2; ++k) {
      at[2 + k] = window[k] * stride[k] + tap[k] * dilation[k] - padding[k];
      if (at[2 + k] < 0 || at[2 + k] >= image[2 + k]) return {};
    }
    return at;
  }
};

const std::vector<Patches>& patches() {
  static const std::vector<Patches> cases{{{1, 1, 1, 1}, {1, 1}},
                                          {{2, 3, 5, 4}, {2, 3}},
                                          {{1, 2, 7, 6}, {3, 2}, {2, 2}, {1, 0}},
                                          {{2, 1, 5, 11}, {1, 2}, {3, 4}, {0, 2}},
                                          {{1, 2, 7, 7}, {3, 3}, {1, 2}, {2, 1}, {2, 3}},
                                          {{1, 1, 8, 6}, {2, 3}, {2, 3}},
                                          {{1, 3, 2, 2}, {4, 5}, {1, 1}, {3, 2}}};
  return cases;
}

} // namespace

TEST_CASE("patches of images") {
  for (const Patches& c : patches()) {
    const PlainArray x = numbered(c.image);
    const PlainArray want = made(DType::I64, c.columns(), [&](const Place& p) {
      const auto at = c.pixel(p);
      return at ? x.at(*at) : 0;
    });
    check_equal(unfold(tensor_of(x), c.kernel, c.options()), want);
  }
  CHECK(unfold(random({1, 2, 5, 5}, 1), {3}).shape() == Shape{1, 18, 9});
  check_every_dtype([](const Tensor& x) { return unfold(x, {2, 3}, {.stride = {2, 1}, .padding = {1}}); },
                    {1, 2, 3, 4});
  const Tensor x = Tensor::input("x", {Var("n", 1, 9), 1, 2, 2}, DType::I64);
  check_equal(run_at(unfold(x, {2, 1}), Tensor::arange(1, 9).reshape({2, 1, 2, 2}), 2),
              {DType::I64, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}});
}

TEST_CASE("sums of patches") {
  for (const Patches& c : patches()) {
    const PlainArray columns = numbered(c.columns());
    PlainArray want{DType::I64, c.image, {}};
    want.values.assign(static_cast<size_t>(want.count()), 0);
    made(DType::I64, c.columns(), [&](const Place& p) {
      if (const auto at = c.pixel(p)) {
        size_t flat = 0;
        for (size_t k = 0; k < 4; ++k) flat = flat * static_cast<size_t>(c.image[k]) + (*at)[k];
        want.values[flat] += columns.at(p);
      }
      return 0;
    });
    const Sizes size{c.image[2], c.image[3]};
    check_equal(fold(tensor_of(columns), size, c.kernel, c.options()), want);
    // The transpose: <unfold(x), y> = <x, fold(y)>.
    const Tensor x = random<double>(shape_of(c.image), 3), y = random<double>(shape_of(c.columns()), 4);
    CHECK((unfold(x, c.kernel, c.options()) * y).sum().item<double>() ==
          doctest::Approx((x * fold(y, size, c.kernel, c.options())).sum().item<double>()).epsilon(1e-12));
  }
  // Half precision is summed in f32 and rounded once: 2048 + 1 stays 2048, and 2048 + 3 gives 2052.
  const Tensor halves = Tensor::from({0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 2048, 0, 0, 0}).cast(DType::F16);
  check_equal(fold(halves.reshape({1, 4, 4}), {3}, {2}),
              {DType::F16, {1, 1, 3, 3}, {0, 0, 0, 0, 2052, 0, 0, 0, 0}});
  // Three axes: two windows of 2 x 1 x 2 elements in an image of 2 x 1 x 3, which share its middle.
  check_equal(fold(Tensor::arange(8).reshape({1, 4, 2}), {2, 1, 3}, {2, 1, 2}),
              {DType::I64, {1, 1, 2, 1, 3}, {0, 3, 3, 4, 11, 7}});
  const Tensor ones = Tensor::full({1, 4, 4}, int8_t{100});
  check_equal(fold(ones, {3}, {2}),
              {DType::I8, {1, 1, 3, 3}, {100, -56, 100, -56, -112, -56, 100, -56, 100}});
}

TEST_CASE("interpolation: PyTorch's numbers") {
  const Tensor square = Tensor::from({{1.f, 2.f}, {3.f, 4.f}});
  check_close(interpolate(square, {4, 4}).to_vector<float>(),
              std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}, 0);
  check_close(interpolate(square, {4, 4}, Interpolation::Linear).to_vector<float>(),
              std::vector<float>{1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3,
                                 3.25f, 3.75f, 4},
              0);
  check_close(interpolate(square, {4, 4}, Interpolation::Linear, true).to_vector<float>(),
              std::vector<float>{1, 1.3333f, 1.6667f, 2, 1.6667f, 2, 2.3333f, 2.6667f, 2.3333f, 2.6667f, 3,
                                 3.3333f, 3, 3.3333f, 3.6667f, 4},
              1e-4);
  const Tensor ramp = Tensor::arange(1, 17, 1, DType::F32).reshape({4, 4});
  const auto first = [](const Tensor& t) { return t.index({0}).to_vector<float>(); };
  check_close(first(interpolate(ramp, {8, 8}, Interpolation::Cubic)),
              std::vector<float>{0.47265625f, 0.76953125f, 1.24609375f, 1.875f, 2.28125f, 2.91015625f,
                                 3.38671875f, 3.68359375f},
              1e-6);
  check_close(
      first(interpolate(ramp, {8, 8}, Interpolation::Cubic, true)),
      std::vector<float>{1, 1.34110787f, 1.80029155f, 2.32944606f, 2.67055394f, 3.19970845f, 3.65889213f, 4},
      1e-6);
}

namespace {

/// One element between those of an axis, as PyTorch's upsampling computes it.
double between(const std::vector<double>& x, int64_t i, int64_t out, Interpolation mode, bool align) {
  const auto in = static_cast<int64_t>(x.size());
  const auto at = [&](int64_t k) { return x[static_cast<size_t>(std::clamp<int64_t>(k, 0, in - 1))]; };
  if (mode == Interpolation::Nearest) return at(i * in / out);
  const auto n = static_cast<double>(in), m = static_cast<double>(out), x_i = static_cast<double>(i);
  const double scale = !align ? n / m : out > 1 ? (n - 1) / (m - 1) : 0;
  double place = align ? x_i * scale : (x_i + 0.5) * scale - 0.5;
  if (mode == Interpolation::Linear) {
    place = std::max(place, 0.0);
    const auto k = static_cast<int64_t>(place);
    return at(k) + (place - std::floor(place)) * (at(k + 1) - at(k));
  }
  const double below = std::floor(place), t = place - below, a = -0.75;
  const auto k = static_cast<int64_t>(below);
  const auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return far(t + 1) * at(k - 1) + near(t) * at(k) + near(1 - t) * at(k + 1) + far(2 - t) * at(k + 2);
}

/// The same along every axis of a matrix.
std::vector<double> resized(std::vector<double> x, int64_t h, int64_t w, int64_t to_h, int64_t to_w,
                            Interpolation mode, bool align) {
  const auto rows = [&](const std::vector<double>& from, int64_t count, int64_t size, int64_t out) {
    std::vector<double> turned(static_cast<size_t>(out * count)); // transposed
    for (int64_t r = 0; r < count; ++r) {
      const std::vector<double> row(from.begin() + r * size, from.begin() + (r + 1) * size);
      for (int64_t i = 0; i < out; ++i)
        turned[static_cast<size_t>(i * count + r)] = between(row, i, out, mode, align);
    }
    return turned;
  };
  x = rows(x, h, w, to_w);
  return rows(x, to_w, h, to_h);
}

} // namespace

TEST_CASE("interpolation against plain loops") {
  struct Sizing {
    int64_t h, w, to_h, to_w;
  };
  const std::pair<Interpolation, bool> modes[] = {{Interpolation::Nearest, false},
                                                  {Interpolation::Linear, false},
                                                  {Interpolation::Linear, true},
                                                  {Interpolation::Cubic, false},
                                                  {Interpolation::Cubic, true}};
  for (const Sizing& s :
       std::vector<Sizing>{{3, 4, 7, 5}, {1, 5, 6, 1}, {6, 9, 3, 3}, {7, 5, 7, 13}, {5, 2, 2, 8}})
    for (const auto& [mode, align] : modes) {
      CAPTURE(s.h);
      CAPTURE(static_cast<int>(mode));
      CAPTURE(align);
      const Tensor x = random<double>({2, s.h, s.w}, 51);
      const Tensor y = interpolate(x, {s.to_h, s.to_w}, mode, align);
      REQUIRE(y.shape() == Shape{2, s.to_h, s.to_w});
      const auto in = x.to_vector<double>();
      std::vector<double> want;
      for (int64_t n = 0; n < 2; ++n) {
        const auto plane = in.begin() + n * s.h * s.w;
        const auto one = resized({plane, plane + s.h * s.w}, s.h, s.w, s.to_h, s.to_w, mode, align);
        want.insert(want.end(), one.begin(), one.end());
      }
      check_close(y.to_vector<double>(), want, 1e-13);
    }
}

TEST_CASE("interpolation: dtypes, and what does not spread") {
  // Read at indices, by steps, repeated.
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{{5, 4}, {16, 8}, {5, 10}})
    check_every_dtype([&](const Tensor& x) { return interpolate(x, {out}); }, {2, in});
  const Tensor ints = Tensor::from({1, 2, 4});
  for (const Interpolation mode : {Interpolation::Linear, Interpolation::Cubic}) {
    CHECK(interpolate(ints, {3}, mode).dtype() == DType::F64);
    CHECK(interpolate(ints.cast(DType::Bool), {6}, mode).dtype() == DType::F64);
    CHECK(interpolate(ints.cast(DType::BF16), {6}, mode).dtype() == DType::BF16);
    check_close(as_doubles(interpolate(ints, {7}, mode)),
                as_doubles(interpolate(ints.cast(DType::F64), {7}, mode)), 0);
    check_close(as_doubles(interpolate(ints.cast(DType::F16), {7}, mode)),
                as_doubles(interpolate(ints.cast(DType::F32), {7}, mode).cast(DType::F16)), 0);
  }
  const Tensor row = Tensor::from({0.f, 1.f, kNan, 3.f, 4.f, 5.f, kInf, 7.f});
  check_close(interpolate(row, {16}, Interpolation::Linear).to_vector<float>(),
              std::vector<float>{0, 0.25f, 0.75f, kNan, kNan, kNan, kNan, 3.25f, 3.75f, 4.25f, 4.75f, kInf,
                                 kInf, kInf, kInf, 7},
              0);
  // An axis that keeps its size is not touched.
  check_close(
      interpolate(row.reshape({2, 4}), {4, 4}, Interpolation::Cubic).index({Slice{}, 0}).to_vector<float>(),
      interpolate(row.reshape({2, 4}).index({Slice{}, 0}), {4}, Interpolation::Cubic).to_vector<float>(), 0);
  const Tensor x = Tensor::input("x", {Var("n", 1, 9), 2});
  check_close(
      run_at(interpolate(x, {3}, Interpolation::Linear, true), Tensor::from({{1.f, 2.f}, {5.f, 9.f}}), 2)
          .to_vector<float>(),
      std::vector<float>{1, 1.5f, 2, 5, 7, 9});
}

TEST_CASE("bad calls of padding, patches and interpolation") {
  const Tensor v = Tensor::input("v", {4}), m = Tensor::input("m", {3, 4}), image = random({1, 2, 4, 4}, 1);
  const Tensor cube = Tensor::input("cube", {2, 3, 4});
  const Tensor open = Tensor::input("open", {2, Var("n", 1, 9)});
  const auto shape = errors_of(ErrorKind::Shape);
  const auto value = errors_of(ErrorKind::Value);
  const auto dtype = errors_of(ErrorKind::DType);
  const auto limit = errors_of(ErrorKind::Limit);
  shape("pad", [&] { (void)pad(m, {{1, 1}}, PadMode::Edge); });
  value("pad", [&] { (void)pad(m, {{0, 0}, {0, -1}}, PadMode::Wrap); });
  value("pad", [&] { (void)pad(m.reshape({12, 1}), {{0, 0}, {0, 1}}, PadMode::Reflect); });
  shape("pad", [&] { (void)pad(open, {{0, 0}, {0, 1}}, PadMode::Edge); });
  limit("pad", [&] { (void)pad(v, {{INT64_MAX, INT64_MAX}}, PadMode::Symmetric); });
  limit("pad", [&] { (void)pad(v, {{0, int64_t{1} << 60}}, PadMode::Symmetric); });
  shape("unfold", [&] { (void)unfold(cube, {2}); });
  shape("unfold", [&] { (void)unfold(image, {5}); });
  shape("unfold", [&] { (void)unfold(image, {2}, {.dilation = {1, 4}}); });
  value("unfold", [&] { (void)unfold(image, {2, 0}); });
  value("unfold", [&] { (void)unfold(image, {2, 2, 2}); });
  value("unfold", [&] { (void)unfold(image, {2}, {.stride = {0}}); });
  value("unfold", [&] { (void)unfold(image, {2}, {.padding = {-1}}); });
  value("unfold", [&] { (void)unfold(image, {2}, {.ceil_mode = true}); });
  shape("fold", [&] { (void)fold(m, {4}, {2}); });
  shape("fold", [&] { (void)fold(cube, {4}, {2}); });
  shape("fold", [&] { (void)fold(cube, {2, 2}, {3, 1}); });
  shape("fold", [&] { (void)fold(cube, {3, 3}, {3, 1}); });
  value("fold", [&] { (void)fold(cube, {0, 4}, {3, 1}); });
  value("fold", [&] { (void)fold(cube, {4, 4, 4}, {3, 1}); });
  dtype("fold", [&] { (void)fold(cube.cast(DType::Bool), {3, 4}, {3, 1}); });
  value("interpolate", [&] { (void)interpolate(m, {0}); });
  value("interpolate", [&] { (void)interpolate(m, {2, -4}); });
  shape("interpolate", [&] { (void)interpolate(m, {}); });
  shape("interpolate", [&] { (void)interpolate(m, {2, 2, 2}); });
  shape("interpolate", [&] { (void)interpolate(open, {4}, Interpolation::Linear); });
  value("interpolate", [&] { (void)interpolate(m, {4}, Interpolation::Nearest, true); });
}
