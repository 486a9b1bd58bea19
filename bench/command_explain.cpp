// lathe-bench explain: each kernel's terms of the cost model beside its measured time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/measure.hpp"
#include "lowered.hpp"
#include "search/cost/cost.hpp"
#include "search/machine/profile.hpp"

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

struct Explained {
  std::string name;
  search::Cost cost;
  search::Measurement measured;
};

const search::CostTerm& largest(const search::Cost& cost) {
  return *std::max_element(cost.terms.begin(), cost.terms.end(),
                           [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
}

/// What a prediction that is off says about the model.
std::string verdict(const Explained& k) {
  if (!k.measured.ok) return "not measured: " + k.measured.error;
  const search::CostTerm& term = largest(k.cost);
  const double ratio = k.cost.seconds / k.measured.seconds;
  if (ratio > kOff && term.seconds > k.measured.seconds)
    return fmt::format("too slow by {:.2f}x: '{}' alone is more than all that was measured", ratio,
                       term.name);
  if (ratio > kOff) return fmt::format("too slow by {:.2f}x; '{}' is the largest term", ratio, term.name);
  if (ratio < 1 / kOff)
    return fmt::format("too fast by {:.2f}x: {} are missing; '{}' is the largest term", 1 / ratio,
                       duration(k.measured.seconds - k.cost.seconds), term.name);
  return fmt::format("within {:.0f} %; '{}' is the largest term", 100 * std::abs(ratio - 1), term.name);
}

Json to_json(const Explained& k) {
  Json terms = Json::object();
  for (const search::CostTerm& t : k.cost.terms) terms[t.name] = t.seconds;
  return {{"kernel", k.name},
          {"predicted", k.cost.seconds},
          {"measured", k.measured.ok ? Json(k.measured.seconds) : Json()},
          {"terms", terms},
          {"largest", largest(k.cost).name},
          {"verdict", verdict(k)}};
}
} // namespace

int explain_command(const Options& options) {
  CompileOptions with = compile_options(options);
  if (!options.moves.empty()) with.moves = read_moves(options.moves);
  Json json = Json::array();
  for (const Selection& chosen : select(options)) {
    const Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    std::vector<search::Move> moves;
    for (const std::string& text : compile(c.program, with).moves())
      moves.push_back(search::parse_move(text));
    const auto program = lowered(c.program);
    const search::Target target = pipeline::target_for(with, *program);
    const search::MachineProfile machine = search::machine_profile();
    const search::Plan plan = search::replay(program, moves, target);
    const pipeline::Measuring measuring = pipeline::make_measure(plan.program, with);

    std::vector<Explained> kernels;
    for (const auto& kernel : plan.kernels)
      kernels.push_back({kernel->kernel.name, search::cost(*kernel, target, machine),
                         measuring.measure(kernel, kTimeLimit)});
    const auto off_by = [](const Explained& k) {
      return k.measured.ok ? std::abs(k.measured.seconds - k.cost.seconds) : 0;
    };
    const auto worst =
        std::max_element(kernels.begin(), kernels.end(),
                         [&](const Explained& a, const Explained& b) { return off_by(a) < off_by(b); });
    if (options.json) {
      for (const Explained& k : kernels) json.push_back(to_json(k));
      continue;
    }
    fmt::print("{} {}\n", c.workload, to_string(c.shape));
    for (const Explained& k : kernels) {
      fmt::print("{}: predicted {}, measured {}\n", k.name, duration(k.cost.seconds),
                 k.measured.ok ? duration(k.measured.seconds) : "nothing");
      for (const search::CostTerm& t : k.cost.terms)
        fmt::print("  {:<16} {:>10} {:>5.0f} %\n", t.name, duration(t.seconds),
                   100 * t.seconds / k.cost.seconds);
      fmt::print("  {}\n", verdict(k));
    }
    if (kernels.size() > 1)
      fmt::print("most wrong: {}, by {}; {}\n", worst->name, duration(off_by(*worst)), verdict(*worst));
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
