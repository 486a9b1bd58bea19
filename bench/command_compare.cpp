// lathe-bench compare: lathe and its peers alternately.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "commands.hpp"
#include "comparison.hpp"
#include "lowered.hpp"
#include "peers/python.hpp"

namespace lathe::bench {

std::vector<Contender> verified_contenders(const Case& c, const Reference& want,
                                           const std::vector<Peer>& peers, const CompileOptions& plan,
                                           std::deque<Case>& copies) {
  std::vector<Contender> right;
  for (const Peer& peer : peers) try {
      if (c.blocks && !peer.takes_blocks) continue;
      for (Contender& contender : peer.contenders(copies.emplace_back(c), plan)) {
        for (auto& [name, tensor] : *contender.outputs) tensor.poison();
        contender.run();
        if (contender.finish) contender.finish();
        double error = max_error(*contender.outputs, want);
        if (error <= std::max(c.tolerance, contender.tolerance))
          right.push_back(std::move(contender));
        else
          fmt::print(stderr, "lathe-bench: {} on {} {} is off by {:.2g}: left out\n", contender.name,
                     c.workload, to_string(c.shape), error);
      }
    } catch (const std::exception& e) {
      fmt::print(stderr, "lathe-bench: {} on {} {}: {}: left out\n", peer.name, c.workload,
                 to_string(c.shape), e.what());
    }
  return right;
}

namespace {
Row compare_case(const Case& c, const Options& options, const std::vector<Peer>& peers) {
  CompileOptions compile = compile_options(options);
  Reference want = c.reference(c.inputs);
  if (!options.tune_budget.empty()) {
    Options tune = options;
    tune.budget = options.tune_budget;
    tune_case(c, want, tune);
  }
  Compiled compiled(c, compile);
  Row row = start_row(c, compile, compiled.executable());
  row.ops = lowered(c.program)->stages.size();
  row.arena_bytes = compiled.executable().arena_bytes();
  row.max_error = compiled.verify(want);
  row.verified = row.max_error <= compiled.tolerance();
  compile.moves = compiled.executable().moves();
  std::deque<Case> copies; // outlive the contenders that read them
  std::vector<Contender> contenders = verified_contenders(c, want, peers, compile, copies);
  std::vector<Calls> calls{timed([&] { compiled.run(); })};
  for (const Contender& contender : contenders)
    calls.push_back(contender.seconds ? contender.seconds : timed(contender.run));
  // Between threads of several libraries that spin a while when their work is done, a pause.
  std::vector<double> times =
      alternate(calls, {.seconds = 0.4, .pause_seconds = options.threads > 1 ? 25e-3 : 0});
  row.seconds = times[0];
  for (size_t i = 0; i < contenders.size(); ++i) row.peers.push_back({contenders[i].name, times[i + 1]});
  return row;
}
} // namespace

int compare_command(const Options& options) {
  compile_options(options); // a mistake is found before any process is started
  std::vector<Peer> all = peers();
  if (!options.python.empty())
    for (Peer& peer : python_peers(options.python, options.threads)) all.push_back(std::move(peer));
  if (!options.peers.empty()) // listing devices loads their drivers
    for (Peer& peer : device_peers()) all.push_back(std::move(peer));
  std::vector<Peer> chosen = select_peers(all, options.peers);
  std::vector<Row> rows;
  for (const Selection& selected : select(options)) {
    Case c = make_case(*selected.workload, selected.shape, parse_elements(options.dtype));
    rows.push_back(compare_case(c, options, chosen));
    if (!options.json && options.workload == "all") fmt::print(stderr, "{}", table({rows.back()}));
  }
  if (options.json) {
    fmt::print("{}\n", comparison_json(rows).dump(2));
  } else {
    for (const Peer& peer : all)
      if (!peer.available && !peer.only_if_named) fmt::print("{}: absent, {}\n", peer.name, peer.detail);
    for (const Peer& peer : chosen) fmt::print("{}: {}\n", peer.name, peer.detail);
    fmt::print("\n{}", comparison_text(rows));
  }
  return all_verified(rows) ? 0 : 1;
}

} // namespace lathe::bench
