// A Draft is one kernel being edited by a move: its nests as an owned tree that may be changed in place.
//
// In a Draft the buffers of the kernel's stages are not declared at kernel level: finish() makes them
// parameters.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "search/moves/table.hpp"

namespace lathe::search {

struct Draft {
  const lower::Program* program = nullptr;
  std::vector<int> stages;
  std::vector<int> inlined;
  std::vector<Move> moves;
  ast::Block body;
  std::vector<ast::Kernel> constants; // as KernelPlan has them
  KernelHandles handles;

  int stage_of(const ast::Buffer& buffer) const { return search::stage_of(*program, buffer); }
  int id_of(BufferHandle buffer) const { return search::id_of(*program, handles, buffer); }
};

Draft draft_of_stage(const lower::Program& program, int stage);
Draft draft_of(const lower::Program& program, const KernelPlan& plan);

/// Makes the kernel. The buffers of its stages become parameters, whether other kernels read them or not, so
/// that the program finds a place for them. Stages for which `is_result` is false get temporaries around the
/// whole body instead; the kernels that others are checked against need this.
KernelPlanRef finish(Draft draft, const std::function<bool(int stage)>& is_result = [](int) { return true; });

/// The kernel that runs a recurrence. It reads the sources and writes the results.
KernelPlanRef kernel_of_recurrence(const lower::Program& program, int recurrence);

/// Where a loop stands: the statement and everything around it.
struct LoopSite {
  ast::Block* parent = nullptr; // the block that holds it
  size_t position = 0;
  std::vector<ast::For*> enclosing; // outermost first, without the loop itself
  ast::For& loop() const { return std::get<ast::For>((*parent)[position].node); }
  explicit operator bool() const { return parent != nullptr; }
};
LoopSite find_loop(Draft& draft, LoopHandle loop);

/// Where any statement stands.
struct Site {
  ast::Block* block = nullptr;
  size_t position = 0;
};

/// Serial loops, one directly in the other, around one store; `store` is null for any other statement.
struct Nest {
  std::vector<ast::For*> loops; // outermost first
  ast::Store* store = nullptr;
};
Nest perfect_nest(ast::Stmt& stmt);

/// Calls f on every Store, with the loops around it (outermost first).
void for_each_store(ast::Block& body,
                    const std::function<void(ast::Store&, const std::vector<ast::For*>&)>& f);
/// Rewrites the values of the stores that `which` accepts, of all if it is empty.
void rewrite_values(ast::Block& body, const ast::Rewriter& rewriter,
                    const std::function<bool(const ast::Store&)>& which = {});
/// Those of `loops` that the index or the guards of the load depend on, in their order.
std::vector<const ast::For*> loops_used(const ast::LoadAttr& load, const std::vector<ast::For*>& loops);
/// Why nests of `loops` alone can't be made: the extent of one depends on another of `inside`. Empty if they
/// can.
Verdict self_contained(const std::vector<const ast::For*>& loops, const std::vector<ast::For*>& inside);
/// Calls f on every Load and Gather reached from the block.
void for_each_load(const ast::Block& body, const std::function<void(const ast::Value&)>& f);
/// Removes the prefetches of buffers that the draft no longer loads from memory.
void drop_idle_prefetches(Draft& draft);

/// Replaces variables in all indices, guards, extents and values. A loop whose extent changes gets a new
/// variable, because a variable's own extent must be that of its loop.
void rename(ast::Block& body, Substitution vars);

/// Why scratch under this loop can't be work-group memory; empty if it can. All work-items fill such memory
/// together, so the loop must be a group loop or lie between group and local loops.
Verdict may_hold_local_memory(const LoopSite& site, const Target& target);
/// Whether the kernel's scratch and one more buffer of `bytes` fit the work-group memory of the target. On a
/// target with groups, large packed scratch lies there, too.
bool fits_local_memory(const ast::Block& body, ast::Scope scope, int64_t bytes, const Target& target);

/// Why the kernel has too many work-items in a group, or too much private scratch in one; empty if it fits.
Verdict fits_groups(const ast::Block& body, const Target& target);

/// The loops, outermost first, around one store.
ast::Stmt nest(std::vector<ast::For> loops, ast::Store store);
ast::Block nest(std::vector<ast::For> loops, ast::Block body);
/// Appends the loop's body to the body of `alloc`, which becomes the only statement in the loop. If the
/// buffer is local, a barrier stands before and after the appended part.
void put_before_body(ast::For& loop, ast::Alloc alloc);

/// Makes loops for the nests of a stage, with ids that no other loop in the draft has.
class LoopMaker {
public:
  LoopMaker(Draft& draft, int stage);
  /// The variable of a new loop.
  Expr make(LoopHandle name, Expr extent);
  /// The variable of a condition in the nest of `owner`, named by its number among the stage's loops.
  Expr make_condition(BufferHandle owner, Expr condition);
  /// New loops over the same range as `loops`, named after parts 0, 1 ... of `owner`; `vars` maps the old
  /// variables to the new ones.
  std::vector<ast::For> make_like(const std::vector<const ast::For*>& loops, BufferHandle owner, Part part,
                                  Substitution& vars);

private:
  Draft& draft_;
  int next_;
};

/// A new id for a scratch buffer of the stage, which no other buffer in `body` has; and the number of a
/// scratch buffer among those of its stage.
int fresh_buffer_id(const ast::Block& body, int stage);
int scratch_number(int buffer);

/// The constant of this name among the program's inputs; null if there is none.
const lower::InputBuffer* find_constant(const lower::Program& program, BufferHandle name);

/// Checks what every kernel must satisfy besides the moves' own conditions: parallel and group loops
/// outermost, vector loops innermost...
Verdict check_structure(const ast::Block& body);

/// Replaces every load of the stages' buffers by the stage's value, also loads inside such values. If the
/// draft then loads from stages that have no buffer, these are inlined, too. A list of inlined stages may
/// lack such a stage: in the kernel that the list is of, all loads from the stage were known to be 0.
Verdict inline_stages(Draft&, std::vector<int> stages, const std::function<bool(int stage)>& has_no_buffer);
/// Moves the nests of `stage` from the top level of `producer` to the top of the loop's body.
Verdict fuse_at_loop(Draft& consumer, ast::Block& producer, int stage, LoopHandle loop, ast::Scope scope,
                     const Target& target);

} // namespace lathe::search
