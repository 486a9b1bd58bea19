// Which sums over blocks of floats times small integers are computed by products of bytes.
#pragma once
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// The plan with the move three_bytes on the sums for which the model says that it pays. Each sum is judged
/// as a program of its own, with the sum over blocks that reads it. The plan as it is where the target has no
/// instruction for such products.
Plan with_byte_sums(Plan plan, CostModel& model, const SearchOptions& options);

} // namespace lathe::search
