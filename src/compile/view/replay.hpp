// States of a search, made again: the program is lowered from its graph's text, and the moves are applied to
// it.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>

#include "compile/view/reader.hpp"
#include "search/moves/plan.hpp"
#include "view/expr_scope.hpp"

namespace lathe::view {

class Replay {
public:
  explicit Replay(const Compilation& of) : of_(of), scope_(new_expr_scope()) {}

  /// The state's kernel. Throws Error if its moves don't lead to a kernel with the structural hash that the
  /// state claims, or a record on the way is missing.
  search::KernelPlanRef kernel(int64_t state);
  /// The state's plan, as for a kernel.
  search::Plan plan(int64_t state);
  /// Replays the state, of whatever kind.
  void check(int64_t state);
  /// Of the kernels and plans: whoever makes expressions of theirs does so in here.
  const ExprScopeRef& scope() const { return scope_; }

private:
  struct Made {
    search::Plan plan;
    std::vector<int> stages; // of a kernel's state: which of the plan's kernels it is
  };
  const StateRecord& record(int64_t state) const;
  const Made& made(int64_t state);
  Made root(const StateRecord& state);
  std::shared_ptr<const lower::Program> program(int64_t id);

  const Compilation& of_;
  ExprScopeRef scope_; // of all that is made here
  std::unordered_map<int64_t, std::shared_ptr<const lower::Program>> programs_;
  std::unordered_map<int64_t, Made> made_;
  std::unordered_map<int64_t, std::unordered_map<uint64_t, int64_t>> plans_; // states by program and hash
};

} // namespace lathe::view
