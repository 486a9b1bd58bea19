// lathe-bench joint: what one search over graph and loops gains over deciding on fusion first, or by fixed
// rules, and on loops after, in the same time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "baseline.hpp"
#include "commands.hpp"
#include "reference.hpp"
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

/// A program that one way of searching found.
struct Rival {
  double seconds = 0, predicted = 0; ///< seconds: measured, or predicted if nothing was measured
  size_t kernels = 0;
};

/// One graph searched in all ways, the programs compared with the untuned one and timed.
struct Duel {
  Rival joint;
  std::array<Rival, 2> baselines; ///< in the order of kBaselines
  double noise = 0;               ///< how far two readings of the same program lie apart, relatively
  double error = 0;

  double gain(size_t baseline) const { return baselines[baseline].seconds / joint.seconds; }
  bool better(size_t baseline) const { return gain(baseline) >= 1.1 && gain(baseline) > 1 + noise; }
  bool worse(size_t baseline) const { return gain(baseline) < 1 - noise; }
};

struct NamedBaseline {
  Baseline how;
  const char *name, *key; ///< in text and in JSON
};
constexpr std::array<NamedBaseline, 2> kBaselines{
    {{Baseline::LeastTraffic, "traffic first", "graph_then_loops"},
     {Baseline::FixedRules, "fixed rules", "fixed_rules"}}};

Rival rival_of(const Executable& program) {
  return {program.predicted_seconds(), program.predicted_seconds(), program.kernel_count()};
}

/// Runs all programs on equal inputs, compares their results with the first one's, and times the others.
void measure(const Graph& graph, const Executable& untuned, const std::vector<Executable>& programs,
             Duel& duel) {
  const HostTensors inputs = inputs_of(untuned);
  std::map<std::string, const void*> given;
  for (const auto& [name, tensor] : inputs) given[name] = tensor.data();
  Sizes sizes;
  for (const Expr& size : graph.y.shape()) sizes.push_back(size.value());
  HostTensor result(DType::F32, sizes);
  const auto run = [&](const Executable& executable) { executable.run(given, {{"y", result.data()}}); };
  result.poison(), run(untuned);
  std::vector<double> want;
  for (int64_t i = 0; i < result.count(); ++i) want.push_back(result.get(i));
  std::vector<std::function<void()>> calls;
  for (const Executable& program : programs) {
    result.poison(), run(program);
    duel.error = std::max(duel.error, max_error(result, want));
    calls.push_back([&] { run(program); });
  }
  const size_t count = calls.size();
  for (size_t k = 0; k < count; ++k) calls.push_back(calls[k]); // once more, for the noise
  const std::vector<double> times = median_seconds(calls);
  constexpr double kLeastNoise = 0.02;
  duel.noise = kLeastNoise;
  for (size_t k = 0; k < count; ++k) {
    (k == 0 ? duel.joint : duel.baselines[k - 1]).seconds = (times[k] + times[count + k]) / 2;
    duel.noise = std::max(duel.noise, std::abs(times[k] / times[count + k] - 1));
  }
}

Duel fight(const Graph& graph, const Options& options) {
  const CompileOptions with{.device = default_device(), .threads = options.threads, .use_database = false};
  const NamedTensors outputs{{"y", graph.y}};
  const Executable untuned = compile(outputs, with);
  TuneOptions tune;
  tune.budget_seconds = parse_seconds("--budget", options.joint_budget);
  tune.beam = options.beam;
  tune.seed = options.seed;
  tune.measure = !options.no_measure;
  std::vector<Executable> programs{lathe::tune(outputs, tune, with)};
  Duel duel{rival_of(programs[0]), {}, 0, 0};
  for (size_t k = 0; k < kBaselines.size(); ++k) {
    programs.push_back(compiled_by(kBaselines[k].how, outputs, with, tune));
    duel.baselines[k] = rival_of(programs.back());
  }
  if (!options.no_measure) measure(graph, untuned, programs, duel);
  return duel;
}

Json to_json(const Graph& graph, const Duel& duel) {
  Json json{{"graph", graph.name},
            {"joint_ms", duel.joint.seconds * 1e3},
            {"noise", duel.noise},
            {"joint_kernels", duel.joint.kernels},
            {"joint_predicted_ms", duel.joint.predicted * 1e3},
            {"max_error", duel.error}};
  for (size_t k = 0; k < kBaselines.size(); ++k) {
    const std::string key = kBaselines[k].key;
    const Rival& rival = duel.baselines[k];
    json[key] = {{"ms", rival.seconds * 1e3},
                 {"gain", duel.gain(k)},
                 {"kernels", rival.kernels},
                 {"predicted_ms", rival.predicted * 1e3}};
  }
  return json;
}
} // namespace

int joint_command(const Options& options) {
  parse_seconds("--budget", options.joint_budget); // before anything is printed
  Json json = Json::array();
  if (!options.json)
    fmt::print("{:<34} {:>10} {:>13} {:>8} {:>11} {:>8} {:>6} {:>12}\n", "graph", "joint", kBaselines[0].name,
               "gain", kBaselines[1].name, "gain", "noise", "kernels");
  std::array<int, 2> better{}, worse{};
  std::array<double, 2> sum{};
  bool right = true;
  for (const Graph& graph : graphs()) {
    const Duel duel = fight(graph, options);
    for (size_t k = 0; k < kBaselines.size(); ++k) {
      better[k] += duel.better(k);
      worse[k] += duel.worse(k);
      sum[k] += std::log(duel.gain(k));
    }
    right = right && duel.error <= sum_tolerance(DType::F32, 4096);
    json.push_back(to_json(graph, duel));
    if (options.json) continue;
    const auto& [traffic, rules] = duel.baselines;
    fmt::print("{:<34} {:>10} {:>13} {:>7.2f}x {:>11} {:>7.2f}x {:>4.0f} % {:>4} {:>3} {:>3}\n", graph.name,
               duration(duel.joint.seconds), duration(traffic.seconds), duel.gain(0), duration(rules.seconds),
               duel.gain(1), duel.noise * 100, duel.joint.kernels, traffic.kernels, rules.kernels);
    std::fflush(stdout);
  }
  const auto count = static_cast<double>(json.size());
  Json all = Json::object();
  all["graphs"] = json;
  for (size_t k = 0; k < kBaselines.size(); ++k) {
    const double mean = std::exp(sum[k] / count);
    all[kBaselines[k].key] = {{"mean_gain", mean}, {"better", better[k]}, {"worse", worse[k]}};
    if (!options.json)
      fmt::print(
          "{}, beside {}: better by 10 % or more on {}, worse beyond noise on {} of {}, mean gain {:.2f}x\n",
          options.no_measure ? "by the cost model"
                             : "measured, after " + options.joint_budget + " of search each",
          kBaselines[k].name, better[k], worse[k], json.size(), mean);
  }
  if (options.json)
    fmt::print("{}\n", all.dump(2));
  else
    fmt::print(
        "(traffic first: the fusions that save the most traffic and launches, then each kernel's loops;\n"
        "fixed rules: elementwise ops into their neighbours, then the same search of loops)\n");
  return right ? 0 : 1;
}

} // namespace lathe::bench
