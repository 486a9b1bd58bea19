// Fourier transforms: passes of few points each, as products with constant matrices (Cooley and Tukey's
// factors, in Stockham's order); Bluestein's convolution for large prime factors.
#include "lathe/fft.hpp"

#include <cmath>
#include <numbers>

#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kPassPoints = 16;    // of a pass, where n has such factors: measured, 8 to 16 are best
constexpr int64_t kLargestPrime = 127; // of a pass of its own; beyond, a convolution takes less time
constexpr int64_t kMostPoints = int64_t{1} << 26; // the tables of waves have a few numbers a point

/// Numbers without an imaginary part are real.
struct Parts {
  Tensor real;
  std::optional<Tensor> imaginary;
};

/// [before, n, after]: the axis of a transform among the sizes around it.
struct Frame {
  Expr before, after;
  Shape shape(std::initializer_list<Expr> between) const {
    Shape all{before};
    all.insert(all.end(), between.begin(), between.end());
    all.push_back(after);
    return all;
  }
};

/// What a transform is: its direction, and the factor of the results.
struct Sums {
  int sign = -1;
  double scale = 1;
};

// ---- constants ----

struct Wave {
  double cosine, sine;
};

/// e^(2 pi i turns / n). Quarters of a turn are taken off as integers: they are exact, and the angle is
/// small.
Wave wave(int64_t turns, int64_t n) {
  const int64_t quarters = 4 * (turns % n) / n;
  const double angle =
      std::numbers::pi / 2 * static_cast<double>(4 * (turns % n) % n) / static_cast<double>(n);
  const double c = std::cos(angle), s = std::sin(angle);
  switch (quarters) {
  case 0: return {c, s};
  case 1: return {-s, c};
  case 2: return {-c, -s};
  default: return {s, -c};
  }
}

Tensor constant(const std::vector<double>& values, const Shape& shape, DType dtype) {
  if (dtype == DType::F64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

/// The waves of `turns(0)`, `turns(1)`, ..., each of n a turn, multiplied by `sums.scale`.
template <class Turns>
Complex waves(const Shape& shape, int64_t n, Sums sums, DType dtype, const Turns& turns) {
  const int64_t count = num_elements(shape).value();
  std::vector<double> cosines, sines;
  for (int64_t i = 0; i < count; ++i) {
    const Wave w = wave(turns(i), n);
    cosines.push_back(w.cosine * sums.scale);
    sines.push_back(sums.sign * w.sine * sums.scale);
  }
  return {constant(cosines, shape, dtype), constant(sines, shape, dtype)};
}

/// The waves of row * column.
Complex wave_products(int64_t rows, int64_t columns, const Shape& shape, int64_t n, Sums sums, DType dtype) {
  return waves(shape, n, sums, dtype, [=](int64_t i) { return i / columns % rows * (i % columns) % n; });
}

/// a times x, where `times` multiplies tensors: elements or matrices.
template <class Times> Complex multiply(const Complex& a, const Parts& x, const Times& times) {
  const Tensor real = times(a.real, x.real), imaginary = times(a.imaginary, x.real);
  if (!x.imaginary) return {real, imaginary};
  return {real - times(a.imaginary, *x.imaginary), imaginary + times(a.real, *x.imaginary)};
}
Complex multiply(const Complex& a, const Parts& x) {
  return multiply(a, x, [](const Tensor& p, const Tensor& q) { return p * q; });
}

template <class Change> Parts map_parts(const Parts& x, const Change& change) {
  return {change(x.real), x.imaginary ? std::optional(change(*x.imaginary)) : std::nullopt};
}
Complex reshape(const Complex& x, const Shape& shape) {
  return {x.real.reshape(shape), x.imaginary.reshape(shape)};
}
Complex complex_part(const Complex& x, int axis, int64_t begin, int64_t end) {
  return {part_of(x.real, axis, begin, end), part_of(x.imaginary, axis, begin, end)};
}

// ---- passes ----

/// The points of the next pass: a divisor of n that leaves passes of about as many points.
int64_t next_radix(int64_t n) {
  const double passes =
      std::ceil(std::log(static_cast<double>(n)) / std::log(static_cast<double>(kPassPoints)) - 1e-9);
  const double even = std::pow(static_cast<double>(n), 1 / passes) - 1e-9;
  int64_t most = 1;
  for (int64_t d = 2; d <= kPassPoints; ++d)
    if (n % d == 0) {
      most = d;
      if (static_cast<double>(d) >= even) break;
    }
  if (most > 1) return most;
  for (int64_t d = kPassPoints + 1; d * d <= n; ++d)
    if (n % d == 0) return d;
  return n;
}

/// n as the points of its passes; the smaller factors first.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> radices;
  for (; n > 1; n /= radices.back()) radices.push_back(next_radix(n));
  return radices;
}

/// Each pass transforms [before, radix, rest, done]: sums over the first of the three for each of the others,
/// and turns by bin * rest. `done` are bins of earlier passes. The new bins go behind `rest` and so in front
/// of them, and after the last pass all bins are in order.
Complex by_passes(Parts x, int64_t n, const Frame& frame, Sums sums) {
  const DType dtype = x.real.dtype();
  int64_t rest = n, done = 1;
  Complex y{x.real, x.real};
  for (const int64_t radix : radices_of(n)) {
    rest /= radix;
    const Expr columns = frame.after * (rest * done);
    const Sums pass{sums.sign, rest == 1 ? sums.scale : 1};
    const Complex matrix = wave_products(radix, radix, {radix, radix}, radix, pass, dtype);
    x = map_parts(x, [&](const Tensor& t) { return t.reshape({frame.before, radix, columns}); });
    y = multiply(matrix, x, [](const Tensor& a, const Tensor& b) { return a.matmul(b); });
    if (rest > 1) {
      y = reshape(y, {frame.before, radix, rest, frame.after * done});
      y = multiply(wave_products(radix, rest, {radix, rest, 1}, radix * rest, {sums.sign}, dtype),
                   {y.real, y.imaginary});
      y = {y.real.transpose(1, 2), y.imaginary.transpose(1, 2)};
    }
    done *= radix;
    x = {y.real, y.imaginary};
  }
  return reshape(y, frame.shape({n}));
}

// ---- Bluestein's convolution ----

/// The smallest multiple of 16 from `least` on without other factors than 2, 3 and 5: its passes are few and
/// even.
int64_t smooth_from(int64_t least) {
  for (int64_t n = (least + 15) / 16 * 16;; n += 16) {
    int64_t rest = n;
    for (const int64_t p : {2, 3, 5})
      while (rest % p == 0) rest /= p;
    if (rest == 1) return n;
  }
}

/// As 2 j k = j^2 + k^2 - (k - j)^2, the sums are a convolution with a chirp, which two transforms of another
/// length compute.
Complex by_convolution(const Parts& x, int64_t n, const Frame& frame, Sums sums) {
  const DType dtype = x.real.dtype();
  const int64_t length = smooth_from(2 * n - 1);
  const auto half_squares = [n](int64_t j) { return j * j % (2 * n); };
  const Complex chirp = waves({n, 1}, 2 * n, {sums.sign}, dtype, half_squares);
  // The filter at k and, from the end, at -k. Its transform is a constant, computed in f64 so that it is
  // right in every digit.
  const Complex filter = waves({1, length, 1}, 2 * n, {-sums.sign}, DType::F64, [&](int64_t j) {
    return j < n ? half_squares(j) : length - j < n ? half_squares(length - j) : 0;
  });
  const Complex bins = by_passes({filter.real, filter.imaginary}, length, {1, 1}, {-1});
  Complex y = multiply(chirp, x);
  const auto fill = [&](const Tensor& t) { return pad_zero(t, {0, 0, 0}, {0, length - n, 0}); };
  y = by_passes({fill(y.real), fill(y.imaginary)}, length, frame, {-1});
  y = multiply({bins.real.cast(dtype), bins.imaginary.cast(dtype)}, {y.real, y.imaginary});
  y = by_passes({y.real, y.imaginary}, length, frame, {1, 1 / static_cast<double>(length)});
  y = complex_part(y, 1, 0, n);
  return multiply(waves({n, 1}, 2 * n, sums, dtype, half_squares), {y.real, y.imaginary});
}

/// The sums of [before, n, after] over its middle axis.
Complex transform(const Parts& x, int64_t n, const Frame& frame, Sums sums) {
  if (n == 1) return multiply(waves({1, 1}, 1, sums, x.real.dtype(), [](int64_t) { return 0; }), x);
  for (const int64_t radix : radices_of(n))
    if (radix > kLargestPrime) return by_convolution(x, n, frame, sums);
  return by_passes(x, n, frame, sums);
}

// ---- half of the bins ----

/// Points as half as many complex numbers z, whose bins are those of the even points plus i times those of
/// the odd ones.
Complex half_of_even(const Tensor& x, int64_t n, const Frame& frame, Sums sums) {
  const DType dtype = x.dtype();
  const int64_t half = n / 2;
  const Tensor pairs = x.reshape(frame.shape({half, 2}));
  const auto point = [&](int64_t k) { return part_of(pairs, 2, k, k + 1).reshape(frame.shape({half})); };
  const Complex z = transform({point(0), point(1)}, half, frame, {sums.sign, sums.scale / 2});
  // z[k] and z[half - k], for k from 0 to half, where z[half] is z[0].
  const auto whole = [](const Tensor& t) { return concat({t, part_of(t, 1, 0, 1)}, 1); };
  const Tensor a = whole(z.real), b = whole(z.imaginary), c = a.flip(1), d = b.flip(1);
  const Complex odd =
      multiply(waves({half + 1, 1}, n, {sums.sign}, dtype, [](int64_t k) { return k; }), {b + d, c - a});
  return {a + c + odd.real, b - d + odd.imaginary};
}

/// The reverse of it: z[k] of bins k and half - k.
Tensor points_of_even(const Complex& bins, int64_t n, const Frame& frame, Sums sums) {
  const int64_t half = n / 2;
  const Complex mirror{bins.real.flip(1), bins.imaginary.flip(1)};
  const Complex x = complex_part(bins, 1, 0, half), m = complex_part(mirror, 1, 0, half);
  const Parts difference{x.real - m.real, x.imaginary + m.imaginary};
  const Complex odd =
      multiply(waves({half, 1}, n, {sums.sign}, bins.real.dtype(), [](int64_t k) { return k; }), difference);
  const Complex z =
      transform({x.real + m.real - odd.imaginary, x.imaginary - m.imaginary + odd.real}, half, frame, sums);
  return stack({z.real, z.imaginary}, 2).reshape(frame.shape({n}));
}

/// The bins behind the middle are the conjugates of those before, in reverse.
Tensor points_of_odd(const Complex& bins, int64_t n, const Frame& frame, Sums sums) {
  if (n == 1) return transform({bins.real, {}}, n, frame, sums).real;
  const Complex others = complex_part(bins, 1, 1, n / 2 + 1);
  const Tensor real = concat({bins.real, others.real.flip(1)}, 1);
  const Tensor imaginary = concat({bins.imaginary, -others.imaginary.flip(1)}, 1);
  return transform({real, imaginary}, n, frame, sums).real;
}

/// Bin 0, and bin n / 2 of an even n, as real numbers.
Complex with_real_ends(const Complex& bins, int64_t n) {
  std::vector<uint8_t> inside;
  for (int64_t k = 0; k <= n / 2; ++k) inside.push_back(k != 0 && 2 * k != n);
  const Tensor mask = Tensor::from(inside, {n / 2 + 1, 1}).cast(DType::Bool);
  return {bins.real, where(mask, bins.imaginary, Tensor::zeros({}, bins.imaginary.dtype()))};
}

// ---- arguments ----

/// The arguments of a public function, checked: the parts as [before, size, after] of a float dtype that is
/// computed in.
struct Request {
  std::string_view op;
  Shape shape; // of the arguments
  int axis = 0;
  int64_t size = 0, n = 0;
  DType dtype = DType::F32;
  FourierNorm norm = FourierNorm::Backward;
  Frame frame{};

  Sums sums(int sign) const {
    const double points = static_cast<double>(n);
    if (norm == FourierNorm::Ortho) return {sign, 1 / std::sqrt(points)};
    return {sign, (norm == FourierNorm::Backward) == (sign > 0) ? 1 / points : 1};
  }
  /// Cut or filled to `count` along the axis.
  Tensor fit(const Tensor& t, int64_t count) const {
    const Tensor x = t.cast(wide(dtype)).reshape(frame.shape({size}));
    if (count < size) return part_of(x, 1, 0, count);
    return count > size ? pad_zero(x, {0, 0, 0}, {0, count - size, 0}) : x;
  }
  Tensor result(const Tensor& t) const {
    Shape all = shape;
    all[static_cast<size_t>(axis)] = t.shape()[1];
    return t.reshape(all).cast(dtype);
  }
  Complex result(const Complex& x) const { return {result(x.real), result(x.imaginary)}; }
};

Request request(std::string_view op, const Tensor& x, DType dtype, const FourierOptions& options,
                bool from_bins = false) {
  const int axis = resolve_axis(op, options.axis, x.rank());
  const Expr size = x.shape()[static_cast<size_t>(axis)];
  if (!size.is_const())
    fail(ErrorKind::Shape, "{}: axis {} of {}, expected a static size", op, axis, to_string(x.shape()));
  const int64_t points = options.n ? int64_t{*options.n} : from_bins ? 2 * (size.value() - 1) : size.value();
  if (points < 1) fail(ErrorKind::Value, "{}: {} points, expected at least 1", op, points);
  if (points > kMostPoints) fail(ErrorKind::Limit, "{}: {} points, expected at most 2^26", op, points);
  Frame frame{1, 1};
  for (int a = 0; a < x.rank(); ++a) {
    const Expr own = x.shape()[static_cast<size_t>(a)];
    if (a < axis) frame.before = frame.before * own;
    if (a > axis) frame.after = frame.after * own;
  }
  return {op, x.shape(), axis, size.value(), points, float_dtype(dtype), options.norm, frame};
}

DType check_parts(std::string_view op, const Complex& x) {
  if (x.real.shape() != x.imaginary.shape())
    fail(ErrorKind::Shape, "{}: real {}, imaginary {}, expected equal shapes", op, to_string(x.real.shape()),
         to_string(x.imaginary.shape()));
  return promote(x.real.dtype(), x.imaginary.dtype());
}

Complex whole_transform(std::string_view op, const Complex& x, const FourierOptions& options, int sign) {
  const Request r = request(op, x.real, check_parts(op, x), options);
  return r.result(transform({r.fit(x.real, r.n), r.fit(x.imaginary, r.n)}, r.n, r.frame, r.sums(sign)));
}

Complex along_two(std::string_view op, const Complex& x, FourierNorm norm, int sign) {
  if (x.real.rank() < 2)
    fail(ErrorKind::Shape, "{}: shape {}, expected at least two axes", op, to_string(x.real.shape()));
  return whole_transform(op, whole_transform(op, x, {{}, -1, norm}, sign), {{}, -2, norm}, sign);
}

} // namespace

Complex view_as_complex(const Tensor& parts) {
  if (parts.rank() == 0 || !parts.size(-1).is_const(2))
    fail(ErrorKind::Shape, "view_as_complex: shape {}, expected a last axis of 2 parts",
         to_string(parts.shape()));
  return {parts.index({Ellipsis{}, 0}), parts.index({Ellipsis{}, 1})};
}

Tensor view_as_real(const Complex& x) {
  const DType dtype = check_parts("view_as_real", x);
  return stack({x.real.cast(dtype), x.imaginary.cast(dtype)}, -1);
}

Complex fft(const Complex& x, const FourierOptions& options) {
  return whole_transform("fft", x, options, -1);
}

Complex fft(const Tensor& x, const FourierOptions& options) {
  const Request r = request("fft", x, x.dtype(), options);
  return r.result(transform({r.fit(x, r.n), {}}, r.n, r.frame, r.sums(-1)));
}

Complex ifft(const Complex& x, const FourierOptions& options) {
  return whole_transform("ifft", x, options, 1);
}

Complex rfft(const Tensor& x, const FourierOptions& options) {
  const Request r = request("rfft", x, x.dtype(), options);
  const Tensor points = r.fit(x, r.n);
  if (r.n % 2 == 0) return r.result(half_of_even(points, r.n, r.frame, r.sums(-1)));
  return r.result(complex_part(transform({points, {}}, r.n, r.frame, r.sums(-1)), 1, 0, r.n / 2 + 1));
}

Tensor irfft(const Complex& x, const FourierOptions& options) {
  const Request r = request("irfft", x.real, check_parts("irfft", x), options, true);
  const Complex bins = with_real_ends({r.fit(x.real, r.n / 2 + 1), r.fit(x.imaginary, r.n / 2 + 1)}, r.n);
  return r.result(r.n % 2 == 0 ? points_of_even(bins, r.n, r.frame, r.sums(1))
                               : points_of_odd(bins, r.n, r.frame, r.sums(1)));
}

Complex fft2(const Complex& x, FourierNorm norm) { return along_two("fft2", x, norm, -1); }
Complex ifft2(const Complex& x, FourierNorm norm) { return along_two("ifft2", x, norm, 1); }

} // namespace lathe
