#include "timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

namespace lathe::bench {

double median(std::vector<double> samples) {
  size_t middle = samples.size() / 2;
  std::nth_element(samples.begin(), samples.begin() + static_cast<long>(middle), samples.end());
  double upper = samples[middle];
  if (samples.size() % 2) return upper;
  return (upper + *std::max_element(samples.begin(), samples.begin() + static_cast<long>(middle))) / 2;
}

Calls timed(std::function<void()> call) {
  return [call = std::move(call)](int repeats) {
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
  };
}

std::vector<double> alternate(const std::vector<Calls>& contenders, const TimingOptions& options) {
  std::vector<int> repeats(contenders.size()), warm_ups(contenders.size()), rounds(contenders.size());
  std::vector<std::vector<double>> samples(contenders.size());
  for (size_t i = 0; i < contenders.size(); ++i) {
    double first = contenders[i](1), once = first;
    if (first < options.slow_seconds / 2) once = std::max(contenders[i](1), 1e-7);
    repeats[i] = static_cast<int>(std::clamp(std::ceil(options.sample_seconds / once), 1.0, 10000.0));
    const double most_calls = options.pause_seconds > 0 ? 10000 : 3; // threads wake, clocks rise
    warm_ups[i] = static_cast<int>(std::clamp(std::ceil(options.settle_seconds / once), 1.0, most_calls));
    double sample = once * (repeats[i] + warm_ups[i]);
    double least = std::min(double(options.least), std::ceil(options.slow_seconds / sample));
    rounds[i] = static_cast<int>(std::clamp(options.seconds / sample, least, double(options.most)));
  }
  int most = contenders.empty() ? 0 : *std::max_element(rounds.begin(), rounds.end());
  std::vector<size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(0);
  for (int round = 0; round < most; ++round) {
    std::shuffle(order.begin(), order.end(), random); // so that none always follows the same rival
    for (const size_t i : order) {
      if (round >= rounds[i]) continue;
      if (options.pause_seconds > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_seconds));
      contenders[i](warm_ups[i]);
      samples[i].push_back(contenders[i](repeats[i]));
    }
  }
  std::vector<double> medians;
  for (auto& s : samples) medians.push_back(median(std::move(s)));
  return medians;
}

std::vector<double> median_seconds(const std::vector<std::function<void()>>& contenders,
                                   const TimingOptions& options) {
  std::vector<Calls> calls;
  for (const std::function<void()>& contender : contenders) calls.push_back(timed(contender));
  return alternate(calls, options);
}

} // namespace lathe::bench
