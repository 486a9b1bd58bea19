// Whether a tuned plan is measurably faster, as a whole program, than the one that the model alone chose.
#pragma once
#include "compile/pipeline.hpp"
#include "search/watch.hpp"

namespace lathe::pipeline {

/// About what keep_faster takes.
double seconds_to_compare(const search::Plan& plan, double predicted_seconds);

/// Runs both programs alternately, on the same inputs. `tuned` becomes `untuned` where it is not faster beyond
/// the noise; its measured time becomes that of the whole program.
void keep_faster(search::SearchResult& tuned, const search::SearchResult& untuned, const CompileOptions& options,
                 const search::Watch& watch);

} // namespace lathe::pipeline
