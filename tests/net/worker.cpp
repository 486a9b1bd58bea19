// Draws programs, runs them and reports what is wrong.
#include "net/worker.hpp"

#include <unistd.h>

#include <chrono>
#include <fstream>

#include <fmt/format.h>

namespace lathe::net {
namespace {

uint64_t seed_of(const Options& o, uint64_t index) { return o.seed * 0x9E3779B97F4A7C15ull + index; }

Program drawn(const Options& o, uint64_t index) {
  for (uint64_t again = 0;; ++again) {
    Maker maker(seed_of(o, index) + again * 0x100000000ull,
                {o.dtypes, o.avoid, o.only, o.gradients, o.empty && !o.symbolic, o.symbolic ? kSymbol : 0});
    Program p = maker.draw();
    if (!p.outputs.empty()) return p;
  }
}

RunOptions how(const Options& o, uint64_t index) {
  RunOptions run{o.device, o.tuned ? seed_of(o, index) | 1 : 0, o.gradients, o.symbolic ? kSymbol : 0};
  run.quick = o.quick;
  if (o.empty) run.other = 0;
  return run;
}

void report(const Options& o, uint64_t index, const Program& program, const Difference& difference) {
  const RunOptions run = how(o, index);
  fmt::print("\n==== program {}:{} on {} ====\n{}{}\n", o.seed, index, o.device, as_lines(program),
             difference.text);
  std::fflush(nullptr);
  const Program small = shrink(program, run, o.shrink_seconds);
  const auto still = failure_of(small, run);
  fmt::print("---- smallest: {}\n{}", still ? still->text : "does not fail again", as_lines(small));
  if (!o.tuned) fmt::print("---- as C++:\n{}", as_cpp(small, run));
  std::fflush(nullptr);
}

struct Outcome {
  uint64_t findings = 0;
  Counts counts;
};

/// Every program by itself; where none fails so, all of them together.
Outcome alone(const Options& o, uint64_t from, const std::vector<Program>& programs,
              const Difference& together, uint64_t& reported) {
  Outcome outcome;
  for (size_t k = 0; k < programs.size(); ++k) {
    const uint64_t index = from + k;
    const auto failure = failure_of(programs[k], how(o, index), &outcome.counts);
    if (!failure) continue;
    ++outcome.findings;
    if (reported++ < o.most_findings)
      report(o, index, programs[k], *failure);
    else
      fmt::print("==== program {}:{}: {}\n", o.seed, index, failure->text);
  }
  if (outcome.findings == 0) {
    ++outcome.findings;
    fmt::print("\n==== programs {}:{} to {} fail together only\n", o.seed, from, from + programs.size() - 1);
    report(o, from, joined(programs), together);
  }
  return outcome;
}

} // namespace

void work(const Options& o, uint64_t from, uint64_t step, int fd) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t reported = 0;
  std::ofstream dump;
  if (!o.dump.empty()) dump.open(o.dump, std::ios::app);
  for (uint64_t first = from; first < o.programs; first += step) {
    dprintf(fd, "at %lu\n", static_cast<unsigned long>(first));
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > o.seconds) break;
    std::vector<Program> programs;
    for (uint64_t k = first; k < std::min(o.programs, first + static_cast<uint64_t>(o.batch)); ++k)
      programs.push_back(drawn(o, k));
    if (dump.is_open())
      for (const Program& p : programs) dump << as_json(p, evaluate_reference(p)) << "\n";
    Outcome outcome;
    const auto failure = failure_of(joined(programs), how(o, first), &outcome.counts);
    if (failure) outcome = alone(o, first, programs, *failure, reported);
    dprintf(fd, "done %lu %lu %lu %lu\n", static_cast<unsigned long>(programs.size()),
            static_cast<unsigned long>(outcome.findings), static_cast<unsigned long>(outcome.counts.elements),
            static_cast<unsigned long>(outcome.counts.undecided));
  }
}

int replay(const Options& o) {
  const Program program = drawn(o, *o.replay);
  if (!o.dump.empty()) std::ofstream(o.dump) << as_json(program, evaluate_reference(program)) << "\n";
  fmt::print("{}", as_lines(program));
  std::fflush(nullptr);
  const auto failure = failure_of(program, how(o, *o.replay));
  if (!failure) {
    fmt::print("no difference\n");
    return 0;
  }
  report(o, *o.replay, program, *failure);
  return 1;
}

} // namespace lathe::net
