// Movement: every function here is one View node, or a few where values are joined.
#include <algorithm>

#include "graph/tensor_impl.hpp"

lathe::Shape lathe::graph::padded_shape(const Tensor& x,
                                        const std::vector<std::pair<int64_t, int64_t>>& amounts) {
  if (amounts.size() != x.shape().size())
    fail(ErrorKind::Shape, "pad: {} pairs for shape {}, expected {}", amounts.size(), to_string(x.shape()),
         x.rank());
  Shape target;
  for (size_t i = 0; i < amounts.size(); ++i) {
    const auto [b, a] = amounts[i];
    if (b < 0 || a < 0)
      fail(ErrorKind::Value, "pad: by {} and {} at axis {}, expected no negative amount", b, a, i);
    int64_t size;
    if (__builtin_add_overflow(x.shape()[i].hi(), b, &size) || __builtin_add_overflow(size, a, &size))
      fail(ErrorKind::Limit, "pad: by {} and {} at axis {} of {}, expected sizes below 2^63", b, a, i,
           to_string(x.shape()));
    target.push_back(x.shape()[i] + b + a);
  }
  check_shape("pad", target, x.dtype());
  return target;
}

namespace lathe {
using namespace graph;
namespace {

View whole(const Tensor& t) { return View::contiguous(t.shape()); }

// Exact product of static sizes and of variables; Error(Limit) beyond int64 comes from check_shape.
Expr product(const Shape& shape) {
  Expr p = 1;
  for (Expr e : shape) p = p * e;
  return p;
}

} // namespace

Tensor Tensor::reshape(const Shape& requested) const {
  Shape target = requested;
  auto open = std::find(target.begin(), target.end(), Expr(-1));
  if (open != target.end() && std::find(open + 1, target.end(), Expr(-1)) != target.end())
    fail(ErrorKind::Shape, "reshape: {} has more than one -1, expected at most one", to_string(requested));
  const Expr elements = num_elements(shape());
  if (open != target.end()) {
    *open = 1;
    check_shape("reshape", target, dtype());
    if (has_no_elements(target))
      fail(ErrorKind::Shape, "reshape: {} to {}, expected no -1 beside a size of 0", to_string(shape()),
           to_string(requested));
    *open = floordiv(elements, product(target));
  }
  check_shape("reshape", target, dtype());
  if (product(target) != elements)
    fail(ErrorKind::Shape, "reshape: {} to {}, expected {} elements", to_string(shape()),
         to_string(requested), to_string(elements));
  return view_op(*this, View::contiguous(target));
}

Tensor Tensor::flatten(Axis start, Axis end) const {
  if (rank() == 0) return reshape({1});
  const int first = resolve_axis("flatten", start, rank()), last = resolve_axis("flatten", end, rank());
  if (first > last)
    fail(ErrorKind::Axis, "flatten: axes {} to {}, expected the lower one first", first, last);
  Shape target(shape().begin(), shape().begin() + first);
  target.push_back(product(Shape(shape().begin() + first, shape().begin() + last + 1)));
  target.insert(target.end(), shape().begin() + last + 1, shape().end());
  return view_op(*this, View::contiguous(target));
}

Tensor Tensor::permute(const Axes& axes) const {
  if (static_cast<int>(axes.size()) != rank())
    fail(ErrorKind::Axis, "permute: {} axes of shape {}, expected {}", axes.size(), to_string(shape()),
         rank());
  if (!axes.empty()) resolve_axes("permute", axes, rank());
  std::vector<int> order;
  for (int axis : axes) order.push_back(resolve_axis("permute", axis, rank()));
  return view_op(*this, whole(*this).permute(order));
}

Tensor Tensor::transpose(Axis a, Axis b) const {
  std::vector<int> order(shape().size());
  for (int i = 0; i < rank(); ++i) order[i] = i;
  std::swap(order[resolve_axis("transpose", a, rank())], order[resolve_axis("transpose", b, rank())]);
  return view_op(*this, whole(*this).permute(order));
}

Tensor Tensor::expand(const Shape& requested) const {
  if (requested.size() < shape().size())
    fail(ErrorKind::Shape, "expand: {} to {}, expected at least {} axes", to_string(shape()),
         to_string(requested), rank());
  const size_t fresh = requested.size() - shape().size();
  Shape target = requested;
  for (size_t i = 0; i < target.size(); ++i) {
    const bool keeps = target[i].is_const(-1);
    if (keeps && i < fresh)
      fail(ErrorKind::Shape, "expand: -1 for a new axis in {}, expected a size", to_string(requested));
    if (i < fresh) continue;
    const Expr have = shape()[i - fresh];
    if (keeps)
      target[i] = have;
    else if (have != target[i] && !have.is_const(1))
      fail(ErrorKind::Shape, "expand: {} to {}, expected size {} or -1 at axis {}", to_string(shape()),
           to_string(requested), to_string(have), i);
  }
  check_shape("expand", target, dtype());
  return broadcast_to(*this, target);
}

Tensor Tensor::squeeze(std::optional<Axis> axis) const {
  std::vector<int> gone;
  if (axis) {
    const int which = resolve_axis("squeeze", *axis, rank());
    if (!shape()[which].is_const(1))
      fail(ErrorKind::Shape, "squeeze: axis {} of shape {}, expected size 1", which, to_string(shape()));
    gone.push_back(which);
  } else {
    for (int i = 0; i < rank(); ++i)
      if (shape()[i].is_const(1)) gone.push_back(i);
  }
  return drop_axes(*this, gone);
}

Tensor Tensor::unsqueeze(Axis axis) const {
  const int which = resolve_axis("unsqueeze", axis, rank() + 1);
  Shape target = shape();
  target.insert(target.begin() + which, Expr(1));
  return view_op(*this, View::contiguous(target));
}

Tensor Tensor::pad(const std::vector<std::pair<int64_t, int64_t>>& amounts, double value) const {
  padded_shape(*this, amounts);
  std::vector<Expr> before, after;
  for (const auto& [b, a] : amounts) {
    before.push_back(b);
    after.push_back(a);
  }
  const Tensor padded = pad_zero(*this, before, after);
  const Scalar fill = is_float(dtype()) ? Scalar::of_float(dtype(), value)
                                        : Scalar::of_float(DType::F64, value).cast(dtype());
  if (is_integer(dtype()) && fill.as_float() != value)
    fail(ErrorKind::Value, "pad: {} as a number of {}, expected one that it holds", value,
         to_string(dtype()));
  if (fill == Scalar::zero(dtype())) return padded;
  return lathe::where(pad_zero(ones(shape(), DType::Bool), before, after), padded, full({}, fill));
}

Tensor Tensor::shrink(const std::vector<std::pair<Expr, Expr>>& ranges) const {
  if (ranges.size() != shape().size())
    fail(ErrorKind::Shape, "shrink: {} ranges for shape {}, expected {}", ranges.size(), to_string(shape()),
         rank());
  std::vector<Expr> begin, end;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto& [b, e] = ranges[i];
    if (!proves_le(0, b) || !proves_le(b, e) || !proves_le(e, shape()[i]))
      fail(ErrorKind::Value, "shrink: [{}, {}) of axis {} of {}, expected a part that is not empty",
           to_string(b), to_string(e), i, to_string(shape()));
    begin.push_back(b);
    end.push_back(e);
  }
  return shrink_to(*this, begin, end);
}

Tensor Tensor::flip(const Axes& axes) const {
  std::vector<bool> which(shape().size());
  for (int axis : resolve_axes("flip", axes, rank())) which[axis] = true;
  return view_op(*this, whole(*this).flip(which));
}

Tensor Tensor::window(Axis axis, int64_t size, int64_t step, int64_t dilation) const {
  const int which = resolve_axis("window", axis, rank());
  if (size < 1 || step < 1 || dilation < 1)
    fail(ErrorKind::Value, "window: size {}, step {}, dilation {}, expected at least 1 each", size, step,
         dilation);
  int64_t reach;
  if (__builtin_mul_overflow(size - 1, dilation, &reach) ||
      reach >=
          shape()[which].lo() + !shape()[which].is_const()) // where it is a symbol, there may be no window
    fail(ErrorKind::Shape, "window: {} elements {} apart in axis {} of {}, expected them to fit", size,
         dilation, which, to_string(shape()));
  auto windows = whole(*this).window(which, size, step, dilation);
  if (!windows) throw InternalError("window: of a contiguous view");
  return view_op(*this, *windows);
}

Tensor Tensor::roll(Whole shift, Axis axis) const {
  const int which = resolve_axis("roll", axis, rank());
  const Expr size = shape()[which];
  if (!size.is_const())
    fail(ErrorKind::Shape, "roll: axis {} of {}, expected a static size", which, to_string(shape()));
  if (size.is_const(0)) return *this;
  const int64_t n = size.value(), s = ((shift % n) + n) % n;
  if (s == 0) return *this;
  std::vector<Expr> none(shape().size(), Expr(0)), cut = none, end = shape();
  cut[which] = n - s;
  end[which] = n - s;
  return concat({shrink_to(*this, cut, shape()), shrink_to(*this, none, end)}, which);
}

Tensor Tensor::repeat(const std::vector<int64_t>& counts) const {
  // [a, b] times (2, 3): [1, a, 1, b] -> [2, a, 3, b] -> [2a, 3b].
  const size_t rank = std::max(counts.size(), shape().size());
  Shape apart, expanded, joined;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t count = i + counts.size() < rank ? 1 : counts[i + counts.size() - rank];
    const Expr size = i + shape().size() < rank ? Expr(1) : shape()[i + shape().size() - rank];
    if (count < 0) fail(ErrorKind::Value, "repeat: {} times, expected no negative number", count);
    apart.insert(apart.end(), {Expr(1), size});
    expanded.insert(expanded.end(), {Expr(count), size});
  }
  check_shape("repeat", expanded, dtype());
  for (size_t i = 0; i < expanded.size(); i += 2) joined.push_back(expanded[i] * expanded[i + 1]);
  return view_op(broadcast_to(view_op(*this, View::contiguous(apart)), expanded), View::contiguous(joined));
}

std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, Axis axis) const {
  const int which = resolve_axis("split", axis, rank());
  int64_t total = 0;
  for (int64_t size : sizes)
    if (size < 0 || __builtin_add_overflow(total, size, &total))
      fail(ErrorKind::Value, "split: a part of size {}, expected no negative size", size);
  if (!shape()[which].is_const(total))
    fail(ErrorKind::Shape, "split: parts of {} elements in all of axis {} of {}, expected {}", total, which,
         to_string(shape()), to_string(shape()[which]));
  std::vector<Tensor> parts;
  std::vector<Expr> begin(shape().size(), Expr(0)), end = shape();
  int64_t at = 0;
  for (int64_t size : sizes) {
    begin[which] = at;
    end[which] = at += size;
    parts.push_back(shrink_to(*this, begin, end));
  }
  return parts;
}

std::vector<Tensor> Tensor::split_evenly(int64_t size, Axis axis) const {
  const int which = resolve_axis("split", axis, rank());
  if (size < 1) fail(ErrorKind::Value, "split: parts of size {}, expected at least 1", size);
  if (!shape()[which].is_const())
    fail(ErrorKind::Shape, "split: axis {} of {}, expected a static size", which, to_string(shape()));
  std::vector<int64_t> sizes;
  for (int64_t left = shape()[which].value(); left > 0; left -= size) sizes.push_back(std::min(left, size));
  if (sizes.empty()) sizes.push_back(0);
  return split(sizes, which);
}

namespace {

/// The most tensors that one step joins: the work of compiling a step grows with their square.
constexpr size_t kMostJoined = 16;

/// The tensors, of one dtype and of shapes that fit, one after the other along the axis.
Tensor joined(const std::vector<Tensor>& tensors, int axis, const Shape& shape) {
  // Each tensor is padded to the whole shape, and the index chooses among them. A sum of the padded tensors
  // would lose -0 and spread NaN.
  std::vector<Expr> before(shape.size(), Expr(0)), after = before;
  Tensor result;
  Expr end = shape[axis];
  for (size_t k = tensors.size(); k-- > 0;) {
    const Expr begin = end - tensors[k].shape()[axis];
    before[axis] = begin;
    after[axis] = shape[axis] - end;
    const Tensor part = pad_zero(tensors[k], before, after);
    result =
        k + 1 == tensors.size() ? part : where(index_along(axis, shape) < size_scalar(end), part, result);
    end = begin;
  }
  return result;
}

/// As joined(). Many tensors are joined in groups, and the groups in groups, so that the work of compiling
/// and running grows with their number.
Tensor joined_in_groups(std::vector<Tensor> tensors, int axis, const Shape& shape) {
  while (tensors.size() > kMostJoined) {
    std::vector<Tensor> groups;
    for (size_t first = 0; first < tensors.size(); first += kMostJoined) {
      const size_t last = std::min(first + kMostJoined, tensors.size());
      const std::vector<Tensor> group(tensors.begin() + static_cast<long>(first),
                                      tensors.begin() + static_cast<long>(last));
      Shape part = shape;
      part[axis] = 0;
      for (const Tensor& t : group) part[axis] = part[axis] + t.shape()[axis];
      groups.push_back(group.size() == 1 ? group[0] : joined(group, axis, part).contiguous());
    }
    tensors = std::move(groups);
  }
  return joined(tensors, axis, shape);
}

} // namespace

Tensor concat(const std::vector<Tensor>& tensors, Axis axis) {
  if (tensors.empty()) fail(ErrorKind::Value, "concat: no tensors, expected at least one");
  const Shape& first = tensors[0].shape();
  const int which = resolve_axis("concat", axis, tensors[0].rank());
  DType dtype = tensors[0].dtype();
  Shape shape = first;
  shape[which] = 0;
  for (const Tensor& t : tensors) {
    bool fits = t.shape().size() == first.size();
    for (size_t i = 0; fits && i < first.size(); ++i)
      fits = static_cast<int>(i) == which || t.shape()[i] == first[i];
    if (!fits)
      fail(ErrorKind::Shape, "concat: shapes {} and {} along axis {}, expected equal sizes of the other axes",
           to_string(first), to_string(t.shape()), which);
    dtype = promote(dtype, t.dtype());
    shape[which] = shape[which] + t.shape()[which];
  }
  check_shape("concat", shape, dtype);
  std::vector<Tensor> alike;
  for (const Tensor& t : tensors) alike.push_back(t.cast(dtype));
  return joined_in_groups(std::move(alike), which, shape);
}

Tensor stack(const std::vector<Tensor>& tensors, Axis axis) {
  if (tensors.empty()) fail(ErrorKind::Value, "stack: no tensors, expected at least one");
  const int which = resolve_axis("stack", axis, tensors[0].rank() + 1);
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) {
    if (t.shape() != tensors[0].shape())
      fail(ErrorKind::Shape, "stack: shapes {} and {}, expected equal ones", to_string(tensors[0].shape()),
           to_string(t.shape()));
    parts.push_back(t.unsqueeze(which));
  }
  return concat(parts, which);
}

} // namespace lathe
