// Chooses the order of axes in which a program stores its values. One decision holds for a whole family of
// values. It depends on the predicted times of the sums that read and write them, each sum by itself.
#pragma once
#include <optional>

#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// The graph move that stores values of the plan's program in another order, if the model predicts faster
/// sums with it. Nothing if there is no such move. Measures nothing.
std::optional<Move> suggest_order(const Plan& plan, CostModel& model, const SearchOptions& options);

} // namespace lathe::search
