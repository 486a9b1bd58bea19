// Sampling at places that the program computes: GridSample and RoiAlign.
#include <algorithm>

#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/grid.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// By its name before opset 20, which calls them linear and cubic.
std::string grid_mode(const Call& call) {
  const bool renamed = call.opset() >= 20;
  const std::string mode = call.text("mode", renamed ? "linear" : "bilinear");
  if (mode == "nearest") return mode;
  if (mode == (renamed ? "linear" : "bilinear")) return "linear";
  if (mode == (renamed ? "cubic" : "bicubic")) return "cubic";
  call.fail(ErrorKind::Value, "mode " + mode + ", expected " +
                                  (renamed ? "linear, nearest or cubic" : "bilinear, nearest or bicubic"));
}

std::vector<Value> grid_sample(Call& call) {
  const Tensor input = call.tensor(0); // [N, C, D1, ..., Dr]
  Tensor grid = call.tensor(1);        // [N, O1, ..., Or, r]
  const std::string mode = grid_mode(call), padding = call.text("padding_mode", "zeros");
  const bool align_corners = call.integer("align_corners", 0) != 0;
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    call.fail(ErrorKind::Value, "padding_mode " + padding + ", expected zeros, border or reflection");
  const int rank = input.rank(), spatial = rank - 2;
  const bool fits = rank >= 3 && grid.rank() == rank && grid.size(-1).is_const(spatial) &&
                    grid.size(0) == input.size(0) && (rank == 4 || call.opset() >= 20);
  if (!fits)
    call.fail(ErrorKind::Shape,
              "input " + to_string(input.shape()) + " and grid " + to_string(grid.shape()) +
                  (call.opset() >= 20 ? ", expected [N, C, D1, ..., Dr] and [N, O1, ..., Or, r]"
                                      : ", expected images [N, C, H, W] and [N, OH, OW, 2]"));
  if (!is_float(input.dtype()) && mode != "nearest")
    call.fail(ErrorKind::DType,
              "input of " + std::string(to_string(input.dtype())) + " in mode " + mode + ", expected floats");
  grid = grid.cast(at_least_single(grid.dtype()));
  const std::vector<GridAxis> axes = grid_axes(call, input, align_corners, padding);
  const Expr points = elements_between(grid.shape(), 1, rank - 1);
  std::vector<std::vector<GridTap>> taps;
  for (int i = 0; i < spatial; ++i) { // the grid's last axis begins with the last of the images
    const Tensor places = slice_at(grid, rank - 1, spatial - 1 - i).reshape({grid.size(0), points});
    taps.push_back(
        grid_taps(axes[static_cast<size_t>(i)], axes[static_cast<size_t>(i)].denormalise(places), mode));
  }
  Shape shape = grid.shape();
  shape.pop_back();
  shape.insert(shape.begin() + 1, input.size(1));
  return {in_single(input, [&](const Tensor& x) { return sample_images(x, axes, taps).reshape(shape); })};
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
struct BilinearCorner {
  Tensor index, weight;
};

std::vector<BilinearCorner> corners(const RegionAxis& axis, int64_t size) {
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
  for (const BilinearCorner& row : corners(down, height)) {
    const Tensor row_index =
        row.index.reshape({regions, 1, rows, 1}).expand({regions, channels, rows, width});
    const Tensor of_rows = images.gather(2, row_index) * row.weight.reshape({regions, 1, rows, 1});
    for (const BilinearCorner& column : corners(across, width)) {
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

const OpRow kSampleOps[] = {{"GridSample", 16, grid_sample},
                            {"GridSample", 1, grid_sample, "com.microsoft", 2},
                            {"RoiAlign", 10, roi_align}};

} // namespace

OpTable sample_ops() { return kSampleOps; }

} // namespace lathe::onnx
