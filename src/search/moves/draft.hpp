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
#include "search/moves/move.hpp"

namespace lathe::search {

/// Why a move is not legal; empty if it is.
using Verdict = std::string;

struct Draft {
  const lower::Program* program = nullptr;
  std::vector<int> stages;
  std::vector<int> inlined;
  std::vector<Move> moves;
  ast::Block body;
  std::vector<ast::Kernel> constants; // as KernelPlan has them
};

Draft draft_of_stage(const lower::Program& program, int stage);
Draft draft_of(const lower::Program& program, const KernelPlan& plan);

/// Makes the kernel. The buffers of its stages are parameters, so that the program finds a place for them,
/// read by other kernels or not; those that are no `is_result` are temporaries declared around the whole
/// body, for kernels that others are checked against.
KernelPlanRef finish(
    Draft draft, const std::function<bool(int stage)>& is_result = [](int) { return true; });

/// Where a loop stands: the statement and everything around it.
struct LoopSite {
  ast::Block* parent = nullptr; // the block that holds it
  size_t position = 0;
  std::vector<ast::For*> enclosing; // outermost first, without the loop itself
  ast::For& loop() const { return std::get<ast::For>((*parent)[position].node); }
  explicit operator bool() const { return parent != nullptr; }
};
LoopSite find_loop(ast::Block& body, std::string_view name);

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

/// A graph move: the plan of the program lowered anew from its rewritten graph. Legal as long as the plan's
/// history holds nothing else than graph moves.
Verdict rewrite_graph(Plan& plan, const Move& move);

/// The loops, outermost first, around one store.
ast::Stmt nest(std::vector<ast::For> loops, ast::Store store);
ast::Block nest(std::vector<ast::For> loops, ast::Block body);
/// Makes the loop's body the body of `alloc`, behind what is already there; local memory is fenced by
/// barriers.
void put_before_body(ast::For& loop, ast::Alloc alloc);

/// Fresh ids and names, unique in the kernel and deterministic. They belong to a stage: "t3.a0".
int fresh_loop_id(const ast::Block& body, int stage);
int fresh_buffer_id(const ast::Block& body, int stage);

/// The constant of this name among the program's inputs; null if there is none.
const lower::InputBuffer* find_constant(const lower::Program& program, std::string_view name);

/// The stage that a name such as "t12.i0.o" or "t12" belongs to; -1 if it isn't one.
int stage_of_name(std::string_view name);

/// What every kernel must satisfy besides the moves' own conditions: parallel and group loops outermost,
/// vector loops innermost...
Verdict check_structure(const ast::Block& body);

// The moves on one kernel. Each edits the draft, or leaves it unusable and says why it is not legal.
Verdict split(Draft&, const Move&);
Verdict reorder(Draft&, const Move&);
Verdict unroll(Draft&, const Move&);
Verdict vectorise(Draft&, const Move&, const Target&);
Verdict parallelise(Draft&, const Move&);
Verdict bind(Draft&, const Move&, const Target&);
Verdict stream(Draft&, const Move&);
Verdict prefetch_tile(Draft&, const Move&, const Target&);
Verdict prefetch(Draft&, const Move&);
Verdict merge(Draft&, const Move&);
Verdict border(Draft&, const Move&);
Verdict join(Draft&, const Move&);
Verdict carry(Draft&, const Move&);
Verdict pack(Draft&, const Move&, const Target&);
Verdict prepack(Draft&, const Move&);
Verdict accumulate(Draft&, const Move&);
Verdict store_first(Draft&, const Move&);
/// Every load of the stages' buffers, in the draft or in what is computed by that, computes them on the spot.
Verdict inline_stages(Draft&, std::vector<int> stages);
/// The nests of `stage` stand at the top level of `producer`: they are taken out of it and put under the
/// loop.
Verdict fuse_at_loop(Draft& consumer, ast::Block& producer, int stage, const Move&, const Target&);

} // namespace lathe::search
