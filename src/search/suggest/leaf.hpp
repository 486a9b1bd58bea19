// A leaf: one store of a kernel with the loops around it, as suggesters look at it. The stores of one straight-line body
// (nests that were merged, or a transform's) are one leaf: its `store` is the last of them.
#pragma once
#include <string>
#include <vector>

#include "search/cost/features.hpp"
#include "search/machine/target.hpp"

namespace lathe::search {

struct Leaf {
  int store;              // access
  int first;              // its loads (and other stores) are accesses [first, store)
  std::vector<int> loops; // enclosing loops, outermost first
  size_t own;             // loops[own..] hold nothing but this leaf, one directly in the other
  int stage;              // whose name its buffer has; -1: none
  std::string buffer;
  bool combine, random;
  bool vectorised; // one of its loops is a vector loop
  bool merged;     // other stores stand before this one in its loop, among the accesses [first, store)
};

std::vector<Leaf> leaves_of(const Features& features);

inline const std::string& loop_name(const Features& f, int loop) { return f.loops[loop].loop->var.name(); }
inline ast::LoopKind kind_of(const Features& f, int loop) { return f.loops[loop].loop->kind; }
inline bool is_serial(const Features& f, int loop) { return kind_of(f, loop) == ast::LoopKind::Serial; }
/// Upper bound of its iterations.
inline int64_t longest(const Features& f, int loop) { return f.loops[loop].loop->extent.hi(); }

/// Lanes of a vector that every access of the leaf fills.
int lanes_of(const Features& f, const Leaf& leaf, const Target& target);
/// The number that the next scratch buffer of a stage gets in this kernel: "t3.a0", "t3.p1" ...
int next_scratch(const ast::Kernel& kernel, int stage);

} // namespace lathe::search
