// What a suggester is given and gives; and the suggesters, one file each, listed in suggesters.def.
#pragma once
#include <string>
#include <vector>

#include "search/cost/features.hpp"
#include "search/machine/profile.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "search/suggest/leaf.hpp"
#include "search/suggest/script.hpp"

namespace lathe::search {

/// A proposal is a few moves that belong together (a macro-move), applied all or none.
struct Proposal {
  std::vector<Move> moves;
  std::string why;
};
/// What a suggester looks at: one kernel of a plan, and what it is made for.
struct SuggestContext {
  const Plan& plan;
  const KernelPlan& kernel;
  const Features& features; // of `kernel`
  const Target& target;
  const MachineProfile& machine;
  bool thorough = false; // tuning: more parameters than an untuned compile has time for

  LoopHandle loop(int l) const { return kernel.handles.loop(*features.loops[l].loop); }
  /// Of the buffer at that place in the features.
  BufferHandle buffer(int b) const {
    return handle_of(*plan.program, kernel.handles, *features.buffers[b].buffer);
  }
  std::vector<Leaf> leaves() const { return leaves_of(*plan.program, kernel, features); }
};
/// Proposes; never applies, scores or prunes. Reads the structure of the loops, never names of workloads.
using Suggester = std::vector<Proposal> (*)(const SuggestContext& context);
struct NamedSuggester {
  const char* name;
  Suggester suggest;
  bool graph; // changes which kernels there are, not only the loops of one
};
const std::vector<NamedSuggester>& suggesters();

#define LATHE_SUGGESTER(name, function, graph) std::vector<Proposal> function(const SuggestContext&);
#include "search/suggest/suggesters.def"
#undef LATHE_SUGGESTER

} // namespace lathe::search
