// In which order of their axes a program's values are stored: decided for whole families of values, by what
// the sums that read and write them cost one by one.
#pragma once
#include <optional>

#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// The graph move that stores values of the plan's program in another order, with which the model expects its
/// sums to be faster; nothing if there is none. By the model alone.
std::optional<Move> suggest_order(const Plan& plan, CostModel& model, const SearchOptions& options);

} // namespace lathe::search
