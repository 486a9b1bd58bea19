// Fourier transforms, as numpy.fft has them, and the complex numbers that they make.
//
// A complex tensor is a pair of real ones. Each part is a tensor as any other, contiguous along its axes: every function takes it,
// derivatives pass it, and a loop over it reads whole vectors. A last axis of two parts would put the parts side by side in each
// vector. Formats with such an axis (ONNX's DFT, a NumPy array seen as floats) are view_as_complex() and view_as_real() away.
//
//   Complex bins = rfft(signal);                                // [..., n] -> [..., n / 2 + 1]
//   Tensor power = bins.real.square() + bins.imaginary.square();
//   Tensor smooth = irfft(rfft(x) * rfft(kernel, {.n = n}), {.n = n});   // circular convolution
//
// Both parts of a result share their work if one program computes both: compile({{"re", y.real}, {"im", y.imaginary}}). Realised one
// by one they are computed twice.
#pragma once
#include <optional>

#include "lathe/functions.hpp"
#include "lathe/tensor.hpp"

namespace lathe {

struct Complex {
  Tensor real, imaginary;
};

inline Complex operator+(const Complex& a, const Complex& b) { return {a.real + b.real, a.imaginary + b.imaginary}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {a.real - b.real, a.imaginary - b.imaginary}; }
inline Complex operator*(const Complex& a, const Complex& b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}
inline Complex conj(const Complex& x) { return {x.real, -x.imaginary}; }
/// The length and the angle of each number.
inline Tensor abs(const Complex& x) { return hypot(x.real, x.imaginary); }
inline Tensor angle(const Complex& x) { return atan2(x.imaginary, x.real); }
/// [..., 2] -> [...], and back. torch.view_as_complex, torch.view_as_real. Error(Shape) for another last size than 2.
Complex view_as_complex(const Tensor& parts);
Tensor view_as_real(const Complex& x);

/// What the sums are multiplied by: the inverse's by 1 / n (Backward), both by 1 / sqrt(n), or the forward one's by 1 / n.
enum class FourierNorm { Backward, Ortho, Forward };

struct FourierOptions {
  /// How many points: the axis is cut, or filled with zeros, to so many. Of irfft the points of the result, by default
  /// 2 * (bins - 1). None: the axis as it is.
  std::optional<Whole> n{};
  Axis axis = -1;
  FourierNorm norm = FourierNorm::Backward;
};

/// Along one axis, of static size n: bin k is the sum of x[j] e^(-2 pi i j k / n) over j; ifft's with +2 pi i, over n. numpy.fft.fft,
/// ifft. The work is n log n for every n: passes of at most 16 points, of a prime up to 127 points, and by Bluestein's convolution
/// where n has a larger prime factor. Errors grow with log n: docs/numbers.md.
///
/// Integers give f32 (up to 16 bits) or f64; half precision is computed in f32. Error(Shape) for parts of different shapes, without
/// an axis, or for an axis of symbolic size; Error(Value) for n < 1; Error(Limit) for n > 2^26; Error(Axis).
Complex fft(const Complex& x, const FourierOptions& options = {});
Complex fft(const Tensor& x, const FourierOptions& options = {});
Complex ifft(const Complex& x, const FourierOptions& options = {});
/// Of real points the first n / 2 + 1 bins, in half of the work; the others are their conjugates. numpy.fft.rfft.
Complex rfft(const Tensor& x, const FourierOptions& options = {});
/// The n real points with these first n / 2 + 1 bins: bins are cut, or filled with zeros, to so many, and the imaginary parts of bin 0
/// and, for even n, of bin n / 2 count as 0. numpy.fft.irfft.
Tensor irfft(const Complex& x, const FourierOptions& options = {});
/// Along the last two axes. numpy.fft.fft2, ifft2.
Complex fft2(const Complex& x, FourierNorm norm = FourierNorm::Backward);
Complex ifft2(const Complex& x, FourierNorm norm = FourierNorm::Backward);

}  // namespace lathe
