#include "compile/measure/compare_plans.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "compile/front/shape_values.hpp"
#include "compile/measure/test_data.hpp"
#include "compile/run/assemble.hpp"
#include "core/storage.hpp"
#include "lathe/profile.hpp"
#include "search/machine/target.hpp"

namespace lathe::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCompileSeconds = 8e-3; // to compile one kernel, estimated
constexpr int kCompareRounds = 15, kRoundsAtLeast = 5;
constexpr double kSample = 2e-3;       // seconds; a sample of a shorter program is several runs
constexpr double kEnough = 0.15;       // seconds of running both programs
constexpr double kMeasurable = 0.99;   // share of the known plan's time; below it the challenger wins
constexpr double kEnoughInPlace = 0.5; // seconds of running both plans
constexpr int kTurns = 25, kTurnsAtLeast = 5; // of each plan
constexpr double kClearly = 0.98;             // share of a schedule's time; below it another replaces it

/// Runs programs on the same test inputs.
class Contest {
public:
  Contest(const search::Plan& plan) {
    const lower::Program& program = *plan.program;
    for (const Expr var : program.shape_vars)
      shape_values_[var.name()] = var.typical();
    ShapeValues values(program.shape_vars);
    for (const Expr var : program.shape_vars) values.bind(var, shape_values_.at(var.name()), "measure");
    TestRange range;
    for (const auto& kernel : plan.kernels) {
      const TestRange own = test_range(kernel->kernel, values);
      range.below = std::max(range.below, own.below);
      range.positive |= own.positive;
    }
    for (const lower::InputBuffer& input : program.inputs) {
      const auto& attr = std::get<graph::InputAttr>(input.node->attr);
      if (attr.data) continue;
      const auto bytes = static_cast<size_t>(values.bytes(*input.buffer));
      const std::vector<unsigned char> data = test_data(*input.buffer, bytes, range);
      inputs_[attr.name] = std::memcpy(allocate(data.size()), data.data(), data.size());
    }
    for (const lower::OutputBuffer& output : program.outputs) {
      const auto& buffer = *program.stages[static_cast<size_t>(output.stage)].buffer;
      outputs_[output.name] = allocate(static_cast<size_t>(values.bytes(buffer)));
    }
  }

  /// Returns the seconds of one run, as the average of `times` runs.
  double seconds(const Executable& executable, int times = 1) {
    const auto start = Clock::now();
    for (int k = 0; k < times; ++k) executable.run(inputs_, outputs_, shape_values_);
    return std::chrono::duration<double>(Clock::now() - start).count() / times;
  }

  /// Returns the seconds of each launch of one run. The run before it does not count: it starts with the
  /// caches as the other plan left them.
  std::vector<double> launches(const Executable& executable) {
    seconds(executable);
    Profile profile;
    seconds(executable);
    std::vector<double> out;
    for (const LaunchTime& launch : profile.launches()) out.push_back(launch.seconds);
    return out;
  }

private:
  /// Allocates memory aligned as tensors are: where vectors cross cache lines, plans lose different times.
  void* allocate(size_t bytes) {
    memory_.push_back(Storage::allocate(bytes));
    return memory_.back()->data();
  }

  std::vector<StorageRef> memory_;
  std::map<std::string, const void*> inputs_;
  std::map<std::string, void*> outputs_;
  std::map<std::string, int64_t> shape_values_;
};

bool same(const search::Plan& a, const search::Plan& b) {
  return std::equal(
      a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
      [](const auto& x, const auto& y) { return x->hash == y->hash && x->stages == y->stages; });
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Returns for each kernel whether `other` has a faster schedule than `chosen`. Nothing if the two can't be
/// compared, or not before only `reserve` seconds are left.
std::optional<std::vector<bool>> faster_in_place(const search::Choices& choices,
                                                 const std::vector<size_t>& chosen,
                                                 const std::vector<size_t>& other,
                                                 const search::Target& target, const CompileOptions& options,
                                                 const search::Watch& watch, double reserve) {
  const std::optional<search::Plan> plans[2] = {choices.plan(chosen, target), choices.plan(other, target)};
  if (!plans[0] || !plans[1]) return {};
  const std::vector<size_t> places[2] = {choices.places(*plans[0]), choices.places(*plans[1])};
  Contest contest(*plans[0]);
  const Executable programs[2] = {build(*plans[0], options), build(*plans[1], options)};
  const size_t n = choices.kernels.size();
  std::vector<std::vector<double>> seconds[2] = {std::vector<std::vector<double>>(n),
                                                 std::vector<std::vector<double>>(n)};
  double total = 0;
  for (int turn = 0; turn < kTurns && (turn < kTurnsAtLeast || total < kEnoughInPlace); ++turn)
    for (const int which : {turn % 2, 1 - turn % 2}) {
      if (watch.left() < reserve || watch.stopped()) return {};
      const std::vector<double> launches = contest.launches(programs[which]);
      if (launches.size() != plans[which]->kernels.size()) return {};
      for (size_t k = 0; k < n; ++k) seconds[which][k].push_back(launches[places[which][k]]);
      total += 2 * std::accumulate(launches.begin(), launches.end(), 0.0);
    }
  std::vector<bool> take(n);
  for (size_t k = 0; k < n; ++k) {
    const auto least = [&](int which) {
      return *std::min_element(seconds[which][k].begin(), seconds[which][k].end());
    };
    take[k] = other[k] != chosen[k] && least(1) < kClearly * least(0) &&
              median(seconds[1][k]) < kClearly * median(seconds[0][k]);
  }
  return take;
}

} // namespace

double seconds_to_compare(const search::Plan& plan, double predicted_seconds) {
  std::set<uint64_t> distinct;
  for (const auto& kernel : plan.kernels) distinct.insert(kernel->hash);
  return 2 * kCompileSeconds * static_cast<double>(distinct.size()) + kEnough +
         2 * kRoundsAtLeast * predicted_seconds;
}

void choose_in_place(search::SearchResult& result, const search::Target& target,
                     const CompileOptions& options, const search::Watch& watch, double reserve) {
  const search::Choices& choices = result.choices;
  std::vector<size_t> chosen(choices.kernels.size(), 0);
  size_t most = 0;
  for (const auto& kernel : choices.kernels) most = std::max(most, kernel.schedules.size());
  if (most < 2) return;
  double longest = 2 * seconds_to_compare(result.plan, result.measured_seconds);
  for (size_t next = 1; next < most && watch.left() > reserve + longest && !watch.stopped(); ++next) {
    const double began = watch.elapsed();
    std::vector<size_t> other = chosen;
    for (size_t k = 0; k < other.size(); ++k)
      if (next < choices.kernels[k].schedules.size()) other[k] = next;
    const auto take = faster_in_place(choices, chosen, other, target, options, watch, reserve);
    if (!take) break;
    for (size_t k = 0; k < chosen.size(); ++k)
      if ((*take)[k]) chosen[k] = other[k];
    longest = std::max(longest, watch.elapsed() - began);
  }
  if (std::optional<search::Plan> plan = choices.plan(chosen, target)) result.plan = std::move(*plan);
}

double keep_faster(search::SearchResult& challenger, const search::SearchResult& known,
                   const CompileOptions& options, const search::Watch& watch) {
  if (same(challenger.plan, known.plan)) return 0;
  Contest contest(challenger.plan);
  const Executable fast = build(challenger.plan, options), plain = build(known.plan, options);
  contest.seconds(plain);
  const int times =
      static_cast<int>(std::clamp(kSample / std::max(contest.seconds(fast), 1e-9), 1.0, 10000.0));
  std::vector<double> of_fast, of_plain;
  double total = 0;
  for (int round = 0; round < kCompareRounds; ++round) {
    // The order within a pair alternates too.
    const bool fast_first = round % 2 == 0;
    const double first = contest.seconds(fast_first ? fast : plain, times);
    const double second = contest.seconds(fast_first ? plain : fast, times);
    of_fast.push_back(fast_first ? first : second);
    of_plain.push_back(fast_first ? second : first);
    total += (first + second) * times;
    if (round + 1 >= kRoundsAtLeast && total > kEnough) break;
    if (watch.over() && round > 1) break;
  }
  const double plain_seconds = median(of_plain);
  challenger.measured_seconds = median(of_fast);
  if (challenger.measured_seconds < kMeasurable * plain_seconds) return plain_seconds;
  challenger.measured_seconds = plain_seconds;
  challenger.plan = known.plan;
  challenger.predicted_seconds = known.predicted_seconds;
  return plain_seconds;
}

} // namespace lathe::pipeline
