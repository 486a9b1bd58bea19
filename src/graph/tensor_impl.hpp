// What the files of the public Tensor share: its representation, and the checks that name the user's
// function.
#pragma once
#include <limits>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/node.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/tensor.hpp"

namespace lathe {

struct Tensor::Impl {
  explicit Impl(graph::NodeRef n) : shape(n->shape), dtype(n->dtype), node_(std::move(n)) {}
  /// Of a narrow dtype: the bytes as they stand in memory, or null where only the codes are known; and the
  /// codes, one U8 an element.
  Impl(DType narrow, Shape s, graph::NodeRef bytes, graph::NodeRef codes)
      : shape(std::move(s)), dtype(narrow), node_(std::move(bytes)), codes_(std::move(codes)) {}
  const Shape shape; // kept here, as the node may be replaced while a caller holds a reference
  const DType dtype;

  /// Of a narrow dtype, the node of the bytes as they stand in memory.
  graph::NodeRef node() const;
  graph::NodeRef codes() const; // of a narrow dtype
  /// The program that made a realised tensor, without its data; else the node itself. For emit().
  graph::NodeRef origin() const;
  graph::NodeRef realise(std::string_view op);

private:
  graph::NodeRef locked_node() const;
  mutable std::mutex mutex_;
  mutable graph::NodeRef node_;
  graph::NodeRef origin_;
  graph::NodeRef codes_;
};

namespace graph {

inline Tensor wrap(NodeRef node) { return detail::Access::make<Tensor>(std::make_shared<Tensor::Impl>(std::move(node))); }
/// The node of the tensor's elements. Error(DType) for a narrow dtype, which nothing is computed in.
NodeRef node_of(const Tensor& t);

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}
inline std::string text(const Tensor& t) {
  return fmt::format("{}{}", to_string(t.dtype()), to_string(t.shape()));
}

/// The axis in [0, rank); a negative one counts from the end. Error(Axis) if there is none.
int resolve_axis(std::string_view op, int axis, int rank);
/// The axes in [0, rank), ascending; all axes if none is given. Error(Axis) if there is none or one is given
/// twice.
std::vector<int> resolve_axes(std::string_view op, const Axes& axes, int rank);

/// The shape that NumPy's broadcasting gives. Error(Shape) naming all shapes.
Shape broadcast_shape(std::string_view op, const std::vector<Shape>& shapes);
Tensor broadcast_to(const Tensor& t, const Shape& shape); // `shape` is known to fit

/// Both tensors in the dtype that promote() gives, broadcast to one shape.
std::pair<Tensor, Tensor> match(std::string_view op, const Tensor& a, const Tensor& b);
Tensor binary_op(std::string_view name, Op op, const Tensor& a, const Tensor& b);
/// Error(Value) for a whole number that an integer dtype does not hold. Floats hold all, rounded.
void check_holds(std::string_view op, int64_t value, DType dtype);
/// Throws Error(DType) if both are bool.
void check_numbers(std::string_view op, const Tensor& a, const Tensor& b);
Tensor unary_op(Op op, const Tensor& a);
Tensor reduce_op(Op combine, const Tensor& a, const std::vector<int>& axes); // keeps the axes as size 1
Tensor view_op(const Tensor& a, const View& v);
Tensor drop_axes(const Tensor& a, const std::vector<int>& axes); // `axes` have size 1

/// The dtype in which a function of real numbers is computed: f32 for integers of at most 16 bits, f64 for
/// wider ones. Floats stay.
DType float_dtype(DType dtype);
/// The dtype in which values are computed: f32 for half precision. The others stay.
inline DType wide(DType dtype) { return is_half(dtype) ? DType::F32 : dtype; }
/// Applies `f`, a composed function of floats. Half precision is computed in f32, so as to round once.
template <class F> Tensor in_wide(const Tensor& x, F&& f) {
  const DType d = float_dtype(x.dtype());
  return f(x.cast(wide(d))).cast(d);
}
/// A tensor of this shape; each element is its own index along `axis`.
Tensor index_along(int axis, const Shape& shape, DType dtype = DType::I64);
/// An integer expression of shape variables, as a tensor without axes.
Tensor size_scalar(Expr size, DType dtype = DType::I64);
Tensor number(double value, DType dtype);
/// x times a number of its dtype.
Tensor times_number(const Tensor& x, double factor);
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// The polynomial of x with these coefficients, lowest power first.
Tensor horner(const Tensor& x, std::span<const double> coefficients);
/// Error(DType) unless the index is of integers.
void check_index(std::string_view op, const Tensor& index);
/// The shape of x padded by `amounts`, the elements before and after each axis. Errors name pad.
Shape padded_shape(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& amounts);
/// Pads with zero by symbolic amounts.
Tensor pad_zero(const Tensor& a, const std::vector<Expr>& before, const std::vector<Expr>& after);
Tensor shrink_to(const Tensor& a, const std::vector<Expr>& begin, const std::vector<Expr>& end);
/// The elements [begin, end) of one axis.
Tensor part_of(const Tensor& x, int axis, Expr begin, Expr end);
/// x[j - by] along the axis; where j < by, the identity of `combine`.
Tensor shifted(Op combine, const Tensor& x, int axis, int64_t by);
/// The elements up to each along the axis, combined in x's dtype.
Tensor running(Op combine, const Tensor& x, int axis);
/// Whether a comes before b in ascending order. NaN is the largest number, as in NumPy and PyTorch.
Tensor sorts_before(const Tensor& a, const Tensor& b);
/// The value of Max over no elements: -infinity or the lowest integer.
inline Tensor lowest(DType dtype) { return Tensor::full({}, identity(Op::Max, dtype)); }

} // namespace graph
} // namespace lathe
