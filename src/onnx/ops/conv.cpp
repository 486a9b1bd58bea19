// Convolutions.
#include <algorithm>

#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/spatial.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> conv(Call& call) {
  return {convolve(call, call.tensor(0), call.tensor(1), call.optional_tensor(2))};
}

/// stride - 1 zeros between the elements of an axis.
Tensor spread_apart(const Tensor& x, int axis, int64_t stride) {
  if (stride == 1) return x;
  std::vector<std::pair<int64_t, int64_t>> zeros(x.shape().size() + 1, {0, 0});
  zeros[axis + 1].second = stride - 1;
  Shape joined = x.shape();
  joined[axis] = joined[axis] * stride;
  std::vector<IndexItem> all_but_the_last(axis, Slice{});
  all_but_the_last.push_back(Slice{{}, -(stride - 1)});
  return x.unsqueeze(axis + 1).pad(zeros).reshape(joined).index(all_but_the_last);
}

/// Pads an axis, or cuts where an amount is negative.
Tensor pad_or_cut(const Tensor& x, int axis, int64_t before, int64_t after) {
  std::vector<IndexItem> part(axis, Slice{});
  Slice kept;
  if (before < 0) kept.start = -before;
  if (after < 0) kept.stop = after;
  part.push_back(kept);
  std::vector<std::pair<int64_t, int64_t>> amounts(x.shape().size(), {0, 0});
  amounts[axis] = {std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)};
  return x.index(part).pad(amounts);
}

/// What the full result of a transposed convolution loses at both ends of each axis.
void read_cut(Call& call, const Shape& input, const std::vector<int64_t>& output_padding, Windows& w) {
  const std::string automatic = call.text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  const bool given = call.has_attribute("output_shape");
  if (!same && !given) return read_padding(call, input, w);
  call.integers("pads", std::vector<int64_t>{}); // replaced by what output_shape or auto_pad asks for
  const std::vector<int64_t> wanted = call.integers("output_shape", std::vector<int64_t>{});
  // Some models give [N, C, ...], others the spatial sizes alone.
  if (given && wanted.size() != w.axes() && wanted.size() != w.axes() + 2)
    call.fail(ErrorKind::Value, "output_shape has " + std::to_string(wanted.size()) + " numbers, expected " +
                                    std::to_string(w.axes()));
  for (size_t i = 0; i < w.axes(); ++i) {
    const Expr size = input[2 + i];
    const Expr target = given ? Expr(wanted[wanted.size() - w.axes() + i]) : size * w.stride[i];
    const Expr total = (size - 1) * w.stride[i] + output_padding[i] + w.reach(i) - target;
    if (!total.is_const())
      call.fail(ErrorKind::Shape,
                "output_shape for an axis of size " + to_string(size) + ", expected a fixed size");
    const int64_t shared = std::max<int64_t>(total.value(), 0),
                  half = shared / 2; // what is missing is added behind
    w.before[i] = automatic == "SAME_UPPER" ? half : shared - half;
    w.after[i] = total.value() - w.before[i];
  }
}

/// One axis of a transposed convolution. The output's elements that are a stride apart are a phase: a
/// convolution with every stride-th element of the kernel. All phases together are one convolution with as
/// many times the channels.
struct Phases {
  int64_t taps = 1;                      // of each phase's kernel, dilation included
  int64_t before = 0, after = 0;         // padding of the input, negative where it is cut
  int64_t cut_before = 0, cut_after = 0; // of the phases, interleaved
};

int64_t ceil_divide(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : a / b; }

Phases phases_of(const Windows& w, size_t i, int64_t output_padding) {
  const int64_t stride = w.stride[i];
  // The output has size * stride + surplus elements.
  const int64_t surplus = w.reach(i) + output_padding - stride - w.before[i] - w.after[i];
  Phases p;
  p.taps = ceil_divide(w.reach(i), stride);
  p.cut_before = w.before[i] % stride;
  const int64_t more = ceil_divide(surplus + p.cut_before, stride);
  p.before = p.taps - 1 - w.before[i] / stride;
  p.after = more + p.taps - 1 - p.before;
  p.cut_after = more * stride - p.cut_before - surplus;
  return p;
}

/// [C, M / group, kernel...] -> [M * phases, C / group, taps...]
Tensor phased_weight(Call& call, Tensor weight, const Windows& w, const std::vector<Phases>& phases,
                     int64_t groups) {
  if (groups < 1 || !mod(weight.size(0), groups).is_const(0))
    call.fail(ErrorKind::Shape, "weight " + to_string(weight.shape()) + " in " + std::to_string(groups) +
                                    " groups, expected whole groups of input channels");
  const Expr inputs = floordiv(weight.size(0), groups);
  Shape split{groups, inputs, weight.size(1)}, joined{weight.size(1) * groups, inputs};
  Axes order{0, 2}, tap_axes;
  for (size_t i = 0; i < w.axes(); ++i) {
    const int axis = 2 + static_cast<int>(i), split_axis = static_cast<int>(split.size());
    const int64_t taps = w.stride[i] == 1 ? w.kernel[i] : phases[i].taps;
    if (w.stride[i] > 1)
      weight =
          pad_or_cut(spread_apart(weight, axis, w.dilation[i]), axis, 0, taps * w.stride[i] - w.reach(i));
    split.insert(split.end(), {Expr(taps), Expr(w.stride[i])});
    tap_axes.push_back(split_axis);
    order.push_back(split_axis + 1);
    joined[0] = joined[0] * w.stride[i];
    joined.push_back(taps);
  }
  order.push_back(1);
  order.insert(order.end(), tap_axes.begin(), tap_axes.end());
  return weight.reshape(split).flip(tap_axes).permute(order).reshape(joined);
}

/// [N, M * phases, size...] -> [N, M, size * stride...]
Tensor interleave(const Tensor& y, const Windows& w) {
  const int axes = static_cast<int>(w.axes());
  Shape split{y.size(0), y.size(1)}, joined = split;
  Axes order{0, 1};
  for (int i = 0; i < axes; ++i) {
    const Expr stride = w.stride[i], size = y.size(2 + i);
    split.insert(split.begin() + 2 + i, stride);
    split.push_back(size);
    split[1] = joined[1] = floordiv(joined[1], stride);
    joined.push_back(size * stride);
    order.insert(order.end(), {2 + axes + i, 2 + i});
  }
  return y.reshape(split).permute(order).reshape(joined);
}

/// How many products the sums over an axis' taps have in all, for the phases and for the input.
bool is_shorter_over_input(const Tensor& x, const std::vector<Phases>& phases) {
  int64_t over_taps = 1, over_input = 1;
  for (size_t i = 0; i < phases.size(); ++i) {
    const Expr size = x.size(2 + static_cast<int>(i));
    if (!x.size(0).is_const() || !size.is_const()) return false;
    over_taps *= phases[i].taps;
    over_input *= size.value();
  }
  return over_input < over_taps;
}

/// y[o] = sum over i of x[i] w[o - stride i]: the kernel, with dilation - 1 zeros between its elements, is
/// what windows are taken of, and the input, turned round, what they are multiplied with. For kernels larger
/// than the input.
Tensor sum_over_input(Call& call, const Tensor& x, const Tensor& weight, const Windows& w,
                      const std::vector<int64_t>& output_padding, int64_t groups) {
  if (groups < 1 || x.size(1) != weight.size(0) || !mod(x.size(1), groups).is_const(0))
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + " and weight " + to_string(weight.shape()) +
                                    " in " + std::to_string(groups) +
                                    " groups, expected as many channels, in whole groups");
  const Expr batch = x.size(0), outputs = weight.size(1), inputs = floordiv(x.size(1), groups);
  Tensor data = weight.transpose(0, 1); // [M / group, C, kernel...]
  Shape split{batch, groups, inputs}, taps{batch * groups, inputs}, apart{outputs, groups, batch},
      joined{batch, outputs * groups};
  Axes swap{1, 0, 2}, back{2, 1, 0}, spatial;
  Windows over = w;
  for (size_t i = 0; i < w.axes(); ++i) {
    const int axis = 2 + static_cast<int>(i);
    const int64_t size = x.size(axis).value(), around = (size - 1) * w.stride[i];
    const int64_t before = around - w.before[i], after = around + output_padding[i] - w.after[i];
    data = pad_or_cut(spread_apart(data, axis, w.dilation[i]), axis, std::min<int64_t>(before, 0),
                      std::min<int64_t>(after, 0));
    over.before[i] = std::max<int64_t>(before, 0);
    over.after[i] = std::max<int64_t>(after, 0);
    over.kernel[i] = size;
    over.dilation[i] = w.stride[i];
    over.stride[i] = 1;
    spatial.push_back(axis);
    swap.push_back(axis + 1), back.push_back(axis + 1);
    split.push_back(size), taps.push_back(size);
  }
  const Tensor turned = x.flip(spatial).reshape(split).permute(swap).reshape(taps);
  const Tensor y = correlate(data, turned, {}, over, groups); // [M / group, group * N, out...]
  for (const int axis : spatial) apart.push_back(y.size(axis)), joined.push_back(y.size(axis));
  return y.reshape(apart).permute(back).reshape(joined);
}

/// As many convolutions as there are phases.
Tensor sum_over_taps(Call& call, Tensor x, const Tensor& weight, const Windows& w,
                     const std::vector<Phases>& phases, int64_t groups) {
  Windows inner = w; // of the convolution that makes the phases
  for (size_t i = 0; i < w.axes(); ++i) {
    const Phases& p = phases[i];
    x = pad_or_cut(x, 2 + static_cast<int>(i), std::min<int64_t>(p.before, 0), std::min<int64_t>(p.after, 0));
    inner.before[i] = std::max<int64_t>(p.before, 0);
    inner.after[i] = std::max<int64_t>(p.after, 0);
    inner.stride[i] = 1;
    if (w.stride[i] > 1) inner.dilation[i] = 1;
  }
  Tensor y = interleave(correlate(x, phased_weight(call, weight, w, phases, groups), {}, inner, groups), w);
  for (size_t i = 0; i < w.axes(); ++i)
    y = pad_or_cut(y, 2 + static_cast<int>(i), -phases[i].cut_before, -phases[i].cut_after);
  return y;
}

std::vector<Value> conv_transpose(Call& call) {
  const Tensor x = call.tensor(0), weight = call.tensor(1);
  if (weight.rank() != x.rank() || x.rank() < 3 || x.rank() > 5)
    call.fail(ErrorKind::Shape,
              "input " + to_string(x.shape()) + " and weight " + to_string(weight.shape()) +
                  ", expected [N, C, ...] and [C, M / group, ...] with 1 to 3 spatial axes");
  const std::vector<int64_t> sizes = call.fixed_shape(weight);
  Windows w = read_windows(call, x.shape(), {sizes.begin() + 2, sizes.end()});
  const auto output_padding = call.integers("output_padding", std::vector<int64_t>(w.axes(), 0));
  if (output_padding.size() != w.axes())
    call.fail(ErrorKind::Value, "output_padding has " + std::to_string(output_padding.size()) +
                                    " numbers, expected " + std::to_string(w.axes()));
  read_cut(call, x.shape(), output_padding, w);
  std::vector<Phases> phases;
  for (size_t i = 0; i < w.axes(); ++i) phases.push_back(phases_of(w, i, output_padding[i]));
  const int64_t groups = call.integer("group", 1);
  const Tensor y = is_shorter_over_input(x, phases)
                       ? sum_over_input(call, x, weight, w, output_padding, groups)
                       : sum_over_taps(call, x, weight, w, phases, groups);
  const std::optional<Tensor> bias = call.optional_tensor(2);
  return {bias ? y + along_axis(*bias, 1, y.rank()) : y};
}

const OpRow kConvOps[] = {{"Conv", 1, conv}, {"ConvTranspose", 1, conv_transpose}};

} // namespace

OpTable conv_ops() { return kConvOps; }

} // namespace lathe::onnx
