// Ops of images beside convolution, pooling and resizing: patches put together, centres cut out, grids of
// affine maps, convolutions whose elements are displaced.
#include <algorithm>
#include <cstdlib>

#include "lathe/array_functions.hpp"
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/grid.hpp"
#include "onnx/ops/spatial.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

// ---- patches ----

int64_t product_of(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (size < 1 || __builtin_mul_overflow(product, size, &product))
      throw Error(ErrorKind::Value, "sizes " + to_string(Shape(sizes.begin(), sizes.end())) +
                                        ", expected at least 1, and fewer than 2^63 elements");
  return product;
}

/// How many windows lie along an axis of the size.
int64_t window_count(const Windows& w, size_t axis, int64_t size) {
  const int64_t room = size + w.before[axis] + w.after[axis] - w.reach(axis);
  return room < 0 ? 0 : room / w.stride[axis] + 1;
}

std::vector<Value> column_to_image(Call& call) {
  const std::vector<int64_t> image = call.integers(1), block = call.integers(2);
  const Tensor input = call.tensor(0); // [N, C * block elements, windows]
  const int64_t elements = product_of(block);
  product_of(image);
  if (input.rank() != 3 || image.empty() || image.size() != block.size() ||
      !mod(input.size(1), elements).is_const(0))
    call.fail(ErrorKind::Shape, "input " + to_string(input.shape()) + ", an image of " +
                                    std::to_string(image.size()) + " axes and blocks of " +
                                    std::to_string(block.size()) +
                                    ", expected [N, C * elements of a block, blocks]");
  Shape spatial{input.size(0), floordiv(input.size(1), elements)};
  spatial.insert(spatial.end(), image.begin(), image.end());
  Windows w = read_windows(call, spatial, block);
  read_padding(call, spatial, w);
  Expr windows = 1;
  std::vector<int64_t> padded;
  for (size_t i = 0; i < image.size(); ++i) {
    padded.push_back(image[i] + w.before[i] + w.after[i]);
    windows = windows * Expr(window_count(w, i, image[i]));
  }
  if (windows.is_const(0) || windows != input.size(2))
    call.fail(ErrorKind::Shape, "input " + to_string(input.shape()) + ", expected " + to_string(windows) +
                                    " blocks for image, blocks, strides, pads and dilations");
  if (input.dtype() == DType::Bool) call.fail(ErrorKind::DType, "input of bool, expected numbers");
  PoolOptions options{.stride = w.stride, .dilation = w.dilation};
  std::vector<int64_t> kernel = block;
  if (image.size() == 1) // one number would stand for two
    for (std::vector<int64_t>* sizes : {&padded, &kernel, &options.stride, &options.dilation})
      sizes->push_back(1);
  Value y = fold(input, padded, kernel, options);
  for (size_t i = 0; i < image.size(); ++i) y = slices(y, static_cast<int>(i) + 2, w.before[i], image[i]);
  return {image.size() == 1 ? Value(y.tensor().squeeze(3)) : y};
}

// ---- centres ----

std::vector<Value> centre_crop_or_pad(Call& call) {
  const std::vector<int64_t> target = call.integers(1);
  const Value value = call.value(0);
  const std::vector<int> axes = axes_attribute(call, value.rank());
  if (axes.size() != target.size() ||
      std::any_of(target.begin(), target.end(), [](int64_t n) { return n < 0; }))
    call.fail(ErrorKind::Shape, std::to_string(target.size()) + " sizes for " + std::to_string(axes.size()) +
                                    " axes, expected one of at least 0 for each");
  Value x = value;
  std::vector<std::pair<int64_t, int64_t>> amounts(value.shape().size());
  bool pads = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = fixed_size(call, value, axes[i]), off = std::abs(size - target[i]);
    if (target[i] < size) {
      x = slices(x, axes[i], off / 2, target[i]);
    } else {
      amounts[static_cast<size_t>(axes[i])] = {off / 2, off - off / 2};
      pads |= off > 0;
    }
  }
  return {pads ? Value(x.tensor().pad(amounts)) : x};
}

// ---- grids of affine maps ----

/// The positions of `count` elements between -1 and 1, whose borders or centres these are.
Tensor positions(int64_t count, bool align_corners, DType dtype) {
  const Tensor index = Tensor::arange(count).cast(dtype);
  const auto n = static_cast<double>(count);
  if (!align_corners) return (2.0 * index + 1.0) / n - 1.0;
  return count == 1 ? Tensor::zeros({1}, dtype) : index * (2 / (n - 1)) - 1.0; // one alone is the middle
}

std::vector<Value> affine_grid(Call& call) {
  const std::vector<int64_t> size = call.integers(1); // [N, C, D1, ..., Dr]
  const bool align_corners = call.integer("align_corners", 0) != 0;
  const Tensor maps = call.tensor(0); // [N, r, r + 1]
  const int axes = static_cast<int>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || maps.rank() != 3 || !maps.size(1).is_const(axes) ||
      !maps.size(2).is_const(axes + 1) || maps.size(0) != Expr(size[0]))
    call.fail(ErrorKind::Shape,
              "maps of " + to_string(maps.shape()) + " for " + std::to_string(size.size()) +
                  " sizes, expected [N, 2, 3] for [N, C, H, W] or [N, 3, 4] for [N, C, D, H, W]");
  const int64_t points = product_of({size.begin() + 2, size.end()});
  return {in_single(maps, [&](const Tensor& theta) {
    std::vector<Tensor> columns; // x, y, z: the last axis first
    for (int i = axes; i-- > 0;) {
      const int64_t count = size[static_cast<size_t>(2 + i)];
      const Shape whole(size.begin() + 2, size.end());
      columns.push_back(along_axis(positions(count, align_corners, theta.dtype()), i, axes)
                            .expand(whole)
                            .reshape({points}));
    }
    columns.push_back(Tensor::ones({points}, theta.dtype()));
    Shape shape{size[0]};
    shape.insert(shape.end(), size.begin() + 2, size.end());
    shape.push_back(axes);
    return stack(columns, 1).matmul(theta.transpose()).reshape(shape);
  })};
}

// ---- displaced convolutions ----

/// What DeformConv is told, with its shapes taken apart: N images in groups of channels that are displaced
/// alike.
struct Displaced {
  Windows w;
  int64_t groups, displaced, elements; // of channels by weight; of those displaced alike; of a kernel
  std::vector<int64_t> out;            // spatial sizes
  int64_t points;

  int axes() const { return static_cast<int>(out.size()); }
  /// Where along a spatial axis each element of the kernel lies for each output, [elements, points].
  Tensor places(int axis, DType dtype) const {
    const auto i = static_cast<size_t>(axis);
    Shape shape(w.kernel.begin(), w.kernel.end());
    shape.insert(shape.end(), out.begin(), out.end());
    const Tensor inside = Tensor::iota(shape, axis), window = Tensor::iota(shape, axes() + axis);
    return (inside * w.dilation[i] + window * w.stride[i] - w.before[i])
        .cast(dtype)
        .reshape({elements, points});
  }
};

Displaced read_displaced(Call& call, const Tensor& x, const Tensor& weight, const Tensor& offset) {
  if (x.rank() < 3 || weight.rank() != x.rank() || offset.rank() != x.rank())
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + ", weight " + to_string(weight.shape()) +
                                    " and offset " + to_string(offset.shape()) + ", expected as many axes");
  const std::vector<int64_t> in = call.fixed_shape(x), kernel = call.fixed_shape(weight);
  Displaced d{.w = read_windows(call, x.shape(), {kernel.begin() + 2, kernel.end()}),
              .groups = call.integer("group", 1),
              .displaced = call.integer("offset_group", 1),
              .elements = product_of({kernel.begin() + 2, kernel.end()}),
              .out = {},
              .points = 1};
  read_padding(call, x.shape(), d.w);
  for (size_t i = 0; i + 2 < in.size(); ++i) d.out.push_back(window_count(d.w, i, in[2 + i]));
  const bool groups = d.groups > 0 && d.displaced > 0 && in[1] == kernel[1] * d.groups &&
                      kernel[0] % d.groups == 0 && in[1] % d.displaced == 0;
  Shape expected{x.size(0), d.displaced * d.elements * d.axes()};
  expected.insert(expected.end(), d.out.begin(), d.out.end());
  if (!groups || offset.shape() != expected)
    call.fail(ErrorKind::Shape,
              "input " + to_string(x.shape()) + ", weight " + to_string(weight.shape()) + " and offset " +
                  to_string(offset.shape()) + " of group " + std::to_string(d.groups) + " and offset_group " +
                  std::to_string(d.displaced) + ", expected an offset of " + to_string(expected));
  d.points = product_of(d.out);
  return d;
}

std::vector<Value> displaced_convolution(Call& call) {
  const Tensor input = call.tensor(0);
  const DType dtype = at_least_single(input.dtype());
  const Tensor x = input.cast(dtype), weight = call.tensor(1).cast(dtype),
               offset = call.tensor(2).cast(dtype);
  const std::optional<Tensor> bias = call.optional_tensor(3), mask = call.optional_tensor(4);
  const Displaced d = read_displaced(call, x, weight, offset);
  const int64_t batch = x.size(0).value(), channels = x.size(1).value(), images = batch * d.displaced;
  const std::vector<GridAxis> axes = grid_axes(call, x, true, "zeros");
  const Tensor offsets = offset.reshape({images, d.elements, d.axes(), d.points});
  std::vector<std::vector<GridTap>> taps;
  for (int i = 0; i < d.axes(); ++i) {
    const Tensor places = d.places(i, dtype) + slice_at(offsets, 2, i);
    taps.push_back(
        grid_taps(axes[static_cast<size_t>(i)], places.reshape({images, d.elements * d.points}), "linear"));
  }
  Shape grouped = x.shape();
  grouped[0] = images;
  grouped[1] = channels / d.displaced;
  Tensor columns = sample_images(x.reshape(grouped), axes, taps)
                       .reshape({images, channels / d.displaced, d.elements, d.points});
  if (mask) columns = columns * mask->cast(dtype).reshape({images, 1, d.elements, d.points});
  // Stored once, since every output channel reads them.
  columns = columns.reshape({batch, d.groups, channels / d.groups * d.elements, d.points}).contiguous();
  const Expr outputs = weight.size(0);
  const Tensor rows =
      weight.reshape({1, d.groups, floordiv(outputs, d.groups), channels / d.groups * d.elements});
  Shape shape{batch, outputs};
  shape.insert(shape.end(), d.out.begin(), d.out.end());
  Tensor y = rows.matmul(columns).reshape(shape);
  if (bias) y = y + along_axis(bias->cast(dtype), 1, y.rank());
  return {y.cast(input.dtype())};
}

const OpRow kImageOps[] = {
    {"Col2Im", 18, column_to_image},
    {"CenterCropPad", 18, centre_crop_or_pad},
    {"AffineGrid", 20, affine_grid},
    {"DeformConv", 19, displaced_convolution},
};

} // namespace

OpTable image_ops() { return kImageOps; }

} // namespace lathe::onnx
