#include "compile/measure/worker_timing.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSample = 20e-6;         // seconds; several shorter runs are timed at once
constexpr double kEnough = 10e-3;         // seconds of timing for a candidate that may be the best
constexpr double kEnoughToBeSure = 20e-3; // seconds, for a candidate that looks better than the best
constexpr size_t kPairsAtLeast = 3, kPairsToBeSure = 7;
constexpr double kBetter = 0.99;  // times the champion's seconds; below it a candidate looks better
constexpr double kHopeless = 1.5; // times the champion's; above it after two pairs of runs, timing ends
/// After `pairs` pairs of runs, a candidate more than `behind` times as slow as the champion is not the best.
struct Look {
  size_t pairs;
  double behind;
};
constexpr Look kLooks[] = {{5, 1.08}, {25, 1.02}, {100, 1.005}};
constexpr double kWorthSaying = 1e-3; // seconds; after a longer pair of runs a new step begins
constexpr double kFarBehind = 3;      // times the champion; a first run above it is not timed in turns

} // namespace

size_t stride_of_copies(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

void poison(DType dtype, runtime::DeviceBuffer& buffer, size_t bytes) {
  const std::vector<unsigned char> junk(bytes, is_float(dtype) ? 0xFF : 0xA5);
  buffer.upload(0, junk.data(), bytes);
}
std::vector<unsigned char> download(runtime::DeviceBuffer& buffer, size_t bytes) {
  std::vector<unsigned char> out(bytes);
  buffer.download(0, out.data(), bytes);
  return out;
}

double CandidateTimer::measure(const ast::Kernel& kernel, const std::shared_ptr<runtime::Program>& program,
                               Case& c, const std::vector<Place>& places, double limit) {
  for (size_t i = 0; i < places.size(); ++i)
    if (kernel.params[i].written) poison(kernel.params[i].buffer->dtype, *places[i].buffer, places[i].bytes);
  say_running_();
  const double first = time(*program, places, c, 1);
  say_running_();
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    if (!kernel.params[i].written) continue;
    const std::string wrong =
        c.check->wrong(places[i].parameter, download(*places[i].buffer, places[i].bytes));
    if (!wrong.empty())
      throw Error(ErrorKind::Value,
                  fmt::format("wrong result in {}: {}", kernel.params[i].buffer->name, wrong));
  }
  if (first > limit)
    throw Error(ErrorKind::Limit, fmt::format("too slow: {:.3g} s, the limit is {:.3g} s", first, limit));
  say_running_();
  const int at_once = static_cast<int>(std::clamp(kSample / std::max(first, 1e-9), 1.0, 1000.0));
  Contender& champion = c.champion;
  if (!champion.program) {
    double best = first, total = first;
    for (size_t runs = 1; (runs < kPairsAtLeast || total < kEnough) && total < limit + kEnough; ++runs) {
      const double seconds = time(*program, places, c, at_once);
      best = std::min(best, seconds);
      total += seconds * at_once;
    }
    c.first = champion = {program, places, best};
    return best;
  }
  double again = first; // the first run was cold
  if (first > kFarBehind * champion.seconds) again = time(*program, places, c, 1);
  if (again > kFarBehind * champion.seconds) return again;
  const Contender challenger{program, places};
  const double ratio = ratio_to(champion, challenger, c, at_once, kPairsAtLeast, kEnough);
  if (ratio >= kBetter) return std::max(1.0, ratio) * champion.seconds;
  // Among many candidates one looks better by luck, and such luck would add up. So a second comparison
  // decides, always with the same contender, the first.
  const double seconds =
      c.first.seconds * ratio_to(c.first, challenger, c, at_once, kPairsToBeSure, kEnoughToBeSure);
  if (seconds >= champion.seconds) return champion.seconds;
  champion = challenger;
  champion.seconds = seconds;
  return seconds;
}

/// Runs both in pairs, one right after the other. Returns the median of their ratios or the ratio of the
/// fastest runs, whichever is larger and so favours the known one.
double CandidateTimer::ratio_to(const Contender& known, const Contender& challenger, Case& c, int at_once,
                                size_t pairs, double enough) {
  std::vector<double> ratios;
  double total = 0, least_known = 1e30, least = 1e30;
  const auto ratio = [&] {
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<long>(ratios.size() / 2), ratios.end());
    return std::max(ratios[ratios.size() / 2], least / least_known);
  };
  while (ratios.size() < pairs || total < enough) {
    const double beside = time(*known.program, known.places, c, at_once);
    const double seconds = time(*challenger.program, challenger.places, c, at_once);
    if (beside + seconds > kWorthSaying) say_running_();
    ratios.push_back(seconds / beside);
    least_known = std::min(least_known, beside);
    least = std::min(least, seconds);
    total += seconds * at_once;
    // The time of a candidate that can't win need not be exact. Long runs are steady enough after two pairs.
    if (ratios.size() == 2 &&
        std::min(ratios[0], ratios[1]) > (total > enough ? kLooks[0].behind : kHopeless))
      break;
    if (std::any_of(std::begin(kLooks), std::end(kLooks),
                    [&](const Look& l) { return ratios.size() == l.pairs && ratio() > l.behind; }))
      break;
  }
  return ratio();
}

double CandidateTimer::time(const runtime::Program& program, const std::vector<Place>& places, Case& c,
                            int times) {
  std::vector<runtime::BufferSlice> slices;
  for (const Place& place : places) slices.push_back({place.buffer.get(), 0, place.bytes});
  const auto start = Clock::now();
  for (int k = 0; k < times; ++k) {
    ++c.turn;
    for (size_t i = 0; i < places.size(); ++i)
      slices[i].offset = c.turn % places[i].copies * stride_of_copies(places[i].bytes);
    program.launch(slices, c.vars);
  }
  device_.finish();
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

} // namespace lathe::pipeline
