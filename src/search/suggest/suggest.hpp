// A suggester's argument and result, and the suggesters: one file each, listed in suggesters.def.
#pragma once
#include <optional>
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
/// The input of a suggester: one kernel of a plan, and the target and machine it is made for.
struct SuggestContext {
  const Plan& plan;
  const KernelPlan& kernel;
  const Features& features; // of `kernel`
  const Target& target;
  const MachineProfile& machine;
  bool thorough = false;                // tuning: more parameters than an untuned compile has time for
  std::optional<MoveKind> without = {}; // no proposal has this move: see SearchOptions
  bool at_start = false;                // `plan` is the one where the search begins
  bool keep_outputs = false;            // see SearchOptions

  LoopHandle loop(int l) const { return kernel.handles.loop(*features.loops[l].loop); }
  /// The handle of buffer `b` of the features.
  BufferHandle buffer(int b) const {
    return handle_of(*plan.program, kernel.handles, *features.buffers[b].buffer);
  }
  std::vector<Leaf> leaves() const { return leaves_of(*plan.program, kernel, features); }
};
/// Returns proposals; never applies, scores or prunes. Reads the loops' structure, never workloads' names.
using Suggester = std::vector<Proposal> (*)(const SuggestContext& context);
struct NamedSuggester {
  const char* name;
  Suggester suggest;
  bool graph; // its moves change the partition into kernels, not only the loops of one
};
const std::vector<NamedSuggester>& suggesters();
/// The proposals of all suggesters with this `graph`, except those that contain context.without.
std::vector<Proposal> proposals(const SuggestContext& context, bool graph);

#define LATHE_SUGGESTER(name, function, graph) std::vector<Proposal> function(const SuggestContext&);
#include "search/suggest/suggesters.def"
#undef LATHE_SUGGESTER

} // namespace lathe::search
