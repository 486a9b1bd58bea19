// The search over the forms of a program: as it is, with convolutions rewritten, and with values stored in
// other orders, by graph moves. Each form is a program of its own, so graph moves come first in a plan, and
// the joint search looks at kernels and loops of one form.
#pragma once
#include "search/search.hpp"

namespace lathe::search {

/// Sets what measures the kernels of one program.
using MakeMeasure = std::function<void(const std::shared_ptr<const lower::Program>&, SearchOptions&)>;

/// As search(), over all forms with tiles up to `largest_tile` (0: only the program as it is).
/// options.measure is not used: `make_measure` gives one for each form, or is null to rank by the model
/// alone. Where there are several convolutions, each distinct one is decided by itself, as a program of its
/// own, with a share of the budget.
SearchResult search_forms(const Plan& start, CostModel& model, const SearchOptions& options, int largest_tile,
                          const MakeMeasure& make_measure);

} // namespace lathe::search
