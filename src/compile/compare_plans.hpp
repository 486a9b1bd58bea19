// Whether a plan is measurably faster, as a whole program, than another: a tuned one than that of the model
// alone, or one of two whose kernels were measured at different moments.
#pragma once
#include "compile/pipeline.hpp"
#include "search/watch.hpp"

namespace lathe::pipeline {

/// About what keep_faster takes.
double seconds_to_compare(const search::Plan& plan, double predicted_seconds);

/// Runs both programs alternately, on the same inputs. `challenger` becomes `known` where it is not faster
/// beyond the noise; its measured time becomes that of the whole program.
void keep_faster(search::SearchResult& challenger, const search::SearchResult& known,
                 const CompileOptions& options, const search::Watch& watch);

} // namespace lathe::pipeline
