// Cumulative products and extremes, differences, quantiles, counting and searching against plain loops and
// the standard library, at sizes around the scans' blocks, with ties, NaN, infinities and values on edges.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "support/errors.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::I16, DType::I32,  DType::I64, DType::U8, DType::U16,
                          DType::U32,  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};

template <class T> bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

/// What `next` makes of the values so far and each element, along the axis of [outer, size, inner].
template <class T>
std::vector<T> scanned(std::vector<T> x, size_t size, size_t inner, const std::function<T(T, T)>& next) {
  for (size_t i = 0; i < x.size(); ++i)
    if (i / inner % size != 0) x[i] = next(x[i - inner], x[i]);
  return x;
}

/// How many elements differ; a NaN equals a NaN.
template <class T> int64_t differing(const std::vector<T>& got, const std::vector<T>& want) {
  REQUIRE(got.size() == want.size());
  int64_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>)
      wrong += !same(got[i], want[i], 0);
    else
      wrong += got[i] != want[i];
  }
  return wrong;
}

/// The larger and the smaller of two; NaN if either is.
template <class T> T greater_of(T a, T b) { return is_nan(a) || b < a ? a : b; }
template <class T> T lesser_of(T a, T b) { return is_nan(a) || a < b ? a : b; }

/// Of [2, size] along axis 1 and of [size, 2] along axis 0.
template <class T> void check_extremes(const std::vector<T>& in) {
  const auto size = in.size() / 2;
  const Tensor rows = Tensor::from(in, {2, Expr(size)}), columns = Tensor::from(in, {Expr(size), 2});
  CAPTURE(size);
  CAPTURE(to_string(rows.dtype()));
  const auto greatest = scanned<T>(in, size, 1, greater_of<T>), least = scanned<T>(in, size, 1, lesser_of<T>);
  CHECK(differing(rows.cummax(1).template to_vector<T>(), greatest) == 0);
  CHECK(differing(rows.cummin(-1).template to_vector<T>(), least) == 0);
  const auto down = scanned<T>(in, size, 2, greater_of<T>), low_down = scanned<T>(in, size, 2, lesser_of<T>);
  CHECK(differing(columns.cummax(0).template to_vector<T>(), down) == 0);
  CHECK(differing(columns.cummin(-2).template to_vector<T>(), low_down) == 0);
}

/// Numbers that fall and rise, so that maxima and minima change to the end; of integers, with the dtype's
/// limits.
template <class T> std::vector<T> swings(size_t count) {
  std::vector<T> x = noise<T>(count, static_cast<uint32_t>(count));
  if constexpr (std::is_integral_v<T>) {
    x[count / 2] = std::numeric_limits<T>::lowest();
    x[count - 1] = std::numeric_limits<T>::max();
  } else {
    for (size_t i = 0; i < count; ++i) x[i] *= static_cast<T>(i + 1) / static_cast<T>(count);
  }
  return x;
}

} // namespace

TEST_CASE("cummax and cummin") {
  for (const size_t size : {1, 2, 15, 16, 17, 255, 257, 4096, 4097}) check_extremes(swings<float>(2 * size));
  for (const size_t size : {3, 31}) {
    check_extremes(swings<int32_t>(2 * size));
    check_extremes(swings<double>(2 * size));
    check_extremes(swings<int8_t>(2 * size));
    check_extremes(swings<int16_t>(2 * size));
    check_extremes(swings<int64_t>(2 * size));
    check_extremes(swings<uint8_t>(2 * size));
    check_extremes(swings<uint16_t>(2 * size));
    check_extremes(swings<uint32_t>(2 * size));
    check_extremes(swings<uint64_t>(2 * size));
  }
  // The lowest values of all are no padding, and the limits of integers have no negatives.
  check_extremes(std::vector<float>(40, -kInf));
  check_extremes(std::vector<float>(40, kInf));
  check_extremes(std::vector<int64_t>(40, INT64_MIN));
  check_extremes(std::vector<uint64_t>(40, UINT64_MAX));
  CHECK(random<uint8_t>({3, 20}, 1).cummax(1).dtype() == DType::U8);
  CHECK(random<int8_t>({3, 20}, 1).cummin(1).dtype() == DType::I8);
}

TEST_CASE("cummax and cummin: NaN stays from the first one on") {
  for (const size_t at : {0, 1, 14, 15, 16, 17, 33, 299}) {
    std::vector<float> x = noise<float>(600, 7);
    x[at] = kNan;
    x[300 + at] = -kNan;
    check_extremes(x);
  }
}

TEST_CASE("cummax and cummin of bool and half precision") {
  for (const size_t size : {5, 16, 40}) {
    std::vector<bool> flags(size), any(size), all(size);
    for (size_t i = 0; i < size; ++i) flags[i] = i >= size / 2;
    for (size_t i = 0; i < size; ++i)
      any[i] = flags[i] || (i > 0 && any[i - 1]), all[i] = i > 0 ? false : flags[0];
    const Tensor x = Tensor::from(flags), inverse = x.logical_not();
    CHECK(as_doubles(x.cummax(0)) == std::vector<double>(any.begin(), any.end()));
    CHECK(as_doubles(x.cummin(0)) == std::vector<double>(all.begin(), all.end()));
    any.flip();
    CHECK(as_doubles(inverse.cummin(0)) == std::vector<double>(any.begin(), any.end()));
    CHECK(x.cummin(0).dtype() == DType::Bool);
  }
  for (const DType d : {DType::F16, DType::BF16}) {
    const Tensor x = random({2, 300}, 3).cast(d);
    CHECK(x.cummax(1).dtype() == d);
    CHECK(differing(as_doubles(x.cummax(1)), scanned<double>(as_doubles(x), 300, 1, greater_of<double>)) ==
          0);
    CHECK(differing(as_doubles(x.cummin(1)), scanned<double>(as_doubles(x), 300, 1, lesser_of<double>)) == 0);
  }
}

TEST_CASE("cumprod") {
  const std::function<uint64_t(uint64_t, uint64_t)> times = std::multiplies<uint64_t>();
  for (const size_t size : {1, 2, 15, 16, 17, 255, 257, 4097}) {
    CAPTURE(size);
    // Odd numbers, whose product never becomes 0. Integers wrap.
    std::vector<int32_t> odd = noise<int32_t>(2 * size, 5);
    std::vector<uint64_t> wide;
    for (int32_t& v : odd) wide.push_back(static_cast<uint64_t>(int64_t{v |= 1}));
    for (const bool rows : {true, false}) {
      const Tensor x = Tensor::from(odd, rows ? Shape{2, Expr(size)} : Shape{Expr(size), 2});
      const Tensor y = x.cumprod(rows ? 1 : 0);
      REQUIRE(y.dtype() == DType::I64);
      CHECK(differing(y.cast(DType::U64).to_vector<uint64_t>(), scanned(wide, size, rows ? 1 : 2, times)) ==
            0);
    }
    std::vector<double> near(2 * size);
    for (size_t i = 0; i < near.size(); ++i) near[i] = 1 + 0.1 * noise<double>(near.size(), 6)[i % 7];
    check_close(Tensor::from(near, {2, Expr(size)}).cumprod(1).to_vector<double>(),
                scanned<double>(near, size, 1, std::multiplies<double>()), 1e-12);
  }
  CHECK(Tensor::from({true, true, false, true}).cumprod(0).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 1, 0, 0});
  CHECK(random<uint8_t>({2}, 1).cumprod(0).dtype() == DType::U64);
  const auto zeros = Tensor::from({2.f, -0.5f, 0.f, 3.f, kNan, 0.f, kInf}).cumprod(0).to_vector<float>();
  check_close(zeros, std::vector<float>{2, -1, 0, 0, kNan, kNan, kNan}, 0);
  // Half precision is rounded once: 1 + 2^-11 is no f16, but its square is the same in f32 until the end.
  const Tensor half = Tensor::full({40}, 1.0f + 0x1p-10f).cast(DType::F16);
  std::vector<double> powers;
  float power = 1;
  for (int i = 0; i < 40; ++i) powers.push_back(f16_to_f32(f32_to_f16(power *= 1.0f + 0x1p-10f)));
  CHECK(half.cumprod(0).dtype() == DType::F16);
  check_close(as_doubles(half.cumprod(0)), powers, 0x1p-20);
}

namespace {

template <class T> void check_diff() {
  const std::vector<T> in = noise<T>(5 * 4 * 3, 8);
  const Tensor x = Tensor::from(in, {5, 4, 3});
  const size_t sizes[] = {5, 4, 3};
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<T> want = in;
    size_t size = sizes[axis], inner = axis == 0 ? 12 : axis == 1 ? 3 : 1;
    for (int64_t n = 0; n < static_cast<int64_t>(sizes[axis]); ++n) {
      const Tensor y = diff(x, n, axis - (n % 2) * 3);
      CHECK(y.dtype() == x.dtype());
      CHECK(y.size(axis) == Expr(size));
      CHECK(differing(y.template to_vector<T>(), want) == 0);
      std::vector<T> next;
      for (size_t i = 0; i < want.size(); ++i)
        if (i / inner % size + 1 < size) next.push_back(static_cast<T>(want[i + inner] - want[i]));
      want = next;
      --size;
    }
  }
}

} // namespace

TEST_CASE("diff") {
  check_diff<float>();
  check_diff<double>();
  check_diff<int32_t>();
  check_diff<uint8_t>(); // wraps
  CHECK(as_doubles(diff(Tensor::from({true, true, false, true}))) == std::vector<double>{0, 1, 1});
  CHECK(as_doubles(diff(Tensor::from({true, true, false, true}), 2)) == std::vector<double>{1, 0});
  CHECK(diff(Tensor::from({true, true, false})).dtype() == DType::Bool);
  check_close(diff(Tensor::from({1.f, kInf, kInf, kNan, 2.f})).to_vector<float>(),
              std::vector<float>{kInf, kNan, kNan, kNan}, 0);
  const Var n("n", 2, 9);
  CHECK(diff(Tensor::input("x", {n, 3}), 1, 0).shape() == Shape{n - 1, 3});
}

namespace {

/// NumPy's linear quantile of numbers, in f64.
double quantile_of(std::vector<double> row, double q) {
  for (const double v : row)
    if (std::isnan(v)) return v;
  std::sort(row.begin(), row.end());
  const double place = q * static_cast<double>(row.size() - 1), t = place - std::floor(place);
  const double a = row[static_cast<size_t>(place)];
  if (t == 0) return a;
  const double b = row[static_cast<size_t>(place) + 1];
  return std::isfinite(b - a) ? a + (b - a) * t : a * (1 - t) + b * t;
}

const std::vector<double> kQuantiles{0, 1, 0.5, 1.0 / 3, 0.9, 0x1p-40};

} // namespace

TEST_CASE("quantile and median over every axis and over all") {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 5}, Shape{7, 1, 4}}) {
    for (const DType d : kAll) {
      if (d != DType::F32 && shape[0] != Expr(7)) continue;
      CAPTURE(to_string(d));
      const Tensor x = (random(shape, 3) * 4).cast(DType::I32).cast(d); // with ties
      const auto in = as_doubles(x);
      const DType result = is_float(d) ? d : DType::F64;
      const double tolerance = result == DType::F64 ? 1e-15
                               : d == DType::F32    ? 1e-6
                               : d == DType::F16    ? 1e-3
                                                    : 8e-3;
      for (const double q : d == DType::F32 ? kQuantiles : std::vector<double>{1.0 / 3}) {
        const Tensor all = quantile(x, q);
        REQUIRE(all.rank() == 0);
        CHECK(all.dtype() == result);
        CHECK(same(as_doubles(all)[0], quantile_of(in, q), tolerance));
        CHECK(quantile(x, q, {}, true).shape() == Shape{1, 1, 1});
      }
      const auto sizes = static_sizes(shape);
      for (int axis = 0; axis < 3; ++axis) {
        const size_t inner = axis == 2 ? 1 : axis == 1 ? sizes[2] : sizes[1] * sizes[2];
        std::map<size_t, std::vector<double>> rows; // by the place in the result
        for (size_t i = 0; i < in.size(); ++i)
          rows[i / (inner * sizes[axis]) * inner + i % inner].push_back(in[i]);
        std::vector<double> middle;
        for (const auto& [place, row] : rows) middle.push_back(quantile_of(row, 0.5));
        Shape kept = shape;
        kept[axis] = 1;
        const Tensor m = median(x, axis, true);
        CHECK(m.shape() == kept);
        check_close(as_doubles(m), middle, tolerance);
        check_close(as_doubles(median(x, axis - 3)), middle, tolerance);
        CHECK(median(x, axis).rank() == 2);
      }
    }
  }
}

TEST_CASE("quantile of long rows, of one value, of a scalar") {
  for (const int64_t size : {15, 16, 17, 257}) {
    const Tensor x = random<double>({size}, 5);
    for (const double q : kQuantiles)
      check_close(as_doubles(quantile(x, q)), std::vector<double>{quantile_of(as_doubles(x), q)}, 1e-15);
    CHECK(quantile(x, 0).item<double>() == x.min().item<double>());
    CHECK(quantile(x, 1).item<double>() == x.max().item<double>());
  }
  CHECK(median(Tensor::scalar(3.5f)).item<float>() == 3.5f);
  CHECK(quantile(Tensor::scalar(int32_t{7}), 0.3).item<double>() == 7);
  // Between equal values is that value, to the bit.
  for (const double q : kQuantiles) CHECK(quantile(Tensor::full({4}, 0.1f), q).item<float>() == 0.1f);
  // From the nearer end: from the other one the 1 would be lost.
  CHECK(same(quantile(Tensor::from({-1e16, 1.0}), 1 - 0x1p-53).item<double>(), 1 - 1e16 * 0x1p-53, 1e-12));
  // In order, whatever q is.
  double last = -kInf;
  const Tensor x = Tensor::from({0.1, 0.3, 0.7, 1e9});
  for (int k = 0; k <= 8; ++k) {
    const double at = quantile(x, k / 8.0).item<double>();
    CHECK(at >= last);
    last = at;
  }
}

TEST_CASE("quantile with NaN and infinities") {
  const Tensor x = Tensor::from(std::vector<float>{1,     kNan, 3,     4, kInf, 1,    kInf, 3, -kInf, -kInf,
                                                   -kInf, 2,    -kInf, 5, kInf, kInf, 5,    6, 7,     -kNan},
                                {5, 4});
  check_close(median(x, 1).to_vector<float>(), std::vector<float>{kNan, kInf, -kInf, kInf, kNan}, 0);
  check_close(quantile(x, 0.25, 1).to_vector<float>(), std::vector<float>{kNan, 2.5f, -kInf, -kInf, kNan}, 0);
  check_close(quantile(x, 0, 1).to_vector<float>(), std::vector<float>{kNan, 1, -kInf, -kInf, kNan}, 0);
  check_close(quantile(x, 1, 1).to_vector<float>(), std::vector<float>{kNan, kInf, 2, kInf, kNan}, 0);
  CHECK(std::isnan(median(x).item<float>()));
  const double most = std::numeric_limits<double>::max();
  CHECK(median(Tensor::from({-most, most})).item<double>() == 0); // the difference overflows
  CHECK(quantile(Tensor::from({INT64_MAX, INT64_MIN}), 1).item<double>() == 0x1p63);
}

namespace {

/// Each bin by its edges, one after the other.
std::vector<int64_t> histogram_of(const std::vector<double>& x, int64_t bins, double low, double high,
                                  DType dtype) {
  std::vector<double> edges;
  for (int64_t i = 0; i < bins; ++i)
    edges.push_back(low + static_cast<double>(i) * ((high - low) / static_cast<double>(bins)));
  edges.push_back(high);
  for (double& e : edges) e = Scalar::of_float(dtype, e).as_float();
  std::vector<int64_t> counts(static_cast<size_t>(bins));
  for (const double v : x)
    for (size_t i = 0; i < counts.size(); ++i) {
      const bool closed = i + 1 == counts.size() && v == edges[i + 1];
      counts[i] += v >= edges[i] && (v < edges[i + 1] || closed);
    }
  return counts;
}

} // namespace

TEST_CASE("histogram") {
  struct Range {
    double low, high;
  };
  for (const DType d : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U8, DType::I64}) {
    const DType of_edges = is_float(d) ? d : DType::F64;
    for (const Range r : {Range{-1, 1}, Range{0.1, 1.7}, Range{-100, 50}})
      for (const int64_t bins : {1, 3, 10, 37}) {
        CAPTURE(to_string(d));
        CAPTURE(bins);
        CAPTURE(r.low);
        std::vector<double> values = noise<double>(60, static_cast<uint32_t>(bins));
        for (double& v : values) v = r.low + (v + 1) * 0.6 * (r.high - r.low); // some outside
        for (int64_t i = 0; i <= bins; ++i) {                                  // on edges, and next to them
          const double edge = r.low + static_cast<double>(i) * ((r.high - r.low) / static_cast<double>(bins));
          for (const double v : {edge, std::nextafter(edge, -kInf), std::nextafter(edge, kInf)})
            values.push_back(v);
          values.push_back(std::nextafterf(static_cast<float>(edge), -kInf));
        }
        values.insert(values.end(), {r.low, r.high, 0.0, -0.0});
        if (is_float(d)) values.insert(values.end(), {kNan, kInf, -kInf});
        const Tensor x = Tensor::from(values, {1, Expr(values.size())}).cast(d),
                     counts = histogram(x, bins, r.low, r.high);
        CHECK(counts.shape() == Shape{bins});
        CHECK(counts.to_vector<int64_t>() == histogram_of(as_doubles(x), bins, r.low, r.high, of_edges));
      }
  }
  // Edges as a user writes them.
  const Tensor tenths = Tensor::from({0.f, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f, 0.9f, 1.f});
  CHECK(histogram(tenths, 10, 0, 1).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 2});
  CHECK(histogram(Tensor::scalar(2.0), 2, 0, 4).to_vector<int64_t>() == std::vector<int64_t>{0, 1});
  CHECK(histogram(Tensor::from({true, false, true}), 2, 0, 1).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 2});
  CHECK(histogram(Tensor::from({UINT64_MAX, uint64_t{5}}), 2, 0, 10).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1});
}

TEST_CASE("bincount") {
  const std::vector<int32_t> in{3, 0, -1, 3, 7, 8, 9, INT32_MIN, INT32_MAX, 3, -8, 0};
  const Tensor x = Tensor::from(in, {3, 4});
  const std::vector<int64_t> counts{2, 0, 0, 3, 0, 0, 0, 1};
  CHECK(bincount(x, 8).dtype() == DType::I64);
  CHECK(bincount(x, 8).to_vector<int64_t>() == counts);
  CHECK(bincount(x, 1).to_vector<int64_t>() == std::vector<int64_t>{2});
  for (const DType d : kAll) {
    if (d == DType::Bool) continue;
    CAPTURE(to_string(d));
    const Tensor weights = Tensor::arange(12).reshape({3, 4}).cast(d);
    CHECK(bincount(x, 8, weights).dtype() == d);
    CHECK(as_doubles(bincount(x, 8, weights)) == std::vector<double>{1 + 11, 0, 0, 0 + 3 + 9, 0, 0, 0, 4});
  }
  for (const DType d : kAll) {
    if (is_float(d)) continue;
    CAPTURE(to_string(d));
    const Tensor small = Tensor::from({0, 1, 1, 0, 1}).cast(d);
    CHECK(bincount(small, 300).to_vector<int64_t>()[1] == 3);
    CHECK(bincount(small, 300).sum().item<int64_t>() == 5);
  }
  CHECK(bincount(Tensor::from({UINT64_MAX, uint64_t{1} << 63, uint64_t{1}}), 3).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1, 0});
  CHECK(bincount(Tensor::scalar(int32_t{1}), 2).to_vector<int64_t>() == std::vector<int64_t>{0, 1});
  // Many of one value, added up in f32 for half precision.
  CHECK(as_doubles(bincount(Tensor::zeros({3000}, DType::I32), 2, Tensor::ones({3000}, DType::F16))) ==
        std::vector<double>{3000, 0});
}

namespace {

template <class T> void check_search(std::vector<T> row, const std::vector<T>& values) {
  const auto before = [](T a, T b) { return a < b || (is_nan(b) && !is_nan(a)); };
  std::sort(row.begin(), row.end(), before);
  CAPTURE(row.size());
  std::vector<int64_t> left, right;
  for (const T v : values) {
    left.push_back(std::lower_bound(row.begin(), row.end(), v, before) - row.begin());
    right.push_back(std::upper_bound(row.begin(), row.end(), v, before) - row.begin());
  }
  const Tensor ascending = Tensor::from(row), x = Tensor::from(values);
  CHECK(searchsorted(ascending, x).template to_vector<int64_t>() == left);
  CHECK(searchsorted(ascending, x, true).template to_vector<int64_t>() == right);
}

} // namespace

TEST_CASE("searchsorted") {
  for (size_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 100, 257}) {
    std::vector<int64_t> whole = noise<int64_t>(n, static_cast<uint32_t>(n)), sought{INT64_MIN, INT64_MAX};
    for (int64_t v = -101; v < 101; ++v) sought.push_back(v);
    check_search(whole, sought);
    std::vector<float> row(whole.begin(), whole.end()), values(sought.begin(), sought.end());
    values.insert(values.end(), {kNan, -kNan, kInf, -kInf, 0.5f});
    check_search(row, values);
    for (size_t special = 0; special < std::min<size_t>(n, 4); ++special) {
      row[special] = std::vector<float>{kNan, kInf, -kInf, kNan}[special];
      check_search(row, values);
    }
    check_search(std::vector<float>(n, 2.0f), values); // all equal
    check_search(std::vector<float>(n, kNan), values);
  }
  // Shapes are those of the values, dtypes promoted.
  const Tensor row = Tensor::from({int32_t{1}, int32_t{2}, int32_t{2}, int32_t{4}});
  const Tensor found = searchsorted(row, Tensor::from({{1.5f, 2.f}, {0.f, 9.f}}));
  CHECK(found.shape() == Shape{2, 2});
  CHECK(found.dtype() == DType::I64);
  CHECK(found.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 0, 4});
  CHECK(searchsorted(row, Tensor::scalar(int32_t{2}), true).item<int64_t>() == 3);
  for (const DType d : kAll) {
    CAPTURE(to_string(d));
    CHECK(searchsorted(Tensor::from({0, 0, 1}).cast(d), Tensor::from({0, 1}).cast(d)).to_vector<int64_t>() ==
          std::vector<int64_t>{0, 2});
  }
}

TEST_CASE("nonzero") {
  for (const DType d : kAll) {
    CAPTURE(to_string(d));
    const Tensor x = random<int32_t>({3, 2, 5}, 4).cast(DType::Bool).logical_not().logical_not() &
                     (random({3, 2, 5}, 5) > 0);
    const Tensor y = x.cast(d), places = nonzero(y);
    const auto flat = x.to_vector<uint8_t>();
    std::vector<int64_t> want;
    for (int64_t i = 0; i < 30; ++i)
      if (flat[static_cast<size_t>(i)]) want.insert(want.end(), {i / 10, i / 5 % 2, i % 5});
    REQUIRE(!want.empty());
    CHECK(places.shape() == Shape{Expr(want.size() / 3), 3});
    CHECK(places.to_vector<int64_t>() == want);
  }
  CHECK(nonzero(Tensor::from({0.f, -0.f, kNan, 1e-45f, -kInf})).to_vector<int64_t>() ==
        std::vector<int64_t>{2, 3, 4});
  const Tensor half = Tensor::from({0.f, -0.f, 0x1p-24f, -1.f}).cast(DType::F16);
  CHECK(nonzero(half).to_vector<int64_t>() == std::vector<int64_t>{2, 3});
  CHECK(nonzero(Tensor::from({int64_t{1} << 40, int64_t{0}})).shape() == Shape{1, 1});
}

TEST_CASE("unique") {
  for (const DType d : kAll) {
    CAPTURE(to_string(d));
    const Tensor x = (random({7, 9}, 6) * 3).cast(DType::I32).abs().cast(d) * Tensor::ones({}, d);
    std::map<double, int64_t> want;
    for (const double v : as_doubles(x)) ++want[v];
    const auto [values, counts] = unique(x);
    CHECK(values.dtype() == d);
    CHECK(counts.dtype() == DType::I64);
    std::vector<double> keys;
    std::vector<int64_t> times;
    for (const auto& [v, count] : want) keys.push_back(v), times.push_back(count);
    CHECK(as_doubles(values) == keys);
    CHECK(counts.to_vector<int64_t>() == times);
    CHECK(values.shape() == Shape{Expr(keys.size())});
  }
  for (const DType d : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    CAPTURE(to_string(d));
    const Tensor x = Tensor::from({kNan, 2.f, kInf, -0.f, -kNan, 0.f, -kInf, 2.f, -1.f, kNan, 0.5f}).cast(d);
    const auto [values, counts] = unique(x);
    check_close(as_doubles(values), std::vector<double>{-kInf, -1, 0, 0.5, 2, kInf, kNan}, 0);
    CHECK(counts.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 2, 1, 2, 1, 3});
  }
  const int64_t large = int64_t{1} << 53; // no f64 tells it from the next one
  CHECK(unique(Tensor::from({large + 1, large, INT64_MIN, large})).first.to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MIN, large, large + 1});
  CHECK(unique(Tensor::from({UINT64_MAX, uint64_t{1}})).first.to_vector<uint64_t>() ==
        std::vector<uint64_t>{1, UINT64_MAX});
  check_close(unique(Tensor::from({kNan, kNan})).first.to_vector<float>(), std::vector<float>{kNan}, 0);
  CHECK(unique(Tensor::scalar(4.f)).second.to_vector<int64_t>() == std::vector<int64_t>{1});
}

TEST_CASE("errors of bad arguments") {
  const Tensor x = random({3, 4}, 1), scalar = Tensor::scalar(1.f), whole = random<int32_t>({3, 4}, 1);
  const Tensor open = Tensor::input("open", {Var("n", 1, 9)}), named = Tensor::input("named", {4});
  const Tensor huge = Tensor::input("huge", {int64_t{1} << 40}, DType::U8);
  check_error(ErrorKind::Axis, "cumprod", [&] { return x.cumprod(2); });
  check_error(ErrorKind::Axis, "cummax", [&] { return scalar.cummax(0); });
  check_error(ErrorKind::Axis, "cummin", [&] { return x.cummin(-3); });
  check_error(ErrorKind::Axis, "diff", [&] { return diff(x, 1, 2); });
  check_error(ErrorKind::Axis, "diff", [&] { return diff(scalar); });
  check_error(ErrorKind::Value, "diff", [&] { return diff(x, -1); });
  check_error(ErrorKind::Value, "diff", [&] { return diff(open, 2); });
  for (const double q : {-0.1, 1.1, std::nan("")})
    check_error(ErrorKind::Value, "quantile", [&] { return quantile(x, q); });
  check_error(ErrorKind::Axis, "quantile", [&] { return quantile(x, 0.5, 2); });
  check_error(ErrorKind::Axis, "median", [&] { return median(scalar, 0); });
  check_error(ErrorKind::Shape, "median", [&] { return median(open); });
  check_error(ErrorKind::Limit, "median", [&] { return median(huge); });
  check_error(ErrorKind::Value, "histogram", [&] { return histogram(x, 0, 0, 1); });
  check_error(ErrorKind::Value, "histogram", [&] { return histogram(x, 5, 1, 1); });
  check_error(ErrorKind::Value, "histogram", [&] { return histogram(x, 5, 0, std::nan("")); });
  check_error(ErrorKind::Value, "histogram", [&] { return histogram(x, 5, 0, kInf); });
  check_error(ErrorKind::Value, "histogram", [&] { return histogram(x, 5, 0, 1e300); }); // infinite in f32
  check_error(ErrorKind::Value, "histogram", [&] { return histogram(whole, 5, -1.7e308, 1.7e308); });
  check_error(ErrorKind::Limit, "histogram", [&] { return histogram(x, INT64_MAX, 0, 1); });
  check_error(ErrorKind::DType, "bincount", [&] { return bincount(x, 4); });
  check_error(ErrorKind::Value, "bincount", [&] { return bincount(whole, -1); });
  check_error(ErrorKind::Limit, "bincount", [&] { return bincount(whole, INT64_MAX); });
  check_error(ErrorKind::Shape, "bincount", [&] { return bincount(whole, 4, scalar); });
  check_error(ErrorKind::DType, "bincount", [&] { return bincount(whole, 4, x > 0); });
  check_error(ErrorKind::Shape, "searchsorted", [&] { return searchsorted(x, x); });
  check_error(ErrorKind::Shape, "searchsorted", [&] { return searchsorted(open, x); });
  check_error(ErrorKind::Shape, "nonzero", [&] { return nonzero(scalar); });
  check_error(ErrorKind::Name, "nonzero", [&] { return nonzero(named + 1); });
  check_error(ErrorKind::Name, "unique", [&] { return unique(named); });
  check_error(ErrorKind::Shape, "unique", [&] { return unique(open); });
}
