// clang-format off
// Moves: what the search may do to a Plan. A Move is data: printable, parseable, storable. Replaying a list
// of moves on the same Program rebuilds the same Plan.
//
// A Plan partitions the stages of a Program into kernels. It starts with one kernel per stage. Loop moves name a
// loop ("t3.i0"); graph moves name stages by their buffer ("t3").
//
// Moves that rewrite the graph come before all others: the program is lowered anew, and stages get new numbers.
//   winograd(t3, t9, 4)            the convolutions t3 and t9 by Winograd's filtering with tiles of 4 x 4 (or 2)
//                                  results
//   strassen(t3, t9, 1)            the products of matrices t3 and t9 by Strassen's algorithm in one level (or two):
//                                  seven products of sums of blocks for eight products of blocks
//   innermost(t3, t9, 1)           t3 and t9, with all values that are made of them or that they are made of element
//                                  by element, are computed and stored with axis 1 innermost
//
// Moves between kernels:
//   inline(t3)                     every use of t3 computes it on the spot; t3's kernel goes unless t3 is an output
//   fuse_at(t3, t5.i0.o, register) t3's nests move into t5's kernel, under that loop, storage shrunk to what one
//                                  iteration needs; scope is packed, register or local. All uses of t3 must be under
//                                  the loop. Loop "root": beside its first user's kernel, not under any loop, its
//                                  buffer as large as before and still the program's; a stage's name: beside that
//                                  stage's kernel
//
// Moves on loops:
//   split(t5.i1, 16)               t5.i1 becomes t5.i1.o over ceil(n/16) and, inside it, t5.i1.i over min(16, rest)
//   reorder(t5.i0.i, t5.r0, ...)   the named loops, all of one perfect nest, take this order (outermost first)
//   unroll(l)  vectorise(l)  parallelise(l)
//   pack(t5, x, t5.i1.o, packed)   the load of buffer x in the nest of t5 is copied, at the top of the loop's body,
//                                  into scratch laid out in the order in which the loops inside read it (scope
//                                  packed; local stages through work-group memory)
//   prepack(t5, w)                 the load of the constant w in the nest of t5 reads a copy laid out in the order of
//                                  the loops around it, which is made once, before the first run
//   bind(l, group, 0)              OpenCL work-group / local work-item axis 0..2
//   accumulate(t5, l, f1, f2...)   around loop l: the combines of t5 go to a register copy, combined back after l.
//                                  The loops f (reducing, inside l) become dimensions of the copy: partial sums, one
//                                  per lane, say
//   store_first(t5, l)             in the first iteration of the reducing loop l the combines of t5 under it are plain
//                                  stores; the nest that sets t5 to the identity goes
//   stream(t5)                     t5 is stored non-temporally
//   prefetch_tile(t5, x, a, s, l, n)  in each iteration of loop l the nest of t5 asks for a few of the cache lines of
//                                  x that the next iteration of loop a will read in this one; the iterations of loop
//                                  s, which lies between them, take turns. s = l: each is read once, nobody takes
//                                  turns. What lies in one piece is asked for in n parts side by side
//   prefetch(t5, x, l, n)          where the nest of t5 reads x, it asks the caches for what n iterations of loop l
//                                  later will read
//   merge(t4, t5)                  the nest of t5 computes each element of t4 just before it reads it, for whoever
//                                  else reads t4 later; both nests must walk through t4 in the same way
//   border(t4)                     where t4 is 0 outside of a box, such as a padded copy, it is stored by nests of its
//                                  own, and t4's loops run over the box alone
//   carry(t4, l)                   t4, computed under loop l as the sum of something over all earlier iterations of l,
//                                  is kept from one to the next: each adds its own part when it is done
//   join(t5, 1)                    axes 1 and 2 of t5, and those of all that is read along them, are one axis with one
//                                  loop; nothing in the kernel may tell them apart
// clang-format on
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lower/program.hpp"
#include "search/machine/target.hpp"

namespace lathe::search {

enum class MoveKind {
  Inline,
  FuseAt,
  Split,
  Reorder,
  Unroll,
  Vectorise,
  Parallelise,
  Pack,
  Prepack,
  Bind,
  Accumulate,
  StoreFirst,
  Stream,
  PrefetchTile,
  Winograd,
  Strassen,
  Innermost,
  Prefetch,
  Merge,
  Border,
  Join,
  Carry
};

struct Move {
  MoveKind kind;
  std::vector<std::string> names; // stages, buffers, loops, scopes, in the order of the text form
  std::vector<int64_t> numbers;
  friend bool operator==(const Move&, const Move&) = default;
};
/// A move for which the program is lowered anew from its rewritten graph: it comes before all others.
bool rewrites_graph(MoveKind kind);
std::string to_string(const Move&);
Move parse_move(std::string_view text); // throws Error(Syntax)

/// One kernel of a plan. Immutable and shared between plans that don't differ in it.
struct KernelPlan {
  std::vector<int> stages;  // computed here, ascending (not inlined ones that vanish)
  std::vector<int> inlined; // stages recomputed inside this kernel
  std::vector<Move> moves;  // all that were applied to it, in order
  std::vector<int> reads;   // stages of other kernels whose buffers it loads, ascending
  ast::Kernel kernel;       // the scheduled loop AST (before the passes to what renderers take)
  /// What makes the constants' copies that it reads, once and before the first run: each reads its first
  /// parameter, an input of the program, and writes its second, one of kernel.params.
  std::vector<ast::Kernel> constants;
  std::vector<bool> is_constant; // by parameter: the program's, and those copies
  uint64_t hash;                 // structural: of kernel and of which parameters are constants
};
using KernelPlanRef = std::shared_ptr<const KernelPlan>;

/// The moves that led to a plan, newest first; tails are shared between plans.
struct History {
  Move move;
  std::shared_ptr<const History> earlier;
  History(Move m, std::shared_ptr<const History> e) : move(std::move(m)), earlier(std::move(e)) {}
  History(const History&) = delete;
  ~History(); // iterative
};

struct Plan {
  std::shared_ptr<const lower::Program> program;
  std::vector<KernelPlanRef>
      kernels; // in an order in which every kernel comes after those whose outputs it reads
  std::shared_ptr<const History> history;
  std::vector<Move> moves() const; // oldest first: replay() of them rebuilds this plan
};

/// One kernel per stage, no loop moves.
Plan initial_plan(std::shared_ptr<const lower::Program> program);

/// The kernel that computes the same stages without any loop move (what scheduled ones are checked against):
/// the canonical nests one after the other, `inlined` stages computed on the spot. Writes the same buffers as
/// `scheduled`.
KernelPlanRef unscheduled(const lower::Program& program, const KernelPlan& scheduled);

/// The new plan, or the reason why the move is not legal here.
struct Applied {
  std::optional<Plan> plan;
  std::string reason;
};
Applied apply(const Plan& plan, const Move& move, const Target& target);
Applied apply(const Plan& plan, const std::vector<Move>& moves, const Target& target); // all or none
/// With those of the fuse_at moves that are legal in their turn; the others are left out.
Plan fuse_where_legal(const Plan& plan, const std::vector<Move>& fusions, const Target& target);
/// Throws Error(Schedule) naming the move that isn't legal.
Plan replay(std::shared_ptr<const lower::Program> program, const std::vector<Move>& moves,
            const Target& target);

} // namespace lathe::search
