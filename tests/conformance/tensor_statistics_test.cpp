// Quantiles, counting and searching against plain loops and the standard library, with ties, NaN, infinities
// and values on edges.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "support/errors.hpp"
#include "support/tensor_values.hpp"
#include "support/wide_dtypes.hpp"

using namespace lathe;
using namespace lathe::test;

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
  // Ranges that arithmetic in f32 does not hold, or whose edges are subnormal numbers or equal ones.
  struct Extreme {
    DType dtype;
    double low, high;
  };
  for (const Extreme& e :
       {Extreme{DType::F32, 0, 1e-39}, Extreme{DType::F32, -3e38, 3e38}, Extreme{DType::F32, 1e6, 1e6 + 1},
        Extreme{DType::F64, 0, 1e-310}, Extreme{DType::F16, 0, 1e-6}, Extreme{DType::BF16, 100, 101}}) {
    CAPTURE(to_string(e.dtype));
    CAPTURE(e.high);
    std::vector<double> values = noise<double>(200, 5);
    for (double& v : values) v = e.low + (v + 1) / 2 * (e.high - e.low);
    const Tensor x = Tensor::from(values).cast(e.dtype);
    CHECK(histogram(x, 10, e.low, e.high).to_vector<int64_t>() ==
          histogram_of(as_doubles(x), 10, e.low, e.high, e.dtype));
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

TEST_CASE("bad calls of quantiles, counts and searches") {
  const Tensor x = random({3, 4}, 1), scalar = Tensor::scalar(1.f), whole = random<int32_t>({3, 4}, 1);
  const Tensor open = Tensor::input("open", {Var("n", 1, 9)}), named = Tensor::input("named", {4});
  const Tensor huge = Tensor::input("huge", {int64_t{1} << 40}, DType::U8);
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
