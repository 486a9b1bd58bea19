// Convolution and pooling: windows made by views, then one product and one reduction.
#include <algorithm>

#include "graph/contract.hpp"
#include "graph/spatial.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/detail/windows.hpp"

namespace lathe::graph {

std::vector<int64_t> per_axis(std::string_view op, std::string_view what, const std::vector<int64_t>& given,
                              size_t count, int64_t least) {
  std::vector<int64_t> result = given.size() == 1 ? std::vector<int64_t>(count, given[0]) : given;
  if (result.size() != count)
    fail(ErrorKind::Value, "{}: {} numbers of {}, expected {}", op, given.size(), what, count);
  for (int64_t v : result)
    if (v < least || v > INT32_MAX)
      fail(ErrorKind::Value, "{}: {} {}, expected at least {}", op, what, v, least);
  return result;
}

Tensor pad_spatial(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                   const Tensor* fill) {
  const size_t rank = x.shape().size(), first = rank - before.size();
  std::vector<Expr> begin(rank, Expr(0)), end = x.shape(), b(rank, Expr(0)), a(rank, Expr(0));
  bool padded = false;
  for (size_t i = 0; i < before.size(); ++i) {
    begin[first + i] = std::max<int64_t>(-before[i], 0);
    end[first + i] = end[first + i] - std::max<int64_t>(-after[i], 0);
    b[first + i] = std::max<int64_t>(before[i], 0);
    a[first + i] = std::max<int64_t>(after[i], 0);
    padded |= before[i] > 0 || after[i] > 0;
  }
  const Tensor cut = shrink_to(x, begin, end);
  if (!padded) return cut;
  const Tensor zero_padded = pad_zero(cut, b, a);
  if (!fill) return zero_padded;
  return where(pad_zero(Tensor::ones(cut.shape(), DType::Bool), b, a), zero_padded, *fill);
}

void check_window(std::string_view op, Expr size, int64_t kernel, int64_t dilation) {
  const int64_t reach = (kernel - 1) * dilation + 1;
  if (reach > size.lo())
    fail(ErrorKind::Shape, "{}: a window of {} in {} padded elements, expected it to fit", op, reach,
         to_string(size));
}

Tensor windows(std::string_view op, Tensor x, const std::vector<int64_t>& kernel,
               const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation) {
  const int first = x.rank() - static_cast<int>(kernel.size());
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int axis = first + static_cast<int>(i);
    check_window(op, x.shape()[axis], kernel[i], dilation[i]);
    x = x.window(axis, kernel[i], stride[i], dilation[i]);
  }
  return x;
}

} // namespace lathe::graph

namespace lathe {

Tensor detail::combine_windows(Tensor x, int first, const std::vector<int64_t>& kernel,
                               const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation,
                               const std::function<Tensor(const Tensor&, const Axes&)>& combine) {
  const int rank = x.rank();
  int64_t at_once = 1, one_by_one = 0; // elements that each result takes
  for (size_t i = 0; i < kernel.size(); ++i) {
    at_once *= kernel[i];
    int64_t rows = kernel[i]; // an axis that is not yet combined has `stride` positions for each result
    for (size_t j = i + 1; j < kernel.size(); ++j) rows *= stride[j];
    one_by_one += rows;
  }
  const bool apart = 2 * one_by_one <= at_once;
  Axes window_axes;
  for (size_t i = 0; i < kernel.size(); ++i) {
    x = x.window(first + static_cast<int>(i), kernel[i], stride[i], dilation[i]);
    if (apart)
      x = combine(x, {rank});
    else
      window_axes.push_back(rank + static_cast<int>(i));
  }
  return apart ? x : combine(x, window_axes);
}

using namespace graph;
namespace {

struct ConvSizes {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

void check_numbers(std::string_view op, const Tensor& x, const Tensor& weight) {
  if (x.dtype() == DType::Bool || weight.dtype() == DType::Bool)
    fail(ErrorKind::DType, "{}: dtype bool, expected numbers", op);
}

// x [N, C, spatial...], already padded; weight [O, C/groups, kernel...].
Tensor correlate(std::string_view op, const Tensor& x, const Tensor& weight, const ConvSizes& s,
                 int64_t groups) {
  const int n = static_cast<int>(s.kernel.size());
  const Tensor w = windows(op, x, s.kernel, s.stride, s.dilation); // [N, C, out..., kernel...]
  const Expr per_group = weight.shape()[1], outputs = floordiv(weight.shape()[0], groups);
  Shape split{w.shape()[0], groups, per_group};
  split.insert(split.end(), w.shape().begin() + 2, w.shape().end());
  // [N, G, C/G, out..., kernel...] -> [N, G, out..., C/G, kernel...] -> with a new axis for the outputs of a
  // group
  Axes order{0, 1};
  for (int i = 0; i < n; ++i) order.push_back(3 + i);
  order.push_back(2);
  for (int i = 0; i < n; ++i) order.push_back(3 + n + i);
  const Tensor data = view_op(w, View::contiguous(split)).permute(order).unsqueeze(2);
  Shape spread{1, groups, outputs};
  for (int i = 0; i < n; ++i) spread.push_back(1);
  spread.insert(spread.end(), weight.shape().begin() + 1, weight.shape().end());
  Shape full = data.shape();
  full[2] = outputs;
  check_shape(op, full, promote(x.dtype(), weight.dtype()));
  Axes reduced;
  for (int i = 0; i <= n; ++i) reduced.push_back(3 + n + i);
  const Tensor sum = contract(data, view_op(weight, View::contiguous(spread)), full, reduced);
  Shape result{full[0], weight.shape()[0]};
  result.insert(result.end(), full.begin() + 3, full.begin() + 3 + n);
  return view_op(sum, View::contiguous(result));
}

Tensor add_bias(std::string_view op, const Tensor& y, const std::optional<Tensor>& bias) {
  if (!bias) return y;
  if (bias->shape() != Shape{y.shape()[1]})
    fail(ErrorKind::Shape, "{}: bias of shape {}, expected [{}]", op, to_string(bias->shape()),
         to_string(y.shape()[1]));
  Shape spread(y.shape().size(), Expr(1));
  spread[1] = y.shape()[1];
  return y + view_op(*bias, View::contiguous(spread)).cast(y.dtype());
}

std::vector<int64_t> kernel_sizes(std::string_view op, const Tensor& weight) {
  const Shape spatial(weight.shape().begin() + 2, weight.shape().end());
  if (!is_static(spatial))
    fail(ErrorKind::Shape, "{}: weight {}, expected a static kernel", op, to_string(weight.shape()));
  return static_sizes(spatial);
}

void check_ranks(std::string_view op, const Tensor& x, const Tensor& weight, int n) {
  check_numbers(op, x, weight);
  if (x.rank() != n + 2 || weight.rank() != n + 2)
    fail(ErrorKind::Shape, "{}: input {} and weight {}, expected {} axes each", op, to_string(x.shape()),
         to_string(weight.shape()), n + 2);
}

Tensor conv(std::string_view op, const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
            const ConvOptions& options, int n) {
  check_ranks(op, x, weight, n);
  const size_t count = static_cast<size_t>(n);
  const ConvSizes s{kernel_sizes(op, weight), per_axis(op, "stride", options.stride, count, 1),
                    per_axis(op, "padding", options.padding, count, 0),
                    per_axis(op, "dilation", options.dilation, count, 1)};
  if (options.groups < 1 || x.shape()[1] != weight.shape()[1] * options.groups ||
      !mod(weight.shape()[0], options.groups).is_const(0))
    fail(ErrorKind::Shape,
         "{}: input {} and weight {} in {} groups, expected {} input channels and outputs in whole groups",
         op, to_string(x.shape()), to_string(weight.shape()), options.groups,
         to_string(weight.shape()[1] * options.groups));
  // The padded input is a value of its own, so that one copy serves every window. The search makes no copy if
  // it finds reading the windows' borders cheaper.
  const bool pads = std::any_of(s.padding.begin(), s.padding.end(), [](int64_t p) { return p > 0; });
  const Tensor padded = pad_spatial(x, s.padding, s.padding);
  const Tensor y = correlate(op, pads ? padded.contiguous() : padded, weight, s, options.groups);
  return add_bias(op, y, bias);
}

struct Pool {
  std::vector<int64_t> kernel, stride, padding, dilation, after;
};

Pool pool_sizes(std::string_view op, const Tensor& x, const std::vector<int64_t>& kernel,
                const PoolOptions& options) {
  if (x.rank() < 3 || x.rank() > 4)
    fail(ErrorKind::Shape, "{}: shape {}, expected [C, H, W] or [N, C, H, W]", op, to_string(x.shape()));
  if (x.dtype() == DType::Bool) fail(ErrorKind::DType, "{}: dtype bool, expected a number", op);
  Pool p;
  p.kernel = per_axis(op, "kernel", kernel, 2, 1);
  p.stride = options.stride.empty() ? p.kernel : per_axis(op, "stride", options.stride, 2, 1);
  p.padding = per_axis(op, "padding", options.padding, 2, 0);
  p.dilation = per_axis(op, "dilation", options.dilation, 2, 1);
  p.after = p.padding;
  for (int i = 0; i < 2; ++i) {
    if (2 * p.padding[i] > p.kernel[i])
      fail(ErrorKind::Value, "{}: padding {} of kernel {}, expected at most half of it", op, p.padding[i],
           p.kernel[i]);
    if (!options.ceil_mode) continue;
    const Expr size = x.shape()[x.rank() - 2 + i];
    if (!size.is_const())
      fail(ErrorKind::Shape, "{}: ceil_mode over {}, expected a static size", op, to_string(size));
    // ceil_mode adds one more window if it begins inside the image or the padding before it.
    const int64_t reach = (p.kernel[i] - 1) * p.dilation[i] + 1,
                  span = size.value() + 2 * p.padding[i] - reach;
    if (span < 0) continue;
    const int64_t last = (span + p.stride[i] - 1) / p.stride[i] * p.stride[i];
    if (last < size.value() + p.padding[i]) p.after[i] += std::max<int64_t>(last - span, 0);
  }
  return p;
}

Tensor combine_pools(std::string_view name, const Tensor& padded, const Pool& p, Op op) {
  const int first = padded.rank() - 2;
  for (int i = 0; i < 2; ++i) check_window(name, padded.shape()[first + i], p.kernel[i], p.dilation[i]);
  return detail::combine_windows(
      padded, first, p.kernel, p.stride, p.dilation,
      [&](const Tensor& windows, const Axes& axes) { return drop_axes(reduce_op(op, windows, axes), axes); });
}

// stride - 1 zeros between the elements of an axis: [.., H, ..] -> [.., H, 1, ..] -> [.., H, stride, ..]
// -> [.., H * stride - (stride - 1), ..]
Tensor spread_apart(const Tensor& x, int axis, int64_t stride) {
  if (stride == 1) return x;
  const size_t at = static_cast<size_t>(axis);
  Shape apart = x.shape();
  apart.insert(apart.begin() + axis + 1, Expr(1));
  std::vector<Expr> none(apart.size(), Expr(0)), zeros_after = none;
  zeros_after[at + 1] = stride - 1;
  const Tensor stuffed = pad_zero(view_op(x, View::contiguous(apart)), none, zeros_after);
  Shape joined = x.shape();
  joined[at] = joined[at] * stride;
  const Tensor dense = view_op(stuffed, View::contiguous(joined));
  joined[at] = joined[at] - (stride - 1);
  return shrink_to(dense, std::vector<Expr>(joined.size(), Expr(0)), joined);
}

} // namespace

Tensor Tensor::conv1d(const Tensor& weight, const std::optional<Tensor>& bias,
                      const ConvOptions& options) const {
  return conv("conv1d", *this, weight, bias, options, 1);
}
Tensor Tensor::conv2d(const Tensor& weight, const std::optional<Tensor>& bias,
                      const ConvOptions& options) const {
  return conv("conv2d", *this, weight, bias, options, 2);
}
Tensor Tensor::conv3d(const Tensor& weight, const std::optional<Tensor>& bias,
                      const ConvOptions& options) const {
  return conv("conv3d", *this, weight, bias, options, 3);
}

// y[o] = sum over i of x[i] w[o - stride i]. Zeros spread x out by the stride and w by the dilation. Windows
// of one of them, padded, are correlated with the other, flipped. The flipped one is that with fewer
// elements, because this makes the shorter sums.
Tensor Tensor::conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias,
                                const ConvOptions& options) const {
  constexpr const char* kName = "conv_transpose2d";
  check_ranks(kName, *this, weight, 2);
  const std::vector<int64_t> kernel = kernel_sizes(kName, weight);
  const auto stride = per_axis(kName, "stride", options.stride, 2, 1),
             padding = per_axis(kName, "padding", options.padding, 2, 0);
  const auto dilation = per_axis(kName, "dilation", options.dilation, 2, 1);
  const auto extra = per_axis(kName, "output_padding", options.output_padding, 2, 0);
  const int64_t groups = options.groups;
  if (groups < 1 || shape()[1] != weight.shape()[0] || !mod(shape()[1], groups).is_const(0))
    fail(ErrorKind::Shape,
         "{}: input {} and weight {} in {} groups, expected {} input channels in whole groups", kName,
         to_string(shape()), to_string(weight.shape()), groups, to_string(weight.shape()[0]));
  for (int i = 0; i < 2; ++i) {
    if (extra[i] >= std::max(stride[i], dilation[i]))
      fail(ErrorKind::Value, "{}: output_padding {}, expected less than stride or dilation", kName, extra[i]);
    if (proves_lt((shape()[2 + i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 + extra[i],
                  2 * padding[i] + 1))
      fail(ErrorKind::Value, "{}: padding {} leaves no output, expected less", kName, padding[i]);
  }
  const Expr batch = shape()[0], inputs = floordiv(shape()[1], groups), outputs = weight.shape()[1];
  const bool over_input = is_static(shape()) && proves_lt(shape()[2] * shape()[3], kernel[0] * kernel[1]);
  // Windows are taken of `data`, and `other` is flipped: [A, C, ..] and [B, C, ..] in groups of C.
  Tensor data = over_input ? weight.transpose(0, 1) : *this;
  const Tensor& other = over_input ? *this : weight;
  const Expr rows = over_input ? batch : outputs;
  const std::vector<int64_t> taps = over_input ? static_sizes({shape()[2], shape()[3]}) : kernel;
  const std::vector<int64_t>&apart = over_input ? dilation : stride,
        &between = over_input ? stride : dilation;
  std::vector<int64_t> before(2), after(2);
  for (int i = 0; i < 2; ++i) {
    data = spread_apart(data, 2 + i, apart[i]);
    before[i] = between[i] * (taps[i] - 1) - padding[i];
    after[i] = before[i] + extra[i];
  }
  const Tensor grouped = over_input
                             ? view_op(other, View::contiguous({rows, groups, inputs, taps[0], taps[1]}))
                                   .permute({1, 0, 2, 3, 4})
                             : view_op(other, View::contiguous({groups, inputs, rows, taps[0], taps[1]}))
                                   .permute({0, 2, 1, 3, 4});
  const Tensor flat =
      view_op(grouped.flip({3, 4}), View::contiguous({rows * groups, inputs, taps[0], taps[1]}));
  const ConvSizes s{taps, {1, 1}, {0, 0}, between};
  Tensor y = correlate(kName, pad_spatial(data, before, after), flat, s, groups);
  if (over_input) // [O / groups, groups * N, ..] -> [N, O, ..]
    y = view_op(view_op(y, View::contiguous({outputs, groups, batch, y.shape()[2], y.shape()[3]}))
                    .permute({2, 1, 0, 3, 4}),
                View::contiguous({batch, outputs * groups, y.shape()[2], y.shape()[3]}));
  return add_bias(kName, y, bias);
}

Tensor Tensor::max_pool2d(const std::vector<int64_t>& kernel, const PoolOptions& options) const {
  const Pool p = pool_sizes("max_pool2d", *this, kernel, options);
  const Tensor least = lowest(dtype());
  return combine_pools("max_pool2d", pad_spatial(*this, p.padding, p.after, &least), p, Op::Max);
}

Tensor Tensor::avg_pool2d(const std::vector<int64_t>& kernel, const PoolOptions& options) const {
  const Pool p = pool_sizes("avg_pool2d", *this, kernel, options);
  return in_wide(*this, [&](const Tensor& x) {
    const auto sum = [&](const Tensor& padded) { return combine_pools("avg_pool2d", padded, p, Op::Add); };
    const Tensor total = sum(pad_spatial(x, p.padding, p.after));
    const bool padded = p.padding != std::vector<int64_t>{0, 0};
    if (p.after == p.padding && (options.count_include_pad || !padded))
      return total / number(static_cast<double>(p.kernel[0] * p.kernel[1]), x.dtype());
    // Counts the elements that each window really holds. Those that ceil_mode adds behind the padding never
    // count.
    const Tensor ones = Tensor::ones(x.shape(), x.dtype()), one = number(1, x.dtype());
    const std::vector<int64_t> none{0, 0}, behind{p.after[0] - p.padding[0], p.after[1] - p.padding[1]};
    const Tensor counted = options.count_include_pad
                               ? pad_spatial(pad_spatial(ones, p.padding, p.padding, &one), none, behind)
                               : pad_spatial(ones, p.padding, p.after);
    return total / sum(counted);
  });
}

} // namespace lathe
