// Reverse-mode derivatives, graph to graph. A cotangent is the derivative of the result by one of its values.
// A table says what each primitive does to a cotangent; the adjoint of a view has a file of its own.
#pragma once
#include <optional>
#include <span>

#include "graph/node.hpp"
#include "lathe/tensor.hpp"

namespace lathe::graph {

/// A contribution to a cotangent; nothing where it is zero.
using Part = std::optional<Tensor>;

/// A node and its cotangent, which has the node's shape and dtype.
struct BackwardStep {
  const NodeRef& node;
  const Tensor& cotangent;

  Tensor value() const;
  Tensor source(size_t k) const;
};

/// `part` gives the contribution to the cotangent of source k, a float. A null `part` means that the op's
/// derivative is 0 wherever there is one.
struct GradientRule {
  Op op;
  Part (*part)(const BackwardStep& step, size_t k);
};

/// The rules: one row for each op that a node of the graph may have.
std::span<const GradientRule> gradient_rules();

/// The adjoint of `view`, in the shape `source`. Its element n is the sum of those elements of `cotangent`
/// (of the view's shape) that the view reads from element n. Masked elements add nothing.
Part view_adjoint(const View& view, const Shape& source, const Tensor& cotangent);
/// A tensor of `count` elements. Each is the sum of the `values` whose `index` names it; indices out of range
/// are dropped.
Tensor add_at(Expr count, const Tensor& index, const Tensor& values);
/// The values, divided evenly among the elements chosen along the axes; 0 for the others.
Tensor share_among(const Tensor& values, const Tensor& chosen, const std::vector<int>& axes);
/// 0 without axes, of x's dtype.
Tensor zero_of(const Tensor& x);

} // namespace lathe::graph
