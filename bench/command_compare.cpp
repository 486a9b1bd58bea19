// lathe-bench compare: lathe and its peers alternately, in one process.
#include <fmt/format.h>

#include <algorithm>

#include "commands.hpp"
#include "peers/peers.hpp"
#include "timing.hpp"

namespace lathe::bench {

namespace {
/// What a peer's arithmetic may differ by: fast algorithms (Winograd) round more than ours.
constexpr double kPeerTolerance = 1e-3;

/// The peers' ways to compute the case, those with a wrong result or an error left out and named on standard
/// error.
std::vector<Contender> verified_contenders(const Case& c, const Reference& want,
                                           const std::vector<Peer>& peers, int threads) {
  std::vector<Contender> right;
  for (const Peer& peer : peers) try {
      for (Contender& contender : peer.contenders(c, threads)) {
        for (auto& [name, tensor] : *contender.outputs) tensor.poison();
        contender.run();
        if (contender.finish) contender.finish();
        double error = max_error(*contender.outputs, want);
        if (error <= std::max(c.tolerance, kPeerTolerance))
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
} // namespace

int compare_command(const Options& options) {
  CompileOptions compile = compile_options(options);
  std::vector<Peer> chosen_peers = select_peers(options.peers);
  std::vector<Row> rows;
  for (const Selection& chosen : select(options)) {
    Case c = make_case(*chosen.workload, chosen.shape, parse_dtype(options.dtype));
    Reference want = c.reference(c.inputs);
    if (!options.tune_budget.empty()) {
      Options tune = options;
      tune.budget = options.tune_budget;
      tune_case(c, want, tune);
    }
    Compiled compiled(c, compile);
    Row row = start_row(c, compile, compiled.executable());
    row.max_error = compiled.verify(want);
    row.verified = row.max_error <= c.tolerance;
    std::vector<Contender> contenders = verified_contenders(c, want, chosen_peers, options.threads);
    std::vector<std::function<void()>> calls{[&] { compiled.run(); }};
    for (const Contender& contender : contenders) calls.push_back(contender.run);
    std::vector<double> times = median_seconds(calls);
    row.seconds = times[0];
    for (size_t i = 0; i < contenders.size(); ++i) row.peers.push_back({contenders[i].name, times[i + 1]});
    if (!options.json && options.workload == "all") fmt::print(stderr, "{}", table({row}));
    rows.push_back(std::move(row));
  }
  if (!options.json)
    for (const Peer& peer : chosen_peers) fmt::print("{}: {}\n", peer.name, peer.detail);
  return report(rows, options);
}

} // namespace lathe::bench
