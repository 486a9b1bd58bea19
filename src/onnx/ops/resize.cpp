// Resize and Upsample: every axis by itself, as a sum of a few taps at places that are known while the model
// is imported.
#include <algorithm>
#include <cmath>

#include "onnx/ops/interpolate.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

struct Settings {
  std::string mode, coordinates, nearest;
  double cubic_coefficient = -0.75, extrapolation = 0;
  bool exclude_outside = false;
};

/// What becomes of one axis.
struct AxisPlan {
  int64_t in, out;
  double scale;
  double start = 0, end = 1; // of the region, as parts of the axis
};

/// Where an output element lies in the input.
double source_coordinate(const Call& call, const Settings& settings, const AxisPlan& a, int64_t at) {
  const auto x = static_cast<double>(at), in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  const std::string& how = settings.coordinates;
  if (how == "half_pixel" || (how == "pytorch_half_pixel" && a.out > 1)) return (x + 0.5) / a.scale - 0.5;
  if (how == "pytorch_half_pixel") return 0;
  if (how == "asymmetric") return x / a.scale;
  if (how == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (how == "align_corners") return a.out == 1 ? 0 : x * (in - 1) / (a.scale * in - 1);
  if (how == "tf_crop_and_resize")
    return a.out == 1 ? (a.start + a.end) * (in - 1) / 2
                      : a.start * (in - 1) + x * (a.end - a.start) * (in - 1) / (out - 1);
  call.fail(ErrorKind::Value, "coordinate_transformation_mode " + how + ", expected one of ONNX's");
}

double nearest(const Call& call, const std::string& how, double x) {
  if (how == "round_prefer_floor") return std::ceil(x - 0.5);
  if (how == "round_prefer_ceil") return std::floor(x + 0.5);
  if (how == "floor") return std::floor(x);
  if (how == "ceil") return std::ceil(x);
  call.fail(ErrorKind::Value,
            "nearest_mode " + how + ", expected round_prefer_floor, round_prefer_ceil, floor or ceil");
}

struct Tap {
  std::vector<int64_t> index;
  std::vector<float> weight;
};

/// The taps of all output elements; tap k of an element is taps[k] at it.
std::vector<Tap> taps_of(const Settings& settings, const AxisPlan& a,
                         const std::vector<double>& coordinates) {
  const bool cubic = settings.mode == "cubic";
  const int64_t count = cubic ? 4 : 2, first = cubic ? -1 : 0;
  std::vector<Tap> taps(static_cast<size_t>(count));
  for (double x : coordinates) {
    const double base = std::floor(x);
    std::vector<double> weights(taps.size());
    double total = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double place = base + static_cast<double>(first + k), distance = std::abs(x - place);
      const bool outside = place < 0 || place >= static_cast<double>(a.in);
      double& weight = weights[static_cast<size_t>(k)];
      weight = cubic ? cubic_weight(distance, settings.cubic_coefficient) : 1 - distance;
      if (settings.exclude_outside && outside) weight = 0;
      total += weight;
      taps[static_cast<size_t>(k)].index.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(place), 0, a.in - 1));
    }
    for (size_t k = 0; k < taps.size(); ++k)
      taps[k].weight.push_back(
          static_cast<float>(settings.exclude_outside ? weights[k] / total : weights[k]));
  }
  return taps;
}

/// The elements of an axis at places known now: repeated as a view where every one is repeated as often, else
/// read at indices.
Tensor pick(const Tensor& x, int axis, const std::vector<int64_t>& index) {
  const int64_t in = x.size(axis).value(), out = static_cast<int64_t>(index.size()), times = out / in;
  bool repeats = out % in == 0;
  for (int64_t at = 0; at < out && repeats; ++at) repeats = index[static_cast<size_t>(at)] == at / times;
  if (!repeats) return x.take(Tensor::from(index), axis);
  Shape apart = x.shape(), joined = x.shape();
  apart.insert(apart.begin() + axis + 1, Expr(times));
  joined[axis] = out;
  return x.unsqueeze(axis + 1).expand(apart).reshape(joined);
}

Tensor resize_axis(const Call& call, const Tensor& x, int axis, const AxisPlan& a, const Settings& settings) {
  std::vector<double> coordinates;
  for (int64_t at = 0; at < a.out; ++at) coordinates.push_back(source_coordinate(call, settings, a, at));
  if (settings.mode == "nearest") {
    std::vector<int64_t> index;
    for (double c : coordinates)
      index.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(nearest(call, settings.nearest, c)), 0, a.in - 1));
    return pick(x, axis, index);
  }
  Shape along(x.shape().size(), Expr(1));
  along[axis] = a.out;
  std::optional<Tensor> sum;
  for (const Tap& tap : taps_of(settings, a, coordinates)) {
    const Tensor part =
        x.take(Tensor::from(tap.index), axis) * Tensor::from(tap.weight).reshape(along).cast(x.dtype());
    sum = sum ? *sum + part : part;
  }
  return *sum;
}

/// Which elements of an output axis come from inside the input.
Tensor inside_axis(const Call& call, const Settings& settings, const AxisPlan& a, int axis, int rank) {
  std::vector<bool> inside;
  for (int64_t at = 0; at < a.out; ++at) {
    const double c = source_coordinate(call, settings, a, at);
    inside.push_back(c >= 0 && c <= static_cast<double>(a.in - 1));
  }
  Shape along(rank, Expr(1));
  along[axis] = a.out;
  return Tensor::from(inside, along);
}

/// The plans of the axes that change; nothing for the others, whose sizes may be symbolic.
using Plans = std::vector<std::optional<AxisPlan>>;

Tensor resize_by(const Call& call, const Tensor& given, const Plans& plans, const Settings& settings) {
  if (settings.mode != "nearest" && settings.mode != "linear" && settings.mode != "cubic")
    call.fail(ErrorKind::Value, "mode " + settings.mode + ", expected nearest, linear or cubic");
  const bool computes = settings.mode != "nearest";
  // Half precision and integers are summed up in f32.
  Tensor x = computes && given.dtype() != DType::F64 ? given.cast(DType::F32) : given;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (plans[axis]) x = resize_axis(call, x, axis, *plans[axis], settings);
  if (settings.coordinates == "tf_crop_and_resize")
    for (int axis = 0; axis < x.rank(); ++axis)
      if (plans[axis])
        x = where(inside_axis(call, settings, *plans[axis], axis, x.rank()), x,
                  Tensor::full({}, settings.extrapolation).cast(x.dtype()));
  return x.cast(given.dtype());
}

int64_t fixed(const Call& call, Expr size, size_t axis) {
  if (!size.is_const())
    call.fail(ErrorKind::Shape, "axis " + std::to_string(axis) + " of size " + to_string(size) +
                                    ", expected a fixed size to resize");
  return size.value();
}

Plans plans_of_scales(const Call& call, const Shape& shape, const std::vector<double>& scales, bool always) {
  if (scales.size() != shape.size())
    call.fail(ErrorKind::Value,
              std::to_string(scales.size()) + " scales for " + to_string(shape) + ", expected one an axis");
  Plans plans(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (scales[i] == 1 && !always) continue;
    const int64_t in = fixed(call, shape[i], i);
    // Multiplied in f32, so that 0.7 of 10 is 7.
    const auto out = static_cast<int64_t>(std::floor(static_cast<float>(scales[i]) * static_cast<float>(in)));
    if (out < 1) call.fail(ErrorKind::Value, "a scale leaves no elements, expected a larger one");
    plans[i] = AxisPlan{in, out, scales[i]};
  }
  return plans;
}

Plans plans_of_sizes(const Call& call, const Shape& shape, const Shape& sizes, bool always) {
  if (sizes.size() != shape.size())
    call.fail(ErrorKind::Value,
              std::to_string(sizes.size()) + " sizes for " + to_string(shape) + ", expected one an axis");
  Plans plans(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (sizes[i] == shape[i] && !always) continue;
    const int64_t in = fixed(call, shape[i], i), out = fixed(call, sizes[i], i);
    if (out < 1) call.fail(ErrorKind::Value, "a size below 1, expected at least 1");
    plans[i] = AxisPlan{in, out, static_cast<double>(out) / static_cast<double>(in)};
  }
  return plans;
}

bool given(const Call& call, size_t input) { return call.has(input) && !call.value(input).is_empty(); }

std::vector<Value> resize(Call& call) {
  Settings settings{.mode = call.text("mode", "nearest"),
                    .coordinates = call.text("coordinate_transformation_mode", "half_pixel"),
                    .nearest = call.text("nearest_mode", "round_prefer_floor"),
                    .cubic_coefficient = call.number("cubic_coeff_a", -0.75),
                    .extrapolation = call.number("extrapolation_value", 0.0),
                    .exclude_outside = call.integer("exclude_outside", 0) != 0};
  const bool crops = settings.coordinates == "tf_crop_and_resize";
  const Shape shape = call.value(0).shape();
  if (!given(call, 2) && !given(call, 3))
    call.fail(ErrorKind::Value, "neither scales nor sizes, expected one of them");
  Plans plans = given(call, 3) ? plans_of_sizes(call, shape, call.sizes(3), crops)
                               : plans_of_scales(call, shape, call.numbers(2), crops);
  if (crops) {
    const std::vector<double> region = call.numbers(1); // starts, then ends
    if (region.size() != 2 * shape.size())
      call.fail(ErrorKind::Value, std::to_string(region.size()) + " numbers in roi, expected two an axis");
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool whole = region[i] == 0 && region[shape.size() + i] == 1;
      if (whole && plans[i]->in == plans[i]->out) {
        plans[i].reset();
        continue;
      }
      plans[i]->start = region[i];
      plans[i]->end = region[shape.size() + i];
    }
  }
  return {resize_by(call, call.tensor(0), plans, settings)};
}

/// Upsample, and Resize of opset 10.
std::vector<Value> upsample(Call& call) {
  const std::vector<double> scales = call.has_attribute("scales") ? call.numbers("scales") : call.numbers(1);
  Settings settings{.mode = call.text("mode", "nearest"), .coordinates = "asymmetric", .nearest = "floor"};
  if (settings.mode == "bilinear") settings.mode = "linear";
  return {
      resize_by(call, call.tensor(0), plans_of_scales(call, call.value(0).shape(), scales, false), settings)};
}

const OpRow rows[] = {{"Upsample", 7, upsample}, {"Resize", 10, upsample}, {"Resize", 11, resize}};

} // namespace

OpTable resize_ops() { return rows; }

} // namespace lathe::onnx
