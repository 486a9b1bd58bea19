// Resize and Upsample: every axis by itself, as a sum of a few taps at places that are known while the model
// is imported.
#include <algorithm>
#include <cmath>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/interpolate.hpp"
#include "onnx/ops/resize.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

using Settings = ResizeSettings;

/// What becomes of one axis whose sizes are known.
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
  if (how == "half_pixel_symmetric") { // the middle stays where it is, whatever a scale cuts off behind
    const double cut = out / (a.scale * in);
    return in / 2 * (1 - cut) + (x + 0.5) / a.scale - 0.5;
  }
  if (how == "align_corners") return a.out == 1 ? 0 : x * (in - 1) / (a.scale * in - 1);
  if (how == "tf_crop_and_resize")
    return a.out == 1 ? (a.start + a.end) * (in - 1) / 2
                      : a.start * (in - 1) + x * (a.end - a.start) * (in - 1) / (out - 1);
  call.fail(ErrorKind::Value, "coordinate_transformation_mode " + how + ", expected one of ONNX's");
}

double nearest(const Call& call, const std::string& how, double x, double scale) {
  if (how == kNextWhereSmaller) return scale < 1 ? std::ceil(x) : std::floor(x);
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
  // What shrinks an axis without aliasing reaches as much farther.
  const double reach = settings.antialias ? std::min(a.scale, 1.0) : 1.0, radius = cubic ? 2 : 1;
  const auto first = static_cast<int64_t>(std::floor(-radius / reach)) + 1;
  const int64_t count = 2 - 2 * first;
  const bool normalised = settings.exclude_outside || settings.antialias;
  std::vector<Tap> taps(static_cast<size_t>(count));
  for (double x : coordinates) {
    const double base = std::floor(x);
    std::vector<double> weights(taps.size());
    double total = 0;
    for (int64_t k = 0; k < count; ++k) {
      const double place = base + static_cast<double>(first + k), distance = std::abs(x - place) * reach;
      const bool outside = place < 0 || place >= static_cast<double>(a.in);
      double& weight = weights[static_cast<size_t>(k)];
      weight = cubic ? cubic_weight(distance, settings.cubic_coefficient) : std::max(1 - distance, 0.0);
      if (settings.exclude_outside && outside) weight = 0;
      total += weight;
      taps[static_cast<size_t>(k)].index.push_back(
          std::clamp<int64_t>(static_cast<int64_t>(place), 0, a.in - 1));
    }
    for (size_t k = 0; k < taps.size(); ++k)
      taps[k].weight.push_back(static_cast<float>(normalised ? weights[k] / total : weights[k]));
  }
  return taps;
}

Tensor resize_axis(const Call& call, const Tensor& x, int axis, const AxisPlan& a, const Settings& settings) {
  std::vector<double> coordinates;
  for (int64_t at = 0; at < a.out; ++at) coordinates.push_back(source_coordinate(call, settings, a, at));
  if (settings.mode == "nearest") {
    std::vector<int64_t> index;
    for (double c : coordinates)
      index.push_back(std::clamp<int64_t>(static_cast<int64_t>(nearest(call, settings.nearest, c, a.scale)),
                                          0, a.in - 1));
    return x.take(Tensor::from(index), axis);
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

/// The plans of the axes that change; nothing for the others.
struct Plans {
  explicit Plans(size_t rank) : known(rank), open(rank) {}
  std::vector<std::optional<AxisPlan>> known;
  std::vector<std::optional<OpenAxis>> open; // of axes with symbolic sizes
};

Tensor resize_by(const Call& call, const Tensor& given, const Plans& plans, const Settings& settings) {
  if (settings.mode != "nearest" && settings.mode != "linear" && settings.mode != "cubic")
    call.fail(ErrorKind::Value, "mode " + settings.mode + ", expected nearest, linear or cubic");
  if (settings.antialias && settings.mode == "nearest")
    call.fail(ErrorKind::Value, "antialias with mode nearest, expected linear or cubic");
  const bool computes = settings.mode != "nearest";
  // Half precision and integers are summed up in f32.
  Tensor x = computes && given.dtype() != DType::F64 ? given.cast(DType::F32) : given;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (plans.known[axis])
      x = resize_axis(call, x, axis, *plans.known[axis], settings);
    else if (plans.open[axis])
      x = resize_open_axis(call, x, axis, *plans.open[axis], settings);
  if (settings.coordinates == "tf_crop_and_resize")
    for (int axis = 0; axis < x.rank(); ++axis)
      if (plans.known[axis])
        x = where(inside_axis(call, settings, *plans.known[axis], axis, x.rank()), x,
                  Tensor::full({}, settings.extrapolation).cast(x.dtype()));
  // Integers are rounded, but for those of linear mode without antialias, which ONNX Runtime cuts off.
  const bool rounds =
      computes && !is_float(given.dtype()) && (settings.antialias || settings.mode == "cubic");
  return (rounds ? x.round() : x).cast(given.dtype());
}

int64_t fixed(const Call& call, Expr size, size_t axis) {
  if (!size.is_const())
    call.fail(ErrorKind::Shape, "axis " + std::to_string(axis) + " of size " + to_string(size) +
                                    ", expected a fixed size to resize");
  return size.value();
}

/// The places of all elements of an axis are computed ahead.
void check_length(const Call& call, int64_t out) {
  constexpr int64_t kLongest = int64_t{1} << 22;
  if (out > kLongest)
    call.fail(ErrorKind::Limit, "an axis of " + std::to_string(out) + " elements, expected at most " +
                                    std::to_string(kLongest));
}

Plans plans_of_scales(const Call& call, const Shape& shape, const std::vector<double>& scales, bool always) {
  if (scales.size() != shape.size())
    call.fail(ErrorKind::Value,
              std::to_string(scales.size()) + " scales for " + to_string(shape) + ", expected one an axis");
  Plans plans(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (scales[i] == 1 && !always) continue;
    if (const auto out = shape[i].is_const() ? std::nullopt : scaled_size(shape[i], scales[i])) {
      plans.open[i] = OpenAxis{shape[i], *out, scales[i]};
      continue;
    }
    const int64_t in = fixed(call, shape[i], i);
    // Multiplied in f32, so that 0.7 of 10 is 7.
    const auto out = static_cast<int64_t>(std::floor(static_cast<float>(scales[i]) * static_cast<float>(in)));
    if (out < 1) call.fail(ErrorKind::Value, "a scale leaves no elements, expected a larger one");
    check_length(call, out);
    plans.known[i] = AxisPlan{in, out, scales[i]};
  }
  return plans;
}

Plans plans_of_sizes(const Call& call, const Shape& shape, const Shape& sizes, bool always) {
  Plans plans(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (sizes[i] == shape[i] && !always) continue;
    if (!sizes[i].is_const() || !shape[i].is_const()) {
      plans.open[i] = OpenAxis{shape[i], sizes[i], {}};
      continue;
    }
    const int64_t in = fixed(call, shape[i], i), out = fixed(call, sizes[i], i);
    if (out < 1) call.fail(ErrorKind::Value, "a size below 1, expected at least 1");
    check_length(call, out);
    plans.known[i] = AxisPlan{in, out, static_cast<double>(out) / static_cast<double>(in)};
  }
  return plans;
}

/// One scale for the axes that the node names: the one with which no size is larger than is asked for, or
/// none is smaller.
Plans plans_of_ratio(const Call& call, const Shape& shape, const Shape& sizes, const std::vector<int>& axes,
                     bool not_larger) {
  std::vector<double> ratios;
  for (const int axis : axes) {
    const auto i = static_cast<size_t>(axis);
    ratios.push_back(static_cast<double>(fixed(call, sizes[i], i)) /
                     static_cast<double>(fixed(call, shape[i], i)));
  }
  Plans plans(shape.size());
  if (ratios.empty()) return plans;
  const double scale = not_larger ? *std::min_element(ratios.begin(), ratios.end())
                                  : *std::max_element(ratios.begin(), ratios.end());
  for (const int axis : axes) {
    const auto i = static_cast<size_t>(axis);
    const int64_t in = shape[i].value();
    const auto out = static_cast<int64_t>(std::floor(scale * static_cast<double>(in) + 0.5));
    if (out < 1) call.fail(ErrorKind::Value, "a size below 1, expected at least 1");
    plans.known[i] = AxisPlan{in, out, scale};
  }
  return plans;
}

bool given(const Call& call, size_t input) { return call.has(input) && !call.value(input).is_empty(); }

/// One number for each of the axes, spread over all of them; the others have `otherwise`.
template <class Number>
std::vector<Number> spread_over(const Call& call, const char* what, const std::vector<Number>& numbers,
                                const std::vector<int>& axes, std::vector<Number> otherwise) {
  if (numbers.size() != axes.size())
    call.fail(ErrorKind::Value, std::to_string(numbers.size()) + " " + what + " for " +
                                    std::to_string(axes.size()) + " axes, expected one an axis");
  for (size_t i = 0; i < axes.size(); ++i) otherwise[static_cast<size_t>(axes[i])] = numbers[i];
  return otherwise;
}

Plans read_plans(Call& call, const Shape& shape, const std::vector<int>& axes, bool always) {
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    call.fail(ErrorKind::Value,
              "keep_aspect_ratio_policy " + policy + ", expected stretch, not_larger or not_smaller");
  if (!given(call, 3)) {
    const std::vector<double> ones(shape.size(), 1.0);
    return plans_of_scales(call, shape, spread_over(call, "scales", call.numbers(2), axes, ones), always);
  }
  const Shape sizes = spread_over<Expr>(call, "sizes", call.sizes(3), axes, shape);
  if (policy != "stretch") return plans_of_ratio(call, shape, sizes, axes, policy == "not_larger");
  return plans_of_sizes(call, shape, sizes, always);
}

/// Sets which part of every axis is resized, by the input roi: starts, then ends.
void read_regions(Call& call, const std::vector<int>& axes, Plans& plans) {
  const std::vector<double> region = call.numbers(1);
  if (region.size() != 2 * axes.size())
    call.fail(ErrorKind::Value, std::to_string(region.size()) + " numbers in roi, expected two an axis");
  for (size_t k = 0; k < axes.size(); ++k) {
    std::optional<AxisPlan>& plan = plans.known[static_cast<size_t>(axes[k])];
    if (!plan) continue;
    plan->start = region[k];
    plan->end = region[axes.size() + k];
  }
  for (std::optional<AxisPlan>& plan : plans.known)
    if (plan && plan->start == 0 && plan->end == 1 && plan->in == plan->out) plan.reset();
}

std::vector<Value> resize(Call& call) {
  Settings settings{.mode = call.text("mode", "nearest"),
                    .coordinates = call.text("coordinate_transformation_mode", "half_pixel"),
                    .nearest = call.text("nearest_mode", "round_prefer_floor"),
                    .cubic_coefficient = call.number("cubic_coeff_a", -0.75),
                    .extrapolation = call.number("extrapolation_value", 0.0),
                    .exclude_outside = call.integer("exclude_outside", 0) != 0,
                    .antialias = call.integer("antialias", 0) != 0};
  const bool crops = settings.coordinates == "tf_crop_and_resize";
  const Shape shape = call.value(0).shape();
  if (given(call, 2) == given(call, 3))
    call.fail(ErrorKind::Value, given(call, 2) ? "scales and sizes, expected one of them"
                                               : "neither scales nor sizes, expected one of them");
  const std::vector<int> axes = axes_attribute(call, static_cast<int>(shape.size()));
  Plans plans = read_plans(call, shape, axes, crops);
  if (crops) read_regions(call, axes, plans);
  return {resize_by(call, call.tensor(0), plans, settings)};
}

/// Upsample, and Resize of opset 10.
std::vector<Value> upsample(Call& call) {
  const std::vector<double> scales = call.has_attribute("scales") ? call.numbers("scales") : call.numbers(1);
  Settings settings{
      .mode = call.text("mode", "nearest"), .coordinates = "asymmetric", .nearest = kNextWhereSmaller};
  if (settings.mode == "bilinear") settings.mode = "linear";
  return {
      resize_by(call, call.tensor(0), plans_of_scales(call, call.value(0).shape(), scales, false), settings)};
}

const OpRow kResizeOps[] = {{"Upsample", 7, upsample}, {"Resize", 10, upsample}, {"Resize", 11, resize}};

} // namespace

OpTable resize_ops() { return kResizeOps; }

} // namespace lathe::onnx
