// Fourier transforms of signals whose last axis holds the parts of a number, and windows.
#include <cmath>
#include <numbers>

#include "lathe/fft.hpp"
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

struct Transform {
  bool inverse = false, onesided = false;
};

/// Of [..., length, 1 or 2] along its axis before the last: [..., bins, 2]. The last axis holds real and
/// imaginary parts; a real signal has no second one.
Tensor fourier_of(const Call& call, const Tensor& signal, const Transform& transform) {
  const int parts = signal.rank() - 1;
  const int64_t length = fixed_size(call, signal, parts - 1), part_count = fixed_size(call, signal, parts);
  if (part_count != 1 && part_count != 2)
    call.fail(ErrorKind::Shape,
              "shape " + to_string(signal.shape()) + ", expected 1 or 2 parts of a number in the last axis");
  const Tensor real = slice_at(signal, parts, 0);
  if (part_count == 1 && transform.onesided) return view_as_real(rfft(real));
  if (part_count == 1 && !transform.inverse) return view_as_real(fft(real));
  const Complex x{real,
                  part_count == 2 ? slice_at(signal, parts, 1) : Tensor::zeros(real.shape(), real.dtype())};
  const Tensor all = view_as_real(transform.inverse ? ifft(x) : fft(x));
  return transform.onesided ? slices(all, parts - 1, 0, length / 2 + 1).tensor() : all;
}

/// Cut or filled with zeros to `length`.
Tensor fit_axis(const Tensor& x, int axis, int64_t size, int64_t length) {
  if (length < size) return slices(x, axis, 0, length).tensor();
  std::vector<std::pair<int64_t, int64_t>> padding(x.rank(), {0, 0});
  padding[axis].second = length - size;
  return x.pad(padding);
}

std::vector<Value> dft(Call& call) {
  // Since opset 20 the axis is an input, and counted from the end if it is left out.
  const bool axis_is_input = call.opset() >= 20;
  const int64_t given_axis = !axis_is_input ? call.integer("axis", 1) : call.has(2) ? call.integer_at(2) : -2;
  const bool fits = call.has(1);
  const int64_t length = fits ? call.integer_at(1) : 0;
  Tensor x = call.tensor(0);
  if (x.rank() < 2)
    call.fail(ErrorKind::Shape,
              "shape " + to_string(x.shape()) + ", expected a signal's axis and one of parts");
  const Transform transform{call.integer("inverse", 0) != 0, call.integer("onesided", 0) != 0};
  if (transform.inverse && transform.onesided)
    call.fail(ErrorKind::Value, "inverse and onesided, expected one of them");
  const int axis = normalise_axis(call, given_axis, x.rank()), along = x.rank() - 2;
  if (axis > along)
    call.fail(ErrorKind::Axis,
              "axis " + std::to_string(axis) + " holds a number's parts, expected one before");
  if (fits && length < 1)
    call.fail(ErrorKind::Value, "dft_length " + std::to_string(length) + ", expected at least 1");
  if (fits) x = fit_axis(x, axis, fixed_size(call, x, axis), length);
  if (axis == along) return {fourier_of(call, x, transform)};
  return {fourier_of(call, x.transpose(axis, along), transform).transpose(axis, along)};
}

std::vector<Value> stft(Call& call) {
  const Tensor signal = call.tensor(0);
  const int64_t step = call.integer_at(1);
  const auto window = call.optional_tensor(2);
  if (signal.rank() != 3 && signal.rank() != 2)
    call.fail(ErrorKind::Shape,
              "signal of " + to_string(signal.shape()) + ", expected [batch, length, parts]");
  if (!window && !call.has(3)) call.fail(ErrorKind::Value, "expected a window or a frame_length");
  const int64_t length = call.has(3) ? call.integer_at(3) : fixed_size(call, *window, 0);
  if (step < 1 || length < 1)
    call.fail(ErrorKind::Value, "frame_step " + std::to_string(step) + ", frame_length " +
                                    std::to_string(length) + ", expected at least 1 each");
  // [batch, frames, parts, length] for the windows, then the parts last.
  const Tensor whole = signal.rank() == 2 ? signal.unsqueeze(2) : signal;
  Tensor frames = whole.window(1, length, step).transpose();
  if (window) frames = frames * window->unsqueeze(1);
  return {fourier_of(call, frames, {.inverse = false, .onesided = call.integer("onesided", 1) != 0})};
}

/// a0 - a1 cos(t) + a2 cos(2 t), where t goes round once in the window.
std::vector<Value> cosine_window(Call& call, double a0, double a1, double a2) {
  const DType dtype = call.dtype("output_datatype", DType::F32);
  const bool periodic = call.integer("periodic", 1) != 0;
  const int64_t size = call.integer_at(0), period = periodic ? size : size - 1;
  if (size < 1) call.fail(ErrorKind::Value, "size " + std::to_string(size) + ", expected at least 1");
  if (period == 0) return {Tensor::ones({1}, dtype)};
  const Tensor t =
      Tensor::arange(size).cast(DType::F64) * (2 * std::numbers::pi / static_cast<double>(period));
  return {(t.cos() * -a1 + (t * 2.0).cos() * a2 + a0).cast(dtype)};
}

std::vector<Value> hann(Call& call) { return cosine_window(call, 0.5, 0.5, 0); }
std::vector<Value> hamming(Call& call) { return cosine_window(call, 25.0 / 46, 21.0 / 46, 0); }
std::vector<Value> blackman(Call& call) { return cosine_window(call, 0.42, 0.5, 0.08); }

/// Triangles over a spectrum's bins, their corners spread evenly over the mel scale: [bins, triangles].
std::vector<Value> mel_weight_matrix(Call& call) {
  const DType dtype = call.dtype("output_datatype", DType::F32);
  const int64_t triangles = call.integer_at(0);
  const auto scalar = [&](size_t input) { return call.tensor(input).reshape({}).cast(DType::F64); };
  const int64_t spectrum = call.integer_at(1) / 2 + 1;
  if (triangles < 1 || spectrum < 1)
    call.fail(ErrorKind::Value, "num_mel_bins " + std::to_string(triangles) + " of a spectrum of " +
                                    std::to_string(spectrum) + ", expected at least 1 each");

  const auto mel_of = [](const Tensor& hertz) { return (hertz / 700.0 + 1.0).log10() * 2595.0; };
  const Tensor low = mel_of(scalar(3)), high = mel_of(scalar(4));
  const Tensor mel =
      Tensor::arange(triangles + 2).cast(DType::F64) * ((high - low) / static_cast<double>(triangles + 2)) +
      low;
  const Tensor hertz = (pow(Tensor::scalar(10.0), mel / 2595.0) - 1.0) * 700.0;
  const Tensor corners = ((scalar(1) + 1.0) * hertz / scalar(2)).floor();
  const Tensor left = corners.index({Slice{0, triangles}}), peak = corners.index({Slice{1, triangles + 1}}),
               right = corners.index({Slice{2, triangles + 2}});

  const Tensor bin = Tensor::arange(spectrum).cast(DType::F64).unsqueeze(1);
  // Bins may be so wide that a side falls on its peak: then the peak alone is 1.
  const Tensor rising = where(peak == left, Tensor::scalar(1.0), (bin - left) / (peak - left));
  const Tensor falling = (right - bin) / (right - peak);
  const Tensor zero = Tensor::scalar(0.0);
  const Tensor before = where(logical_and(left <= bin, bin <= peak), rising, zero);
  return {where(logical_and(peak <= bin, bin < right), falling, before).cast(dtype)};
}

// ---- com.microsoft's ----

/// Error unless the node asks for transforms along the last axis of the signal, of half of the spectrum.
void check_real_transform(const Call& call) {
  if (call.integer("signal_ndim", 1) != 1 || call.integer("normalized", 0) != 0 ||
      call.integer("onesided", 1) != 1)
    call.fail(ErrorKind::Value, "expected signal_ndim 1, normalized 0 and onesided 1");
}

/// [..., n] -> [..., n / 2 + 1, 2]
std::vector<Value> real_transform(Call& call) {
  check_real_transform(call);
  return {fourier_of(call, call.tensor(0).unsqueeze(-1), {false, true})};
}

/// [..., n / 2 + 1, 2] -> [..., n]
std::vector<Value> inverse_real_transform(Call& call) {
  check_real_transform(call);
  const Tensor half = call.tensor(0);
  if (half.rank() < 2 || fixed_size(call, half, half.rank() - 1) != 2)
    call.fail(ErrorKind::Shape, "input " + to_string(half.shape()) + ", expected [..., bins, 2]");
  const int64_t bins = fixed_size(call, half, half.rank() - 2);
  return {irfft(view_as_complex(half), {.n = bins < 2 ? 1 : 2 * (bins - 1)})};
}

const OpRow kSignalOps[] = {
    {"Rfft", 1, real_transform, "com.microsoft", 1},
    {"Irfft", 1, inverse_real_transform, "com.microsoft", 1},
    {"DFT", 17, dft},
    {"STFT", 17, stft},
    {"HannWindow", 17, hann},
    {"HammingWindow", 17, hamming},
    {"BlackmanWindow", 17, blackman},
    {"MelWeightMatrix", 17, mel_weight_matrix},
};

} // namespace

OpTable signal_ops() { return kSignalOps; }

} // namespace lathe::onnx
