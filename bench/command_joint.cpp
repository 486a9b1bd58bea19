// lathe-bench joint: what one search over graph and loops gains over deciding fusion first and loops after,
// at the same budget, by the cost model.
#include <fmt/format.h>

#include "commands.hpp"
#include "lowered.hpp"

namespace lathe::bench {

namespace {
struct Graph {
  const char* name;
  NamedTensors program;
};

Tensor in(const char* name, const Shape& shape) { return Tensor::input(name, shape); }

std::vector<Graph> graphs() {
  std::vector<Graph> all;
  auto add = [&](const char* name, const Tensor& y) { all.push_back({name, {{"y", y}}}); };
  Tensor x = in("x", {256, 256}), w = in("w", {256, 256}), b = in("b", {256});
  add("softmax 1024x512", in("s", {1024, 512}).softmax(-1));
  add("layer norm 1024x512", in("s", {1024, 512}).layer_norm({-1}));
  add("matmul, bias, gelu", (x.matmul(w) + b).gelu());
  add("rms norm, matmul", x.rms_norm({-1}).matmul(w));
  add("gelu, matmul", x.gelu().matmul(w));
  add("matmul, softmax", x.matmul(w).softmax(-1));
  add("matmul, matmul", x.matmul(w).relu().matmul(in("v", {256, 256})));
  add("attention",
      scaled_dot_product_attention(in("q", {4, 128, 64}), in("k", {4, 128, 64}), in("v", {4, 128, 64})));
  add("sum of squares from the mean", (x - x.mean(-1, true)).square().sum());
  add("nearest neighbour", in("r", {500, 64}).square().sum({-1}).unsqueeze(0) -
                               2 * in("q", {200, 64}).matmul(in("r", {500, 64}).transpose()));
  return all;
}
} // namespace

int joint_command(const Options& options) {
  Json json = Json::array();
  if (!options.json)
    fmt::print("{:<30} {:>12} {:>18} {:>8}\n", "graph", "joint", "graph, then loops", "gain");
  int better = 0, worse = 0;
  for (const Graph& graph : graphs()) {
    auto predicted = [&](bool graph_then_loops) {
      search::CostModel model(host_target(options.threads), search::machine_profile());
      search::SearchOptions search;
      search.beam = options.beam;
      search.seed = options.seed;
      search.graph_then_loops = graph_then_loops;
      return search::search(search::initial_plan(lowered(graph.program)), model, search).predicted_seconds;
    };
    double joint = predicted(false), staged = predicted(true);
    better += joint < staged * (1 - 1e-9);
    worse += joint > staged * (1 + 1e-9);
    json.push_back({{"graph", graph.name},
                    {"joint_ms", joint * 1e3},
                    {"graph_then_loops_ms", staged * 1e3},
                    {"gain", staged / joint}});
    if (!options.json) {
      fmt::print("{:<30} {:>12} {:>18} {:>7.2f}x\n", graph.name, duration(joint), duration(staged),
                 staged / joint);
      std::fflush(stdout);
    }
  }
  if (options.json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print("by the cost model, at the same beam and rounds: better on {}, worse on {} of {}\n"
               "(graph, then loops: first the fusions that save the most traffic and launches, then each "
               "kernel's loops)\n",
               better, worse, json.size());
  return worse ? 1 : 0;
}

} // namespace lathe::bench
