#include "compile/compare_plans.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "compile/shape_values.hpp"
#include "compile/test_data.hpp"
#include "core/storage.hpp"

namespace lathe::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCompileSeconds = 8e-3; // of one kernel, with all that belongs to it
constexpr int kRounds = 15, kRoundsAtLeast = 5;
constexpr double kSample = 2e-3;     // seconds; programs shorter than that are run several times at once
constexpr double kEnough = 0.15;     // of running
constexpr double kMeasurable = 0.99; // of the known plan's time

/// Both programs on inputs of their own.
class Contest {
public:
  Contest(const search::Plan& plan) {
    const lower::Program& program = *plan.program;
    for (const Expr var : program.shape_vars)
      shape_values_[var.name()] = std::clamp<int64_t>(256, var.lo(), var.hi());
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

  /// Of one run, by the clock over several if they are short.
  double seconds(const Executable& executable, int times = 1) {
    const auto start = Clock::now();
    for (int k = 0; k < times; ++k) executable.run(inputs_, outputs_, shape_values_);
    return std::chrono::duration<double>(Clock::now() - start).count() / times;
  }

private:
  /// Aligned as tensors are: plans differ in what they lose where vectors cross lines.
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

} // namespace

double seconds_to_compare(const search::Plan& plan, double predicted_seconds) {
  std::set<uint64_t> distinct;
  for (const auto& kernel : plan.kernels) distinct.insert(kernel->hash);
  return 2 * kCompileSeconds * static_cast<double>(distinct.size()) + kEnough +
         2 * kRoundsAtLeast * predicted_seconds;
}

void keep_faster(search::SearchResult& challenger, const search::SearchResult& known,
                 const CompileOptions& options, const search::Watch& watch) {
  if (same(challenger.plan, known.plan)) return;
  Contest contest(challenger.plan);
  const Executable fast = build(challenger.plan, options), plain = build(known.plan, options);
  contest.seconds(plain);
  const int times =
      static_cast<int>(std::clamp(kSample / std::max(contest.seconds(fast), 1e-9), 1.0, 10000.0));
  std::vector<double> of_fast, of_plain;
  double total = 0;
  for (int round = 0; round < kRounds; ++round) {
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
  challenger.measured_seconds = median(of_fast);
  if (challenger.measured_seconds < kMeasurable * median(of_plain)) return;
  challenger.measured_seconds = median(of_plain);
  challenger.plan = known.plan;
  challenger.predicted_seconds = known.predicted_seconds;
}

} // namespace lathe::pipeline
