// The loops around the place that reading a kernel's features has come to: what expressions are worth under
// them, how they move with each, and the accesses found there.
#pragma once
#include <map>

#include "search/cost/features.hpp"

namespace lathe::search {

/// Loops are known by their depth, 0 the outermost, and sets of them are bits per depth.
class LoopsAround {
public:
  enum class At { First, Middle, Last };

  /// `block`: all that will be read.
  LoopsAround(Features& features, const ast::Block& block) : features_(features) { find_stores(block); }

  /// A loop by its index among the features.
  void enter(int loop) { stack_.push_back(loop); }
  void leave() { stack_.pop_back(); }
  size_t size() const { return stack_.size(); }
  const LoopInfo& operator[](size_t depth) const { return features_.loops[stack_[depth]]; }
  /// Index of the innermost; -1 outside of all.
  int innermost() const { return stack_.empty() ? -1 : stack_.back(); }
  /// The straight-line code right inside the first `depth` loops.
  Work& body(size_t depth) { return depth > 0 ? features_.loops[stack_[depth - 1]].body : features_.top; }
  const Features& features() const { return features_; }
  /// How often what stands here is executed.
  double executions() const;

  /// With every loop variable at its first, middle or last iteration.
  double value(Expr e, At at) const;
  /// At the first or last iteration of each of the loops of `mask`: the average over all these corners. Loops
  /// beyond the innermost four are at their first.
  double average_of_corners(Expr e, uint64_t mask) const;
  /// Whether any loop's variable is in it.
  bool varies(Expr e) const;
  /// The loops that it depends on.
  uint64_t dependence(Expr e) const;
  /// Adds scale * (steps of e per step of each loop) to coefficients[depth]. Division and remainder count as
  /// their average slope.
  void add_strides(Expr e, double scale, double* coefficients) const;

  /// Scratch that is made here, inside all loops; and inside how many a buffer is made, 0 if it isn't
  /// scratch.
  void make(const ast::Buffer& buffer) { made_at_[buffer.id] = size(); }
  size_t made_at(const ast::Buffer& buffer) const;

  /// How many of these loops, from outside, hold a store to the buffer: what is loaded from it must be loaded
  /// again in each iteration of all of them.
  size_t changed_within(const ast::Buffer& buffer) const;

  /// Among the features.
  int buffer_index(const ast::Buffer* buffer);
  /// Of the element with this index, in the first iteration of all loops.
  double offset(const ast::Buffer& buffer, const std::vector<Expr>& index) const;
  /// Records the access with its strides in elements; returns the loops on which its address depends. Of a
  /// Gather or scatter with what is known of its computed index: in most, the steps along a row.
  uint64_t add_access(const ast::Buffer* buffer, const std::vector<Expr>& index, AccessInfo access,
                      const ast::Value* computed = nullptr);

private:
  int depth_of(Expr var) const;
  /// `at`: where the loop of a depth stands.
  template <class Where> double value_where(Expr e, const Where& at) const;
  /// What division and remainder by constants do to a loop's steps.
  struct Cut {
    double steps = 0;                   // from one jump to the next; 0: none
    double remainder = 0, quotient = 0; // of the average elements per step, what is due to them
    bool is_regular = true;
  };
  /// Adds scale times what is found in e to cuts_.
  void add_cuts(Expr e, double scale);
  /// Records the runs that cuts_ make, and mends the strides of the loops that have been cut.
  void find_runs(AccessInfo& access);

  void find_stores(const ast::Block& block);

  Features& features_;
  std::vector<int> stack_;                               // outermost first
  std::vector<int> open_;                                // ids of loops, while stores are looked for
  std::map<int, std::vector<std::vector<int>>> changes_; // by buffer, the loops around each store
  std::vector<Cut> cuts_;                                // by depth, of one access
  std::vector<double> slopes_;                           // by depth, of what is divided
  std::map<int, size_t> made_at_;                        // by the buffer's id
};

} // namespace lathe::search
