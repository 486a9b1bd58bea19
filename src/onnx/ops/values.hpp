// Values that are known while a model is imported, and pieces of tensors, as several families need them.
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// Rounds of a loop, pieces of a tensor: each adds its nodes to the program, so that a loop without an end
/// has to be stopped.
inline constexpr int64_t kMaxUnrolled = int64_t{1} << 16;

/// A tensor of integers that may hold sizes, whose elements later nodes know. `shape` may be that of no
/// elements.
Value known_integers(const std::vector<Expr>& values, const Shape& shape, DType dtype = DType::I64);
/// The same of no axes.
Value known_integer(const Expr& value, DType dtype = DType::I64);
/// The only element of a value that no input holds, such as a body's output. `kept`: as for Call::look.
int64_t integer_of(Call& call, const Value& value, std::vector<Value>* kept = nullptr);

/// Whether no input and no size decides what the tensor is.
bool is_constant(const Tensor& tensor);

/// Whether a comparison of sizes holds: known, or looked at where it depends on the sizes that come. As a
/// look does, it makes inputs of the values that are used afterwards.
bool holds(Call& call, Expr comparison);

/// The least value of a dtype, -infinity of floats.
double lowest(DType dtype);

bool has_no_elements(const Shape& shape);
/// The product of the sizes of axes [first, last).
Expr elements_between(const Shape& shape, int first, int last);
/// The size as a number; Error(Shape) where it is symbolic.
int64_t fixed_size(const Call& call, const Value& value, int axis);
/// The same of an axis whose every position becomes nodes of its own; Error(Limit) for more than `most`.
int64_t unrolled_size(const Call& call, const Value& value, int axis, int64_t most = kMaxUnrolled);

/// The tensor with one axis at another place.
Tensor with_axis_at(const Tensor& tensor, int from, int to);
/// The slice at one position of an axis, which is dropped.
Tensor slice_at(const Tensor& tensor, int axis, int64_t position);
/// `count` slices from `begin` on, which may both be symbolic; the axis is trusted to hold them.
Value slices(const Value& value, int axis, Expr begin, Expr count);
/// Tensors side by side along an axis they have; some may have no elements.
Value concat_values(const Call& call, const std::vector<Value>& parts, int axis);
/// Tensors of one shape side by side along a new axis.
Value stack_values(const Call& call, const std::vector<Value>& parts, int axis);

} // namespace lathe::onnx
