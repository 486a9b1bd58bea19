#include "graph/forms/storage_order.hpp"

#include <algorithm>
#include <numeric>

#include "graph/widened.hpp"

namespace lathe::graph {
namespace {

bool is_elementwise(const NodeRef& node) {
  const OpKind kind = info(node->op).kind;
  return kind == OpKind::Unary || kind == OpKind::Binary || kind == OpKind::Ternary;
}
bool is_stored(const NodeRef& node) {
  return is_elementwise(node) || node->op == Op::Contiguous || node->op == Op::Reduce ||
         node->op == Op::Transform;
}

const NodeRef& behind_views(const NodeRef& node) {
  const NodeRef* at = &node;
  while ((*at)->op == Op::View) at = &(*at)->sources[0];
  return *at;
}

/// How a source is read: the value behind one view, and the view's strides over it.
struct SourceReading {
  NodeRef value;
  std::vector<int64_t> sizes, strides; // per axis as it is read
};

std::optional<SourceReading> read(const NodeRef& source) {
  const bool viewed = source->op == Op::View;
  const View v = viewed ? std::get<View>(source->attr) : View::contiguous(source->shape);
  SourceReading out{viewed ? source->sources[0] : source, {}, {}};
  if (out.value->op == Op::View || !is_static(out.value->shape)) return {};
  for (size_t d = 0; d < v.strides().size(); ++d) {
    if (!v.strides()[d].is_const() || !v.shape()[d].is_const()) return {};
    out.strides.push_back(std::abs(v.strides()[d].value()));
    out.sizes.push_back(v.shape()[d].value());
  }
  return out;
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides;
  for (const Expr& s : row_major_strides(shape)) strides.push_back(s.value());
  return strides;
}

std::vector<int64_t> sizes_of(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Expr& e : shape) sizes.push_back(e.value());
  return sizes;
}

/// The axis along which a step of `stride` elements moves: of the axes whose stride is at most `stride` and
/// whose extent exceeds it, the one with the largest stride. -1 if there is none.
int axis_of(int64_t stride, const std::vector<int64_t>& strides, const std::vector<int64_t>& sizes) {
  int best = -1;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (sizes[d] == 1 || strides[d] == 0 || strides[d] > stride || stride >= strides[d] * sizes[d]) continue;
    if (best < 0 || strides[d] > strides[static_cast<size_t>(best)]) best = static_cast<int>(d);
  }
  return best;
}

std::vector<int> positions_of(const AxisOrder& order) {
  std::vector<int> at(order.size());
  for (size_t i = 0; i < order.size(); ++i) at[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return at;
}

/// The order, following `order`, of axes with these `sizes` and `strides` over a buffer. `order` is an order
/// of other axes (`to_sizes`, `to_strides`) over the same buffer: each axis takes the place of the other axis
/// along which it moves. Axes of size 1 come first.
AxisOrder carried(const AxisOrder& order, const std::vector<int64_t>& to_strides,
                  const std::vector<int64_t>& to_sizes, const std::vector<int64_t>& strides,
                  const std::vector<int64_t>& sizes) {
  const std::vector<int> position = positions_of(order);
  std::vector<int> key(sizes.size(), -1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const int axis = axis_of(strides[d], to_strides, to_sizes);
    key[d] = axis < 0 ? -1 : position[static_cast<size_t>(axis)];
  }
  AxisOrder out(sizes.size());
  std::iota(out.begin(), out.end(), 0);
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) {
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    return key[x] != key[y] ? key[x] < key[y] : strides[x] > strides[y] && sizes[x] > 1 && sizes[y] > 1;
  });
  return out;
}

/// The number of axes longer than 1.
int extent_count(const Shape& shape) {
  return static_cast<int>(
      std::count_if(shape.begin(), shape.end(), [](const Expr& e) { return !e.is_const(1); }));
}

/// Whether the source is a constant, perhaps seen through views and casts, as weights of 8 bits are.
bool is_constant(const NodeRef& source) {
  const NodeRef* at = &source;
  while ((*at)->op == Op::View || (*at)->op == Op::Cast) at = &(*at)->sources[0];
  return (*at)->op == Op::Input && std::get<InputAttr>((*at)->attr).data;
}

} // namespace

Families::Families(const std::vector<NodeRef>& outputs) {
  for (const NodeRef& output : outputs) outputs_.insert(behind_views(output).get());
  for (const NodeRef& node : topological_order(outputs)) {
    if (node->op == Op::View) continue;
    for (const NodeRef& s : node->sources) {
      std::vector<NodeRef>& users = users_[behind_views(s).get()];
      if (users.empty() || users.back() != node) users.push_back(node);
    }
  }
}

bool Families::feeds_sums_of_products(const NodeRef& node) const {
  const auto users = users_.find(node.get());
  return node->op == Op::Mul && users != users_.end() &&
         std::all_of(users->second.begin(), users->second.end(), summed_product);
}

bool Families::can_be_ordered(const NodeRef& node) const {
  return is_stored(node) && is_static(node->shape) && extent_count(node->shape) > 1 &&
         !outputs_.contains(node.get()) && !feeds_sums_of_products(node);
}

StorageOrders Families::around(const NodeRef& seed, int axis) const {
  StorageOrders orders;
  std::vector<NodeRef> open;
  const auto add = [&](const NodeRef& node, AxisOrder order) {
    if (can_be_ordered(node) && orders.emplace(node.get(), std::move(order)).second) open.push_back(node);
  };
  AxisOrder first;
  for (int d = 0; d < static_cast<int>(seed->shape.size()); ++d)
    if (d != axis) first.push_back(d);
  first.push_back(axis);
  add(seed, std::move(first));

  while (!open.empty()) {
    const NodeRef node = std::move(open.back());
    open.pop_back();
    const AxisOrder order = orders.at(node.get());
    // Follow the sources. A sum of products ends the family: another order, along its terms, suits its
    // operands.
    if (!summed_product(node))
      for (const NodeRef& source : node->sources) {
        const auto r = read(source);
        if (!r || !is_stored(r->value)) continue;
        const Shape& shape = r->value->shape;
        add(r->value, carried(order, r->strides, r->sizes, strides_of(shape), sizes_of(shape)));
      }
    const auto users = users_.find(node.get());
    if (users == users_.end()) continue;
    const std::vector<int64_t> strides = strides_of(node->shape), sizes = sizes_of(node->shape);
    for (const NodeRef& user : users->second) {
      if (!can_be_ordered(user) || summed_product(user)) continue;
      for (const NodeRef& source : user->sources) {
        const auto r = read(source);
        if (!r || r->value != node) continue;
        // A value that is repeated along an axis does not determine the place of that axis.
        bool whole = true;
        for (size_t d = 0; d < r->sizes.size(); ++d) whole &= r->sizes[d] == 1 || r->strides[d] != 0;
        if (whole) add(user, carried(order, strides, sizes, r->strides, r->sizes));
      }
    }
  }
  return orders;
}

NodeRef permuted(const NodeRef& node, const AxisOrder& order) {
  return view(node, View::contiguous(node->shape).permute(order));
}
NodeRef permuted_back(const NodeRef& node, const AxisOrder& order) {
  return view(node, View::contiguous(node->shape).permute(positions_of(order)));
}

NodeRef stored_in_order(const NodeRef& node, const AxisOrder& order) {
  const std::vector<int> position = positions_of(order);
  std::vector<NodeRef> sources;
  for (const NodeRef& s : node->sources) sources.push_back(permuted(s, order));
  NodeRef made;
  if (node->op == Op::Reduce) {
    const auto& attr = std::get<ReduceAttr>(node->attr);
    std::vector<int> axes;
    for (int a : attr.axes) axes.push_back(position[static_cast<size_t>(a)]);
    std::sort(axes.begin(), axes.end());
    made = reduce(attr.combine, std::move(sources[0]), std::move(axes));
  } else if (node->op == Op::Transform) {
    const auto& attr = std::get<TransformAttr>(node->attr);
    std::vector<std::pair<int, SmallMatrix>> moved;
    for (size_t k = 0; k < attr.axes.size(); ++k)
      moved.emplace_back(position[static_cast<size_t>(attr.axes[k])], attr.matrices[k]);
    std::sort(moved.begin(), moved.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    TransformAttr there;
    for (auto& [axis, matrix] : moved) {
      there.axes.push_back(axis);
      there.matrices.push_back(std::move(matrix));
    }
    made = transform(std::move(sources[0]), std::move(there));
  } else {
    made = with_sources(node, std::move(sources));
  }
  return permuted_back(made, order);
}

NodeRef summed_product(const NodeRef& node) {
  if (node->op != Op::Reduce || std::get<ReduceAttr>(node->attr).combine != Op::Add) return {};
  const NodeRef& product = behind_views(node->sources[0]);
  return product->op == Op::Mul ? product : NodeRef();
}

bool is_innermost(const NodeRef& node, int axis) {
  return std::all_of(node->shape.begin() + axis + 1, node->shape.end(),
                     [](const Expr& e) { return e.is_const(1); });
}

std::optional<SummedAxis> summed_axis(const NodeRef& node) {
  if (node->op != Op::Reduce || std::get<ReduceAttr>(node->attr).combine != Op::Add) return {};
  const NodeRef& product = node->sources[0];
  if (product->op != Op::Mul || !is_static(product->shape)) return {};
  for (size_t which : {0, 1}) {
    auto r = read(product->sources[which]);
    // Narrow numbers are stored as they are, and widened where they are read.
    if (r && is_widened(r->value)) r->value = r->value->sources[0];
    if (!r || !is_stored(r->value) || !is_constant(product->sources[1 - which])) continue;
    const std::vector<int64_t> strides = strides_of(r->value->shape), sizes = sizes_of(r->value->shape);
    SummedAxis best{r->value, -1, 1};
    for (int a : std::get<ReduceAttr>(node->attr).axes) {
      const auto k = static_cast<size_t>(a);
      if (r->sizes[k] <= best.terms || r->strides[k] == 0) continue;
      best.axis = axis_of(r->strides[k], strides, sizes);
      best.terms = r->sizes[k];
    }
    if (best.axis >= 0) return best;
  }
  return {};
}

} // namespace lathe::graph
