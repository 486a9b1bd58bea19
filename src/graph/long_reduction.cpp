#include "graph/long_reduction.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/function.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kChain = 16;             // terms of a chain, added one after the other
constexpr int64_t kLanes = 64;             // chains of a part, side by side so that vectors add them
constexpr int64_t kOnePart = 65536;        // terms; an innermost axis of at most this size is one part
constexpr int64_t kPart = kChain * kLanes; // elements that a reduction in any order takes at a time
constexpr int64_t kManyParts = 64;         // results; enough for threads to share
constexpr int64_t kMany = 1 << 17;     // elements from which on reductions in any order are cut into parts
constexpr int64_t kShort = 2 * kChain; // terms; sums of at most so many are not cut into chains

/// Views of a value. Where the value is elementwise, its operands are viewed instead, so that it is not
/// stored; as many of these as lie next to it, because each sum makes them anew.
class Viewed {
public:
  Viewed(const NodeRef& root, const View& v) : view_(v) {
    std::vector<NodeRef> near{root};
    for (size_t next = 0; next < near.size() && inside_.size() < kMost; ++next) {
      const NodeRef node = near[next];
      if (!is_elementwise(node->op) || node->op == Op::Const || !inside_.insert(node.get()).second) continue;
      near.insert(near.end(), node->sources.begin(), node->sources.end());
    }
  }
  NodeRef of(const NodeRef& node) {
    if (!inside_.contains(node.get())) return view(node, view_);
    if (const auto known = made_.find(node.get()); known != made_.end()) return known->second;
    std::vector<NodeRef> sources;
    for (const NodeRef& s : node->sources) sources.push_back(of(s));
    return made_[node.get()] = with_sources(node, std::move(sources));
  }

private:
  static constexpr size_t kMost = 256;
  const View& view_;
  std::unordered_set<const Node*> inside_;
  std::unordered_map<const Node*, NodeRef> made_;
};

Tensor view_of_operands(const Tensor& x, const View& v) {
  const NodeRef root = node_of(x);
  return wrap(Viewed(root, v).of(root));
}

Tensor part_of(const Tensor& x, int axis, int64_t begin, int64_t end) {
  std::vector<Expr> first(x.shape().size(), Expr(0)), last = x.shape();
  first[axis] = begin;
  last[axis] = end;
  return view_of_operands(x, View::contiguous(x.shape()).shrink(first, last));
}

int64_t least_terms(const Tensor& x, const std::vector<int>& axes) {
  Expr terms = 1;
  for (const int axis : axes) terms = terms * x.shape()[axis];
  return terms.lo();
}

Tensor sum_in_chains(const Tensor& x, std::vector<int> axes);

/// The elements of a, then those of b, along the axis.
Tensor joined(const Tensor& a, const Tensor& b, int axis) {
  const std::vector<Expr> none(a.shape().size(), Expr(0));
  std::vector<Expr> before = none, after = none;
  before[axis] = a.shape()[axis];
  after[axis] = b.shape()[axis];
  return pad_zero(a, none, after) + pad_zero(b, before, none);
}

/// Sums x over `axes`. The last of them, of static size, is cut into [parts, kChain, lanes], and each chain
/// is summed first. Elements that do not fill a part join the results as they are.
Tensor cut_last_axis(const Tensor& x, std::vector<int> axes) {
  const int axis = axes.back();
  const int64_t size = x.shape()[axis].value();
  const bool innermost = axis + 1 == x.rank(); // else the axes inside it provide the lanes
  const int64_t lanes = !innermost ? 1 : size <= kOnePart ? size / kChain : kLanes;
  const int64_t parts = size / (kChain * lanes), whole = parts * kChain * lanes;
  Shape cut = x.shape(), summed = x.shape();
  cut[axis] = parts;
  cut.insert(cut.begin() + axis + 1, {Expr(kChain), Expr(lanes)});
  summed[axis] = parts * lanes;
  const Tensor chains =
      view_of_operands(size == whole ? x : part_of(x, axis, 0, whole), View::contiguous(cut));
  const Tensor sums = view_op(reduce_op(Op::Add, chains, {axis + 1}), View::contiguous(summed));
  return sum_in_chains(size == whole ? sums : joined(sums, part_of(x, axis, whole, size), axis), axes);
}

Tensor sum_in_chains(const Tensor& x, std::vector<int> axes) {
  if (least_terms(x, axes) <= kShort) return reduce_op(Op::Add, x, axes);
  const Expr last = x.shape()[axes.back()];
  if (last.is_const() && last.value() >= kShort) return cut_last_axis(x, std::move(axes));
  // Sums as many of the last axes as make a chain, then the rest.
  std::vector<int> inner;
  int64_t terms = 1;
  while (!axes.empty()) {
    const int64_t size = x.shape()[axes.back()].lo();
    if (!inner.empty() && size * terms > kShort) break;
    terms *= size;
    inner.insert(inner.begin(), axes.back());
    axes.pop_back();
  }
  const Tensor sums = reduce_op(Op::Add, x, inner);
  return axes.empty() ? sums : sum_in_chains(sums, std::move(axes));
}

/// The axes as they are counted when `dropped` are gone.
std::vector<int> positions_without(std::vector<int> axes, const std::vector<int>& dropped) {
  for (int& axis : axes)
    axis -= static_cast<int>(std::count_if(dropped.begin(), dropped.end(), [&](int d) { return d < axis; }));
  return axes;
}

Tensor in_parts(Op combine, const Tensor& x, const std::vector<int>& axes);

/// The last of the axes, of static size, is cut into parts.
Tensor part_by_part(Op combine, const Tensor& x, const std::vector<int>& axes) {
  const int axis = axes.back();
  // Axes inside it provide the lanes of chains. Else the part itself does.
  const bool innermost = axis + 1 == x.rank();
  const int64_t size = x.shape()[axis].value(), part = innermost ? kPart : kChain, parts = size / part,
                whole = parts * part;
  if (parts < 2) return reduce_op(combine, x, axes);
  Shape cut = x.shape(), reduced = x.shape();
  cut[axis] = reduced[axis] = parts;
  cut.insert(cut.begin() + axis + 1, Expr(part));
  const Tensor pieces =
      view_of_operands(size == whole ? x : part_of(x, axis, 0, whole), View::contiguous(cut));
  const Tensor each = view_op(reduce_op(combine, pieces, {axis + 1}), View::contiguous(reduced));
  const Tensor result = in_parts(combine, each, axes);
  if (size == whole) return result;
  return binary_op("reduce", combine, result, in_parts(combine, part_of(x, axis, whole, size), axes));
}

Tensor in_parts(Op combine, const Tensor& x, const std::vector<int>& axes) {
  Expr results = 1;
  for (int a = 0; a < x.rank(); ++a)
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) results = results * x.shape()[a];
  if (least_terms(x, axes) < kMany || results.hi() >= kManyParts) return reduce_op(combine, x, axes);
  // The results of the last axes are the parts, if there are many. They get a shape of their own: one
  // reduction of another in the same shape would be merged with it.
  std::vector<int> outer = axes, inner;
  while (outer.size() > 1) {
    inner.insert(inner.begin(), outer.back());
    outer.pop_back();
    if (least_terms(x, inner) < kPart || least_terms(x, outer) < kManyParts) continue;
    const Tensor parts = drop_axes(reduce_op(combine, x, inner), inner);
    const Tensor result = in_parts(combine, parts, positions_without(outer, inner));
    Shape kept = x.shape();
    for (const int axis : axes) kept[static_cast<size_t>(axis)] = 1;
    return view_op(result, View::contiguous(kept));
  }
  return x.shape()[axes.back()].is_const() ? part_by_part(combine, x, axes) : reduce_op(combine, x, axes);
}

} // namespace

Tensor reduce_in_any_order(Op combine, const Tensor& x, const std::vector<int>& axes) {
  const Tensor result = in_parts(combine, x, axes);
  const bool is_whole = node_of(result)->op == Op::Reduce && node_of(result)->sources[0] == node_of(x);
  return is_whole || !is_float(x.dtype()) ? result : with_derivative("max", result, {x});
}

Tensor sum_over(const Tensor& x, const std::vector<int>& axes, int64_t longest) {
  if (!is_float(x.dtype()) || least_terms(x, axes) <= longest) return reduce_op(Op::Add, x, axes);
  return with_derivative("sum", sum_in_chains(x, axes), {x});
}

} // namespace lathe::graph
