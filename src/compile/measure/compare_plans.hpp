// Compares two plans as whole programs: a tuned plan with the untuned one, or two plans whose kernels were
// measured at different moments. Also chooses the schedule of each kernel that is fastest inside the program:
// a kernel that runs alone finds other data in the caches.
#pragma once
#include "lathe/executable.hpp"
#include "search/beam/search.hpp"
#include "search/beam/watch.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// Returns an estimate of the seconds that keep_faster takes.
double seconds_to_compare(const search::Plan& plan, double predicted_seconds);

/// Runs both programs alternately, on the same inputs. `challenger` becomes `known` if it is not faster
/// beyond the noise; its measured time becomes that of the whole program. Returns the seconds of `known`, 0
/// if the plans are the same.
double keep_faster(search::SearchResult& challenger, const search::SearchResult& known,
                   const CompileOptions& options, const search::Watch& watch);

/// Gives each kernel the schedule that is fastest while the whole program runs. The two plans of a comparison
/// run in turns, with every kernel timed. Ends early to leave `reserve` seconds on the watch.
void choose_in_place(search::SearchResult& result, const search::Target& target,
                     const CompileOptions& options, const search::Watch& watch, double reserve);

} // namespace lathe::pipeline
