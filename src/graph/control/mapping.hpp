// A graph along an axis: what it computes for each element of some of its inputs, computed in one.
#pragma once
#include <unordered_map>
#include <vector>

#include "graph/scan.hpp"

namespace lathe::graph {

/// What a node becomes. A mapped one has the axis in front; any other is the same for all elements.
struct Mapped {
  NodeRef node;
  bool has_axis = false;
};

/// Rebuilds graphs along an axis of one size.
class Mapping {
public:
  explicit Mapping(Expr size) : size_(size) {}

  /// Says what an input becomes.
  void set(const NodeRef& input, Mapped mapped) { known_[input.get()] = {input, std::move(mapped)}; }
  std::vector<Mapped> of(const std::vector<NodeRef>& nodes);
  /// The node with the axis in front, repeated along it unless it has it.
  NodeRef along(const Mapped& mapped) const;

private:
  struct Known {
    NodeRef original; // held, as its address is a key
    Mapped mapped;
  };
  Mapped made_of(const NodeRef& node, const std::vector<Mapped>& sources);
  NodeRef view_of(const View& view, const NodeRef& source, const Shape& shape) const;
  NodeRef gathered(const Node& node, const std::vector<Mapped>& sources) const;
  NodeRef scattered(const Node& node, const std::vector<Mapped>& sources) const;
  NodeRef flat(const Mapped& mapped) const;
  NodeRef flat_index(const Mapped& index, Expr count, const Shape& shape) const;
  Shape with_axis(const Shape& shape) const;

  Expr size_;
  std::unordered_map<const Node*, Known> known_;
  /// By the node of result 0: all results of a recurrence become those of one.
  std::unordered_map<const Node*, std::pair<NodeRef, std::vector<Mapped>>> recurrences_;
};

/// The results of a recurrence whose sources become these.
std::vector<Mapped> mapped_recurrence(const Recurrence& given, const std::vector<Mapped>& sources, Expr size);

} // namespace lathe::graph
