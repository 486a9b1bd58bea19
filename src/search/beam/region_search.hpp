// Large programs, region by region. What one step of a search costs grows with the program, and so does the
// number of steps: beyond some hundred stages a program is cut where little flows, each region is searched as
// a program of its own, and the moves found are those of the whole. Fusion does not cross a cut. Equal
// regions, such as the blocks of a network, are searched once.
#pragma once
#include <optional>

#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Whether a program is large enough for it.
bool has_regions(const lower::Program& program);
/// Whether the clock would run out before each kernel's parameters and each place to start from were looked
/// at: what to fuse is then decided quickly, and the time is for measuring.
bool is_long(const lower::Program& program);
/// Ranks by the model alone. Nothing if some region can't be taken out of the program.
std::optional<SearchResult> search_regions(const Plan& start, CostModel& model, const SearchOptions& options);

/// For tests: the stages of each region. Each is convex: no way from one of its stages to another leaves it.
std::vector<std::vector<int>> regions_of(const lower::Program& program);

} // namespace lathe::search
