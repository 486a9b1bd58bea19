#include "graph/block_product.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/repeated.hpp"

namespace lathe::graph {
namespace {

constexpr int kMostOperandNodes = 96; // of an operand
constexpr size_t kMostBlockAxes = 8;  // that an axis is cut into
constexpr int64_t kMostVectors = 64;  // that meet the matrix

/// An operand whose views lie below its elementwise nodes; null if a view pads, or there are too many nodes.
class ViewsBelow {
public:
  NodeRef of(const NodeRef& node) {
    if (++count_ > kMostOperandNodes) return {};
    if (node->op == Op::View) {
      const NodeRef& seen = node->sources[0];
      if (!is_elementwise(seen->op)) return node;
      const View& v = std::get<View>(node->attr);
      if (v.has_mask()) return {};
      std::vector<NodeRef> sources;
      for (const NodeRef& s : seen->sources) sources.push_back(view(s, v));
      return with(seen, std::move(sources));
    }
    return is_elementwise(node->op) ? with(node, node->sources) : node;
  }

private:
  NodeRef with(const NodeRef& node, std::vector<NodeRef> sources) {
    for (NodeRef& s : sources)
      if (!(s = of(s))) return {};
    return with_sources(node, std::move(sources));
  }
  int count_ = 0;
};

/// How nodes of an operand cut one of its axes.
class Cut {
public:
  /// Of the axes that nodes have in place of this one: all, or those along which stored elements are read
  /// again, as bytes are that hold several numbers.
  enum class Of { Shapes, Repeats };
  Cut(const NodeRef& operand, int axis, Of of) : of_(of) {
    const Expr length = operand->shape[static_cast<size_t>(axis)];
    if (!length.is_const() || length.value() < 2) return;
    length_ = length.value();
    follow(operand, static_cast<size_t>(axis), static_cast<size_t>(axis) + 1);
  }

  /// The sizes of the axes, outermost first; one size if nothing cuts the axis. Cuts at places of which none
  /// divides the other have no common axes: the finer ones stay.
  std::vector<int64_t> sizes(int64_t length) const {
    std::vector<int64_t> sizes;
    int64_t inner = 1;
    for (const int64_t end : ends_)
      if (end % inner == 0 && length % end == 0 && sizes.size() + 1 < kMostBlockAxes) {
        sizes.insert(sizes.begin(), end / inner);
        inner = end;
      }
    sizes.insert(sizes.begin(), length / inner);
    return sizes;
  }

private:
  /// The node's axes [begin, end) stand for the axis.
  void follow(const NodeRef& node, size_t begin, size_t end) {
    if (++nodes_ > kMostOperandNodes) return;
    if (of_ == Of::Shapes) cut_before(node->shape, begin, end, [](size_t) { return true; });
    if (is_elementwise(node->op))
      for (const NodeRef& s : node->sources) follow(s, begin, end);
    if (node->op != Op::View) return;
    const View& v = std::get<View>(node->attr);
    if (of_ == Of::Repeats)
      cut_before(node->shape, begin, end,
                 [&](size_t k) { return (v.strides()[k] == Expr(0)) != (v.strides()[k - 1] == Expr(0)); });
    follow_view(v, node->sources[0], begin, end);
  }

  /// Cuts the axis between axes k - 1 and k where `is_cut(k)`.
  template <class F> void cut_before(const Shape& shape, size_t begin, size_t end, F is_cut) {
    int64_t inner = 1;
    for (size_t k = end; --k > begin;) {
      if (!shape[k].is_const()) return;
      inner *= shape[k].value();
      if (inner > 1 && inner < length_ && is_cut(k)) ends_.insert(inner);
    }
  }

  /// Goes on in the source of a view, if axes of the source are what the axis shows.
  void follow_view(const View& v, const NodeRef& source, size_t begin, size_t end) {
    while (end > begin + 1 && v.shape()[end - 1].is_const(1)) --end;
    const Expr step = v.strides()[end - 1];
    for (size_t k = begin; k + 1 < end; ++k)
      if (!v.shape()[k].is_const(1) && v.strides()[k] != v.strides()[k + 1] * v.shape()[k + 1]) return;
    const std::vector<Expr> steps = row_major_strides(source->shape);
    size_t last = steps.size();
    while (last > 0 && (steps[last - 1] != step || source->shape[last - 1].is_const(1))) --last;
    int64_t elements = 1;
    for (size_t first = last; first-- > 0 && source->shape[first].is_const();)
      if ((elements *= source->shape[first].value()) >= length_) {
        if (elements == length_) follow(source, first, last);
        return;
      }
  }

  Of of_;
  int64_t length_ = 0;
  int nodes_ = 0;
  std::set<int64_t> ends_; // elements of the axis from cut to cut
};

/// A shape whose axes are cut. Of an axis that is summed, the parts keep their order. Of another axis the
/// outermost part, which is the longest, comes last: the lanes of vectors then run along it.
class CutShape {
public:
  CutShape(const NodeRef& operand, int summed) {
    for (int axis = 0; axis < static_cast<int>(operand->shape.size()); ++axis) {
      const Expr size = operand->shape[static_cast<size_t>(axis)];
      const Cut cut(operand, axis, axis == summed ? Cut::Of::Shapes : Cut::Of::Repeats);
      if (axis == summed) first_ = static_cast<int>(shape_.size());
      const int begin = static_cast<int>(shape_.size());
      if (size.is_const())
        for (const int64_t part : cut.sizes(size.value())) shape_.push_back(part);
      else
        shape_.push_back(size);
      const int end = static_cast<int>(shape_.size());
      if (axis == summed) count_ = end - begin;
      for (int k = begin; k < end; ++k) order_.push_back(k);
      if (axis != summed) std::rotate(order_.begin() + begin, order_.begin() + begin + 1, order_.end());
    }
  }
  int first() const { return first_; } // of the summed axis' parts
  int count() const { return count_; }
  View in_parts() const { return View::contiguous(shape_).permute(order_); }
  /// From the sums, of size 1 along the summed parts, back to the axes' own order.
  View in_order(const Shape& sums) const {
    std::vector<int> back(order_.size());
    for (size_t k = 0; k < order_.size(); ++k) back[static_cast<size_t>(order_[k])] = static_cast<int>(k);
    return View::contiguous(sums).permute(back);
  }

private:
  Shape shape_;
  std::vector<int> order_;
  int first_ = 0, count_ = 0;
};

/// The sum of x times an operand over the axes of a block.
class BlockSum {
public:
  /// x and the operand have the cut axes [first, first + count).
  BlockSum(NodeRef x, int first, int count) : x_(std::move(x)), last_(first + count - 1) {
    for (int axis = first; axis <= last_; ++axis) inside_.push_back(axis);
  }

  /// Whether the operand has the form, with something to gain. Finds the axes of a block.
  bool reads(const NodeRef& operand) { return look(operand) && has_scale_ && !inside_.empty(); }
  const std::vector<int>& axes() const { return inside_; }

  NodeRef of(const NodeRef& node) const {
    if (is_fixed(node)) return binary_of(Op::Mul, sum_of_x(), first_along(node, inside_));
    switch (node->op) {
    case Op::Add: return binary_of(Op::Add, of(node->sources[0]), of(node->sources[1]));
    case Op::Neg: return unary(Op::Neg, of(node->sources[0]));
    case Op::Mul: {
      const size_t scale = is_fixed(node->sources[0]) ? 0 : 1;
      return binary_of(Op::Mul, of(node->sources[1 - scale]), first_along(node->sources[scale], inside_));
    }
    default: return reduce(Op::Add, binary_of(Op::Mul, x_, node), inside_);
    }
  }

private:
  /// Whether the operand is the same throughout a block.
  bool is_fixed(const NodeRef& node) const { return static_cast<bool>(first_along(node, {last_})); }

  bool look(const NodeRef& node) {
    if (is_fixed(node)) {
      std::erase_if(inside_, [&](int axis) { return !first_along(node, {axis}); });
      has_scale_ = true;
      return static_cast<bool>(first_along(node, inside_));
    }
    switch (node->op) {
    case Op::Neg: return look(node->sources[0]);
    case Op::Add: return look(node->sources[0]) && look(node->sources[1]);
    case Op::Mul:
      if (is_fixed(node->sources[0]) == is_fixed(node->sources[1])) return false;
      return look(node->sources[0]) && look(node->sources[1]);
    case Op::Cast: return is_integer(node->sources[0]->dtype); // the integers
    default: return false;
    }
  }

  /// The sum of x, once for all rows of the matrix.
  NodeRef sum_of_x() const {
    std::vector<int> repeated;
    for (int axis = 0; axis < static_cast<int>(x_->shape.size()); ++axis)
      if (std::find(inside_.begin(), inside_.end(), axis) == inside_.end() && first_along(x_, {axis}))
        repeated.push_back(axis);
    const NodeRef once = first_along(x_, repeated);
    return reduce(Op::Add, once ? once : x_, inside_);
  }
  /// Of nodes of the same shape, but for axes of size 1, which are repeated.
  static NodeRef binary_of(Op op, const NodeRef& a, const NodeRef& b) {
    Shape shape = a->shape;
    for (size_t k = 0; k < shape.size(); ++k)
      if (shape[k].is_const(1)) shape[k] = b->shape[k];
    const auto repeated = [&](const NodeRef& n) { return view(n, View::contiguous(n->shape).expand(shape)); };
    return binary(op, repeated(a), repeated(b));
  }

  NodeRef x_;
  int last_;
  std::vector<int> inside_; // axes along which all scales and offsets are the same
  bool has_scale_ = false;
};

/// How often a view shows each element of the operand.
int64_t times_shown(const NodeRef& operand) {
  constexpr int64_t kMany = kMostVectors + 1;
  if (operand->op == Op::Const) return kMany;
  if (operand->op != Op::View) return 1;
  const View& v = std::get<View>(operand->attr);
  int64_t times = 1;
  for (size_t k = 0; k < v.shape().size(); ++k)
    if (v.strides()[k] == Expr(0))
      times = v.shape()[k].is_const() ? std::min(kMany, times * v.shape()[k].value()) : kMany;
  return times;
}

/// Whether the operand may be of scaled integers: a look before it is taken apart.
bool has_integers(const NodeRef& node, int nested = 0) {
  constexpr int kMostNested = 12;
  if (nested == kMostNested) return false;
  switch (node->op) {
  case Op::Cast: return is_integer(node->sources[0]->dtype);
  case Op::View:
  case Op::Neg: return has_integers(node->sources[0], nested + 1);
  case Op::Mul:
  case Op::Add:
    return has_integers(node->sources[0], nested + 1) || has_integers(node->sources[1], nested + 1);
  default: return false;
  }
}

/// The operand without the axes along which a view shows it again: its numbers are then unpacked once.
NodeRef once(const NodeRef& operand, const CutShape& cut) {
  if (operand->op != Op::View) return operand;
  const View& v = std::get<View>(operand->attr);
  std::vector<int> axes;
  for (int k = 0; k < static_cast<int>(v.shape().size()); ++k)
    if (v.strides()[static_cast<size_t>(k)] == Expr(0) && (k < cut.first() || k >= cut.first() + cut.count()))
      axes.push_back(k);
  const NodeRef first = first_along(operand, axes);
  return first ? first : operand;
}

NodeRef product_with(const NodeRef& vector, const NodeRef& matrix, const Shape& result, int axis) {
  if (times_shown(matrix) > kMostVectors || !has_integers(matrix)) return {};
  const CutShape cut(matrix, axis);
  const NodeRef operand = ViewsBelow().of(once(view(matrix, cut.in_parts()), cut));
  BlockSum sum(view(vector, cut.in_parts()), cut.first(), cut.count());
  if (!operand || !sum.reads(operand)) return {};
  NodeRef of_blocks = sum.of(operand);
  std::vector<int> blocks;
  for (int k = cut.first(); k < cut.first() + cut.count(); ++k)
    if (std::find(sum.axes().begin(), sum.axes().end(), k) == sum.axes().end()) blocks.push_back(k);
  if (!blocks.empty()) of_blocks = reduce(Op::Add, of_blocks, blocks);
  return view(view(of_blocks, cut.in_order(of_blocks->shape)), View::contiguous(result));
}

} // namespace

NodeRef block_product(const NodeRef& node) {
  if (node->op != Op::Reduce || std::get<ReduceAttr>(node->attr).combine != Op::Add) return {};
  const NodeRef& product = node->sources[0];
  const std::vector<int>& axes = std::get<ReduceAttr>(node->attr).axes;
  if (product->op != Op::Mul || product->dtype != DType::F32 || axes.size() != 1) return {};
  const Expr length = product->shape[static_cast<size_t>(axes[0])];
  if (!length.is_const() || length.value() < 2 || has_no_elements(product->shape)) return {};
  for (const size_t k : {1, 0})
    if (NodeRef sum = product_with(product->sources[1 - k], product->sources[k], node->shape, axes[0]))
      return sum;
  return {};
}

} // namespace lathe::graph
