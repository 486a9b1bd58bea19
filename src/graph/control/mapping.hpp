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

/// A recurrence whose sources have become others. Its results are made when they are asked for: those that
/// nothing reads may be too large to exist.
struct MappedRecurrence {
  Recurrence recurrence;
  size_t added = 0;             // results in front of those that are stacked
  std::vector<bool> has_axis{}; // by result of the recurrence as it was

  Mapped result(size_t position) const;
};
MappedRecurrence mapped_recurrence(const Recurrence& given, const std::vector<Mapped>& sources, Expr size);

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
  std::unordered_map<const Node*, std::pair<NodeRef, MappedRecurrence>> recurrences_;
};

} // namespace lathe::graph
