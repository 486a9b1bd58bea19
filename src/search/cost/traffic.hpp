// Bytes that a kernel moves between the levels of the memory hierarchy, from the strides of its accesses.
//
// For a cache of some capacity: the outermost loops whose data fits are run through once, so their data moves
// once; around them, whatever does not stay is moved again in every iteration.
#pragma once
#include <vector>

#include "search/cost/features.hpp"

namespace lathe::search {

/// A cache as the model sees it. A TLB is one whose lines are pages.
struct CacheShape {
  double bytes;
  double line;
  double sets, ways;            // sets 0: never in conflict
  bool nearest = false;         // what was asked for a tile ahead is gone again when it is read
  bool loses_constants = false; // between two runs of a kernel
  double loses_places = 0;      // share of the lines that results are stored to, since they were used last
  double loses_values = 0;      // share of what the nest or kernel before has left for this one
  double all_lost = 1;          // what is that many times too large leaves nothing; a share, if it is less
  double threads = 1;           // that have such a cache each: what they share comes into all of them
};
CacheShape cache_shape(int64_t bytes, bool conflicts);

struct Traffic {
  double read = 0, written = 0; // bytes, in whole lines
  double streamed = 0;          // bytes stored past the caches
  double scattered = 0;         // of read + written, what comes in runs too short for the prefetcher
  double by_pages = 0;          // of scattered, as far as runs lie whole pages apart and share a cache's set
  double by_columns = 0;        // of scattered, as far as lines are used a few numbers at a time, in turns
  double stray = 0;             // of written, what lies in single lines or few
};

/// Traffic into the caches of all threads, by the access that causes it: of several to one buffer the first,
/// or that which asks for it ahead of time. A kernel whose data fits as a whole moves nothing, as it is run
/// again and again; but for what the cache loses in between: constants, a share of values,
/// and a share of the lines that results are stored to.
void traffic(const Features& features, const CacheShape& cache, std::vector<Traffic>& accesses);

} // namespace lathe::search
