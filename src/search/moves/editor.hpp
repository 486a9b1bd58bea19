// A plan being changed by one or more moves: knows which kernel computes a stage and who reads it.
#pragma once
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "search/moves/draft.hpp"

namespace lathe::search {

class Editor {
public:
  Editor(const Plan& plan, const Target& target);
  /// A move that rewrites the graph is not legal here.
  Verdict apply(const Move& move);
  /// Applies them one after the other; the first that is not legal ends it. Says which that is.
  Verdict apply(std::span<const Move> moves);
  Plan take();

  // The moves that join kernels; see moves.def.
  Verdict inline_everywhere(StageHandle stage);
  Verdict fuse(StageHandle stage, const Place& place, ast::Scope scope);

private:
  void add(const KernelPlanRef& kernel, double order);
  void replace(const KernelPlanRef& old, KernelPlanRef made);
  std::vector<KernelPlanRef> readers_of(int stage) const;
  KernelPlanRef owner_of(int stage) const;
  bool is_of_recurrence(int stage) const;
  Verdict edit(const Move& move);
  void close();
  Verdict drop_nests(Draft& producer, int stage) const;
  Verdict hides_stages(const Draft& producer, int stage) const;
  bool is_alone(const Move& move) const;
  Verdict inline_together(std::span<const Move> moves);
  KernelPlanRef consumer_at(int stage, const Place& place) const;
  void replace_both(const KernelPlanRef& one, const KernelPlanRef& other, KernelPlanRef made);
  void postpone_dependents(const KernelPlanRef& earlier, const KernelPlanRef& later,
                           const KernelPlanRef& made);
  bool reaches(const KernelPlanRef& from, const KernelPlanRef& to, bool directly_counts = true) const;
  bool between(const KernelPlanRef& a, const KernelPlanRef& b) const;

  Plan plan_;
  const Target& target_;
  const lower::Program& program_;
  const Move* move_ = nullptr;                          // the one being applied
  std::vector<KernelPlanRef> owner_;                    // by stage; null: inlined
  std::vector<std::vector<KernelPlanRef>> readers_;     // by stage
  std::unordered_map<const KernelPlan*, double> order_; // grows along plan_.kernels
  std::optional<Draft> open_;
  KernelPlanRef open_kernel_;
};

} // namespace lathe::search
