#include "graph/computed_table.hpp"

#include <algorithm>

#include "graph/repeated.hpp"
#include "graph/value_range.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kLargeTable =
    1 << 16;                 // elements; a smaller one is folded, or computed as fast as gathered from
constexpr int kMostOps = 12; // ops of the table, one above the other

NodeRef integer(int64_t value, const NodeRef& like) {
  return constant(Scalar::of_int(like->dtype, value), like->shape);
}

/// The node as one axis.
NodeRef flat(const NodeRef& node) { return view(node, View::contiguous({num_elements(node->shape)})); }

/// Values of nodes of the table's shape at positions, which count its elements row by row.
class AtPositions {
public:
  AtPositions(const NodeRef& positions, const Shape& table) : positions_(positions), table_(table) {}

  /// Null where the node is no function of single elements that can be told.
  NodeRef of(const NodeRef& node, int depth = 0) const {
    if (NodeRef same = repeated_over(node, positions_->shape)) return same;
    if (is_elementwise(node->op)) {
      if (depth == kMostOps) return {};
      std::vector<NodeRef> sources;
      for (const NodeRef& s : node->sources) {
        sources.push_back(of(s, depth + 1));
        if (!sources.back()) return {};
      }
      return with_sources(node, std::move(sources));
    }
    if (node->op == Op::View) return of_view(node);
    return node->op == Op::Input || node->op == Op::Contiguous ? gather(flat(node), positions_) : NodeRef();
  }

private:
  /// A view whose axes are those of the table.
  NodeRef of_view(const NodeRef& node) const {
    const View& v = std::get<View>(node->attr);
    const NodeRef& source = node->sources[0];
    if (v.has_mask() || !v.offset().is_const() || !num_elements(source->shape).is_const()) return {};
    NodeRef place = integer(v.offset().value(), positions_);
    int64_t inner = 1;
    for (size_t k = table_.size(); k-- > 0; inner *= table_[k].value()) {
      const Expr stride = v.strides()[k];
      if (!stride.is_const()) return {};
      if (stride.is_const(0) || table_[k].is_const(1)) continue;
      NodeRef along = inner == 1 ? positions_ : binary(Op::IDiv, positions_, integer(inner, positions_));
      if (k > 0) along = binary(Op::Mod, along, integer(table_[k].value(), positions_));
      place = binary(Op::Add, place, binary(Op::Mul, along, integer(stride.value(), positions_)));
    }
    return gather(flat(source), place);
  }

  NodeRef positions_;
  const Shape& table_;
};

} // namespace

NodeRef gather_of_computed(const NodeRef& node) {
  if (node->op != Op::Gather) return {};
  const NodeRef &source = node->sources[0], &positions = node->sources[1];
  if (source->op != Op::View || std::get<View>(source->attr) != View::contiguous(source->shape)) return {};
  const NodeRef& table = source->sources[0];
  const Expr count = num_elements(table->shape);
  if (!is_elementwise(table->op) || !count.is_const() || count.value() < kLargeTable ||
      count != source->shape[0] || num_elements(positions->shape).lo() >= count.value() ||
      size_of(positions->dtype) < 4)
    return {};
  const NodeRef value = AtPositions(positions, table->shape).of(table);
  if (!value) return {};
  const auto range = range_of(positions);
  if (range && range->lo >= 0 && range->hi < count.value()) return value;
  // A position out of range gives 0, whatever the ops would make of it.
  const NodeRef negative = binary(Op::CmpLt, positions, integer(0, positions)),
                inside = binary(Op::CmpLt, positions, integer(count.value(), positions));
  const NodeRef zero = constant(Scalar::zero(value->dtype), value->shape);
  return where(negative, zero, where(inside, value, zero));
}

} // namespace lathe::graph
