// How many times faster parallel loops make a nest, as threads and work-groups divide their iterations.
#pragma once
#include "search/cost/features.hpp"
#include "search/machine/target.hpp"

namespace lathe::search {

/// How much longer than the average iteration of parallel loop `l` the longest may be, going by the loops
/// inside that have shorter trips in some.
double unevenness(const Features& f, int l);
/// How many times faster the parallel loops of a nest make it. Each thread begins with as many units in a row
/// as the others; units are not divided, and the last ones may be shorter.
double parallelism(const Features& f, int nest, const Target& target);
bool has_parallel(const Features& f, int nest);

} // namespace lathe::search
