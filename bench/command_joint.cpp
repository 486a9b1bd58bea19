// lathe-bench joint: what one search over graph and loops gains over deciding on fusion first and on loops
// after, in the same time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/measure.hpp"
#include "lowered.hpp"
#include "reference.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "timing.hpp"

namespace lathe::bench {

namespace {
struct Graph {
  const char* name;
  Tensor y;
};

Tensor in(const char* name, const Shape& shape) { return Tensor::input(name, shape); }

std::vector<Graph> graphs() {
  Tensor x = in("x", {256, 256}), w = in("w", {256, 256}), v = in("v", {256, 256}), b = in("b", {256});
  Tensor rows = in("rows", {1024, 512}), image = in("image", {1, 32, 28, 28});
  Tensor kernel = in("kernel", {32, 32, 3, 3}), point = in("point", {64, 32, 1, 1});
  Tensor known = in("known", {500, 64}), asked = in("asked", {200, 64});
  ConvOptions padded{.padding = {1}};
  Tensor q = in("q", {4, 128, 64}), k = in("k", {4, 128, 64}), values = in("values", {4, 128, 64});
  return {
      {"softmax", rows.softmax(-1)},
      {"layer norm", rows.layer_norm({-1})},
      {"log softmax", rows.log_softmax(-1)},
      {"sum of squares from the mean", (x - x.mean(-1, true)).square().sum()},
      {"matmul, bias, gelu", (x.matmul(w) + b).gelu()},
      {"rms norm, matmul", x.rms_norm({-1}).matmul(w)},
      {"gelu, matmul", x.gelu().matmul(w)},
      {"matmul, softmax", x.matmul(w).softmax(-1)},
      {"matmul, residual, layer norm", (x.matmul(w) + x + b).layer_norm({-1})},
      {"matmul, relu, matmul", x.matmul(w).relu().matmul(v)},
      {"matmul, silu, times matmul", x.matmul(w).silu() * x.matmul(v)},
      {"attention", scaled_dot_product_attention(q, k, values)},
      {"convolution, relu, 1x1 convolution", image.conv2d(kernel, {}, padded).relu().conv2d(point)},
      {"convolution, residual, relu", (image.conv2d(kernel, {}, padded) + image).relu()},
      {"convolution, relu, max pool", image.conv2d(kernel, {}, padded).relu().max_pool2d({2})},
      {"nearest neighbour", known.square().sum({-1}).unsqueeze(0) - 2 * asked.matmul(known.transpose())},
  };
}

HostTensors inputs_of(const Executable& executable) {
  HostTensors inputs;
  uint64_t seed = 0;
  for (const KernelParam& input : executable.inputs()) {
    Sizes sizes;
    for (const Expr& size : input.shape) sizes.push_back(size.value());
    inputs.emplace(input.name, uniform(input.dtype, sizes, ++seed));
  }
  return inputs;
}

/// One graph searched both ways, the programs compared with the untuned one and timed.
struct Duel {
  double joint, staged; ///< seconds: measured, or predicted if nothing was measured
  double noise;         ///< how far two readings of the same program lie apart, relatively
  double predicted_joint, predicted_staged;
  size_t joint_kernels, staged_kernels;
  double error;

  double gain() const { return staged / joint; }
  bool better() const { return gain() >= 1.1 && gain() > 1 + noise; }
  bool worse() const { return gain() < 1 - noise; }
};

/// The graph compiled by a search that decides on fusion first and on loops after. All that is known of a
/// program was found by searching both together, so this search does without.
Executable compiled_in_stages(const Graph& graph, CompileOptions with, const TuneOptions& tune) {
  const NamedTensors outputs{{"y", graph.y}};
  const auto program = lowered(outputs);
  search::CostModel model(pipeline::target_for(with, *program), search::machine_profile());
  search::SearchOptions how;
  how.beam = tune.beam;
  how.seed = tune.seed;
  how.graph_then_loops = true;
  if (tune.measure) {
    const pipeline::Measuring measuring = pipeline::make_measure(program, with);
    how.budget_seconds = tune.budget_seconds;
    how.measure = measuring.measure;
    how.prepare = measuring.prepare;
  }
  const search::Plan found = search::search(search::initial_plan(program), model, how).plan;
  for (const search::Move& move : found.moves()) with.moves.push_back(search::to_string(move));
  return compile(outputs, with);
}

Duel fight(const Graph& graph, const Options& options) {
  CompileOptions with{.device = default_device(), .threads = options.threads, .use_database = false};
  Executable untuned = compile({{"y", graph.y}}, with);
  TuneOptions tune;
  tune.budget_seconds = parse_seconds("--budget", options.joint_budget);
  tune.beam = options.beam;
  tune.seed = options.seed;
  tune.measure = !options.no_measure;
  Executable staged = compiled_in_stages(graph, with, tune);
  Executable joint = lathe::tune({{"y", graph.y}}, tune, with);

  Duel duel{joint.predicted_seconds(),
            staged.predicted_seconds(),
            0,
            joint.predicted_seconds(),
            staged.predicted_seconds(),
            joint.kernel_count(),
            staged.kernel_count(),
            0};
  if (options.no_measure) return duel;
  HostTensors inputs = inputs_of(untuned);
  std::map<std::string, const void*> given;
  for (const auto& [name, tensor] : inputs) given[name] = tensor.data();
  Sizes sizes;
  for (const Expr& size : graph.y.shape()) sizes.push_back(size.value());
  std::vector<HostTensor> results;
  for (int i = 0; i < 3; ++i) results.emplace_back(DType::F32, sizes).poison();
  auto run = [&](const Executable& executable, size_t into) {
    executable.run(given, {{"y", results[into].data()}});
  };
  run(untuned, 0), run(joint, 1), run(staged, 2);
  std::vector<double> want;
  for (int64_t i = 0; i < results[0].count(); ++i) want.push_back(results[0].get(i));
  duel.error = std::max(max_error(results[1], want), max_error(results[2], want));

  auto first = [&] { run(joint, 1); };
  auto second = [&] { run(staged, 2); };
  std::vector<double> times = median_seconds({first, second, first, second});
  duel.joint = (times[0] + times[2]) / 2;
  duel.staged = (times[1] + times[3]) / 2;
  constexpr double kLeastNoise = 0.02;
  duel.noise = std::max({kLeastNoise, std::abs(times[0] / times[2] - 1), std::abs(times[1] / times[3] - 1)});
  return duel;
}
} // namespace

int joint_command(const Options& options) {
  parse_seconds("--budget", options.joint_budget); // before anything is printed
  Json json = Json::array();
  if (!options.json)
    fmt::print("{:<34} {:>10} {:>18} {:>7} {:>6} {:>9} {:>20}\n", "graph", "joint", "graph, then loops",
               "gain", "noise", "kernels", "predicted");
  int better = 0, worse = 0;
  bool right = true;
  double sum = 0;
  for (const Graph& graph : graphs()) {
    Duel duel = fight(graph, options);
    better += duel.better();
    worse += duel.worse();
    sum += std::log(duel.gain());
    right = right && duel.error <= sum_tolerance(DType::F32, 4096);
    json.push_back({{"graph", graph.name},
                    {"joint_ms", duel.joint * 1e3},
                    {"graph_then_loops_ms", duel.staged * 1e3},
                    {"gain", duel.gain()},
                    {"noise", duel.noise},
                    {"joint_kernels", duel.joint_kernels},
                    {"graph_then_loops_kernels", duel.staged_kernels},
                    {"joint_predicted_ms", duel.predicted_joint * 1e3},
                    {"graph_then_loops_predicted_ms", duel.predicted_staged * 1e3},
                    {"max_error", duel.error}});
    if (options.json) continue;
    fmt::print("{:<34} {:>10} {:>18} {:>6.2f}x {:>4.0f} % {:>4} {:>4} {:>10} {:>10}\n", graph.name,
               duration(duel.joint), duration(duel.staged), duel.gain(), duel.noise * 100, duel.joint_kernels,
               duel.staged_kernels, duration(duel.predicted_joint), duration(duel.predicted_staged));
    std::fflush(stdout);
  }
  double mean = std::exp(sum / static_cast<double>(json.size()));
  if (options.json)
    fmt::print("{}\n",
               Json{{"graphs", json}, {"mean_gain", mean}, {"better", better}, {"worse", worse}}.dump(2));
  else
    fmt::print("{}: better by 10 % or more on {}, worse beyond noise on {} of {}, mean gain {:.2f}x\n"
               "(graph, then loops: first the fusions that save the most traffic and launches, then each "
               "kernel's loops)\n",
               options.no_measure ? "by the cost model"
                                  : "measured, after " + options.joint_budget + " of search each",
               better, worse, json.size(), mean);
  return right ? 0 : 1;
}

} // namespace lathe::bench
