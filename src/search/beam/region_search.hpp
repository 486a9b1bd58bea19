// The search of a large program, region by region. The time of a search's step and the number of steps both
// grow with the program. So a program beyond some hundred stages is cut where few bytes flow. Each region is
// searched as a program of its own; together the moves found make the plan of the whole. Fusion does not
// cross a cut. Equal regions, such as the blocks of a network, are searched once.
#pragma once
#include <optional>

#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Whether a program is large enough to be searched by regions.
bool has_regions(const lower::Program& program);
/// Whether a program has too many stages to try each kernel's parameters and each place to start from within
/// a budget. Fusion is then decided quickly, which leaves the time for measuring.
bool is_long(const lower::Program& program);
/// The plan found, ranked by the model alone. Nothing if a region can't be taken out of the program.
std::optional<SearchResult> search_regions(const Plan& start, CostModel& model, const SearchOptions& options);

/// For tests: the stages of each region. A region is convex: no path between two of its stages leaves it.
std::vector<std::vector<int>> regions_of(const lower::Program& program);

} // namespace lathe::search
