// Ops that move elements by what they are asked for at run time: padding, triangles, sequences of given
// lengths, dropout.
#include <algorithm>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

struct Amounts {
  int64_t before, after;
};

/// Cuts what negative amounts ask for.
Value cut(Value x, int axis, Amounts by) {
  const int64_t before = std::max<int64_t>(-by.before, 0), after = std::max<int64_t>(-by.after, 0);
  if (before == 0 && after == 0) return x;
  return slices(x, axis, before, x.shape()[axis] - before - after);
}

/// Error(Shape) for an axis without elements, of which none can be repeated.
void check_has_elements(const Call& call, const Tensor& x, int axis) {
  if (!x.size(axis).is_const(0)) return;
  call.fail(ErrorKind::Shape, "padding axis " + std::to_string(axis) + " of " + to_string(x.shape()) +
                                  " with its own elements, expected that there are some");
}

/// An axis longer by elements that are already there: its border, or what a mirror at the border shows.
Tensor extend(const Call& call, const Tensor& x, int axis, Amounts by, bool reflect) {
  const Expr size = x.size(axis);
  const int64_t most = std::max(by.before, by.after);
  if (most <= 0) return x;
  check_has_elements(call, x, axis);
  if (reflect && size.lo() <= most)
    call.fail(ErrorKind::Value, "reflecting " + std::to_string(most) + " elements of axis " +
                                    std::to_string(axis) + " of " + to_string(x.shape()) +
                                    ", expected fewer than there are");
  const auto border = [&](Expr first, int64_t count) {
    Shape repeated = x.shape();
    repeated[axis] = count;
    return slices(x, axis, first, 1).tensor().expand(repeated);
  };
  const auto mirrored = [&](Expr first, int64_t count) {
    return slices(x, axis, first, count).tensor().flip({axis});
  };
  std::vector<Tensor> parts;
  if (by.before > 0) parts.push_back(reflect ? mirrored(1, by.before) : border(0, by.before));
  parts.push_back(x);
  if (by.after > 0)
    parts.push_back(reflect ? mirrored(size - 1 - by.after, by.after) : border(size - 1, by.after));
  return parts.size() == 1 ? x : concat(parts, axis);
}

/// An axis longer by its own elements, over and over.
Tensor wrap(const Call& call, const Tensor& x, int axis, Amounts by) {
  if (by.before == 0 && by.after == 0) return x;
  const int64_t size = fixed_size(call, x, axis);
  check_has_elements(call, x, axis);
  std::vector<int64_t> index;
  for (int64_t at = -by.before; at < size + by.after; ++at) index.push_back((at % size + size) % size);
  return x.take(Tensor::from(index), axis);
}

Value pad_constant(const Value& x, const std::vector<Amounts>& amounts, Scalar value) {
  std::vector<std::pair<int64_t, int64_t>> positive;
  for (const Amounts& by : amounts) positive.emplace_back(by.before, by.after);
  constexpr int64_t kExact = int64_t{1} << 53; // pad() takes a double
  if (is_float(x.dtype()) || std::abs(value.as_int()) <= kExact)
    return x.tensor().pad(positive, value.as_float());
  const Tensor inside = Tensor::ones(x.shape(), DType::Bool).pad(positive);
  return where(inside, x.tensor().pad(positive), Tensor::full({}, value));
}

/// What one axis gets on both sides, in numbers or symbols.
struct OpenAmounts {
  Expr before = 0, after = 0;
};

/// Constant padding by amounts that are negative where elements go.
Tensor pad_open_axis(const Call& call, const Tensor& x, int axis, const OpenAmounts& by, Scalar value) {
  const Expr in = x.size(axis), out = in + by.before + by.after;
  if (in.lo() < 1 || out.lo() < 0)
    call.fail(ErrorKind::Shape, "an axis of size " + to_string(in) + " padded to " + to_string(out) +
                                    ", expected to know that it has elements");
  const Tensor zero = Tensor::scalar(Expr(0)), last = Tensor::scalar(in - 1);
  const Tensor place = Tensor::iota({out}, 0) - Tensor::scalar(by.before);
  Shape along(x.shape().size(), Expr(1));
  along[static_cast<size_t>(axis)] = out;
  const Tensor inside = logical_and(place >= zero, place <= last).reshape(along);
  return where(inside, x.take(minimum(maximum(place, zero), last), axis), Tensor::full({}, value));
}

/// What the node asks for, one of each axis of `x`. `pads` are those of `axes`, or of all.
std::vector<OpenAmounts> pad_amounts(const Call& call, const Value& x, const Shape& pads,
                                     const std::optional<std::vector<int64_t>>& given) {
  std::vector<int> axes = axes_from(0, x.rank());
  if (given) axes = normalise_axes(call, *given, x.rank());
  if (pads.size() != 2 * axes.size())
    call.fail(ErrorKind::Value, std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) +
                                    " axes of " + to_string(x.shape()) + ", expected two an axis");
  std::vector<OpenAmounts> amounts(x.shape().size());
  for (size_t i = 0; i < axes.size(); ++i)
    amounts[static_cast<size_t>(axes[i])] = {pads[i], pads[axes.size() + i]};
  return amounts;
}

/// The number that constant padding has: an attribute where the amounts are one.
Scalar pad_value(Call& call, DType dtype) {
  if (!call.has(1)) return Scalar::of_float(dtype, call.number("value", 0.0));
  if (!call.has(2)) return Scalar::of_float(dtype, 0.0);
  if (is_float(dtype)) return Scalar::of_float(dtype, call.number_at(2));
  return Scalar::of_int(dtype, call.integer_at(2));
}

/// Before opset 11 the amounts are an attribute.
Shape amounts_of(Call& call) {
  if (call.has(1)) return call.sizes(1);
  const std::vector<int64_t> pads = call.integers("pads");
  return {pads.begin(), pads.end()};
}

std::vector<Value> pad(Call& call) {
  const Shape pads = amounts_of(call);
  const std::string mode = call.text("mode", "constant");
  const Scalar value = pad_value(call, call.value(0).dtype());
  const auto axes = call.has(3) ? std::optional(call.integers(3)) : std::nullopt; // since opset 18
  Value x = call.value(0);
  const std::vector<OpenAmounts> asked = pad_amounts(call, x, pads, axes);
  std::vector<Amounts> amounts(asked.size(), {0, 0});
  for (size_t i = 0; i < amounts.size(); ++i) {
    const auto& [before, after] = asked[i];
    if (!before.is_const() || !after.is_const()) {
      if (mode != "constant")
        call.fail(ErrorKind::Shape, "pads " + to_string(pads) + " of mode " + mode + ", expected fixed sizes");
      x = pad_open_axis(call, x.tensor(), static_cast<int>(i), asked[i], value);
      continue;
    }
    amounts[i] = {before.value(), after.value()};
    x = cut(x, static_cast<int>(i), amounts[i]);
    amounts[i] = {std::max<int64_t>(amounts[i].before, 0), std::max<int64_t>(amounts[i].after, 0)};
  }
  if (mode == "constant") return {pad_constant(x, amounts, value)};
  const bool wraps = mode == "wrap" && call.opset() >= 19;
  if (mode != "reflect" && mode != "edge" && !wraps)
    call.fail(ErrorKind::Value,
              "mode " + mode + ", expected constant, reflect, edge or, since opset 19, wrap");
  Tensor result = x.tensor();
  for (int axis = 0; axis < result.rank(); ++axis) {
    const Amounts by = amounts[static_cast<size_t>(axis)];
    result = wraps ? wrap(call, result, axis, by) : extend(call, result, axis, by, mode == "reflect");
  }
  return {result};
}

std::vector<Value> trilu(Call& call) {
  const Value x = call.value(0);
  const bool upper = call.integer("upper", 1) != 0;
  if (x.rank() < 2)
    call.fail(ErrorKind::Shape, "input of shape " + to_string(x.shape()) + ", expected at least two axes");
  const Shape matrix(x.shape().end() - 2, x.shape().end());
  const Tensor diagonal = Tensor::iota(matrix, 1) - Tensor::iota(matrix, 0);
  const Tensor limit = call.has(1) ? call.tensor(1).reshape({}) : weak(int64_t{0}, DType::I64);
  return {where(upper ? diagonal >= limit : diagonal <= limit, x.tensor(), Tensor::zeros({}, x.dtype()))};
}

std::vector<Value> reverse_sequence(Call& call) {
  const Tensor x = call.tensor(0), lengths = call.tensor(1);
  const int batch = normalise_axis(call, call.integer("batch_axis", 1), x.rank());
  const int time = normalise_axis(call, call.integer("time_axis", 0), x.rank());
  Shape spread(x.shape().size(), Expr(1));
  spread[batch] = x.size(batch);
  const Tensor length = lengths.cast(DType::I64).reshape(spread), step = Tensor::iota(x.shape(), time);
  return {x.gather(time, where(step < length, length - 1 - step, step))};
}

std::vector<Value> dropout(Call& call) {
  call.ignore("is_test"); // programs here infer, but for training_mode
  call.ignore("ratio");   // which has no bearing then
  const int64_t seed = call.integer("seed", 0);
  const bool training = call.has(2) && call.integer_at(2) != 0;
  const Value x = call.value(0);
  const DType mask_dtype = call.opset() < 10 ? x.dtype() : DType::Bool;
  if (!training) {
    if (!call.wants(1)) return {x};
    return {x, Tensor::ones(x.shape(), mask_dtype)};
  }
  const Tensor ratio = call.has(1) ? call.tensor(1).reshape({}).cast(DType::F32) : Tensor::full({}, 0.5f);
  const Tensor mask = Tensor::rand(x.shape(), static_cast<uint64_t>(seed)) >= ratio;
  const Tensor kept =
      where(mask, x.tensor() * (1.0 / (1.0 - ratio)).cast(x.dtype()), Tensor::zeros({}, x.dtype()));
  return {kept, mask};
}

const OpRow kLayoutOps[] = {{"Pad", 1, pad},
                            {"Pad", 1, pad, "com.microsoft", 3},
                            {"Trilu", 14, trilu},
                            {"Trilu", 1, trilu, "com.microsoft", 2},
                            {"ReverseSequence", 10, reverse_sequence},
                            {"Dropout", 1, dropout}};

} // namespace

OpTable layout_ops() { return kLayoutOps; }

} // namespace lathe::onnx
