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
  double settle_seconds = 10e-3;  ///< for so long, without a pause three calls at most, a sample is not timed
  double pause_seconds = 0;       ///< before each sample: threads of the last contender may still spin
};

/// Median seconds a call of each contender, each round in another order. Every sample begins with calls that
/// are not timed, so that a contender finds its data as warm as its own last calls leave it, not its rival's
/// (a large cache keeps what was read more than once), and after a pause its threads awake and its cores'
/// clocks risen.
std::vector<double> alternate(const std::vector<Calls>& contenders, const TimingOptions& options = {});
std::vector<double> median_seconds(const std::vector<std::function<void()>>& contenders,
                                   const TimingOptions& options = {});

/// Of the middle two where their number is even. REQUIRES: not empty.
double median(std::vector<double> samples);

} // namespace lathe::bench
