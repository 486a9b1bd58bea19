// What a suggester is given and gives; and the suggesters, one file each, listed in suggesters.cpp.
#pragma once
#include <string>
#include <vector>

#include "search/cost/features.hpp"
#include "search/machine/profile.hpp"
#include "search/machine/target.hpp"
#include "search/moves/make_move.hpp"
#include "search/suggest/leaf.hpp"

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
};
/// Proposes; never applies, scores or prunes. Reads the structure of the loops, never names of workloads.
using Suggester = std::vector<Proposal> (*)(const SuggestContext& context);
struct NamedSuggester {
  const char* name;
  Suggester suggest;
  bool graph; // changes which kernels there are, not only the loops of one
};
const std::vector<NamedSuggester>& suggesters();

std::vector<Proposal> suggest_inline(const SuggestContext&);
std::vector<Proposal> suggest_fuse(const SuggestContext&);
std::vector<Proposal> suggest_fused_tile(const SuggestContext&);
std::vector<Proposal> suggest_transform(const SuggestContext&);
std::vector<Proposal> suggest_tile(const SuggestContext&);
std::vector<Proposal> suggest_vectorise(const SuggestContext&);
std::vector<Proposal> suggest_parts(const SuggestContext&);
std::vector<Proposal> suggest_reorder(const SuggestContext&);
std::vector<Proposal> suggest_unroll(const SuggestContext&);
std::vector<Proposal> suggest_parallel(const SuggestContext&);
std::vector<Proposal> suggest_rows(const SuggestContext&);
std::vector<Proposal> suggest_transpose(const SuggestContext&);
std::vector<Proposal> suggest_stream(const SuggestContext&);
std::vector<Proposal> suggest_prefetch(const SuggestContext&);
std::vector<Proposal> suggest_opencl(const SuggestContext&);

/// Moves that make one leaf use vectors: along the loop where its accesses are contiguous, `unroll` vectors
/// an iteration; a reduction gets as many partial results. False if no loop of its own serves.
bool vectorise_leaf(const SuggestContext&, const Leaf& leaf, int unroll, int scratch, std::vector<Move>& out);

} // namespace lathe::search
