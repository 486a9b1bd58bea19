// Sampling at places that the program computes: GridSample and RoiAlign.
#include <algorithm>

#include "onnx/ops/interpolate.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// One axis of the images that a grid points into.
struct GridAxis {
  int64_t size;
  bool align_corners;
  std::string padding;

  /// From [-1, 1] to elements: the ends are the outer elements' centres, or their outer borders.
  Tensor denormalise(const Tensor& x) const {
    const auto n = static_cast<double>(size);
    return align_corners ? (x + 1.0) * ((n - 1) / 2) : (x + 1.0) * (n / 2) - 0.5;
  }

  /// Which element a whole place outside stands for; places that padding by zeros leaves outside are kept.
  Tensor element(const Tensor& place) const {
    const auto last = static_cast<double>(size - 1);
    if (padding == "border") return place.clamp(0, last);
    if (padding != "reflection") return place;
    const double low = align_corners ? 0 : -0.5, span = align_corners ? last : last + 1;
    if (span == 0) return Tensor::zeros(place.shape(), place.dtype());
    // There and back again: a saw tooth with the period of two spans.
    const Tensor distance = (place - low).abs();
    const Tensor phase = distance - (distance * (0.5 / span)).floor() * (2 * span);
    return (minimum(phase, 2 * span - phase) + low).clamp(0, last);
  }

  Tensor inside(const Tensor& element) const {
    return logical_and(element >= 0.0, element <= static_cast<double>(size - 1));
  }
};

struct GridTap {
  Tensor element, weight;
};

/// The elements of an axis that make the value at x, with their weights.
std::vector<GridTap> grid_taps(const GridAxis& axis, const Tensor& x, const std::string& mode) {
  constexpr double kCubicCoefficient = -0.75;
  if (mode == "nearest") return {{axis.element(x.round()), Tensor::ones({}, x.dtype())}};
  const Tensor base = x.floor(), fraction = x - base;
  if (mode == "bilinear") return {{axis.element(base), 1.0 - fraction}, {axis.element(base + 1.0), fraction}};
  const Tensor rest = 1.0 - fraction;
  return {{axis.element(base - 1.0), cubic_far(fraction + 1.0, kCubicCoefficient)},
          {axis.element(base), cubic_near(fraction, kCubicCoefficient)},
          {axis.element(base + 1.0), cubic_near(rest, kCubicCoefficient)},
          {axis.element(base + 2.0), cubic_far(rest + 1.0, kCubicCoefficient)}};
}

/// By its name before opset 20, which calls them linear and cubic.
std::string grid_mode(const Call& call) {
  const bool renamed = call.opset() >= 20;
  const std::string mode = call.text("mode", renamed ? "linear" : "bilinear");
  if (mode == "nearest") return mode;
  if (mode == (renamed ? "linear" : "bilinear")) return "bilinear";
  if (mode == (renamed ? "cubic" : "bicubic")) return "bicubic";
  call.fail(ErrorKind::Value, "mode " + mode + ", expected " +
                                  (renamed ? "linear, nearest or cubic" : "bilinear, nearest or bicubic"));
}

std::vector<Value> grid_sample(Call& call) {
  const Tensor x = call.tensor(0), grid = call.tensor(1); // [N, C, H, W] and [N, OH, OW, 2]
  const std::string mode = grid_mode(call), padding = call.text("padding_mode", "zeros");
  const bool align_corners = call.integer("align_corners", 0) != 0;
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    call.fail(ErrorKind::Value, "padding_mode " + padding + ", expected zeros, border or reflection");
  if (x.rank() != 4 || grid.rank() != 4 || !grid.size(3).is_const(2))
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + " and grid " + to_string(grid.shape()) +
                                    ", expected images [N, C, H, W] and [N, OH, OW, 2]");
  if (!x.size(2).is_const() || !x.size(3).is_const())
    call.fail(ErrorKind::Shape, "input " + to_string(x.shape()) + ", expected fixed sizes of the image");
  const GridAxis down{x.size(2).value(), align_corners, padding},
      across{x.size(3).value(), align_corners, padding};
  const Tensor image = x.reshape({x.size(0), x.size(1), x.size(2) * x.size(3)});
  const Expr points = grid.size(1) * grid.size(2);
  std::optional<Tensor> sum;
  for (const GridTap& row : grid_taps(down, down.denormalise(slice_at(grid, 3, 1)), mode))
    for (const GridTap& column : grid_taps(across, across.denormalise(slice_at(grid, 3, 0)), mode)) {
      const Tensor position = row.element.cast(DType::I64) * across.size + column.element.cast(DType::I64);
      const Tensor inside = logical_and(down.inside(row.element), across.inside(column.element));
      // A position behind the image reads as 0.
      const Tensor index = where(inside, position, weak(down.size * across.size, DType::I64));
      const Tensor value =
          image.gather(2, index.reshape({x.size(0), 1, points}).expand({x.size(0), x.size(1), points}));
      const Tensor weight =
          (row.weight * column.weight).expand(index.shape()).reshape({x.size(0), 1, points});
      const Tensor part = value * weight.cast(x.dtype());
      sum = sum ? *sum + part : part;
    }
  return {sum->reshape({x.size(0), x.size(1), grid.size(1), grid.size(2)})};
}

/// The samples of one axis of the regions: places [R, bins * samples], which of them count, and by how many
/// their sum in a bin of a region is divided [R].
struct RegionAxis {
  Tensor place, counts, count;
  int64_t bins, samples;
};

RegionAxis region_axis(Call& call, const Tensor& first, const Tensor& last, int64_t bins, int64_t ratio,
                       bool at_least_one) {
  Tensor extent = last - first, start = first;
  if (at_least_one) extent = maximum(extent, Tensor::ones({}, extent.dtype()));
  const Tensor bin = extent / static_cast<double>(bins);
  // A region without an extent has no samples; the mean of none is 0.
  Tensor count = ratio > 0 ? Tensor::full(bin.shape(), static_cast<double>(ratio)).cast(bin.dtype())
                           : maximum(bin.ceil(), Tensor::zeros({}, bin.dtype()));
  std::vector<Value> kept{start, bin, count};
  const int64_t most = ratio > 0 ? ratio : call.look(count.max().cast(DType::I64), &kept).at(0);
  const int64_t samples = std::max<int64_t>(most, 1);
  start = kept[0].tensor().reshape({-1, 1, 1});
  count = kept[2].tensor().reshape({-1, 1, 1});
  const DType dtype = bin.dtype();
  const Tensor which = Tensor::arange(bins).cast(dtype).reshape({1, bins, 1}),
               sample = Tensor::arange(samples).cast(dtype);
  const Tensor divisor = maximum(count, Tensor::ones({}, dtype));
  const Tensor place = start + (which + (sample + 0.5) / divisor) * kept[1].tensor().reshape({-1, 1, 1});
  const Tensor counts = (sample < count).expand(place.shape());
  return {place.reshape({-1, bins * samples}), counts.reshape({-1, bins * samples}), divisor, bins, samples};
}

/// Which samples count, and are no more than one element outside.
Tensor near_axis(const RegionAxis& axis, int64_t size) {
  return logical_and(axis.counts, logical_and(axis.place >= -1.0, axis.place <= static_cast<double>(size)));
}

/// The weights of an axis' elements in every sample, [R, bins * samples, size]: a linear interpolation, 0 for
/// samples that are more than one element outside.
Tensor sample_weights(const RegionAxis& axis, int64_t size) {
  const DType dtype = axis.place.dtype();
  const auto n = static_cast<double>(size);
  const Tensor near = near_axis(axis, size);
  const Tensor distance = (axis.place.clamp(0, n - 1).unsqueeze(-1) - Tensor::arange(size).cast(dtype)).abs();
  const Tensor zero = Tensor::zeros({}, dtype);
  return where(near.unsqueeze(-1), maximum(1.0 - distance, zero), zero);
}

/// The samples of each bin put together into its mean.
Tensor mean_weights(const RegionAxis& axis, int64_t size) {
  const Tensor weights = sample_weights(axis, size).reshape({-1, axis.bins, axis.samples, size});
  return weights.sum(2) / axis.count;
}

/// The two elements of an axis beside each sample: index and weight, both [R, bins * samples].
struct Corner {
  Tensor index, weight;
};

std::vector<Corner> corners(const RegionAxis& axis, int64_t size) {
  const auto last = static_cast<double>(size - 1);
  const Tensor place = axis.place.clamp(0, last), low = place.floor(), fraction = place - low;
  const Tensor zero = Tensor::zeros({}, place.dtype()), near = near_axis(axis, size);
  return {{low.cast(DType::I64), where(near, 1.0 - fraction, zero)},
          {(low + 1.0).clamp(0, last).cast(DType::I64), where(near, fraction, zero)}};
}

/// The largest share that any element has in a sample of the bin: ONNX's own tests and ONNX Runtime take no
/// sums of shares here.
Tensor roi_align_max(const Tensor& images, const RegionAxis& down, const RegionAxis& across, int64_t height,
                     int64_t width) {
  const Expr regions = images.size(0), channels = images.size(1);
  const Expr rows = down.bins * down.samples, columns = across.bins * across.samples;
  std::optional<Tensor> largest;
  for (const Corner& row : corners(down, height)) {
    const Tensor row_index =
        row.index.reshape({regions, 1, rows, 1}).expand({regions, channels, rows, width});
    const Tensor of_rows = images.gather(2, row_index) * row.weight.reshape({regions, 1, rows, 1});
    for (const Corner& column : corners(across, width)) {
      const Tensor index =
          column.index.reshape({regions, 1, 1, columns}).expand({regions, channels, rows, columns});
      const Tensor share = of_rows.gather(3, index) * column.weight.reshape({regions, 1, 1, columns});
      largest = largest ? maximum(*largest, share) : share;
    }
  }
  const Tensor counts = logical_and(down.counts.unsqueeze(-1), across.counts.unsqueeze(-2)).unsqueeze(1);
  const Tensor least = weak(lowest(images.dtype()), images.dtype());
  const Tensor result =
      where(counts, *largest, least)
          .reshape({regions, channels, down.bins, down.samples, across.bins, across.samples})
          .max(Axes{3, 5});
  return where(result == least, Tensor::zeros({}, result.dtype()), result); // of no samples
}

std::vector<Value> roi_align(Call& call) {
  const int64_t height = call.integer("output_height", 1), width = call.integer("output_width", 1);
  const int64_t ratio = call.integer("sampling_ratio", 0);
  const double scale = call.number("spatial_scale", 1.0);
  const std::string mode = call.text("mode", "avg");
  // Before opset 16 there was no half pixel.
  const std::string coordinates =
      call.text("coordinate_transformation_mode", call.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "avg" && mode != "max") call.fail(ErrorKind::Value, "mode " + mode + ", expected avg or max");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    call.fail(ErrorKind::Value,
              "coordinate_transformation_mode " + coordinates + ", expected half_pixel or output_half_pixel");
  const bool half_pixel = coordinates == "half_pixel";
  const auto corner = [&](int which) {
    return slice_at(call.tensor(1), 1, which) * scale - (half_pixel ? 0.5 : 0.0);
  };
  const RegionAxis across = region_axis(call, corner(0), corner(2), width, ratio, !half_pixel);
  const RegionAxis down = region_axis(call, corner(1), corner(3), height, ratio, !half_pixel);
  const Tensor x = call.tensor(0), images = x.take(call.tensor(2), 0); // [R, C, H, W]
  if (x.rank() != 4 || !x.size(2).is_const() || !x.size(3).is_const())
    call.fail(ErrorKind::Shape,
              "input " + to_string(x.shape()) + ", expected [N, C, H, W] of fixed height and width");
  const int64_t rows = x.size(2).value(), columns = x.size(3).value();
  if (mode == "max") return {roi_align_max(images, down, across, rows, columns)};
  const Tensor by_rows = mean_weights(down, rows).unsqueeze(1).matmul(images);
  return {by_rows.matmul(mean_weights(across, columns).unsqueeze(1).transpose())};
}

const OpRow rows[] = {{"GridSample", 16, grid_sample},
                      {"GridSample", 1, grid_sample, "com.microsoft", 2},
                      {"RoiAlign", 10, roi_align}};

} // namespace

OpTable sample_ops() { return rows; }

} // namespace lathe::onnx
