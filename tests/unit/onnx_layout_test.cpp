// Windows, movement, selection and sampling of ONNX where the ONNX project's own test data has holes: modes
// and ranks that no test there uses, sizes that the model only names, tensors without elements. Compared with
// plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "support/onnx_node.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

/// Sizes must be equal, and the dtype that of `values`.
void check_shape(const Value& got, const Shape& shape) { CHECK(to_string(got.shape()) == to_string(shape)); }

struct Transposed {
  int64_t kernel, stride, dilation, before, after, extra;
};

/// Of [2, 4, size] in two groups with one output each: every input element adds its kernel.
void check_transposed(const Transposed& t) {
  CAPTURE(t.kernel);
  CAPTURE(t.stride);
  CAPTURE(t.dilation);
  CAPTURE(t.before);
  CAPTURE(t.after);
  const int64_t in = 4;
  const int64_t out = (in - 1) * t.stride + t.extra + (t.kernel - 1) * t.dilation + 1 - t.before - t.after;
  if (out < 1) return;
  const Tensor x = Tensor::randn({2, 4, in}, 1), w = Tensor::randn({4, 1, t.kernel}, 2),
               b = Tensor::randn({2}, 3);
  const Floats xs = floats(x), ws = floats(w), bs = floats(b);
  std::vector<double> expected;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t m = 0; m < 2; ++m) {
      std::vector<double> row(static_cast<size_t>(out), bs[m]);
      for (int64_t c = 2 * m; c < 2 * m + 2; ++c)
        for (int64_t i = 0; i < in; ++i)
          for (int64_t k = 0; k < t.kernel; ++k) {
            const int64_t at = i * t.stride + k * t.dilation - t.before;
            if (at >= 0 && at < out) row[at] += double{xs[(n * 4 + c) * in + i]} * ws[c * t.kernel + k];
          }
      expected.insert(expected.end(), row.begin(), row.end());
    }
  check_close(
      one("ConvTranspose", {x, w, b},
          {attribute("group", 2), attribute("strides", Integers{t.stride}),
           attribute("dilations", Integers{t.dilation}), attribute("pads", Integers{t.before, t.after}),
           attribute("output_padding", Integers{t.extra})}),
      expected);
}

} // namespace

TEST_CASE("a transposed convolution adds every input element's kernel") {
  for (int64_t stride : {1, 2, 3})
    for (int64_t dilation : {1, 2}) {
      for (int64_t kernel : {1, 2, 3, 4})
        for (int64_t before : {0, 1, 5})
          for (int64_t after : {0, 2})
            check_transposed({kernel, stride, dilation, before, after, stride - 1});
      for (int64_t kernel : {5, 17}) // with more taps than the input has elements
        check_transposed({kernel, stride, dilation, 1, 2, stride - 1});
    }
}

TEST_CASE("a transposed convolution whose kernel is much larger than its input costs what its input does") {
  const Tensor x = counting({1, 1, 1, 2}), w = Tensor::randn({1, 1, 300, 400}, 1);
  const Floats ws = floats(w), y = floats(one("ConvTranspose", {x, w}));
  REQUIRE(y.size() == 300 * 401);
  const Floats xs = floats(x);
  for (size_t at : {0u, 1u, 400u, 401u, 120000u, 120299u}) {
    const size_t row = at / 401, column = at % 401;
    const float first = column < 400 ? ws[row * 400 + column] : 0,
                second = column > 0 ? ws[row * 400 + column - 1] : 0;
    CHECK(y[at] == doctest::Approx(xs[0] * first + xs[1] * second));
  }
}

TEST_CASE("a convolution pads asymmetrically by itself, of a batch that is only named") {
  const Tensor x = counting({2, 1, 4}), w = Tensor::from(Floats{1, 10, 100}, {1, 1, 3});
  check_close(
      one("Conv", {x, w}, {attribute("auto_pad", "SAME_LOWER"), attribute("strides", Integers{2})}, 17, "n"),
      {100, 321, 540, 765});
}

TEST_CASE("pooling by p-norms counts padding as nothing") {
  const Tensor x = Tensor::from(Floats{1, -2, 3, -4}, {1, 1, 4});
  const Attributes windows{attribute("kernel_shape", Integers{2}), attribute("pads", Integers{1, 0}),
                           attribute("p", 3)};
  check_close(one("LpPool", {x}, windows), {1, std::cbrt(9.0), std::cbrt(35.0), std::cbrt(91.0)});
  check_close(one("GlobalLpPool", {x}, {attribute("p", 1)}), {10});
  check_close(one("GlobalLpPool", {x}), {std::sqrt(30.0)});
}

TEST_CASE("what ceil_mode adds behind counts in no average") {
  const Tensor x = counting({1, 1, 6}) + 1;
  const Attributes windows{attribute("kernel_shape", Integers{3}), attribute("strides", Integers{2}),
                           attribute("pads", Integers{1, 0}), attribute("ceil_mode", 1)};
  Attributes with_padding = windows;
  with_padding.push_back(attribute("count_include_pad", 1));
  check_close(one("AveragePool", {x}, windows), {1.5, 3, 5});
  check_close(one("AveragePool", {x}, with_padding), {1, 3, 5});
  const Tensor longer = counting({1, 1, 7}) + 1;
  check_close(one("AveragePool", {longer}, with_padding), {1, 3, 5, 6.5});
}

TEST_CASE("positions of maxima in a volume, in both orders of storage") {
  const Tensor x = Tensor::randn({2, 2, 3, 4, 5}, 7);
  const Floats xs = floats(x);
  for (int columns = 0; columns < 2; ++columns) {
    const auto y =
        run_node("MaxPool", {x},
                 {attribute("kernel_shape", Integers{2, 2, 2}), attribute("storage_order", columns)}, 2);
    const Floats maxima = floats(y[0]);
    const Integers positions = integers(y[1]);
    REQUIRE(positions.size() == maxima.size());
    for (size_t k = 0; k < maxima.size(); ++k) {
      const int64_t image = positions[k] / 60, inside = positions[k] % 60;
      const int64_t row_major = (inside % 3) * 20 + (inside / 3 % 4) * 5 + inside / 12;
      CHECK(xs[image * 60 + (columns ? row_major : inside)] == maxima[k]);
    }
  }
}

TEST_CASE("maxima of regions, cut in bins that may share elements") {
  const Tensor x = counting({2, 1, 4, 4});
  const Tensor regions = Tensor::from(Floats{1, 0, 0, 3, 3, 0, 2, 2, 4, 4, 0, 8, 8, 9, 9}, {3, 5});
  check_close(one("MaxRoiPool", {x, regions}, {attribute("pooled_shape", Integers{2, 2})}),
              {21, 23, 29, 31, 15, 15, 15, 15, 0, 0, 0, 0});
}

TEST_CASE("updates of one place are combined however many they are") {
  const Tensor data = Tensor::from(Floats{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor at = Tensor::from(Integers{1, 1, -2}, {1, 3}), by = Tensor::from(Floats{3, 4, 5}, {1, 3});
  const auto scattered = [&](const char* reduction) {
    return floats(
        one("ScatterElements", {data, at, by}, {attribute("axis", 1), attribute("reduction", reduction)}));
  };
  CHECK(scattered("add") == Floats{1, 14, 3, 4, 5, 6});
  CHECK(scattered("mul") == Floats{1, 120, 3, 4, 5, 6});
  CHECK(scattered("max") == Floats{1, 5, 3, 4, 5, 6});
  CHECK(scattered("min") == Floats{1, 2, 3, 4, 5, 6});
  const Tensor rows = Tensor::from(Integers{1, 1}, {2, 1}),
               two = Tensor::from(Floats{2, 2, 2, 3, 3, 3}, {2, 3});
  CHECK(floats(one("ScatterND", {data, rows, two}, {attribute("reduction", "mul")})) ==
        Floats{1, 2, 3, 24, 30, 36});
  const Tensor small = Tensor::from(std::vector<int8_t>{1, 2, 3});
  const Value product =
      one("ScatterElements", {small, Tensor::from(Integers{0}), Tensor::from(std::vector<int8_t>{-3})},
          {attribute("reduction", "mul")});
  CHECK(product.dtype() == DType::I8);
  CHECK(integers(product) == Integers{-3, 2, 3});
}

TEST_CASE("bounds of slices hold for every size of an axis that is only named") {
  const Tensor x = counting({5, 2});
  const auto cut = [&](int64_t start, int64_t end, int64_t step) {
    Graph g;
    g.input("x", DType::F32, {"n", 2}).output("y");
    g.initialiser("starts", {1}, Integers{start}).initialiser("ends", {1}, Integers{end});
    g.initialiser("axes", {1}, Integers{0}).initialiser("steps", {1}, Integers{step});
    g.node("Slice", {"x", "starts", "ends", "axes", "steps"}, {"y"});
    return floats(load(model(g)).compile()({{"x", x}}).at("y"));
  };
  CHECK(cut(0, INT64_MAX, 1) == floats(x));
  CHECK(cut(-1, INT64_MAX, 1) == Floats{8, 9});
  CHECK(cut(0, -1, 1) == Floats{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(cut(0, 1, 1) == Floats{0, 1});
  CHECK(cut(-1, INT64_MIN, -1) == Floats{8, 9, 6, 7, 4, 5, 2, 3, 0, 1});
  CHECK(cut(0, INT64_MAX, 2) == Floats{0, 1, 4, 5, 8, 9});
  CHECK(cut(-3, 100, 1) == Floats{4, 5, 6, 7, 8, 9});
  CHECK(cut(-100, 2, 1) == Floats{0, 1, 2, 3});
  CHECK(cut(1, -1, 1) == Floats{2, 3, 4, 5, 6, 7});
}

TEST_CASE("a table is cut to the length of an input") {
  Graph g;
  g.input("x", DType::F32, {"n"}).output("y");
  g.initialiser("table", {1, 6}, Floats{0, 1, 2, 3, 4, 5})
      .initialiser("zero", {1}, Integers{0})
      .initialiser("one", {1}, Integers{1});
  g.node("Shape", {"x"}, {"n"})
      .node("Slice", {"table", "zero", "n", "one"}, {"cut"})
      .node("Add", {"x", "cut"}, {"y"});
  const onnx::Program program = load(model(g)).compile();
  CHECK(floats(program({{"x", Tensor::from(Floats{10, 10, 10})}}).at("y")) == Floats{10, 11, 12});
  CHECK(floats(program({{"x", Tensor::from(Floats{10})}}).at("y")) == Floats{10});
}

TEST_CASE("padding repeats or mirrors a border of an axis that is only named") {
  const Tensor x = counting({4, 1}), pads = Tensor::from(Integers{2, 0, 1, 0});
  Graph g;
  g.input("x", DType::F32, {"n", 1}).initialiser("pads", {4}, Integers{2, 0, 1, 0}).output("y");
  g.node("Pad", {"x", "pads"}, {"y"}, {attribute("mode", "edge")});
  CHECK(floats(load(model(g)).compile()({{"x", x}}).at("y")) == Floats{0, 0, 0, 1, 2, 3, 3});
  CHECK(floats(one("Pad", {x, pads}, {attribute("mode", "reflect")})) == Floats{2, 1, 0, 1, 2, 3, 2});
  const Tensor cut = Tensor::from(Integers{-1, 0, 1, 0});
  CHECK(floats(one("Pad", {x, cut, Tensor::full({}, 7.f)})) == Floats{1, 2, 3, 7});
  CHECK_THROWS_WITH_AS(one("Pad", {x, Tensor::from(Integers{4, 0, 0, 0})}, {attribute("mode", "reflect")}),
                       doctest::Contains("expected fewer than there are"), Error);
}

TEST_CASE("tensors without elements go through what moves, and come of what selects nothing") {
  const Value none = Value(Tensor::zeros({2, 0}, DType::F32));
  const Tensor x = counting({2, 3});
  const Tensor zero = Tensor::from(Integers{0});
  CHECK(floats(one("Concat", {none, x, none}, {attribute("axis", 1)})) == floats(x));
  check_shape(one("Concat", {none, none}, {attribute("axis", 0)}), {4, 0});
  check_shape(one("Transpose", {none}), {0, 2});
  check_shape(one("Tile", {x, Tensor::from(Integers{0, 2})}), {0, 6});
  check_shape(one("Slice", {x, zero, zero}), {0, 3});
  check_shape(one("Compress", {x, Tensor::from({false, false})}, {attribute("axis", 0)}), {0, 3});
  check_shape(one("NonZero", {Tensor::zeros({2, 3})}), {2, 0});
  check_shape(run_node("TopK", {x, zero}, {}, 2)[0], {2, 0});
  check_shape(one("Gather", {x, Value(Tensor::zeros({0}, DType::I64))}, {attribute("axis", 1)}), {2, 0});
  check_shape(one("Reshape", {none, Tensor::from(Integers{0, 0, 5})}, {attribute("allowzero", 1)}),
              {0, 0, 5});
  CHECK_THROWS_AS(one("Reshape", {none, Tensor::from(Integers{6})}), Error);
}

TEST_CASE("a shape of millions of sizes is refused before they are read") {
  const Tensor ones = Tensor::full({int64_t{1} << 25}, int64_t{1});
  CHECK_THROWS_WITH_AS(one("Reshape", {counting({1}), ones}),
                       doctest::Contains("33554432 values decide what is computed"), Error);
}

TEST_CASE("equal NaNs are one value, the largest") {
  const float nan = std::nanf("");
  const auto y = run_node("Unique", {Tensor::from({nan, 2.f, nan, 1.f})}, {}, 4);
  const Floats values = floats(y[0]);
  REQUIRE(values.size() == 3);
  CHECK(values[0] == 1);
  CHECK(values[1] == 2);
  CHECK(std::isnan(values[2]));
  CHECK(integers(y[1]) == Integers{3, 1, 0});
  CHECK(integers(y[2]) == Integers{2, 1, 2, 0});
  CHECK(integers(y[3]) == Integers{1, 1, 2});
}

namespace {

/// The slices of x [a, b, c] along an axis, each in row-major order.
std::vector<Integers> slices_of(const Integers& x, const std::array<size_t, 3>& size, size_t axis) {
  std::vector<Integers> slices(size[axis]);
  for (size_t i = 0; i < size[0]; ++i)
    for (size_t j = 0; j < size[1]; ++j)
      for (size_t k = 0; k < size[2]; ++k)
        slices[std::array{i, j, k}[axis]].push_back(x[(i * size[1] + j) * size[2] + k]);
  return slices;
}

/// Checks the outputs of Unique along an axis against the slices themselves.
void check_distinct(const std::vector<Value>& found, const std::vector<Integers>& slices, bool sorted) {
  std::vector<Integers> distinct;
  for (const Integers& slice : slices)
    if (std::find(distinct.begin(), distinct.end(), slice) == distinct.end()) distinct.push_back(slice);
  if (sorted) std::sort(distinct.begin(), distinct.end());
  Integers first, which, counts;
  for (const Integers& kept : distinct) {
    first.push_back(std::find(slices.begin(), slices.end(), kept) - slices.begin());
    counts.push_back(std::count(slices.begin(), slices.end(), kept));
  }
  for (const Integers& slice : slices)
    which.push_back(std::find(distinct.begin(), distinct.end(), slice) - distinct.begin());
  CHECK(integers(found[1]) == first);
  CHECK(integers(found[2]) == which);
  CHECK(integers(found[3]) == counts);
}

} // namespace

TEST_CASE("distinct slices along each axis, in the order of a dictionary or as they come") {
  const std::array<size_t, 3> size{3, 2, 12};
  Integers x;
  for (size_t k = 0; k < 72; ++k) x.push_back(static_cast<int64_t>(k * k * 7 % 11 % 2));
  const Tensor data = Tensor::from(x, {3, 2, 12});
  for (const int64_t axis : {0, 1, 2, -1})
    for (const int64_t sorted : {0, 1}) {
      CAPTURE(axis);
      CAPTURE(sorted);
      const auto along = static_cast<size_t>((axis + 3) % 3);
      const std::vector<Integers> slices = slices_of(x, size, along);
      const std::vector<Value> found =
          run_node("Unique", {data}, {attribute("axis", axis), attribute("sorted", sorted)}, 4);
      check_distinct(found, slices, sorted != 0);
      const Integers first = integers(found[1]);
      Integers kept; // the slices that were found, by slices again
      for (const Integers& slice : slices_of(
               integers(found[0]),
               {along == 0 ? first.size() : 3, along == 1 ? first.size() : 2, along == 2 ? first.size() : 12},
               along))
        kept.insert(kept.end(), slice.begin(), slice.end());
      Integers expected;
      for (const int64_t at : first)
        expected.insert(expected.end(), slices[static_cast<size_t>(at)].begin(),
                        slices[static_cast<size_t>(at)].end());
      CHECK(kept == expected);
    }
}

TEST_CASE("distinct numbers of a long row are found without comparing all pairs") {
  constexpr int64_t count = 200'000; // whose pairs no memory holds
  const Tensor x = (Tensor::iota({count}, 0) * int64_t{7919}) % int64_t{50'021};
  const std::vector<Value> found = run_node("Unique", {x.realise()}, {}, 4);
  const Integers values = integers(found[0]), which = integers(found[2]), counts = integers(found[3]);
  REQUIRE(values.size() == 50'021);
  for (size_t k = 0; k < values.size(); ++k) REQUIRE(values[k] == static_cast<int64_t>(k));
  for (int64_t k = 0; k < count; ++k) REQUIRE(which[static_cast<size_t>(k)] == k * 7919 % 50'021);
  CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == count);
  const uint64_t large = uint64_t{1} << 63; // unsigned numbers are not signed ones
  CHECK(integers(run_node("Unique", {Tensor::from(std::vector<uint64_t>{large, 1, large})}, {}, 4)[1]) ==
        Integers{1, 0});
}

TEST_CASE("suppression keeps what taking the best box again and again keeps") {
  const int64_t count = 40, classes = 2;
  const Tensor corner = Tensor::rand({1, count, 2}, 1), extent = Tensor::rand({1, count, 2}, 2) * 0.4f;
  const Tensor boxes = concat({corner, corner + extent}, 2), scores = Tensor::rand({1, classes, count}, 3);
  const Floats b = floats(boxes), s = floats(scores);
  const auto area = [&](int64_t i) { return (b[4 * i + 2] - b[4 * i]) * (b[4 * i + 3] - b[4 * i + 1]); };
  const auto overlap = [&](int64_t i, int64_t j) {
    const float h = std::min(b[4 * i + 2], b[4 * j + 2]) - std::max(b[4 * i], b[4 * j]);
    const float w = std::min(b[4 * i + 3], b[4 * j + 3]) - std::max(b[4 * i + 1], b[4 * j + 1]);
    const float shared = std::max(h, 0.f) * std::max(w, 0.f);
    return shared / (area(i) + area(j) - shared);
  };
  for (const int64_t most :
       {int64_t{1}, int64_t{2}, int64_t{9}, int64_t{1000}, INT64_MAX}) { // few by steps, many by pairs
    Integers expected;
    for (int64_t c = 0; c < classes; ++c) {
      Integers order(count), kept;
      for (int64_t i = 0; i < count; ++i) order[i] = i;
      std::sort(order.begin(), order.end(),
                [&](int64_t i, int64_t j) { return s[c * count + i] > s[c * count + j]; });
      for (int64_t i : order) {
        const bool suppressed =
            std::any_of(kept.begin(), kept.end(), [&](int64_t j) { return overlap(i, j) > 0.2f; });
        if (s[c * count + i] > 0.3f && !suppressed && std::ssize(kept) < most) kept.push_back(i);
      }
      for (int64_t i : kept) expected.insert(expected.end(), {0, c, i});
    }
    CHECK(integers(one("NonMaxSuppression", {boxes, scores, Tensor::from(Integers{most}),
                                             Tensor::from({0.2f}), Tensor::from({0.3f})})) == expected);
  }
}

TEST_CASE("resizing takes every dtype, and leaves axes that are only named") {
  const Tensor x = counting({2, 3});
  const Tensor scales = Tensor::from({1.f, 2.f});
  Graph g;
  g.input("x", DType::F32, {"n", 3}).initialiser("scales", {2}, Floats{1, 2}).output("y");
  g.node("Resize", {"x", "", "scales"}, {"y"}, {attribute("mode", "linear")});
  CHECK(floats(load(model(g)).compile()({{"x", x}}).at("y")) ==
        Floats{0, .25, .75, 1.25, 1.75, 2, 3, 3.25, 3.75, 4.25, 4.75, 5});
  const Value bytes =
      one("Resize", {(x * 4).cast(DType::U8), Value(), scales}, {attribute("mode", "linear")});
  CHECK(bytes.dtype() == DType::U8);
  CHECK(integers(bytes) == Integers{0, 1, 3, 5, 7, 8, 12, 13, 15, 17, 19, 20});
  const auto thirds = [&](const Attributes& attributes) { // .75, 2.25, 3.75 and so on
    return integers(one("Resize", {(x * 3).cast(DType::U8), Value(), scales}, attributes, 18));
  };
  CHECK(thirds({attribute("mode", "linear")}) == Integers{0, 0, 2, 3, 5, 6, 9, 9, 11, 12, 14, 15});
  CHECK(thirds({attribute("mode", "linear"), attribute("antialias", 1)}) ==
        Integers{0, 1, 2, 4, 5, 6, 9, 10, 11, 13, 14, 15});
  CHECK(floats(one("Upsample", {x, scales}, {attribute("mode", "linear")}, 9)) ==
        Floats{0, .5, 1, 1.5, 2, 2, 3, 3.5, 4, 4.5, 5, 5});
  CHECK(floats(one("Resize", {x, scales}, {}, 10)) == Floats{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  const Tensor row = counting({1, 5}), shrunk = Tensor::from({1.f, 0.6f}); // places 0, 1.67 and 3.33
  CHECK(floats(one("Resize", {row, shrunk}, {}, 10)) == Floats{0, 2, 4});
  CHECK(floats(one("Resize", {row, Tensor::from({1.f, 1.4f})}, {}, 10)) == Floats{0, 0, 1, 2, 2, 3, 4});
}

TEST_CASE("aligned regions take as many samples as their size asks for, their mean or their largest share") {
  const int64_t height = 6, width = 7;
  const Tensor x = Tensor::randn({2, 1, height, width}, 5);
  const Tensor regions = Tensor::from(Floats{0.3f, 0.6f, 6.4f, 5.1f, 1, 1, 2, 2}, {2, 4});
  const Floats xs = floats(x), r = floats(regions);
  // The shares of the four elements around a place; at the far border the last element is two of them.
  const auto shares = [&](int64_t image, double y, double xx) {
    std::vector<double> result;
    const bool outside = y < -1 || y > height || xx < -1 || xx > width;
    y = std::clamp(y, 0.0, height - 1.0), xx = std::clamp(xx, 0.0, width - 1.0);
    for (const int64_t below : {0, 1})
      for (const int64_t right : {0, 1}) {
        const auto row = static_cast<int64_t>(y), column = static_cast<int64_t>(xx);
        const double down = below ? y - row : row + 1 - y, across = right ? xx - column : column + 1 - xx;
        const int64_t i = std::min(row + below, height - 1), j = std::min(column + right, width - 1);
        result.push_back(outside ? 0.0 : xs[(image * height + i) * width + j] * down * across);
      }
    return result;
  };
  for (const char* mode : {"avg", "max"}) {
    std::vector<double> expected;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t bin = 0; bin < 4; ++bin) {
        const double left = r[4 * n] - 0.5, top = r[4 * n + 1] - 0.5;
        const double bin_width = (r[4 * n + 2] - r[4 * n]) / 2.0,
                     bin_height = (r[4 * n + 3] - r[4 * n + 1]) / 2.0;
        const auto across = static_cast<int64_t>(std::ceil(bin_width)),
                   down = static_cast<int64_t>(std::ceil(bin_height));
        double sum = 0, most = -1e9;
        for (int64_t i = 0; i < down; ++i)
          for (int64_t j = 0; j < across; ++j) {
            const double y = top + bin_height * static_cast<double>(bin / 2) + (i + 0.5) * bin_height / down;
            const double place =
                left + bin_width * static_cast<double>(bin % 2) + (j + 0.5) * bin_width / across;
            for (const double share : shares(1 - n, y, place)) sum += share, most = std::max(most, share);
          }
        expected.push_back(mode[0] == 'a' ? sum / static_cast<double>(down * across) : most);
      }
    check_close(one("RoiAlign", {x, regions, Tensor::from(Integers{1, 0})},
                    {attribute("output_height", 2), attribute("output_width", 2), attribute("mode", mode)}),
                expected, 1e-4);
  }
}

TEST_CASE("an aligned region without an extent is 0") {
  const Tensor x = Tensor::ones({1, 1, 4, 4}), region = Tensor::from(Floats{1, 1, 1, 3}, {1, 4});
  for (const char* mode : {"avg", "max"}) {
    CHECK(floats(one("RoiAlign", {x, region, Tensor::from(Integers{0})}, {attribute("mode", mode)}, 16)) ==
          Floats{0});
    CHECK(floats(one("RoiAlign", {x, region, Tensor::from(Integers{0})}, {attribute("mode", mode)}, 10))[0] >
          0);
  }
}

TEST_CASE("training drops a part of the elements and scales up the rest") {
  const Tensor x = Tensor::ones({1000});
  const auto y =
      run_node("Dropout", {x, Tensor::full({}, 0.25f), Tensor::full({}, true)}, {attribute("seed", 3)}, 2);
  const Floats values = floats(y[0]);
  const Integers mask = integers(y[1]);
  int64_t kept = 0;
  for (size_t k = 0; k < values.size(); ++k) {
    kept += mask[k];
    CHECK(values[k] == doctest::Approx(mask[k] ? 1 / 0.75 : 0));
  }
  CHECK(std::abs(kept - 750) < 60);
}
