// lathe-bench list, run, emit.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "commands.hpp"
#include "timing.hpp"

namespace lathe::bench {

int list_command(const Options& options) {
  Json json = Json::array();
  std::string text;
  for (const Workload& w : workloads()) {
    Json shapes = Json::array();
    for (const Sizes& shape : w.shapes) shapes.push_back(to_string(shape));
    Json dtypes = {"f32", "f64", "f16", "bf16"};
    if (w.integers) dtypes.insert(dtypes.end(), {"i32", "i64"});
    if (w.takes_bytes()) dtypes.insert(dtypes.end(), {"i8", "u8"});
    if (w.takes_blocks())
      dtypes.insert(dtypes.end(), {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"});
    if (w.name == "digits") dtypes = {"f32", "f64"};
    json.push_back({{"workload", w.name},
                    {"parameters", w.parameters},
                    {"default", to_string(w.shapes.front())},
                    {"shapes", shapes},
                    {"dtypes", dtypes},
                    {"summary", w.summary}});
    text += fmt::format("{:<17} --shape {:<28} default {:<22} {}\n", w.name, w.parameters,
                        to_string(w.shapes.front()), w.summary);
  }
  fmt::print("{}", options.json ? json.dump(2) + "\n" : text);
  return 0;
}

bool all_verified(const std::vector<Row>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.verified; });
}

int report(const std::vector<Row>& rows, const Options& options) {
  if (options.json) {
    Json json = Json::array();
    for (const Row& row : rows) json.push_back(to_json(row));
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", table(rows));
  }
  return all_verified(rows) ? 0 : 1;
}

int run_command(const Options& options) {
  auto begin = std::chrono::steady_clock::now();
  const auto seconds_since_begin = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  CompileOptions compile = compile_options(options);
  double device_seconds = seconds_since_begin(); // loads the compiler: the first program's share
  compile.use_database = !options.untuned;
  compile.trace = options.trace;
  std::vector<Row> rows;
  for (const Selection& chosen : select(options)) {
    Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    begin = std::chrono::steady_clock::now();
    Executable executable = lathe::compile(c.program, compile);
    const double compile_seconds = seconds_since_begin() + std::exchange(device_seconds, 0);
    Compiled compiled(c, std::move(executable));
    Row row = start_row(c, compile, compiled.executable());
    row.max_error = compiled.verify(c.reference(c.inputs));
    row.verified = row.max_error <= compiled.tolerance();
    row.seconds = median_seconds({[&] { compiled.run(); }})[0];
    row.extra["compile_ms"] = compile_seconds * 1e3;
    row.extra["predicted_ms"] = compiled.executable().predicted_seconds() * 1e3;
    rows.push_back(std::move(row));
  }
  return report(rows, options);
}

int emit_command(const Options& options) {
  static const std::vector<std::string> targets{"c", "opencl", "cuda", "llvm", "asm", "ast", "graph", "dot", "moves"};
  if (std::find(targets.begin(), targets.end(), options.target) == targets.end())
    throw Error(ErrorKind::Value, "--target " + options.target + " is unknown, expected one of " +
                                      fmt::format("{}", fmt::join(targets, ", ")));
  if (options.workload == "all")
    throw Error(ErrorKind::Value, "emit all has no meaning, expected one workload");
  Selection chosen = select(options)[0];
  Options on_device = options;
  if (options.device.empty() && options.target == "opencl") on_device.device = "opencl";
  EmitOptions emit;
  emit.target = options.target;
  emit.compile = compile_options(on_device);
  emit.compile.use_database = options.tuned;
  Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
  if (options.tuned && !compile(c.program, emit.compile).tuned())
    throw Error(ErrorKind::Value, "--tuned: no schedule is stored for " + c.workload + " " +
                                      to_string(c.shape) + " on " + emit.compile.device +
                                      ", expected `lathe-bench tune` to have run");
  std::string source = lathe::emit(c.program, emit);
  if (options.json)
    source = Json({{"workload", c.workload},
                   {"shape", to_string(c.shape)},
                   {"target", emit.target},
                   {"source", source}})
                 .dump(2);
  if (source.empty() || source.back() != '\n') source += '\n';
  fmt::print("{}", source);
  return 0;
}

} // namespace lathe::bench
