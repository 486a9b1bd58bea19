// lathe-bench explain: what lathe explains of a program, each kernel measured alone, and where the model is
// off.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/measure.hpp"
#include "lathe/explain.hpp"
#include "lowered.hpp"

namespace lathe::bench {

namespace {
constexpr double kTimeLimit = 20; // seconds, of a run of one kernel
constexpr double kOff = 1.15;     // a factor from which a prediction is called wrong

std::vector<std::string> read_moves(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorKind::File, path + ": can't be read, expected moves, one a line");
  std::vector<std::string> moves;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) moves.push_back(line);
  if (in.bad()) throw Error(ErrorKind::File, path + ": can't be read to its end, expected moves, one a line");
  if (moves.empty()) throw Error(ErrorKind::Syntax, path + ": holds no moves, expected one a line");
  return moves;
}

const std::pair<std::string, double>& largest(const KernelExplanation& k) {
  return *std::max_element(k.terms.begin(), k.terms.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
}

/// What a prediction that is off says about the model.
std::string verdict(const KernelExplanation& k, const search::Measurement& measured) {
  if (!measured.ok) return "not measured: " + measured.error;
  const auto& [term, seconds] = largest(k);
  const double ratio = k.predicted / k.measured;
  if (ratio > kOff && seconds > k.measured)
    return fmt::format("too slow by {:.2f}x: '{}' alone is more than all that was measured", ratio, term);
  if (ratio > kOff) return fmt::format("too slow by {:.2f}x; '{}' is the largest term", ratio, term);
  if (ratio < 1 / kOff)
    return fmt::format("too fast by {:.2f}x: {} are missing; '{}' is the largest term", 1 / ratio,
                       duration(k.measured - k.predicted), term);
  return fmt::format("within {:.0f} %; '{}' is the largest term", 100 * std::abs(ratio - 1), term);
}

double off_by(const KernelExplanation& k) { return k.measured > 0 ? std::abs(k.measured - k.predicted) : 0; }
} // namespace

int explain_command(const Options& options) {
  CompileOptions with = compile_options(options);
  with.use_database = !options.untuned;
  if (!options.moves.empty()) with.moves = read_moves(options.moves);
  Json json = Json::array();
  for (const Selection& chosen : select(options)) {
    const Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    const Executable executable = compile(c.program, with);
    std::vector<search::Move> moves;
    for (const std::string& text : executable.moves()) moves.push_back(search::parse_move(text));
    const auto program = lowered(c.program);
    const search::Plan plan = search::replay(program, moves, pipeline::target_for(with, *program));
    const pipeline::Measuring measuring = pipeline::make_measure(plan.program, with);
    std::map<std::string, search::Measurement> results; // by kernel
    std::map<std::string, double> seconds;
    for (const auto& kernel : plan.kernels) {
      const search::Measurement result = measuring.measure(kernel, kTimeLimit);
      if (result.ok) seconds[kernel->kernel.name] = result.seconds;
      results.emplace(kernel->kernel.name, result);
    }

    const Explanation explanation = explain(executable, seconds);
    if (!options.json) fmt::print("{} {}\n", c.workload, to_string(c.shape));
    const KernelExplanation* worst = &explanation.kernels.at(0);
    for (const KernelExplanation& k : explanation.kernels) {
      const std::string says = verdict(k, results[k.name]);
      if (off_by(k) > off_by(*worst)) worst = &k;
      if (options.json) {
        json.push_back(Json::parse(to_json(std::vector<KernelExplanation>{k})).at(0));
        json.back()["largest"] = largest(k).first;
        json.back()["verdict"] = says;
      } else {
        fmt::print("{}  {}\n", to_string(k), says);
      }
    }
    if (options.json) continue;
    if (explanation.kernels.size() > 1)
      fmt::print("most wrong: {}, by {}; {}\n", worst->name, duration(off_by(*worst)),
                 verdict(*worst, results[worst->name]));
    fmt::print("{}", to_string(explanation.savings));
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
