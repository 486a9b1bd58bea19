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

/// Makes the kernel. The buffers of its stages are parameters, so that the program finds a place for them,
/// read by other kernels or not; those that are no `is_result` are temporaries declared around the whole
/// body, for kernels that others are checked against.
KernelPlanRef finish(Draft draft, const std::function<bool(int stage)>& is_result = [](int) { return true; });

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

/// Serial loops, one directly in the other, around one store; no store if the statement is anything else.
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
/// Of the loops those that a load's place or guards depend on, in their order.
std::vector<const ast::For*> loops_used(const ast::LoadAttr& load, const std::vector<ast::For*>& loops);
/// Calls f on every Load and Gather reached from the block.
void for_each_load(const ast::Block& body, const std::function<void(const ast::Value&)>& f);
/// Leaves out the hints about what the draft no longer loads from memory: they have lost their purpose.
void drop_idle_prefetches(Draft& draft);

/// Replaces variables in all indices, guards, extents and values, and renews the loop variables whose extents
/// change by that, so that a variable's own extent is always that of its loop.
void rename(ast::Block& body, Substitution vars);

/// Work-group memory is filled by all work-items together: its loop must be a group loop or lie between group
/// and local loops.
Verdict may_hold_local_memory(const LoopSite& site, const Target& target);
/// Whether one more scratch buffer of `bytes` leaves the kernel's within the work-group memory of the target.
/// On a target with groups large private scratch lies there, too.
bool fits_local_memory(const ast::Block& body, ast::Scope scope, int64_t bytes, const Target& target);

/// A work-group has only so many work-items, and each of these so much memory to itself.
Verdict fits_groups(const ast::Block& body, const Target& target);

/// The loops, outermost first, around one store.
ast::Stmt nest(std::vector<ast::For> loops, ast::Store store);
ast::Block nest(std::vector<ast::For> loops, ast::Block body);
/// Makes the loop's body the body of `alloc`, behind what is already there; local memory is fenced by
/// barriers.
void put_before_body(ast::For& loop, ast::Alloc alloc);

/// Makes loops for the nests of a stage, with ids that no other loop in the draft has.
class LoopMaker {
public:
  LoopMaker(Draft& draft, int stage);
  /// The variable of a new loop.
  Expr make(LoopHandle name, Expr extent);
  /// The variable of a condition in the nest of `owner`, named after its place among the stage's loops.
  Expr make_condition(BufferHandle owner, Expr condition);
  /// New loops over the same range as `loops`, named after parts 0, 1 ... of `owner`; `vars` maps the old
  /// variables to the new ones.
  std::vector<ast::For> make_like(const std::vector<const ast::For*>& loops, BufferHandle owner, Part part,
                                  Substitution& vars);

private:
  Draft& draft_;
  int next_;
};

/// A scratch buffer's id that no other in the draft has, which belongs to the stage; its place among the
/// stage's is its number.
int fresh_buffer_id(const ast::Block& body, int stage);
int scratch_number(int buffer);

/// The constant of this name among the program's inputs; null if there is none.
const lower::InputBuffer* find_constant(const lower::Program& program, BufferHandle name);

/// What every kernel must satisfy besides the moves' own conditions: parallel and group loops outermost,
/// vector loops innermost...
Verdict check_structure(const ast::Block& body);

/// Every load of the stages' buffers, in the draft or in what is computed by that, computes them on the spot.
Verdict inline_stages(Draft&, std::vector<int> stages);
/// The nests of `stage` stand at the top level of `producer`: they are taken out of it and put under the
/// loop.
Verdict fuse_at_loop(Draft& consumer, ast::Block& producer, int stage, LoopHandle loop, ast::Scope scope,
                     const Target& target);

} // namespace lathe::search
