#include "onnx/ops/values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lathe/detail/sizes.hpp"
#include "onnx/integers.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

Tensor of_sizes(const std::vector<Expr>& values, const Shape& shape, DType dtype) {
  std::vector<Tensor> scalars;
  for (Expr e : values) scalars.push_back(Tensor::scalar(e).cast(dtype));
  return stack(scalars).reshape(shape);
}

} // namespace

Value known_integers(const std::vector<Expr>& values, const Shape& shape, DType dtype) {
  if (auto constant = constant_of({dtype, static_sizes(shape), values})) return *constant;
  return Value(of_sizes(values, shape, dtype)).with_integers(values);
}

Value known_integer(const Expr& value, DType dtype) { return known_integers({value}, {}, dtype); }

int64_t integer_of(Call& call, const Value& value, std::vector<Value>* kept) {
  const auto& known = value.integers();
  if (known && known->size() == 1 && known->front().is_const()) return known->front().value();
  const std::vector<int64_t> seen = call.look(value.tensor(), kept);
  if (seen.size() != 1)
    call.fail(ErrorKind::Shape, "shape " + to_string(value.shape()) + ", expected one element");
  return seen.front();
}

bool is_constant(const Tensor& tensor) {
  return tensor.inputs().empty() && !detail::depends_on_sizes(tensor);
}

bool holds(Call& call, Expr comparison) {
  if (comparison.is_const()) return comparison.value() != 0;
  return call.look(Tensor::scalar(comparison)).at(0) != 0;
}

double lowest(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  return is_signed(dtype) ? -std::ldexp(1.0, size_of(dtype) * 8 - 1) : 0.0;
}

bool has_no_elements(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Expr size) { return size.is_const(0); });
}

Expr elements_between(const Shape& shape, int first, int last) {
  Expr product = 1;
  for (int axis = first; axis < last; ++axis) product = product * shape[axis];
  return product;
}

int64_t fixed_size(const Call& call, const Value& value, int axis) {
  const Shape& shape = value.shape();
  if (axis < 0 || axis >= static_cast<int>(shape.size()) || !shape[static_cast<size_t>(axis)].is_const())
    call.fail(ErrorKind::Shape,
              "axis " + std::to_string(axis) + " of " + to_string(shape) + ", expected a fixed size");
  return shape[static_cast<size_t>(axis)].value();
}

int64_t unrolled_size(const Call& call, const Value& value, int axis, int64_t most) {
  const int64_t size = fixed_size(call, value, axis);
  if (size > most)
    call.fail(ErrorKind::Limit, "axis " + std::to_string(axis) + " of " + to_string(value.shape()) +
                                    " is taken apart, expected a size of at most " + std::to_string(most));
  return size;
}

Tensor with_axis_at(const Tensor& tensor, int from, int to) {
  std::vector<int> axes(static_cast<size_t>(tensor.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  axes.erase(axes.begin() + from);
  axes.insert(axes.begin() + to, from);
  return tensor.permute(axes);
}

Tensor slice_at(const Tensor& tensor, int axis, int64_t position) {
  std::vector<IndexItem> items(axis, IndexItem(Slice{}));
  items.emplace_back(position);
  items.emplace_back(Ellipsis{});
  return tensor.index(items);
}

Value slices(const Value& value, int axis, Expr begin, Expr count) {
  const Shape& shape = value.shape();
  // A cut of a symbolic axis has to fit every size; where it may not, it is read at indices instead.
  if (!proves_le(0, begin) || !proves_le(0, count) || !proves_le(begin + count, shape[axis]))
    return value.tensor().take(Tensor::iota({count}, 0) + Tensor::scalar(begin), axis);
  std::vector<std::pair<Expr, Expr>> part;
  for (Expr size : shape) part.emplace_back(0, size);
  part[axis] = {begin, begin + count};
  return value.tensor().shrink(part);
}

namespace {

/// The parts' tensors, or their ids if they are strings, through `each` and side by side; Error(DType) for
/// some of both.
Value joined(const Call& call, const std::vector<Value>& parts,
             const std::function<Tensor(const Tensor&)>& each, int axis) {
  if (parts.empty()) call.fail(ErrorKind::Value, "nothing to join, expected at least one tensor");
  std::vector<Tensor> tensors;
  for (const Value& part : parts) {
    if (part.is_strings() != parts[0].is_strings())
      call.fail(ErrorKind::DType,
                type_text(part) + " beside " + type_text(parts[0]) + ", expected strings or none");
    tensors.push_back(each(part.is_strings() ? ids_of(call, part) : part.tensor()));
  }
  const Tensor whole = concat(tensors, axis);
  return parts[0].is_strings() ? Value::strings(whole) : Value(whole);
}

} // namespace

Value concat_values(const Call& call, const std::vector<Value>& parts, int axis) {
  for (const Value& part : parts)
    if (axis < 0 || axis >= part.rank())
      call.fail(ErrorKind::Shape,
                "a part of " + to_string(part.shape()) + ", expected an axis " + std::to_string(axis));
  return joined(call, parts, [](const Tensor& part) { return part; }, axis);
}

Value stack_values(const Call& call, const std::vector<Value>& parts, int axis) {
  return joined(call, parts, [&](const Tensor& part) { return part.unsqueeze(axis); }, axis);
}

} // namespace lathe::onnx
