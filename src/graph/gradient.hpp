// Reverse-mode derivatives, graph to graph: the table that says what each primitive does to a cotangent (the
// derivative of the result by one of its values), and the adjoint of a view, which has a file of its own.
#pragma once
#include <optional>
#include <span>

#include "graph/node.hpp"
#include "lathe/tensor.hpp"

namespace lathe::graph {

/// A contribution to a cotangent; nothing where it is zero.
using Part = std::optional<Tensor>;

/// A node with its cotangent, of its shape and dtype.
struct BackwardStep {
  const NodeRef& node;
  const Tensor& cotangent;

  Tensor value() const;
  Tensor source(size_t k) const;
};

/// `part`: what source k (a float) gets. Null where the derivative is 0 wherever there is one.
struct GradientRule {
  Op op;
  Part (*part)(const BackwardStep& step, size_t k);
};

/// One row for each op that a graph's node may be.
std::span<const GradientRule> gradient_rules();

/// Element n of `source`'s shape is the sum of the elements of `cotangent` (of the view's shape) that the
/// view reads from there; what it masks is dropped.
Part view_adjoint(const View& view, const Shape& source, const Tensor& cotangent);
/// A tensor of `count` elements with values added up at index; out of range is dropped.
Tensor add_at(Expr count, const Tensor& index, const Tensor& values);

} // namespace lathe::graph
