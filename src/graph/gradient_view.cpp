// The adjoint of a view. If each axis of the view stays within one dimension of its source, the adjoint is
// again made of views and at most one sum:
//
//   - The part that the mask hides is cut off. Repeated axes are summed. Axes that run backwards are flipped.
//   - Axes of one dimension may nest without overlap (a split dimension, windows side by side). They are
//     padded to their steps and joined.
//   - Axes of one dimension may overlap (windows). The longest is kept, with zeros between its elements. The
//     others are taps: element h of the dimension is the sum over the taps t of the element at h - t * step.
//   - The result is padded to the size of the dimension.
//
// The cotangent may be a product, and the view may repeat axes, as for the data of a convolution. Then both
// factors are moved, and one sum runs over taps and repeated axes: the gradient is a transposed convolution.
//
// The adjoint of any other view adds up elements at computed indices.
#include <algorithm>
#include <numeric>

#include "graph/gradient.hpp"
#include "graph/long_reduction.hpp"
#include "graph/tensor_impl.hpp"
#include "view/dimensions.hpp"

namespace lathe::graph {
namespace {

Part scattered(const View& view, const Shape& source, const Tensor& cotangent) {
  const Shape& shape = view.shape();
  Tensor index = broadcast_to(size_scalar(view.offset()), shape);
  Tensor valid = broadcast_to(Tensor::full({}, true), shape);
  for (int k = 0; k < cotangent.rank(); ++k) {
    const Tensor at = index_along(k, shape);
    if (!view.strides()[k].is_const(0)) index = index + at * size_scalar(view.strides()[k]);
    const Interval& in = view.mask()[k];
    if (!in.begin.is_const(0)) valid = valid & (at >= size_scalar(in.begin));
    if (in.end != shape[k]) valid = valid & (at < size_scalar(in.end));
  }
  const Tensor nowhere = size_scalar(-1);
  const Tensor sum = add_at(num_elements(source), lathe::where(valid, index, nowhere), cotangent);
  return view_op(sum, View::contiguous(source));
}

/// Axes of the cotangent that move along one dimension like one axis: each after the first nests in the one
/// before it.
struct Run {
  Expr size; // of the joined axes
  std::vector<int> axes;
  std::vector<int64_t> steps;

  int64_t step() const { return steps.back(); }
};

/// The runs along one dimension: the main run, and the taps, over which the adjoint sums.
struct Dimension {
  Expr size, start;
  std::optional<Run> main;
  std::vector<Run> taps;

  Expr reach() const {
    Expr sum = 0;
    for (const Run& tap : taps) sum = sum + (tap.size - 1) * tap.step();
    return sum;
  }
};

/// The axes of the cotangent, after it is cut to the mask: which are summed, which are flipped, and which
/// move along each dimension.
struct Layout {
  std::vector<int> repeated;
  std::vector<bool> flipped;
  std::vector<Dimension> dimensions;
  bool overlaps = false;
};

std::optional<Layout> lay_out(const View& view, const Shape& source) {
  Layout layout;
  layout.flipped.assign(view.shape().size(), false);
  for (size_t k = 0; k < view.shape().size(); ++k) {
    const Expr stride = view.strides()[k];
    if (stride.is_const(0))
      layout.repeated.push_back(static_cast<int>(k));
    else if (stride.hi() < 0)
      layout.flipped[k] = true;
    else if (stride.lo() <= 0)
      return {};
  }
  const View forward = view.flip(layout.flipped);
  const auto walk = walk_dimensions(forward, source);
  if (!walk) return {};
  std::vector<std::vector<Run>> runs(walk->sizes.size());
  for (size_t k = 0; k < forward.shape().size(); ++k)
    if (const auto& step = walk->steps[k])
      runs[step->dimension].push_back({forward.shape()[k], {static_cast<int>(k)}, {step->count}});
  for (size_t d = 0; d < runs.size(); ++d) {
    std::stable_sort(runs[d].begin(), runs[d].end(),
                     [](const Run& a, const Run& b) { return a.step() > b.step(); });
    std::vector<Run> joined;
    for (Run& next : runs[d]) {
      Run* last = joined.empty() ? nullptr : &joined.back();
      if (last && last->step() % next.step() == 0 && proves_le(next.size, last->step() / next.step())) {
        last->size = (last->size - 1) * (last->step() / next.step()) + next.size;
        last->axes.push_back(next.axes[0]);
        last->steps.push_back(next.step());
      } else {
        joined.push_back(std::move(next));
      }
    }
    Dimension dimension{walk->sizes[d], walk->start[d], {}, {}};
    if (!joined.empty()) {
      const auto longest = std::max_element(
          joined.begin(), joined.end(), [](const Run& a, const Run& b) { return a.size.hi() < b.size.hi(); });
      dimension.main = *longest;
      joined.erase(longest);
    }
    dimension.taps = std::move(joined);
    layout.overlaps |= !dimension.taps.empty();
    layout.dimensions.push_back(std::move(dimension));
  }
  return layout;
}

bool repeats(const Tensor& t, size_t axis) {
  const NodeRef node = node_of(t);
  if (node->op != Op::View) return node->op == Op::Const;
  const View& v = std::get<View>(node->attr);
  return v.strides()[axis].is_const(0) && v.mask()[axis] == Interval{0, v.shape()[axis]};
}

/// The tensor with size 1 along each axis along which it repeats its values.
Tensor once(const Tensor& t) {
  std::vector<Expr> begin(t.shape().size(), Expr(0)), end = t.shape();
  for (size_t k = 0; k < end.size(); ++k)
    if (repeats(t, k)) end[k] = 1;
  return shrink_to(t, begin, end);
}

/// Whether the tensor is at most one view, without a mask, of a value.
bool is_plain(const Tensor& t) {
  const NodeRef node = node_of(t);
  return node->op != Op::View || (node->sources[0]->op != Op::View && !std::get<View>(node->attr).has_mask());
}

/// A view that shows the taps of a tensor with these strides (0 where it repeats its values). The tensor's
/// first axes are the dimensions, each longer by the reach of its taps. The taps follow, an axis each.
/// Element (h, ..., t, ...) of the view is what tap t, counted from the last, adds to element h.
View tap_view(Shape shape, std::vector<Expr> strides, const Layout& layout) {
  Expr offset = 0;
  size_t axis = layout.dimensions.size();
  for (size_t d = 0; d < layout.dimensions.size(); ++d) {
    shape[d] = layout.dimensions[d].size;
    for (const Run& tap : layout.dimensions[d].taps) {
      offset = offset + strides[axis] * (tap.size - 1);
      strides[axis] = strides[d] * tap.step() - strides[axis];
      ++axis;
    }
  }
  return View(std::move(shape), std::move(strides), offset, {});
}

/// One or two factors. Their product, summed over the last axes, is the adjoint. The methods bring the axes
/// in front into the form of the dimensions, one after the other.
class Factors {
public:
  Factors(std::vector<Tensor> factors, const Layout& layout) : factors_(std::move(factors)) {
    std::vector<int> order;
    for (const Dimension& d : layout.dimensions)
      if (d.main) order.insert(order.end(), d.main->axes.begin(), d.main->axes.end());
    for (const Dimension& d : layout.dimensions)
      for (const Run& tap : d.taps) order.insert(order.end(), tap.axes.begin(), tap.axes.end());
    // The remaining axes have size 1 or are summed.
    for (int k = 0; k < factors_[0].rank(); ++k)
      if (std::find(order.begin(), order.end(), k) == order.end()) order.push_back(k);
    for (Tensor& f : factors_) f = f.permute(order);
  }

  const Shape& shape() const { return factors_[0].shape(); }

  void reshape(const Shape& shape) {
    for (Tensor& f : factors_) f = view_op(f, View::contiguous(shape));
  }
  void insert_axis(size_t axis) {
    Shape target = shape();
    target.insert(target.begin() + static_cast<long>(axis), Expr(1));
    reshape(target);
  }
  void pad(size_t axis, Expr before, Expr after) {
    std::vector<Expr> b(shape().size(), Expr(0)), a = b;
    b[axis] = before, a[axis] = after;
    fill(axis, before + shape()[axis] + after, [&](const Tensor& f) { return pad_zero(f, b, a); });
  }
  /// Puts step - 1 zeros between the elements of the axis.
  void spread(size_t axis, int64_t step) {
    if (step == 1) return;
    const Expr size = shape()[axis], full = (size - 1) * step + 1;
    fill(axis, full, [&](const Tensor& f) {
      Shape apart = f.shape();
      apart.insert(apart.begin() + static_cast<long>(axis) + 1, Expr(1));
      std::vector<Expr> none(apart.size(), Expr(0)), after = none;
      after[axis + 1] = step - 1;
      Shape joined = f.shape();
      joined[axis] = size * step;
      const Tensor dense =
          view_op(pad_zero(view_op(f, View::contiguous(apart)), none, after), View::contiguous(joined));
      joined[axis] = full;
      return shrink_to(dense, std::vector<Expr>(joined.size(), Expr(0)), joined);
    });
  }
  /// Joins the axes of a run, the first of which is `axis`. Each inner one is first padded to the step of the
  /// axis around it.
  void join(size_t axis, const std::vector<int64_t>& steps) {
    for (size_t k = 1; k < steps.size(); ++k) {
      const int64_t ratio = steps[k - 1] / steps[k];
      const Expr outer = shape()[axis], inner = shape()[axis + 1];
      pad(axis + 1, 0, ratio - inner);
      Shape target = shape();
      target[axis] = outer * ratio;
      target.erase(target.begin() + static_cast<long>(axis) + 1);
      reshape(target);
      target[axis] = (outer - 1) * ratio + inner;
      for (Tensor& f : factors_) f = shrink_to(f, std::vector<Expr>(target.size(), Expr(0)), target);
    }
  }
  /// Makes every factor show its elements at each tap: see tap_view.
  void show_taps(const Layout& layout) {
    const Shape filled = shape();
    for (Tensor& f : factors_) {
      Tensor base = once(f);
      std::vector<int> order(filled.size());
      std::iota(order.begin(), order.end(), 0);
      // A padded factor that repeats its values is stored first, so that loops read it without conditions.
      // The copy keeps the order of the strides.
      if (base.shape() != filled && !is_plain(base)) {
        const std::vector<Expr>& strides = std::get<View>(node_of(base)->attr).strides();
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return strides[a].hi() > strides[b].hi(); });
        base = base.permute(order).contiguous();
      }
      const std::vector<Expr> stored = row_major_strides(base.shape());
      std::vector<Expr> strides(filled.size());
      for (size_t k = 0; k < order.size(); ++k) strides[static_cast<size_t>(order[k])] = stored[k];
      f = view_op(base, tap_view(filled, std::move(strides), layout));
    }
  }
  /// The product, summed over all axes from `first`.
  Tensor sum(size_t first) const {
    const Tensor product = factors_.size() == 1 ? factors_[0] : factors_[0] * factors_[1];
    std::vector<int> axes;
    for (size_t k = first; k < shape().size(); ++k) axes.push_back(static_cast<int>(k));
    return sum_over(product, axes, factors_.size() == 1 ? kLongestSum : kLongestFusedSum);
  }

private:
  /// Puts zeros along an axis. Zeros in one factor are enough, as the factors are multiplied: a factor that
  /// repeats its values along the axis goes on repeating them, unless both factors do.
  template <class F> void fill(size_t axis, Expr size, F&& change) {
    const bool both =
        std::all_of(factors_.begin(), factors_.end(), [&](const Tensor& f) { return repeats(f, axis); });
    for (Tensor& f : factors_) {
      if (both || !repeats(f, axis)) {
        f = change(f);
        continue;
      }
      Shape target = f.shape();
      std::vector<Expr> end = target;
      target[axis] = size, end[axis] = 1;
      f = broadcast_to(shrink_to(f, std::vector<Expr>(target.size(), Expr(0)), end), target);
    }
  }

  std::vector<Tensor> factors_;
};

/// Makes each dimension one axis: zeros for the reach of its taps, then the dimension in its size. The taps
/// follow, an axis each.
void fill_dimensions(Factors& f, const Layout& layout) {
  size_t axis = 0;
  for (const Dimension& d : layout.dimensions) {
    if (d.main) {
      f.join(axis, d.main->steps);
      f.spread(axis, d.main->step());
    } else {
      f.insert_axis(axis);
    }
    f.pad(axis, d.start + d.reach(), d.size - d.start - f.shape()[axis]);
    ++axis;
  }
  for (const Dimension& d : layout.dimensions)
    for (const Run& tap : d.taps) f.join(axis++, tap.steps);
}

/// A part of a tensor. If the tensor is a reduction, only the elements of that part are computed.
Tensor cut(const Tensor& t, const std::vector<Expr>& begin, const std::vector<Expr>& end) {
  const NodeRef node = node_of(t);
  const bool reshaped = node->op == Op::View && std::get<View>(node->attr).is_contiguous();
  const NodeRef sum = reshaped ? node->sources[0] : node;
  if (sum->op != Op::Reduce) return shrink_to(t, begin, end);
  // The axes of the reduction that are longer than 1 must be the tensor's, in the same order.
  std::vector<Expr> first(sum->shape.size(), Expr(0)), last = sum->sources[0]->shape, kept;
  size_t axis = 0;
  for (size_t k = 0; k < sum->shape.size(); ++k) {
    if (sum->shape[k].is_const(1)) continue;
    while (axis < t.shape().size() && t.shape()[axis].is_const(1)) ++axis;
    if (axis == t.shape().size() || t.shape()[axis] != sum->shape[k]) return shrink_to(t, begin, end);
    first[k] = begin[axis];
    last[k] = end[axis++];
  }
  const auto& attr = std::get<ReduceAttr>(sum->attr);
  for (size_t k = 0; k < begin.size(); ++k) kept.push_back(end[k] - begin[k]);
  const auto inside = [&](const NodeRef& n) { return shrink_to(wrap(n), first, last); };
  const NodeRef& terms = sum->sources[0];
  const Tensor part =
      reduce_op(attr.combine,
                terms->op == Op::Mul ? inside(terms->sources[0]) * inside(terms->sources[1]) : inside(terms),
                attr.axes);
  return view_op(part, View::contiguous(kept));
}

} // namespace

Part view_adjoint(const View& view, const Shape& source, const Tensor& cotangent) {
  std::vector<Expr> begin, end;
  bool known = true;
  for (size_t k = 0; k < view.shape().size(); ++k) {
    const Interval& in = view.mask()[k];
    if (proves_le(in.end, in.begin)) return {};
    known =
        known && proves_le(0, in.begin) && proves_lt(in.begin, in.end) && proves_le(in.end, view.shape()[k]);
    begin.push_back(in.begin);
    end.push_back(in.end);
  }
  const View seen = known ? view.shrink(begin, end) : view;
  const auto layout = seen.has_mask() ? std::nullopt : lay_out(seen, source);
  if (!layout) return scattered(view, source, cotangent);

  const bool sums = std::any_of(layout->repeated.begin(), layout->repeated.end(),
                                [&](int k) { return !seen.shape()[k].is_const(1); });
  const NodeRef node = node_of(cotangent);
  std::vector<Tensor> parts{cotangent};
  if (layout->overlaps && sums && node->op == Op::Mul)
    parts = {wrap(node->sources[0]), wrap(node->sources[1])};
  for (Tensor& part : parts) {
    part = cut(part.cast(wide(part.dtype())), begin, end);
    if (parts.size() == 1) part = sum_over(part, layout->repeated);
    part = view_op(part, View::contiguous(part.shape()).flip(layout->flipped));
  }
  Factors factors(std::move(parts), *layout);
  fill_dimensions(factors, *layout);
  if (layout->overlaps) factors.show_taps(*layout);
  const Tensor sum = factors.sum(layout->dimensions.size());
  return view_op(sum, View::contiguous(source)).cast(cotangent.dtype());
}

} // namespace lathe::graph
