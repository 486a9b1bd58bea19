// Cumulative products and extremes and differences against plain loops, at sizes around the scans' blocks,
// with NaN and infinities.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support/errors.hpp"
#include "support/tensor_values.hpp"
#include "support/wide_dtypes.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

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

TEST_CASE("bad calls of cumulative functions and differences") {
  const Tensor x = random({3, 4}, 1), scalar = Tensor::scalar(1.f);
  const Tensor open = Tensor::input("open", {Var("n", 1, 9)});
  check_error(ErrorKind::Axis, "cumprod", [&] { return x.cumprod(2); });
  check_error(ErrorKind::Axis, "cummax", [&] { return scalar.cummax(0); });
  check_error(ErrorKind::Axis, "cummin", [&] { return x.cummin(-3); });
  check_error(ErrorKind::Axis, "diff", [&] { return diff(x, 1, 2); });
  check_error(ErrorKind::Axis, "diff", [&] { return diff(scalar); });
  check_error(ErrorKind::Value, "diff", [&] { return diff(x, -1); });
  check_error(ErrorKind::Value, "diff", [&] { return diff(open, 2); });
}
