// A leaf: one store of a kernel with the loops around it, as suggesters look at it. The stores of one
// straight-line body (nests that were merged, or a transform's) are one leaf: its `store` is the last of
// them.
#pragma once
#include <vector>

#include "search/cost/features.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

struct Leaf {
  int store;              // position in Features::accesses
  int first;              // its loads (and other stores) are accesses [first, store)
  std::vector<int> loops; // enclosing loops, outermost first
  size_t own;             // loops[own..] hold nothing but this leaf, one directly in the other
  StoredHandle result;    // the buffer it stores to
  StageHandle stage() const { return StageHandle(result.stage()); }
  bool combine, random;
  bool vectorised; // one of its loops is a vector loop
  bool merged;     // other stores stand before this one in its loop, among the accesses [first, store)
};

std::vector<Leaf> leaves_of(const lower::Program& program, const KernelPlan& kernel,
                            const Features& features);

inline ast::LoopKind kind_of(const Features& f, int loop) { return f.loops[loop].loop->kind; }
inline bool is_serial(const Features& f, int loop) { return kind_of(f, loop) == ast::LoopKind::Serial; }
/// Upper bound of the loop's iterations.
inline int64_t longest(const Features& f, int loop) { return f.loops[loop].loop->extent.hi(); }

/// Lanes of a vector of the widest element that the leaf accesses.
int lanes_of(const Features& f, const Leaf& leaf, const Target& target);
/// As lanes_of, but for an elementwise leaf that looks bytes up by shuffles: as many as a vector has bytes,
/// since that takes as long as for a few.
int elementwise_lanes_of(const Features& f, const Leaf& leaf, const Target& target);

} // namespace lathe::search
