// Composition of views: one linear view where one exists, else a stack.
//
// The element of `inner` that `outer` reads is delinearised over inner's shape. Outer's index consists of
// loop variables that range over outer's valid part. The composition is linear if the simplifier finds that
// every inner index is affine in these variables, and that every mask of inner is an interval of one of them.
#include "lathe/error.hpp"
#include "view/expr_home.hpp"
#include "view/view.hpp"

namespace lathe {
namespace {

constexpr int kFirstId = 1 << 20; // id of the first loop variable; apart from the loops of any kernel

View all_padding(const Shape& shape) {
  std::vector<Interval> mask;
  for (Expr size : shape) mask.push_back({0, size});
  mask[0] = {0, 0};
  return View(shape, std::vector<Expr>(shape.size(), 0), 0, std::move(mask));
}

/// Joins unmasked neighbouring axes that one stride runs through: a flat index is then taken apart into fewer
/// indices.
View merge_axes(const View& v) {
  Shape shape;
  std::vector<Expr> strides;
  std::vector<Interval> mask;
  bool last_full = false;
  for (size_t k = 0; k < v.shape().size(); k++) {
    const Expr size = v.shape()[k];
    const bool full = v.mask()[k] == Interval{0, size};
    if (full && size.is_const(1)) continue;
    if (full && last_full && strides.back() == v.strides()[k] * size) {
      shape.back() = shape.back() * size;
      strides.back() = v.strides()[k];
      mask.back() = {0, shape.back()};
      continue;
    }
    shape.push_back(size);
    strides.push_back(v.strides()[k]);
    mask.push_back(v.mask()[k]);
    last_full = full;
  }
  return View(std::move(shape), std::move(strides), v.offset(), std::move(mask));
}

/// e = constant + sum of strides[k] * vars[k], exactly.
struct Affine {
  Expr constant;
  std::vector<Expr> strides;
};
std::optional<Affine> affine_in(Expr e, const std::vector<Expr>& vars) {
  Affine a;
  a.constant = e;
  for (Expr v : vars) {
    a.strides.push_back(0);
    if (!depends_on(e, v)) continue;
    const auto stride = stride_of(e, v);
    if (!stride) return std::nullopt;
    for (Expr other : vars)
      if (depends_on(*stride, other)) return std::nullopt;
    a.strides.back() = *stride;
    a.constant = a.constant - *stride * v;
  }
  for (Expr v : vars)
    if (depends_on(a.constant, v)) return std::nullopt;
  return a;
}

/// The interval of the i with begin <= constant + stride * i < end; nothing if the stride may be 0 or its
/// sign is unknown.
std::optional<Interval> solve(Interval mask, Expr constant, Expr stride) {
  if (stride.lo() > 0)
    return Interval{ceildiv(mask.begin - constant, stride), ceildiv(mask.end - constant, stride)};
  if (stride.hi() < 0) {
    const Expr back = -stride;
    return Interval{floordiv(constant - mask.end, back) + 1, floordiv(constant - mask.begin, back) + 1};
  }
  return std::nullopt;
}

/// The composition, found by following an index through both views; nothing if it is not linear.
std::optional<View> follow(const View& inner, const View& outer) {
  const Shape& shape = outer.shape();
  std::vector<Expr> vars; // of the axes that move, over their valid part
  std::vector<size_t> axis_of;
  Expr flat = outer.offset();
  for (size_t k = 0; k < shape.size(); k++) {
    const Interval& mask = outer.mask()[k];
    if (proves_le(mask.end, mask.begin)) return all_padding(shape);
    flat = flat + outer.strides()[k] * mask.begin;
    if (outer.strides()[k].is_const(0)) continue;
    const Expr u = loop_var(kFirstId + static_cast<int>(k), "u", mask.end - mask.begin);
    vars.push_back(u);
    axis_of.push_back(k);
    flat = flat + outer.strides()[k] * u;
  }
  const View source = merge_axes(inner);
  const std::vector<Expr> index = delinearise(flat, source.shape());
  Expr offset = source.offset();
  std::vector<Expr> strides(shape.size(), 0);
  std::vector<Interval> mask = outer.mask();
  for (size_t a = 0; a < index.size(); a++) {
    const auto affine = affine_in(index[a], vars);
    if (!affine) return std::nullopt;
    offset = offset + source.strides()[a] * affine->constant;
    size_t moving = vars.size(), count = 0;
    for (size_t v = 0; v < vars.size(); v++) {
      if (affine->strides[v].is_const(0)) continue;
      moving = v, count++;
      const size_t k = axis_of[v];
      strides[k] = strides[k] + source.strides()[a] * affine->strides[v];
    }
    const Interval& need = source.mask()[a];
    const bool above = proves_le(need.begin, index[a]), below = proves_lt(index[a], need.end);
    if (above && below) continue;
    if (count == 0) {
      if (proves_lt(index[a], need.begin) || proves_le(need.end, index[a])) {
        if (shape.empty()) return std::nullopt;
        return all_padding(shape);
      }
      return std::nullopt;
    }
    if (count > 1) return std::nullopt;
    const auto range = solve(need, affine->constant, affine->strides[moving]);
    if (!range) return std::nullopt;
    const size_t k = axis_of[moving];
    const Expr shift = outer.mask()[k].begin, size = shape[k];
    mask[k] = {min(max(mask[k].begin, range->begin + shift), size),
               max(min(mask[k].end, range->end + shift), 0)};
  }
  for (size_t k = 0; k < shape.size(); k++) offset = offset - strides[k] * outer.mask()[k].begin;
  return View(shape, std::move(strides), offset, std::move(mask));
}

View in_scope_here(const View& view) {
  std::vector<Expr> strides;
  for (const Expr stride : view.strides()) strides.push_back(lathe::in_scope_here(stride));
  std::vector<Interval> mask;
  for (const Interval& in : view.mask())
    mask.push_back({lathe::in_scope_here(in.begin), lathe::in_scope_here(in.end)});
  return View(view.shape(), std::move(strides), lathe::in_scope_here(view.offset()), std::move(mask));
}

} // namespace

std::optional<View> compose(const View& inner, const View& outer) {
  if (inner.is_contiguous()) return outer;
  // A row-major view over fewer elements than `inner` is a prefix of it, not a reshape.
  if (outer.is_contiguous() && num_elements(outer.shape()) == num_elements(inner.shape()))
    return inner.reshape(outer.shape());
  const ExprScopeRef indices = scope_in_passing(); // which users never see
  std::optional<View> both;
  {
    const InExprScope inside(indices);
    both = follow(inner, outer);
  }
  return both ? std::optional(in_scope_here(*both)) : std::nullopt;
}

void ViewStack::push(const View& outer) {
  if (auto both = compose(views_.back(), outer))
    views_.back() = std::move(*both);
  else
    views_.push_back(outer);
}

Access ViewStack::access(const std::vector<Expr>& index) const {
  Access all = views_.back().access(index);
  for (size_t k = views_.size() - 1; k-- > 0;) {
    Access next = views_[k].access(delinearise(all.offset, views_[k].shape()));
    all.offset = next.offset;
    all.valid.insert(all.valid.end(), next.valid.begin(), next.valid.end());
  }
  return all;
}

std::vector<Expr> row_major_strides(const Shape& shape) {
  std::vector<Expr> strides(shape.size(), 1);
  for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  for (size_t k = 0; k < shape.size(); k++)
    if (shape[k].is_const(1)) strides[k] = 0;
  return strides;
}

std::vector<Expr> delinearise(Expr offset, const Shape& shape) {
  std::vector<Expr> index(shape.size(), 0);
  Expr block = 1;
  bool first = true; // of the axes that move, from the last; it needs no division, the outermost no remainder
  size_t outermost = 0;
  while (outermost < shape.size() && shape[outermost].is_const(1)) outermost++;
  for (size_t k = shape.size(); k-- > outermost;) {
    if (shape[k].is_const(1)) continue;
    const Expr row = first ? offset : floordiv(offset, block);
    index[k] = k == outermost ? row : mod(row, shape[k]);
    block = block * shape[k];
    first = false;
  }
  return index;
}

Expr linearise(const std::vector<Expr>& index, const Shape& shape) {
  Expr flat = 0;
  const auto strides = row_major_strides(shape);
  for (size_t k = 0; k < shape.size(); k++) flat = flat + index[k] * strides[k];
  return flat;
}

} // namespace lathe
