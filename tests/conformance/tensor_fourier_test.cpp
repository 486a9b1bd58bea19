// Fourier transforms against their sums in long double: every size up to 40, sizes with one and several
// passes, with a prime as a pass and with one that is too large for a pass.
#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "lathe/fft.hpp"
#include "support/errors.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Numbers = std::vector<double>;
struct Values {
  Numbers real, imaginary;
};

/// The sums along the middle axis of [before, in, after], with n points: those behind `in` are 0.
Values sums_of(const Values& x, int64_t before, int64_t in, int64_t after, int64_t n, int sign,
               double scale) {
  Values y{Numbers(static_cast<size_t>(before * n * after)),
           Numbers(static_cast<size_t>(before * n * after))};
  std::vector<long double> cosines, sines;
  for (int64_t t = 0; t < n; ++t) {
    const long double angle =
        2 * std::numbers::pi_v<long double> * static_cast<long double>(t) / static_cast<long double>(n);
    cosines.push_back(std::cos(angle));
    sines.push_back(sign * std::sin(angle));
  }
  for (int64_t b = 0; b < before; ++b)
    for (int64_t a = 0; a < after; ++a)
      for (int64_t k = 0; k < n; ++k) {
        long double re = 0, im = 0;
        for (int64_t j = 0; j < std::min(in, n); ++j) {
          const auto at = static_cast<size_t>((b * in + j) * after + a),
                     turn = static_cast<size_t>(j * k % n);
          re += x.real[at] * cosines[turn] - x.imaginary[at] * sines[turn];
          im += x.real[at] * sines[turn] + x.imaginary[at] * cosines[turn];
        }
        const auto at = static_cast<size_t>((b * n + k) * after + a);
        y.real[at] = static_cast<double>(re * scale);
        y.imaginary[at] = static_cast<double>(im * scale);
      }
  return y;
}

/// The elements [0, count) of the middle axis of [before, n, after].
Numbers first(const Numbers& x, int64_t before, int64_t n, int64_t after, int64_t count) {
  Numbers out;
  for (int64_t b = 0; b < before; ++b)
    for (int64_t i = 0; i < count * after; ++i) out.push_back(x[static_cast<size_t>(b * n * after + i)]);
  return out;
}

double largest(const Numbers& x) {
  double most = 1e-300;
  for (const double v : x) most = std::max(most, std::fabs(v));
  return most;
}

/// Within a few units of the dtype's last digit of the largest result, for each doubling of n.
void check_near(const Tensor& got, const Numbers& want, int64_t n) {
  const Numbers values = as_doubles(got);
  const double digit = got.dtype() == DType::F64 ? 0x1p-52 : got.dtype() == DType::F32 ? 0x1p-23 : 0x1p-10;
  const double allowed = digit * (2 + std::log2(static_cast<double>(n))) * largest(want);
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i)
    CHECK_MESSAGE(std::fabs(values[i] - want[i]) <= allowed, i, ": ", values[i], " for ", want[i]);
}
void check_near(const Complex& got, const Values& want, int64_t n) {
  // The imaginary parts may all be 0: both parts have the scale of the larger one.
  Numbers both = want.real;
  both.insert(both.end(), want.imaginary.begin(), want.imaginary.end());
  check_near(concat({got.real.reshape({-1}), got.imaginary.reshape({-1})}), both, n);
}

Tensor tensor(const Numbers& values, const Shape& shape, DType dtype) {
  return Tensor::from(values, shape).cast(dtype);
}

/// All four functions on [before, n, after] with n points.
void check_all(int64_t before, int64_t n, int64_t after, DType dtype, uint32_t seed) {
  CAPTURE(n);
  CAPTURE(to_string(dtype));
  const Shape shape{before, n, after};
  const auto count = static_cast<size_t>(before * n * after);
  const Tensor real = tensor(noise<double>(count, seed), shape, dtype),
               imaginary = tensor(noise<double>(count, seed + 1), shape, dtype);
  const Values x{as_doubles(real), as_doubles(imaginary)}, alone{x.real, Numbers(count)};
  const double over = 1 / static_cast<double>(n);
  const FourierOptions middle{.n = {}, .axis = 1};
  check_near(fft(Complex{real, imaginary}, middle), sums_of(x, before, n, after, n, -1, 1), n);
  check_near(ifft(Complex{real, imaginary}, middle), sums_of(x, before, n, after, n, 1, over), n);
  const Values bins = sums_of(alone, before, n, after, n, -1, 1);
  check_near(fft(real, middle), bins, n);
  const int64_t half = n / 2 + 1;
  const Values first_bins{first(bins.real, before, n, after, half),
                          first(bins.imaginary, before, n, after, half)};
  check_near(rfft(real, middle), first_bins, n);
  const Shape half_shape{before, half, after};
  const Complex stored{tensor(first_bins.real, half_shape, dtype),
                       tensor(first_bins.imaginary, half_shape, dtype)};
  // Rounding the bins to the dtype moves the points by as much as the transform itself does.
  check_near(irfft(stored, {.n = n, .axis = 1}), x.real, n);
}

} // namespace

std::vector<int64_t> small_sizes() {
  if (kCompiled) return {1, 2, 5, 16, 33};
  std::vector<int64_t> all(40);
  std::iota(all.begin(), all.end(), 1);
  return all;
}
std::vector<int64_t> large_sizes() {
  if (kCompiled) return {131, 210};
  return {127, 128, 131, 210, 262, 1000, 1024};
}

TEST_CASE("transforms of every small size") {
  for (const int64_t n : small_sizes()) {
    check_all(2, n, 3, DType::F64, static_cast<uint32_t>(n));
    if (n % 3 == 0) check_all(1, n, 1, DType::F32, static_cast<uint32_t>(n));
  }
}

TEST_CASE("transforms of several passes, of a prime as a pass, and of a larger prime") {
  for (const int64_t n : large_sizes()) check_all(1, n, 1, DType::F64, static_cast<uint32_t>(n));
  check_all(2, 139, 1, DType::F32, 1);
}

TEST_CASE("half precision is computed in f32 and integers as floats") {
  check_all(1, 12, 1, DType::F16, 1);
  const Tensor small = Tensor::from(std::vector<int16_t>{1, -2, 3}),
               large = Tensor::from(std::vector<int32_t>{1, -2, 3});
  CHECK(fft(small).real.dtype() == DType::F32);
  CHECK(rfft(large).real.dtype() == DType::F64);
  check_close(as_doubles(rfft(large).real), Numbers{2, 0.5});
  check_close(as_doubles(rfft(large).imaginary), Numbers{0, 2.5 * std::sqrt(3.0)});
  CHECK(irfft({small.cast(DType::F16), small}).dtype() == DType::F32);
}

TEST_CASE("n cuts and fills, along any axis") {
  const Values x{noise<double>(3 * 5 * 2, 1), noise<double>(3 * 5 * 2, 2)};
  const Complex t{Tensor::from(x.real, {3, 5, 2}), Tensor::from(x.imaginary, {3, 5, 2})};
  for (const int64_t n : {1, 4, 5, 9}) {
    const Complex y = fft(t, {.n = n, .axis = -2});
    REQUIRE(y.real.shape() == Shape{3, n, 2});
    check_near(y, sums_of(x, 3, 5, 2, n, -1, 1), n);
  }
  const Complex along_0 = fft(t, {.n = {}, .axis = 0});
  check_near(along_0, sums_of(x, 1, 3, 10, 3, -1, 1), 3);
  // Of 5 bins: 2 * (5 - 1) points, or n, of which n / 2 + 1 bins are read.
  CHECK(irfft(t, {.n = {}, .axis = 1}).shape() == Shape{3, 8, 2});
  for (const int64_t n : {1, 2, 3, 8, 9, 12}) {
    const Tensor points = irfft(t, {.n = n, .axis = 1});
    REQUIRE(points.shape() == Shape{3, n, 2});
    const Complex back = rfft(points, {.n = {}, .axis = 1});
    const int64_t kept = std::min<int64_t>(5, n / 2 + 1);
    Numbers real = as_doubles(t.real.shrink({{0, 3}, {0, kept}, {0, 2}}));
    check_close(as_doubles(back.real.shrink({{0, 3}, {0, kept}, {0, 2}})), real, 1e-12);
  }
}

TEST_CASE("irfft takes the ends as real, also where their imaginary parts are NaN") {
  const Tensor real = Tensor::from({1.0, 2.0, 3.0}),
               imaginary = Tensor::from({double(kNan), 1.0, double(kNan)});
  const Tensor zero = Tensor::from({0.0, 1.0, 0.0});
  CHECK(as_doubles(irfft({real, imaginary})) == as_doubles(irfft({real, zero})));
}

TEST_CASE("norms") {
  const Values x{noise<double>(6, 5), noise<double>(6, 6)};
  const Complex t{Tensor::from(x.real), Tensor::from(x.imaginary)};
  const auto with = [](FourierNorm norm) { return FourierOptions{.n = {}, .axis = -1, .norm = norm}; };
  check_near(fft(t, with(FourierNorm::Ortho)), sums_of(x, 1, 6, 1, 6, -1, 1 / std::sqrt(6.0)), 6);
  check_near(ifft(t, with(FourierNorm::Ortho)), sums_of(x, 1, 6, 1, 6, 1, 1 / std::sqrt(6.0)), 6);
  check_near(fft(t, with(FourierNorm::Forward)), sums_of(x, 1, 6, 1, 6, -1, 1 / 6.0), 6);
  check_near(ifft(t, with(FourierNorm::Forward)), sums_of(x, 1, 6, 1, 6, 1, 1), 6);
  for (const FourierNorm norm : {FourierNorm::Ortho, FourierNorm::Forward})
    for (const int64_t n : {6, 5})
      check_close(as_doubles(irfft(rfft(t.real, {.n = n, .axis = -1, .norm = norm}),
                                   {.n = n, .axis = -1, .norm = norm})),
                  Numbers(x.real.begin(), x.real.begin() + n), 1e-13);
}

TEST_CASE("two axes, empty batches and a symbolic batch") {
  const Values x{noise<double>(12, 3), noise<double>(12, 4)};
  const Complex t{Tensor::from(x.real, {3, 4}), Tensor::from(x.imaginary, {3, 4})};
  const Values wanted = sums_of(sums_of(x, 3, 4, 1, 4, -1, 1), 1, 3, 4, 3, -1, 1);
  check_near(fft2(t), wanted, 12);
  const Complex back = ifft2(fft2(t));
  check_close(as_doubles(back.real), x.real, 1e-14);
  check_close(as_doubles(back.imaginary), x.imaginary, 1e-14);
  CHECK(rfft(Tensor::zeros({0, 8})).real.shape() == Shape{0, 5});
  CHECK(rfft(Tensor::zeros({0, 8})).real.to_vector<float>().empty());
  CHECK(as_doubles(fft(Tensor::zeros({2, 0}), {.n = 3}).real) == Numbers(6, 0.0)); // filled up
  const Var rows("rows", 1, 9);
  CHECK(rfft(Tensor::input("x", {rows, 131})).real.shape() == Shape{rows, 66});
  CHECK(fft(Tensor::input("x", {16, rows}), {.n = {}, .axis = 0}).real.shape() == Shape{16, rows});
}

TEST_CASE("complex numbers") {
  const Complex a{Tensor::from({1.0, 3.0}), Tensor::from({2.0, -4.0})},
      b{Tensor::from({5.0, 0.0}), Tensor::from({-1.0, 1.0})};
  CHECK(as_doubles((a * b).real) == Numbers{7, 4});
  CHECK(as_doubles((a * b).imaginary) == Numbers{9, 3});
  CHECK(as_doubles((a + b).imaginary) == Numbers{1, -3});
  CHECK(as_doubles((a - conj(b)).imaginary) == Numbers{1, -3});
  CHECK(as_doubles((a - b).real) == Numbers{-4, 3});
  check_close(as_doubles(abs(a)), Numbers{std::sqrt(5.0), 5});
  check_close(as_doubles(angle(a)), Numbers{std::atan2(2, 1), std::atan2(-4, 3)});
  CHECK(as_doubles(view_as_real(a)) == Numbers{1, 2, 3, -4});
  CHECK(as_doubles(view_as_complex(view_as_real(a)).imaginary) == Numbers{2, -4});
}

TEST_CASE("a product of bins is a circular convolution") {
  const Numbers x = noise<double>(20, 1), w = noise<double>(3, 2);
  const Tensor y = irfft(rfft(Tensor::from(x)) * rfft(Tensor::from(w), {.n = 20}), {.n = 20});
  Numbers want(20);
  for (size_t i = 0; i < 20; ++i)
    for (size_t j = 0; j < 3; ++j) want[(i + j) % 20] += x[i] * w[j];
  check_close(as_doubles(y), want, 1e-13);
}

TEST_CASE("bad calls of transforms") {
  const Tensor x = Tensor::zeros({3, 4});
  const Var n("n", 1, 9);
  check_error(ErrorKind::Axis, "fft", [&] { (void)fft(x, {.n = {}, .axis = 2}); });
  check_error(ErrorKind::Axis, "rfft", [&] { (void)rfft(Tensor::scalar(1.0)); });
  check_error(ErrorKind::Value, "ifft", [&] { (void)ifft({x, x}, {.n = 0}); });
  check_error(ErrorKind::Value, "rfft", [&] { (void)rfft(Tensor::zeros({3, 0})); });
  check_error(ErrorKind::Value, "irfft", [&] { (void)irfft({Tensor::zeros({1}), Tensor::zeros({1})}); });
  check_error(ErrorKind::Shape, "irfft", [&] { (void)irfft({x, Tensor::zeros({4, 3})}); });
  check_error(ErrorKind::Shape, "fft", [&] { (void)fft(Tensor::input("x", {n})); });
  check_error(ErrorKind::Limit, "fft", [&] { (void)fft(x, {.n = int64_t{1} << 40}); });
  check_error(ErrorKind::Shape, "fft2", [&] { (void)fft2({Tensor::zeros({4}), Tensor::zeros({4})}); });
  check_error(ErrorKind::Shape, "view_as_complex", [&] { (void)view_as_complex(x); });
  check_error(ErrorKind::Shape, "view_as_real", [&] { (void)view_as_real({x, Tensor::zeros({4})}); });
}
