// The search over the forms of a program: as written, with convolutions and products rewritten, and with
// values stored in other orders. Moves on the graph make the forms. Each form is a program of its own, so
// these moves come first in a plan, and the joint search sees the kernels and loops of one form.
#pragma once
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Sets options.measure and options.prepare for the kernels of one program.
using MakeMeasure = std::function<void(const std::shared_ptr<const lower::Program>&, SearchOptions&)>;

/// The forms that may replace a sum although they round differently; see CompileOptions. Sums over blocks by
/// products of bytes (byte_sums.hpp) need no leave: they are about as exact as sums of floats.
struct AllowedForms {
  int winograd = 0; // largest tile of convolutions; 0: none
  int strassen = 0; // most levels of blocks of products; 0: none
};

/// The best plan over all allowed forms, as search() returns it. `make_measure` sets options.measure for each
/// form; null: the model alone ranks. If several sums have other forms, the search decides each distinct sum
/// as a program of its own, with a share of the budget.
SearchResult search_forms(const Plan& as_written, CostModel& model, const SearchOptions& options,
                          const AllowedForms& allowed, const MakeMeasure& make_measure);

} // namespace lathe::search
