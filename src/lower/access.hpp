// Where an element of a node lies once the views above its buffer are folded into the index.
#pragma once
#include <vector>

#include "graph/node.hpp"

namespace lathe::lower {

/// An element of `node`, which is no View, with one index per axis of its shape. Where a guard does not hold,
/// the element is 0. `never` says that some guard never holds.
struct Element {
  graph::NodeRef node;
  std::vector<Expr> index;
  std::vector<Expr> guards;
  bool never = false;
};

/// Follows element `index` of `node` through all Views down to what holds or computes it.
Element resolve(graph::NodeRef node, std::vector<Expr> index);

/// The index into `source` of element `index` of a view over it, dimension by dimension. Nothing unless every
/// axis of the view moves along one dimension of the source and stays inside it wherever the mask holds. Such
/// an index has plain strides. An index made from the flat offset would keep divisions, in a padded
/// convolution for example.
std::optional<std::vector<Expr>> index_by_dimension(const View& view, const Shape& source,
                                                    const std::vector<Expr>& index);

/// The nodes with a copy under each stacked View whose index would become longer than kLongestIndex. Each
/// view doubles the index in a chain of reshapes and transposes that no one view expresses.
std::vector<graph::NodeRef> with_short_indices(const std::vector<graph::NodeRef>& nodes);

} // namespace lathe::lower
