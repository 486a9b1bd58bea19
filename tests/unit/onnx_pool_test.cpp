// Pooling against plain loops: every mix of padding, strides, dilations and ceil_mode, with windows that
// begin in the padding, and sizes that no test of the ONNX project has. ONNX Runtime gives the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/messages.hpp"
#include "support/onnx_node.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

struct PooledAxis {
  int64_t size, kernel, stride, dilation, before, after;

  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  /// Windows of an axis: since opset 22 ONNX says that none begins in the padding behind.
  int64_t windows(bool ceil_mode) const {
    const int64_t span = size + before + after - reach();
    int64_t count = span < 0 ? 0 : span / stride + 1;
    if (ceil_mode && span > -stride && (span < 0 || span % stride != 0) && count * stride < size + before)
      ++count;
    return count;
  }
};

struct Case {
  PooledAxis down, across;
  bool ceil_mode, counts_padding;
  int64_t p;
  int opset;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  for (const PooledAxis& a : {c.down, c.across})
    out << "size " << a.size << " kernel " << a.kernel << " stride " << a.stride << " dilation " << a.dilation
        << " pads " << a.before << ", " << a.after << "; ";
  return out << "ceil_mode " << c.ceil_mode << " count_include_pad " << c.counts_padding << " p " << c.p
             << " opset " << c.opset;
}

/// Calls visit(row, column, position in the window) for every place of a window; those outside are negative.
template <class Visit> void each_place(const Case& c, int64_t row, int64_t column, Visit&& visit) {
  for (int64_t i = 0; i < c.down.kernel; ++i)
    for (int64_t j = 0; j < c.across.kernel; ++j)
      visit(row * c.down.stride + i * c.down.dilation - c.down.before,
            column * c.across.stride + j * c.across.dilation - c.across.before);
}

struct Pooled {
  Floats largest, mean, norm;
  Integers rows, columns; // of the largest: where it lies in a row-major and in a column-major image
};

Pooled pool(const Case& c, const Floats& x) {
  Pooled y;
  for (int64_t row = 0; row < c.down.windows(c.ceil_mode); ++row)
    for (int64_t column = 0; column < c.across.windows(c.ceil_mode); ++column) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0, powers = 0;
      int64_t counted = 0, in_rows = -1, in_columns = -1;
      each_place(c, row, column, [&](int64_t i, int64_t j) {
        const bool inside = i >= 0 && i < c.down.size && j >= 0 && j < c.across.size;
        const bool padding = i < c.down.size + c.down.after && j < c.across.size + c.across.after;
        if (inside || (c.counts_padding && padding)) ++counted;
        if (!inside) return;
        const double value = x[static_cast<size_t>(i * c.across.size + j)];
        sum += value;
        powers += std::pow(std::abs(value), static_cast<double>(c.p));
        if (value <= largest) return;
        largest = value;
        in_rows = i * c.across.size + j;
        in_columns = j * c.down.size + i;
      });
      y.largest.push_back(static_cast<float>(largest));
      y.mean.push_back(static_cast<float>(sum / static_cast<double>(std::max<int64_t>(counted, 1))));
      y.norm.push_back(static_cast<float>(std::pow(powers, 1.0 / static_cast<double>(c.p))));
      y.rows.push_back(in_rows);
      y.columns.push_back(in_columns);
    }
  return y;
}

void check(const Case& c) {
  CAPTURE(c);
  if (c.down.windows(c.ceil_mode) < 1 || c.across.windows(c.ceil_mode) < 1) return;
  const Tensor image = Tensor::randn({1, 1, c.down.size, c.across.size}, 5);
  const Pooled y = pool(c, floats(image));
  const Shape shape{1, 1, c.down.windows(c.ceil_mode), c.across.windows(c.ceil_mode)};
  Attributes attributes{
      attribute("kernel_shape", Integers{c.down.kernel, c.across.kernel}),
      attribute("strides", Integers{c.down.stride, c.across.stride}),
      attribute("dilations", Integers{c.down.dilation, c.across.dilation}),
      attribute("pads", Integers{c.down.before, c.across.before, c.down.after, c.across.after}),
      attribute("ceil_mode", int64_t{c.ceil_mode})};
  const std::vector<Value> by_rows = run_node("MaxPool", {image}, attributes, 2, c.opset);
  CHECK(by_rows[0].shape() == shape);
  CHECK(floats(by_rows[0]) == y.largest);
  // A dilated window may step over all elements; then no place is right.
  const bool have_places = std::find(y.rows.begin(), y.rows.end(), -1) == y.rows.end();
  if (have_places) CHECK(integers(by_rows[1]) == y.rows);
  Attributes stored = attributes, counted = attributes, powered = attributes;
  stored.push_back(attribute("storage_order", 1));
  if (have_places) CHECK(integers(run_node("MaxPool", {image}, stored, 2, c.opset)[1]) == y.columns);
  counted.push_back(attribute("count_include_pad", int64_t{c.counts_padding}));
  check_close(one("AveragePool", {image}, counted, c.opset), y.mean);
  powered.push_back(attribute("p", c.p));
  check_close(one("LpPool", {image}, powered, c.opset), y.norm);
}

} // namespace

TEST_CASE("pooling is what plain loops give") {
  const unsigned seed = 20;
  std::mt19937 random(seed);
  CAPTURE(seed);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const auto axis = [&] {
    PooledAxis a{draw(1, 9), draw(1, 4), draw(1, 4), draw(1, 3), 0, 0};
    a.before = draw(0, a.kernel - 1);
    a.after = draw(0, a.kernel - 1);
    return a;
  };
  for (int round = 0; round < 40; ++round)
    check({axis(), axis(), draw(0, 2) > 0, draw(0, 1) > 0, draw(1, 3), draw(0, 1) ? 22 : 19});
}

TEST_CASE("a last window that would begin in the padding behind is none") {
  // 1 + 3 + 1 elements by windows of 2, a step of 2 apart: the third begins at the padding.
  const Case c{{3, 2, 2, 1, 1, 1}, {3, 2, 2, 1, 1, 1}, true, true, 2, 22};
  CHECK(c.down.windows(true) == 2);
  check(c);
  check({{4, 3, 3, 1, 0, 2}, {4, 1, 3, 1, 0, 0}, true, true, 1, 19});
  // A kernel beyond the input and its padding still gives one window if it begins inside.
  check({{4, 5, 3, 1, 0, 0}, {2, 3, 2, 1, 0, 0}, true, false, 2, 19});
  mentions(message_of([] {
             one("MaxPool", {Tensor::zeros({1, 1, 4}, DType::F32)},
                 {attribute("kernel_shape", Integers{4}), attribute("dilations", Integers{2}),
                  attribute("strides", Integers{3}), attribute("ceil_mode", 1)});
           }),
           "a window of 7 in 4 padded elements");
}

TEST_CASE("padding that the op chooses is more in front or behind") {
  const Tensor x = Tensor::from(Floats{1, 2, 3, 4, 5}, {1, 1, 5});
  const auto pooled = [&](const char* op, const char* padding, int64_t kernel, int64_t stride) {
    return floats(one(op, {x},
                      {attribute("kernel_shape", Integers{kernel}), attribute("strides", Integers{stride}),
                       attribute("auto_pad", padding), attribute("ceil_mode", 1)},
                      22));
  };
  CHECK(pooled("MaxPool", "SAME_UPPER", 2, 1) == Floats{2, 3, 4, 5, 5});
  CHECK(pooled("MaxPool", "SAME_LOWER", 2, 1) == Floats{1, 2, 3, 4, 5});
  CHECK(pooled("AveragePool", "SAME_UPPER", 4, 2) == Floats{2, 3.5f, 4.5f});
  CHECK(pooled("AveragePool", "SAME_LOWER", 4, 2) == Floats{1.5f, 2.5f, 4});
  CHECK(pooled("LpPool", "SAME_LOWER", 2, 2) == Floats{1, std::sqrt(13.f), std::sqrt(41.f)});
}

TEST_CASE("padding is never where the largest lies") {
  const Attributes attributes{attribute("kernel_shape", Integers{2}), attribute("pads", Integers{1, 1})};
  const auto places = [&](const Tensor& x) {
    return integers(run_node("MaxPool", {x}, attributes, 2, 12)[1]);
  };
  const Integers expected{0, 0, 1, 2};
  const Shape shape{1, 1, 3};
  CHECK(places(Tensor::zeros(shape, DType::U8)) == expected);
  CHECK(places(Tensor::full(shape, Scalar::of_int(DType::I8, -128))) == expected);
  CHECK(places(Tensor::full(shape, -std::numeric_limits<float>::infinity())) == expected);
  CHECK(places(Tensor::full(shape, 3.f)) == expected);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(places(Tensor::from(Floats{1, nan, 3}, shape)) == Integers{0, 1, 1, 2});
}
