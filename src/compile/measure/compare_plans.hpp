// Whether a plan is measurably faster, as a whole program, than another: a tuned one than that of the model
// alone, or one of two whose kernels were measured at different moments. And which schedules of its kernels
// are the fastest where they are used: each alone finds other things in the caches than in the program.
#pragma once
#include "lathe/executable.hpp"
#include "search/beam/search.hpp"
#include "search/beam/watch.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// About what keep_faster takes.
double seconds_to_compare(const search::Plan& plan, double predicted_seconds);

/// Runs both programs alternately, on the same inputs. `challenger` becomes `known` where it is not faster
/// beyond the noise; its measured time becomes that of the whole program. Returns what `known` took, 0 if the
/// plans are the same.
double keep_faster(search::SearchResult& challenger, const search::SearchResult& known,
                   const CompileOptions& options, const search::Watch& watch);

/// Takes of each kernel the schedule that is fastest while the whole program runs. Both plans of a comparison
/// run in turns, with all of their kernels timed; ends early to leave `reserve` seconds on the watch.
void choose_in_place(search::SearchResult& result, const search::Target& target,
                     const CompileOptions& options, const search::Watch& watch, double reserve);

} // namespace lathe::pipeline
