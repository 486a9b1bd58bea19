// Timing: medians of contenders that run alternately, so that a drift of the machine meets all of them alike.
#pragma once
#include <functional>
#include <vector>

namespace lathe::bench {

/// Seconds a call, of so many calls in a row.
using Calls = std::function<double(int repeats)>;
Calls timed(std::function<void()> call);

struct TimingOptions {
  double seconds = 0.6;           ///< of samples per contender
  int least = 5, most = 200;      ///< number of samples
  double sample_seconds = 400e-6; ///< a call shorter than this is repeated within a sample
  double slow_seconds = 2;        ///< a contender that would need longer gets fewer samples than `least`
  double pause_seconds = 0;       ///< before each sample: threads of the last contender may still spin
};

/// Median seconds a call of each contender. Every sample begins with a call that is not timed, so that a
/// contender finds its data as warm as its own last call leaves it, not its rival's; after a pause with as
/// many as a sample has, so that its threads are awake.
std::vector<double> alternate(const std::vector<Calls>& contenders, const TimingOptions& options = {});
std::vector<double> median_seconds(const std::vector<std::function<void()>>& contenders,
                                   const TimingOptions& options = {});

/// Of the middle two where their number is even. REQUIRES: not empty.
double median(std::vector<double> samples);

} // namespace lathe::bench
