// Indexing: slices are views; indices that are tensors are gathers and scatters over the flattened tensor.
#include <algorithm>

#include "graph/narrow.hpp"
#include "graph/neighbours.hpp"
#include "graph/places.hpp"

void lathe::graph::check_index(std::string_view op, const Tensor& index) {
  if (!is_integer(index.dtype()))
    fail(ErrorKind::DType, "{}: index of dtype {}, expected an integer", op, to_string(index.dtype()));
}

namespace lathe {
using namespace graph;
namespace {

struct Range {
  Expr begin, end;
  int64_t step;
};

// Python's slice of an axis. Bounds of a symbolic axis may be open, from the start, or from the end, if they
// lie inside for every size.
Range resolve_slice(const Slice& s, Expr size, int axis, const Shape& shape) {
  if (s.step == 0) fail(ErrorKind::Value, "index: step 0 at axis {}, expected another", axis);
  const bool backwards = s.step < 0;
  const auto bound = [&](std::optional<int64_t> at, Expr open) {
    if (!at) return open;
    if (size.is_const()) {
      const int64_t n = size.value(), v = *at < 0 ? std::max(*at, -n - 1) + n : *at;
      return backwards ? Expr(std::clamp<int64_t>(v, -1, n - 1)) : Expr(std::clamp<int64_t>(v, 0, n));
    }
    const Expr v = *at < 0 ? size + *at : Expr(*at);
    if (!proves_le(0, v) || !proves_le(v, size))
      fail(ErrorKind::Shape, "index: {} in axis {} of {}, expected a bound inside for every size", *at, axis,
           to_string(shape));
    return v;
  };
  const Expr first = bound(s.start, backwards ? size - 1 : Expr(0));
  const Expr last = bound(s.stop, backwards ? Expr(-1) : size);
  Range r = backwards ? Range{last + 1, first + 1, s.step} : Range{first, last, s.step};
  if (proves_le(r.end, r.begin)) r.end = r.begin;
  if (!proves_le(r.begin, r.end))
    fail(ErrorKind::Value, "index: [{}, {}) of axis {} of {}, expected an end that never comes first",
         to_string(r.begin), to_string(r.end), axis, to_string(shape));
  return r;
}

/// The integers of constant data, if they are few.
std::optional<std::vector<int64_t>> known_integers(const Node& node) {
  constexpr int64_t kMost = 1 << 20;
  const auto* input = std::get_if<InputAttr>(&node.attr);
  if (!input || !input->data || num_elements(node.shape).hi() > kMost) return {}; // data has a known size
  const auto count = static_cast<size_t>(num_elements(node.shape).value());
  const auto* bytes = static_cast<const unsigned char*>(std::as_const(*input->data).data());
  std::vector<int64_t> values(count);
  for (size_t k = 0; k < count; ++k)
    values[k] =
        Scalar::from_memory(node.dtype, bytes + k * static_cast<size_t>(size_of(node.dtype))).as_int();
  return values;
}

/// Whether all indices are known, few, and lie in [0, size): then no call needs to look at them.
bool lie_inside(const Tensor& index, Expr size) {
  const Node* node = node_of(index).get();
  while (node->op == Op::View && !std::get<View>(node->attr).has_mask()) node = node->sources[0].get();
  const auto values = known_integers(*node);
  return values && std::ranges::all_of(*values, [&](int64_t at) { return at >= 0 && at < size.lo(); });
}

// Indices along an axis of `size`: negative ones count from the end; those outside become -1 when flattened.
struct Position {
  Tensor value;
  std::optional<Tensor> inside; // nothing: all are
  Tensor or_minus_one(const Tensor& flat) const {
    return inside ? where(*inside, flat, Tensor::full({}, int64_t{-1})) : flat;
  }
};
Position wrap_negative(const Tensor& index, Expr size) {
  if (lie_inside(index, size)) return {index.cast(DType::I64), {}};
  const Tensor value = from_the_start(index, size);
  return {value, (Tensor::full({}, int64_t{0}) <= value) & (value < size_scalar(size))};
}

// Flat positions in `shape` of the elements that torch.gather reads: `index` along `axis`, an element's own
// place along every other axis. -1 if outside.
Tensor flat_position(std::string_view op, const Shape& shape, int axis, const Tensor& index) {
  check_index(op, index);
  bool fits = index.shape().size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits =
        static_cast<int>(i) == axis || index.shape()[i] == shape[i] || proves_le(index.shape()[i], shape[i]);
  if (!fits)
    fail(ErrorKind::Shape,
         "{}: index of shape {} for {}, expected as many axes and no larger size but along axis {}", op,
         to_string(index.shape()), to_string(shape), axis);
  const std::vector<Expr> strides = row_major_strides(shape);
  const Position at = wrap_negative(index, shape[axis]);
  Tensor flat = at.value * size_scalar(strides[axis]);
  for (int i = 0; i < static_cast<int>(shape.size()); ++i)
    if (i != axis && !index.shape()[i].is_const(1))
      flat = flat + index_along(i, index.shape()) * size_scalar(strides[i]);
  return at.or_minus_one(flat);
}

/// Numbers in the opposite order; twice, the same numbers. The lowest integer has no negative.
Tensor in_reverse_order(const Tensor& x) { return is_integer(x.dtype()) ? x.bitwise_not() : -x; }

/// `source` combined into `base`; if `by` is given, by(source) into by(base), and by() of the result.
Tensor scatter_into(std::string_view op, const Tensor& base, int axis, const Tensor& index,
                    const Tensor& source, std::optional<Op> combine, Tensor (*by)(const Tensor&) = nullptr) {
  if (base.rank() == 0) fail(ErrorKind::Shape, "{}: into a scalar, expected at least one axis", op);
  const int which = resolve_axis(op, axis, base.rank());
  if (source.shape() != index.shape())
    fail(ErrorKind::Shape, "{}: index {} and source {}, expected equal shapes", op, to_string(index.shape()),
         to_string(source.shape()));
  if (source.dtype() != base.dtype())
    fail(ErrorKind::DType, "{}: source of dtype {} into {}, expected the same", op, to_string(source.dtype()),
         to_string(base.dtype()));
  if (combine && (base.dtype() == DType::Bool || is_narrow(base.dtype())))
    fail(ErrorKind::DType, "{}: dtype {}, expected a number that is computed with", op,
         to_string(base.dtype()));
  if (is_narrow(base.dtype()))
    return of_codes(base.dtype(), scatter_into(op, codes_of(base), axis, index, codes_of(source), combine));
  if (by) return by(scatter_into(op, by(base), axis, index, by(source), combine));
  const Tensor position = flat_position(op, base.shape(), which, index);
  const DType d = combine ? wide(base.dtype()) : base.dtype(); // half precision adds up in f32
  const NodeRef made =
      scatter(node_of(flat(base.cast(d))), node_of(position), node_of(source.cast(d)), combine);
  return view_op(wrap(made), View::contiguous(base.shape())).cast(base.dtype());
}

} // namespace

Tensor Tensor::index(const std::vector<IndexItem>& items) const {
  int used = 0, dots = 0;
  for (const IndexItem& item : items) {
    used += item.kind == IndexItem::Kind::Position || item.kind == IndexItem::Kind::Slice;
    dots += item.kind == IndexItem::Kind::Ellipsis;
  }
  if (dots > 1) fail(ErrorKind::Value, "index: {} ellipses, expected at most one", dots);
  if (used > rank())
    fail(ErrorKind::Axis, "index: {} items for shape {}, expected at most {}", used, to_string(shape()),
         rank());

  std::vector<Expr> begin(shape().size(), Expr(0)), end = shape();
  std::vector<int64_t> steps(shape().size(), 1);
  std::vector<bool> reversed(shape().size());
  std::vector<int> layout; // the result's axes: one of ours, or -1 for a new one
  int axis = 0;
  const auto keep = [&](int count) {
    for (; count > 0; --count) layout.push_back(axis++);
  };
  for (const IndexItem& item : items) {
    switch (item.kind) {
    case IndexItem::Kind::NewAxis: layout.push_back(-1); break;
    case IndexItem::Kind::Ellipsis: keep(rank() - used); break;
    case IndexItem::Kind::Position: {
      const Expr size = shape()[axis];
      const int64_t p = item.position;
      if (p >= size.lo() || p < -size.lo())
        fail(ErrorKind::Value, "index: position {} in axis {} of {}, expected one in [{}, {})", p, axis,
             to_string(shape()), -size.lo(), size.lo());
      begin[axis] = p < 0 ? size + p : Expr(p);
      end[axis] = begin[axis] + 1;
      ++axis;
      break;
    }
    case IndexItem::Kind::Slice: {
      const Range r = resolve_slice(item.slice, shape()[axis], axis, shape());
      begin[axis] = r.begin;
      end[axis] = r.end;
      reversed[axis] = r.step < 0;
      steps[axis] = r.step < 0 ? -r.step : r.step;
      layout.push_back(axis++);
      break;
    }
    }
  }
  keep(rank() - axis);
  const View part = View::contiguous(shape()).shrink(begin, end).flip(reversed).stride(steps);
  Shape target;
  for (int i : layout) target.push_back(i < 0 ? Expr(1) : part.shape()[i]);
  return view_op(view_op(*this, part), View::contiguous(target));
}

Tensor Tensor::gather(Axis axis, const Tensor& index) const {
  if (rank() == 0) fail(ErrorKind::Shape, "gather: from a scalar, expected at least one axis");
  const int which = resolve_axis("gather", axis, rank());
  const Tensor position = flat_position("gather", shape(), which, index);
  return on_codes(*this,
                  [&](const Tensor& x) { return wrap(graph::gather(node_of(flat(x)), node_of(position))); });
}

Tensor Tensor::take(const Tensor& index, Axis axis) const {
  if (rank() == 0) fail(ErrorKind::Shape, "take: from a scalar, expected at least one axis");
  const int which = resolve_axis("take", axis, rank());
  check_index("take", index);
  // [before..., index..., after...]
  Shape result(shape().begin(), shape().begin() + which);
  result.insert(result.end(), index.shape().begin(), index.shape().end());
  result.insert(result.end(), shape().begin() + which + 1, shape().end());
  check_shape("take", result, dtype());
  if (index.rank() == 1)
    if (const auto positions = known_integers(*node_of(index)))
      if (std::optional<Tensor> neighbours = take_neighbours(*this, which, *positions)) return *neighbours;
  Shape spread(result.size(), Expr(1));
  std::copy(index.shape().begin(), index.shape().end(), spread.begin() + which);
  const std::vector<Expr> strides = row_major_strides(shape());
  const Position at =
      wrap_negative(broadcast_to(view_op(index, View::contiguous(spread)), result), shape()[which]);
  Tensor position = at.value * size_scalar(strides[which]);
  const int shift = index.rank() - 1;
  for (int i = 0; i < rank(); ++i)
    if (i != which)
      position = position + index_along(i < which ? i : i + shift, result) * size_scalar(strides[i]);
  position = at.or_minus_one(position);
  return on_codes(*this,
                  [&](const Tensor& x) { return wrap(graph::gather(node_of(flat(x)), node_of(position))); });
}

Tensor Tensor::scatter_add(Axis axis, const Tensor& index, const Tensor& source) const {
  return scatter_into("scatter_add", *this, axis, index, source, Op::Add);
}

Tensor Tensor::scatter_mul(Axis axis, const Tensor& index, const Tensor& source) const {
  return scatter_into("scatter_mul", *this, axis, index, source, Op::Mul);
}

Tensor Tensor::scatter_max(Axis axis, const Tensor& index, const Tensor& source) const {
  return scatter_into("scatter_max", *this, axis, index, source, Op::Max);
}

Tensor Tensor::scatter_min(Axis axis, const Tensor& index, const Tensor& source) const {
  return scatter_into("scatter_min", *this, axis, index, source, Op::Max, &in_reverse_order);
}

Tensor Tensor::scatter(Axis axis, const Tensor& index, const Tensor& source) const {
  return scatter_into("scatter", *this, axis, index, source, std::nullopt);
}

} // namespace lathe
