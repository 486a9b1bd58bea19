// Patches of images as columns and back, and images of other sizes.
#include <algorithm>
#include <cmath>

#include "graph/gradient.hpp"
#include "graph/spatial.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/array_functions.hpp"

namespace lathe {
using namespace graph;
namespace {

struct PatchSizes {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

PatchSizes patch_sizes(std::string_view op, const std::vector<int64_t>& kernel, const PoolOptions& options,
                       size_t axes) {
  if (options.ceil_mode) fail(ErrorKind::Value, "{}: ceil_mode, expected none, as in pooling alone", op);
  return {per_axis(op, "kernel", kernel, axes, 1),
          per_axis(op, "stride", options.stride.empty() ? std::vector<int64_t>{1} : options.stride, axes, 1),
          per_axis(op, "padding", options.padding, axes, 0),
          per_axis(op, "dilation", options.dilation, axes, 1)};
}

/// The first two axes, then those that begin at `first`, then those that begin at `second`, `count` each.
std::vector<int> with_axes_swapped(int count, int first, int second) {
  std::vector<int> order{0, 1};
  for (const int begin : {first, second})
    for (int i = 0; i < count; ++i) order.push_back(begin + i);
  return order;
}

/// The elements that one tap of an interpolation reads along an axis, and their weights: one of each for
/// every element of the result.
struct Tap {
  std::vector<int64_t> index;
  std::vector<double> weight;
};

/// Keys' cubic with a = -0.75.
double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double d = distance;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return a * (((d - 5) * d + 8) * d - 4);
}

/// Where element `at` of `out` lies among `in` elements.
double source_place(int64_t at, int64_t in, int64_t out, bool align_corners) {
  const auto x = static_cast<double>(at), n = static_cast<double>(in), m = static_cast<double>(out);
  if (align_corners) return out == 1 ? 0 : x * (n - 1) / (m - 1);
  return (2 * x + 1) * n / (2 * m) - 0.5;
}

/// Taps outside of the axis read its edge. In PyTorch a linear place outside moves to the edge, which is the
/// same.
std::vector<Tap> taps_of(int64_t in, int64_t out, bool cubic, bool align_corners) {
  std::vector<Tap> taps(cubic ? 4 : 2);
  for (int64_t at = 0; at < out; ++at) {
    const double place = source_place(at, in, out, align_corners);
    double read = std::floor(place) - (cubic ? 1 : 0);
    for (Tap& tap : taps) {
      const double distance = std::abs(place - read);
      tap.index.push_back(std::clamp<int64_t>(static_cast<int64_t>(read), 0, in - 1));
      tap.weight.push_back(cubic ? cubic_weight(distance) : 1 - distance);
      ++read;
    }
  }
  return taps;
}

/// A weighted sum of two or four elements for each one of the result. A product with a matrix would multiply
/// all the others by 0, which spreads a NaN or an infinity along the axis.
Tensor blend(const Tensor& x, int axis, int64_t out, bool cubic, bool align_corners) {
  Shape along(x.shape().size(), Expr(1));
  along[axis] = out;
  std::optional<Tensor> sum;
  for (const Tap& tap : taps_of(x.shape()[axis].value(), out, cubic, align_corners)) {
    const Tensor term =
        x.take(Tensor::from(tap.index), axis) * Tensor::from(tap.weight, along).cast(x.dtype());
    sum = sum ? *sum + term : term;
  }
  return *sum;
}

/// Element floor(i * in / out) of the axis for each i of the result.
Tensor nearest(const Tensor& x, int axis, int64_t out) {
  const int64_t in = x.shape()[axis].value();
  std::vector<int64_t> index;
  for (int64_t i = 0; i < out; ++i)
    index.push_back(static_cast<int64_t>(static_cast<__int128>(i) * in / out));
  return x.take(Tensor::from(index), axis);
}

} // namespace

Tensor unfold(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options) {
  const PatchSizes s = patch_sizes("unfold", kernel, options, 2);
  if (x.rank() != 4) fail(ErrorKind::Shape, "unfold: shape {}, expected [N, C, H, W]", to_string(x.shape()));
  const Tensor w = windows("unfold", pad_spatial(x, s.padding, s.padding), s.kernel, s.stride, s.dilation);
  const Shape& n = w.shape(); // [N, C, OH, OW, KH, KW]
  check_shape("unfold", n, x.dtype());
  const Shape columns{n[0], n[1] * n[4] * n[5], n[2] * n[3]};
  return view_op(w.permute(with_axes_swapped(2, 4, 2)), View::contiguous(columns));
}

Tensor fold(const Tensor& x, const std::vector<int64_t>& size, const std::vector<int64_t>& kernel,
            const PoolOptions& options) {
  const size_t count = std::max<size_t>(2, size.size()); // one size stands for two
  const PatchSizes s = patch_sizes("fold", kernel, options, count);
  const int axes = static_cast<int>(count);
  const std::vector<int64_t> image = per_axis("fold", "size", size, count, 1);
  int64_t taps = 1;
  for (const int64_t k : s.kernel)
    if (__builtin_mul_overflow(taps, k, &taps))
      fail(ErrorKind::Limit, "fold: patches of 2^63 elements or more");
  if (x.dtype() == DType::Bool) fail(ErrorKind::DType, "fold: dtype bool, expected a number");
  if (x.rank() != 3 || !mod(x.shape()[1], taps).is_const(0))
    fail(ErrorKind::Shape, "fold: shape {} of patches of {} elements, expected [N, C * {}, patches]",
         to_string(x.shape()), taps, taps);
  Shape padded{x.shape()[0], floordiv(x.shape()[1], taps)};
  for (int i = 0; i < axes; ++i) padded.push_back(image[i] + 2 * s.padding[i]);
  check_shape("fold", padded, x.dtype());
  View view = View::contiguous(padded);
  for (int i = 0; i < axes; ++i) {
    check_window("fold", padded[2 + i], s.kernel[i], s.dilation[i]);
    view = *view.window(2 + i, s.kernel[i], s.stride[i], s.dilation[i]);
  }
  const Shape& w = view.shape(); // [N, C, out..., kernel...]
  Shape apart{w[0], w[1]};
  apart.insert(apart.end(), w.end() - axes, w.end());
  apart.insert(apart.end(), w.begin() + 2, w.end() - axes);
  const Expr patches = num_elements({w.begin() + 2, w.end() - axes});
  if (x.shape()[2] != patches)
    fail(ErrorKind::Shape, "fold: {} patches for an image of {}, expected {}", to_string(x.shape()[2]),
         fmt::join(image, " x "), to_string(patches));
  const Tensor elements = view_op(x, View::contiguous(apart)).permute(with_axes_swapped(axes, 2 + axes, 2));
  const Part sum = view_adjoint(view, padded, elements);
  if (!sum) throw InternalError("fold: windows that read nothing");
  std::vector<int64_t> cut;
  for (const int64_t p : s.padding) cut.push_back(-p);
  return pad_spatial(*sum, cut, cut);
}

Tensor interpolate(const Tensor& x, const std::vector<int64_t>& sizes, Interpolation mode,
                   Flag align_corners) {
  per_axis("interpolate", "sizes", sizes, sizes.size(), 1);
  if (sizes.empty() || sizes.size() > x.shape().size())
    fail(ErrorKind::Shape, "interpolate: {} sizes for shape {}, expected one for each of the last axes",
         sizes.size(), to_string(x.shape()));
  const bool computes = mode != Interpolation::Nearest;
  if (align_corners && !computes)
    fail(ErrorKind::Value, "interpolate: align_corners with Nearest, expected Linear or Cubic");
  const DType d = !computes || is_float(x.dtype()) ? x.dtype() : DType::F64;
  const int first = x.rank() - static_cast<int>(sizes.size());
  Tensor y = computes ? x.cast(wide(d)) : x; // half precision is rounded once
  for (int axis = first; axis < x.rank(); ++axis) {
    const Expr in = x.shape()[axis];
    const int64_t out = sizes[axis - first];
    if (!in.is_const())
      fail(ErrorKind::Shape, "interpolate: axis {} of {}, expected a static size", axis,
           to_string(x.shape()));
    Shape target = y.shape();
    target[axis] = out;
    check_shape("interpolate", target, y.dtype());
    if (in.is_const(out)) continue;
    if (in.is_const(0))
      fail(ErrorKind::Value, "interpolate: axis {} of {}, expected an element to begin with", axis,
           to_string(x.shape()));
    y = computes ? blend(y, axis, out, mode == Interpolation::Cubic, align_corners) : nearest(y, axis, out);
  }
  return y.cast(d);
}

} // namespace lathe
