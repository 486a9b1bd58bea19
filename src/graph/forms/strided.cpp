#include "graph/forms/strided.hpp"

namespace lathe::graph {

std::optional<Operand> operand_of(const NodeRef& node) {
  const View v = node->op == Op::View ? std::get<View>(node->attr) : View::contiguous(node->shape);
  if (v.has_mask() || !v.offset().is_const()) return {};
  Operand out{node->op == Op::View ? node->sources[0] : node, {}, v.offset().value()};
  for (const Expr s : v.strides()) {
    if (!s.is_const()) return {};
    out.strides.push_back(s.value());
  }
  return out;
}

NodeRef summed_floats(const NodeRef& sum) {
  if (sum->op != Op::Reduce || std::get<ReduceAttr>(sum->attr).combine != Op::Add) return {};
  const NodeRef& product = sum->sources[0];
  const bool is_float = product->dtype == DType::F32 || product->dtype == DType::F64;
  return product->op == Op::Mul && is_float && is_static(product->shape) ? product : NodeRef();
}

NodeRef strided(const NodeRef& node, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                int64_t offset) {
  return view(node, View(Shape(shape.begin(), shape.end()), std::vector<Expr>(strides.begin(), strides.end()),
                         offset, {}));
}

} // namespace lathe::graph
