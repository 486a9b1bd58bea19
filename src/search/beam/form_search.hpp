// The search over the forms of a program: as it is, with convolutions rewritten, and with values stored in
// other orders, by graph moves. Each form is a program of its own, so graph moves come first in a plan, and
// the joint search looks at kernels and loops of one form.
#pragma once
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Sets what measures the kernels of one program.
using MakeMeasure = std::function<void(const std::shared_ptr<const lower::Program>&, SearchOptions&)>;

/// Which sums may be computed in another way, that rounds differently; see CompileOptions.
struct AllowedForms {
  int winograd = 0; // largest tile of convolutions; 0: none
  int strassen = 0; // most levels of blocks of products; 0: none
};

/// As search(), over all forms that are allowed. options.measure is not used: `make_measure` gives one for
/// each form, or is null to rank by the model alone. Where there are several sums that have forms, each
/// distinct one is decided by itself, as a program of its own, with a share of the budget.
SearchResult search_forms(const Plan& start, CostModel& model, const SearchOptions& options,
                          const AllowedForms& allowed, const MakeMeasure& make_measure);

} // namespace lathe::search
