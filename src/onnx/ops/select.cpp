// Ops whose result depends on order or on which elements there are.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Of the `count` elements where a mask of one axis is true, the positions: each at its place among them.
Tensor positions_at(const Tensor& mask, const Tensor& places, Expr count) {
  // A place that is not there is not written.
  const Tensor target = where(mask, places, Tensor::scalar(count));
  return Tensor::zeros({count}, DType::I64).scatter(0, target, Tensor::iota(mask.shape(), 0));
}

/// Where a mask of one axis is true, ascending, i64. Their number is looked at, the rest is tensor
/// arithmetic.
Value true_positions(Call& call, const Tensor& mask) {
  const Tensor ones = mask.cast(DType::I64);
  std::vector<Value> kept{mask, ones.cumsum(0) - 1};
  const Expr count = call.look_at_sizes(ones.sum(), &kept).at(0);
  return positions_at(kept[0].tensor(), kept[1].tensor(), count);
}

std::vector<Value> one_hot(Call& call) {
  // Of any dtype, in a vector of one or not.
  const Value number = call.value(1);
  const bool is_size =
      number.is_tensor() && !is_float(number.dtype()) && num_elements(number.shape()).is_const(1);
  const Expr depth = is_size ? call.sizes(1).at(0) : Expr(static_cast<int64_t>(call.number_at(1)));
  const Value indices = call.value(0);
  const int axis = axis_attribute(call, -1, indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + axis, depth);
  const Tensor off_on = call.tensor(2);
  const Tensor given = indices.tensor().cast(DType::I64).unsqueeze(axis);
  const Tensor index = where(given < 0, given + Tensor::scalar(depth), given);
  return {where(index == Tensor::iota(shape, axis), off_on.index({1}), off_on.index({0}))};
}

std::vector<Value> top_k(Call& call) {
  const Shape asked = call.has_attribute("k") ? Shape{call.integer("k")} : call.sizes(1); // before opset 10
  if (asked.size() != 1)
    call.fail(ErrorKind::Shape, "input 1 has " + std::to_string(asked.size()) + " elements, expected one");
  const Expr k = asked[0];
  const bool largest = call.integer("largest", 1) != 0;
  call.ignore("sorted"); // any order will do where it is 0
  const int axis = axis_attribute(call, -1, call.value(0).rank());
  const Expr size = call.tensor(0).size(axis);
  if (k.is_const() && (size.is_const() || proves_le(k, size))) {
    const auto [values, indices] = call.tensor(0).topk(k.value(), axis, largest);
    return {values, indices};
  }
  if (!proves_le(k, size) && !holds(call, le(k, size)))
    call.fail(ErrorKind::Value, to_string(k) + " of " + to_string(size) + " elements, expected no more");
  const Tensor x = call.tensor(0);
  const Value indices = slices(x.argsort(axis, largest), axis, 0, k);
  return {x.gather(axis, indices.tensor()), indices};
}

std::vector<Value> non_zero(Call& call) {
  const Tensor x = call.tensor(0);
  const Value found = true_positions(call, x.cast(DType::Bool).flatten());
  if (x.rank() == 0 || found.is_empty())
    return {Tensor::zeros({Expr(x.rank()), found.shape()[0]}, DType::I64)};
  std::vector<Tensor> coordinates(x.shape().size());
  Tensor rest = found.tensor();
  for (size_t axis = coordinates.size(); axis-- > 0;) {
    const Tensor size = Tensor::scalar(x.shape()[axis]);
    coordinates[axis] = rest % size;
    rest = floor_divide(rest, size);
  }
  return {stack(coordinates, 0)};
}

std::vector<Value> compress(Call& call) {
  const Value positions = true_positions(call, call.tensor(1).flatten());
  Tensor x = call.tensor(0);
  const int axis = call.has_attribute("axis") ? axis_attribute(call, 0, x.rank()) : 0;
  if (!call.has_attribute("axis")) x = x.flatten();
  return {x.take(positions.tensor(), axis)};
}

/// The distinct slices of the first input along an axis: themselves, where each is first, which of them each
/// slice is, and how many are equal to it. The program stops here for their number anyhow, so that the host
/// can as well sort them.
std::vector<Value> distinct(Call& call, std::optional<int> axis, bool sorted) {
  const bool strings = call.value(0).is_strings();
  const auto along = [&] {
    const Tensor x = strings ? string_ids(call, 0) : call.tensor(0);
    return axis ? with_axis_at(x, *axis, 0) : x.flatten();
  };
  const Tensor x = along();
  const Tensor rows = x.reshape({x.size(0), elements_between(x.shape(), 1, x.rank())});
  const Tensor none = Tensor::zeros({0}, DType::I64);
  const std::vector<Value> found =
      x.size(0).is_const(0)
          ? std::vector<Value>{none, none, none}
          : on_host(call, {"distinct", {}, {sorted}}, {strings ? Value::strings(rows) : Value(rows)});
  const Tensor kept = with_axis_at(along().take(found[0].tensor()), 0, axis.value_or(0));
  return {strings ? as_strings(kept) : Value(kept), found[0], found[1], found[2]};
}

std::vector<Value> unique(Call& call) {
  const bool sorted = call.integer("sorted", 1) != 0;
  if (!call.has_attribute("axis")) return distinct(call, {}, sorted);
  return distinct(call, axis_attribute(call, 0, call.value(0).rank()), sorted);
}

/// com.microsoft's, in the order of the input.
std::vector<Value> unique_in_order(Call& call) {
  const std::vector<Value> all = distinct(call, {}, false);
  return {all[0], all[2], all[3]};
}

const OpRow kSelectOps[] = {{"OneHot", 9, one_hot},   {"TopK", 1, top_k},
                            {"NonZero", 9, non_zero}, {"Compress", 9, compress},
                            {"Unique", 11, unique},   {"Unique", 1, unique_in_order, "com.microsoft", 1}};

} // namespace

OpTable select_ops() { return kSelectOps; }

} // namespace lathe::onnx
