// Axes, broadcasting and the small steps that the composed functions are made of.
#include "graph/narrow.hpp"

#include <algorithm>

namespace lathe::graph {

int resolve_axis(std::string_view op, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    fail(ErrorKind::Axis, "{}: axis {} of {} axes, expected one in [{}, {})", op, axis, rank, -rank, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int> resolve_axes(std::string_view op, const Axes& axes, int rank) {
  std::vector<int> result;
  for (int axis : axes) result.push_back(resolve_axis(op, axis, rank));
  if (axes.empty())
    for (int axis = 0; axis < rank; ++axis) result.push_back(axis);
  std::sort(result.begin(), result.end());
  if (auto twice = std::adjacent_find(result.begin(), result.end()); twice != result.end())
    fail(ErrorKind::Axis, "{}: axis {} twice, expected distinct axes", op, *twice);
  return result;
}

Shape broadcast_shape(std::string_view op, const std::vector<Shape>& shapes) {
  size_t rank = 0;
  for (const Shape& s : shapes) rank = std::max(rank, s.size());
  Shape result(rank, Expr(1));
  for (const Shape& s : shapes) {
    for (size_t i = 0; i < s.size(); ++i) {
      Expr& r = result[rank - s.size() + i];
      if (s[i] == r || s[i].is_const(1)) continue;
      if (!r.is_const(1)) {
        std::string all;
        for (const Shape& shape : shapes) all += (all.empty() ? "" : " and ") + to_string(shape);
        fail(ErrorKind::Shape, "{}: shapes {} do not broadcast, expected sizes equal or 1", op, all);
      }
      r = s[i];
    }
  }
  return result;
}

Tensor broadcast_to(const Tensor& t, const Shape& shape) {
  if (t.shape() == shape) return t;
  Shape padded(shape.size() - t.shape().size(), Expr(1));
  padded.insert(padded.end(), t.shape().begin(), t.shape().end());
  const View reshaped = View::contiguous(std::move(padded));
  return view_op(t, reshaped.expand(shape));
}

std::pair<Tensor, Tensor> match(std::string_view op, const Tensor& a, const Tensor& b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  if (a.shape() == b.shape()) return {a.cast(dtype), b.cast(dtype)};
  const Shape shape = broadcast_shape(op, {a.shape(), b.shape()});
  check_shape(op, shape, dtype);
  return {broadcast_to(a.cast(dtype), shape), broadcast_to(b.cast(dtype), shape)};
}

namespace {

void check_computes(std::string_view name, DType dtype) {
  if (is_narrow(dtype))
    fail(ErrorKind::DType, "{}: dtype {}, which is only stored, expected a cast to another, such as {}", name,
         to_string(dtype), to_string(read_as(dtype)));
}

} // namespace

Tensor binary_op(std::string_view name, Op op, const Tensor& a, const Tensor& b) {
  auto [x, y] = match(name, a, b);
  if (is_narrow(x.dtype()) && (op == Op::CmpLt || op == Op::CmpNe))
    return binary_op(name, op, x.cast(read_as(x.dtype())), y.cast(read_as(x.dtype())));
  check_computes(name, x.dtype());
  if (!accepts(info(op).dtypes, x.dtype()))
    fail(ErrorKind::DType, "{}: dtypes {} and {}, expected {}", name, to_string(a.dtype()),
         to_string(b.dtype()),
         info(op).dtypes == DTypeClass::Number    ? "numbers"
         : info(op).dtypes == DTypeClass::BitLike ? "integers or bool"
                                                  : "integers");
  return wrap(binary(op, node_of(x), node_of(y)));
}

void check_numbers(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::Bool && b.dtype() == DType::Bool)
    fail(ErrorKind::DType, "{}: dtypes bool and bool, expected numbers", op);
}

Tensor unary_op(Op op, const Tensor& a) {
  check_computes(to_string(op), a.dtype());
  return wrap(unary(op, node_of(a)));
}
Tensor reduce_op(Op combine, const Tensor& a, const std::vector<int>& axes) {
  check_computes("reduction", a.dtype());
  return wrap(reduce(combine, node_of(a), axes));
}
Tensor view_op(const Tensor& a, const View& v) {
  return on_codes(a, [&](const Tensor& x) { return wrap(view(node_of(x), v)); });
}

Tensor drop_axes(const Tensor& a, const std::vector<int>& axes) {
  Shape shape;
  for (int i = 0; i < a.rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) shape.push_back(a.shape()[i]);
  return view_op(a, View::contiguous(std::move(shape)));
}

DType float_dtype(DType dtype) {
  if (is_float(dtype)) return dtype;
  return size_of(dtype) <= 2 ? DType::F32 : DType::F64;
}

Tensor index_along(int axis, const Shape& shape, DType dtype) {
  check_computes("iota", dtype);
  return wrap(iota(axis, dtype, shape));
}
Tensor size_scalar(Expr size, DType dtype) {
  check_computes("scalar", dtype);
  return wrap(constant(size, dtype, {}));
}
Tensor number(double value, DType dtype) { return Tensor::full({}, Scalar::of_float(dtype, value)); }
Tensor times_number(const Tensor& x, double factor) { return x * number(factor, x.dtype()); }
Tensor horner(const Tensor& x, std::span<const double> coefficients) {
  Tensor sum = number(coefficients.back(), x.dtype());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = sum * x + number(coefficients[i], x.dtype());
  return sum;
}

Tensor pad_zero(const Tensor& a, const std::vector<Expr>& before, const std::vector<Expr>& after) {
  return view_op(a, View::contiguous(a.shape()).pad(before, after));
}

Tensor shrink_to(const Tensor& a, const std::vector<Expr>& begin, const std::vector<Expr>& end) {
  return view_op(a, View::contiguous(a.shape()).shrink(begin, end));
}

Tensor part_of(const Tensor& x, int axis, Expr begin, Expr end) {
  std::vector<Expr> first(x.shape().size(), Expr(0)), last = x.shape();
  first[axis] = begin;
  last[axis] = end;
  return shrink_to(x, first, last);
}

Tensor shifted(Op combine, const Tensor& x, int axis, int64_t by) {
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  std::vector<Expr> before = none;
  before[axis] = by;
  const Tensor moved = shrink_to(pad_zero(x, before, none), none, x.shape());
  const Scalar start = identity(combine, x.dtype());
  if (start == Scalar::zero(x.dtype())) return moved;
  return lathe::where(index_along(axis, x.shape()) < size_scalar(by), Tensor::full({}, start), moved);
}

} // namespace lathe::graph
