// lathe-bench rank: how well the cost model orders random plans of a workload, by measuring them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/measure.hpp"
#include "lowered.hpp"
#include "search/beam/measurement.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::bench {

namespace {
constexpr double kTimeLimit = 2; // seconds, of a run of one kernel
constexpr int kMostSteps = 10;   // of a walk
constexpr size_t kTop = 8;

struct Ranked {
  search::Plan plan;
  double predicted = 0, measured = 0;
};

/// Walks from the plan without moves, by proposals of the suggesters: first which suggester, then which of
/// its proposals, so that none is drowned by those of another.
class Walker {
public:
  Walker(search::Plan start, const search::CostModel& model, uint64_t seed)
      : start_(std::move(start)), model_(model), random_(seed) {}

  search::Plan walk() {
    search::Plan plan = start_;
    const int steps = 1 + static_cast<int>(random_() % kMostSteps);
    for (int step = 0; step < steps; ++step) {
      std::vector<std::vector<search::Proposal>> by_suggester;
      for (const auto& kernel : plan.kernels) {
        read_features(kernel->kernel, model_.target(), features_);
        for (const search::NamedSuggester& s : search::suggesters())
          if (auto p = s.suggest({plan, *kernel, features_, model_.target(), model_.machine(), true});
              !p.empty())
            by_suggester.push_back(std::move(p));
      }
      if (by_suggester.empty()) break;
      const auto& some = by_suggester[random_() % by_suggester.size()];
      search::Applied applied = search::apply(plan, some[random_() % some.size()].moves, model_.target());
      if (applied.plan) plan = std::move(*applied.plan);
    }
    return plan;
  }

private:
  search::Plan start_;
  const search::CostModel& model_;
  std::mt19937_64 random_;
  search::Features features_;
};

/// Ranks from 0; equal values share their mean rank.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (size_t i = 0, end; i < order.size(); i = end) {
    for (end = i + 1; end < order.size() && values[order[end]] == values[order[i]];) ++end;
    for (size_t k = i; k < end; ++k) rank[order[k]] = static_cast<double>(i + end - 1) / 2;
  }
  return rank;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

/// Kernels that several plans share are measured twice more, some time later, and their median counts: a
/// single bad time would move all these plans.
void measure_again(std::vector<Ranked>& plans, const pipeline::Measuring& measuring,
                   std::unordered_map<uint64_t, search::Measurement>& known) {
  std::unordered_map<uint64_t, std::pair<search::KernelPlanRef, int>> uses;
  for (const Ranked& p : plans)
    for (const auto& kernel : p.plan.kernels) {
      auto& [ref, count] = uses[kernel->hash];
      ref = kernel;
      ++count;
    }
  std::unordered_map<uint64_t, std::vector<double>> seconds;
  for (int pass = 0; pass < 2; ++pass)
    for (const auto& [hash, use] : uses) {
      if (use.second < 2) continue;
      const search::Measurement m = measuring.measure(use.first, kTimeLimit);
      if (m.ok) seconds[hash].push_back(m.seconds);
    }
  for (auto& [hash, all] : seconds) {
    all.push_back(known.at(hash).seconds);
    std::sort(all.begin(), all.end());
    known.at(hash).seconds = all[all.size() / 2];
  }
  for (Ranked& p : plans) {
    p.measured = 0;
    for (const auto& kernel : p.plan.kernels) p.measured += known.at(kernel->hash).seconds;
  }
}

struct Summary {
  double correlation = 0;
  double best = 0, best_of_top = 0; // seconds
};
Summary summarise(const std::vector<Ranked>& plans) {
  std::vector<double> predicted, measured;
  for (const Ranked& p : plans) {
    predicted.push_back(p.predicted);
    measured.push_back(p.measured);
  }
  Summary s;
  s.correlation = spearman(predicted, measured);
  s.best = *std::min_element(measured.begin(), measured.end());
  std::vector<size_t> order(plans.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return predicted[a] < predicted[b]; });
  s.best_of_top = measured[order[0]];
  for (size_t i = 1; i < std::min(kTop, order.size()); ++i)
    s.best_of_top = std::min(s.best_of_top, measured[order[i]]);
  return s;
}
} // namespace

int rank_command(const Options& options) {
  const CompileOptions with = compile_options(options);
  Json json = Json::array();
  for (const Selection& chosen : select(options)) {
    const Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    const auto program = lowered(c.program);
    search::CostModel model(pipeline::target_for(with, *program), search::machine_profile());
    const pipeline::Measuring measuring = pipeline::make_measure(program, with);
    Walker walker(search::initial_plan(program), model, options.seed);

    double log_errors = 0; // |log(predicted / measured)|, summed over kernels
    int kernels = 0;
    std::unordered_map<uint64_t, search::Measurement> known;
    search::Rejections rejected;
    const auto measured = [&](const search::KernelPlanRef& kernel) -> const search::Measurement& {
      if (auto it = known.find(kernel->hash); it != known.end()) return it->second;
      const search::Measurement m = measuring.measure(kernel, kTimeLimit);
      if (m.ok)
        log_errors += std::abs(std::log(model.seconds(kernel) / m.seconds)), ++kernels;
      else
        ++rejected[search::reason_of(m)];
      return known.emplace(kernel->hash, m).first->second;
    };

    std::vector<Ranked> plans;
    std::unordered_set<uint64_t> seen;
    for (int walks = 0; walks < 20 * options.plans && static_cast<int>(plans.size()) < options.plans;
         ++walks) {
      Ranked r;
      r.plan = walker.walk();
      uint64_t identity = 0; // the order of kernels doesn't matter
      for (const auto& kernel : r.plan.kernels) identity += kernel->hash * 0x9E3779B97F4A7C15ull;
      if (!seen.insert(identity).second) continue;
      r.predicted = model.seconds(r.plan);
      bool all = true;
      for (const auto& kernel : r.plan.kernels) {
        const search::Measurement& m = measured(kernel);
        all &= m.ok;
        r.measured += m.seconds;
      }
      if (all) plans.push_back(std::move(r));
    }
    measure_again(plans, measuring, known);
    if (plans.empty())
      throw Error(ErrorKind::Device,
                  c.workload + ": no plan could be measured, expected a device that runs it");
    const Summary s = summarise(plans);
    const double typical_error = std::exp(log_errors / std::max(1, kernels));
    if (options.json) {
      Json all = Json::array();
      for (const Ranked& p : plans) {
        Json moves = Json::array(), terms = Json::object();
        for (const search::Move& m : p.plan.moves()) moves.push_back(search::to_string(m));
        for (const auto& kernel : p.plan.kernels)
          for (const auto& t : search::cost(*kernel, model.target(), model.machine()).terms)
            terms[t.name] = terms.value(t.name, 0.0) + t.seconds;
        all.push_back(
            {{"predicted", p.predicted}, {"measured", p.measured}, {"terms", terms}, {"moves", moves}});
      }
      json.push_back({{"workload", c.workload},
                      {"shape", to_string(c.shape)},
                      {"correlation", s.correlation},
                      {"best", s.best},
                      {"best_of_8", s.best_of_top},
                      {"typical_error", typical_error},
                      {"rejected", rejected},
                      {"plans", all}});
      continue;
    }
    fmt::print("{} {}: {} plans, rank correlation {:.3f}; best of the model's {} first {}, best of all {} "
               "({:+.0f} %)\n"
               "  typical error {:.2f}x ({} kernels)\n",
               c.workload, to_string(c.shape), plans.size(), s.correlation, kTop, duration(s.best_of_top),
               duration(s.best), 100 * (s.best_of_top / s.best - 1), typical_error,
               kernels);
    for (const auto& [reason, count] : rejected) fmt::print("  rejected: {} {}\n", count, reason);
    std::fflush(stdout);
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
