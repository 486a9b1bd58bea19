// The suggesters: one file each, listed in suggesters.cpp.
#pragma once
#include "search/leaf.hpp"
#include "search/make_move.hpp"
#include "search/search.hpp"

namespace lathe::search {

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
