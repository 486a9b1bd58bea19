// Ops whose result depends on order or on which elements there are.
#include "onnx/ops/select.hpp"

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {

Tensor positions_at(const Tensor& mask, const Tensor& places, int64_t count) {
  // A place that is not there is not written.
  const Tensor target = where(mask, places, weak(count, DType::I64));
  return Tensor::zeros({count}, DType::I64).scatter(0, target, Tensor::iota(mask.shape(), 0));
}

Value true_positions(Call& call, const Tensor& mask) {
  const Tensor ones = mask.cast(DType::I64);
  std::vector<Value> kept{mask, ones.cumsum(0) - 1};
  const int64_t count = call.look(ones.sum(), &kept).at(0);
  return positions_at(kept[0].tensor(), kept[1].tensor(), count);
}

namespace {

std::vector<Value> one_hot(Call& call) {
  const auto depth = static_cast<int64_t>(call.number_at(1)); // of any dtype
  const Value indices = call.value(0);
  const int axis = axis_attribute(call, -1, indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(shape.begin() + axis, Expr(depth));
  const Tensor off_on = call.tensor(2);
  const Tensor given = indices.tensor().cast(DType::I64).unsqueeze(axis);
  const Tensor index = where(given < 0, given + depth, given);
  return {where(index == Tensor::iota(shape, axis), off_on.index({1}), off_on.index({0}))};
}

std::vector<Value> top_k(Call& call) {
  const int64_t k =
      call.has_attribute("k") ? call.integer("k") : call.integer_at(1); // an attribute before opset 10
  const bool largest = call.integer("largest", 1) != 0;
  call.ignore("sorted"); // any order will do where it is 0
  const Tensor x = call.tensor(0);
  const auto [values, indices] = x.topk(k, axis_attribute(call, -1, x.rank()), largest);
  return {values, indices};
}

std::vector<Value> non_zero(Call& call) {
  const Tensor x = call.tensor(0);
  const Value found = true_positions(call, x.cast(DType::Bool).flatten());
  if (x.rank() == 0 || found.is_empty())
    return {Tensor::zeros({Expr(x.rank()), found.shape()[0]}, DType::I64)};
  std::vector<Tensor> coordinates(x.shape().size());
  Tensor rest = found.tensor();
  const std::vector<int64_t> sizes = call.fixed_shape(x);
  for (size_t axis = sizes.size(); axis-- > 0;) {
    const Tensor size = weak(sizes[axis], DType::I64);
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

/// Of the rows of a matrix, every one with every other: [row, other].
struct RowComparison {
  Tensor equal, less; // less: the other goes before the row, as words in a dictionary do
};

RowComparison compare_rows(const Tensor& rows) {
  const Tensor row = rows.unsqueeze(1), other = rows.unsqueeze(0);
  Tensor differs = row != other, lower = other < row;
  if (is_float(rows.dtype())) { // NaN equals NaN and is the largest number
    differs = logical_and(differs, logical_and(row.isnan(), other.isnan()).logical_not());
    lower = logical_or(lower, logical_and(row.isnan(), other.isnan().logical_not()));
  }
  const Tensor first = logical_and(differs, differs.cast(DType::I64).cumsum(-1) == 1);
  return {differs.any({-1}).logical_not(), logical_and(first, lower).any({-1})};
}

/// The distinct slices along the axis: themselves, where each is first, which of them each slice is, and how
/// many are equal to it. `order` has numbers that are equal, and less, where x's elements are.
std::vector<Value> distinct(Call& call, const Tensor& x, const Tensor& order, int axis, bool sorted) {
  const Tensor none = Tensor::zeros({0}, DType::I64);
  if (x.size(axis).is_const(0)) return {x, none, none, none};
  const Tensor in_front = order.transpose(0, axis);
  const RowComparison rows = compare_rows(x.rank() > 1 ? in_front.flatten(1) : order.unsqueeze(1));
  const Shape pairs = rows.equal.shape();
  const Tensor earlier = Tensor::iota(pairs, 1) < Tensor::iota(pairs, 0);
  const Tensor first = logical_and(rows.equal, earlier).any({1}).logical_not();
  const Tensor goes_before = logical_and(sorted ? rows.less : earlier, first.unsqueeze(0));
  std::vector<Value> kept{x, first, goes_before.cast(DType::I64).sum(1), rows.equal.argmax(1),
                          rows.equal.cast(DType::I64).sum(1)};
  const int64_t count = call.look(first.cast(DType::I64).sum(), &kept).at(0);
  const Tensor place = kept[2].tensor(), leader = kept[3].tensor();
  const Tensor indices = positions_at(kept[1].tensor(), place, count);
  return {kept[0].tensor().take(indices, axis), indices, place.take(leader), kept[4].tensor().take(indices)};
}

std::vector<Value> unique(Call& call) {
  const bool sorted = call.integer("sorted", 1) != 0, flat = !call.has_attribute("axis");
  const bool strings = call.value(0).is_strings();
  // Ids are equal where strings are, but only the host knows which string goes before another.
  const std::optional<Tensor> places =
      strings && sorted ? std::optional(on_host(call, {"places"}, {call.value(0)}).at(0).tensor())
                        : std::nullopt;
  const Tensor x = strings ? string_ids(call, 0) : call.tensor(0), order = places.value_or(x);
  std::vector<Value> found = flat ? distinct(call, x.flatten(), order.flatten(), 0, sorted)
                                  : distinct(call, x, order, axis_attribute(call, 0, x.rank()), sorted);
  if (strings) found[0] = as_strings(found[0]);
  return found;
}

/// com.microsoft's, in the order of the input.
std::vector<Value> unique_in_order(Call& call) {
  const Tensor x = call.tensor(0).flatten();
  const std::vector<Value> all = distinct(call, x, x, 0, false);
  return {all[0], all[2], all[3]};
}

const OpRow rows[] = {{"OneHot", 9, one_hot},   {"TopK", 1, top_k},
                      {"NonZero", 9, non_zero}, {"Compress", 9, compress},
                      {"Unique", 11, unique},   {"Unique", 1, unique_in_order, "com.microsoft", 1}};

} // namespace

OpTable select_ops() { return rows; }

} // namespace lathe::onnx
