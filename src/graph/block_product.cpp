#include "graph/block_product.hpp"

#include <algorithm>
#include <optional>

#include "graph/repeated.hpp"

namespace lathe::graph {
namespace {

constexpr int kMostNodes = 96;       // of an operand
constexpr size_t kMostBlockAxes = 8; // that a row is cut into

/// An operand whose views lie below its elementwise nodes; null if a view pads, or there are too many nodes.
class ViewsBelow {
public:
  NodeRef of(const NodeRef& node) {
    if (++count_ > kMostNodes) return {};
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

/// How elementwise nodes of an operand cut its rows of `length` elements: the most axes that are the last of
/// such a node and have as many elements together.
void find_cut(const NodeRef& node, int64_t length, std::vector<int64_t>& cut, int& nodes) {
  if (++nodes > kMostNodes) return;
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (size_t k = node->shape.size(); k-- > 0 && elements < length && node->shape[k].is_const();) {
    const int64_t size = node->shape[k].value();
    if (size != 1) sizes.insert(sizes.begin(), size);
    elements *= size;
  }
  if (elements == length && sizes.size() > cut.size() && sizes.size() <= kMostBlockAxes) cut = sizes;
  if (node->op == Op::View || is_elementwise(node->op))
    for (const NodeRef& s : node->sources) find_cut(s, length, cut, nodes);
}

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
    default: return reduce(Op::Add, binary(Op::Mul, x_, node), inside_);
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

/// Whether a view shows elements of the operand more than once.
bool is_repeated(const NodeRef& operand) {
  if (operand->op != Op::View) return operand->op == Op::Const;
  const View& v = std::get<View>(operand->attr);
  for (size_t k = 0; k < v.shape().size(); ++k)
    if (v.strides()[k] == Expr(0) && !v.shape()[k].is_const(1)) return true;
  return false;
}

NodeRef product_with(const NodeRef& vector, const NodeRef& matrix, const Shape& result, int axis) {
  if (is_repeated(matrix)) return {};
  const auto at = static_cast<size_t>(axis);
  std::vector<int64_t> cut;
  int nodes = 0;
  find_cut(matrix, vector->shape[at].value(), cut, nodes);
  if (cut.empty()) return {};
  Shape shape = vector->shape;
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, cut.begin(), cut.end());
  const View in_blocks = View::contiguous(shape);
  const NodeRef operand = ViewsBelow().of(view(matrix, in_blocks));
  BlockSum sum(view(vector, in_blocks), axis, static_cast<int>(cut.size()));
  if (!operand || !sum.reads(operand)) return {};
  NodeRef of_blocks = sum.of(operand);
  std::vector<int> blocks;
  for (int k = axis; k < axis + static_cast<int>(cut.size()); ++k)
    if (std::find(sum.axes().begin(), sum.axes().end(), k) == sum.axes().end()) blocks.push_back(k);
  if (!blocks.empty()) of_blocks = reduce(Op::Add, of_blocks, blocks);
  return view(of_blocks, View::contiguous(result));
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
