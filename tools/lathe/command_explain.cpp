// lathe explain: why a model's kernels are as they are, and what would save most time.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lathe/explain.hpp"
#include "lathe/profile.hpp"
#include "loaded.hpp"

namespace lathe::tool {

int explain_command(const Options& options) {
  const Loaded program = load_program(options);
  std::map<std::string, double> measured; // by kernel
  if (!options.inputs.empty() || options.random) {
    const onnx::NamedValues inputs = read_inputs(program.inputs, options);
    program.run(inputs); // the first run of a kernel is not like others
    Profile profile;
    for (int run = 0; run < options.runs; ++run) program.run(inputs);
    for (const LaunchTime& launch : profile.launches())
      measured[launch.kernel] += launch.seconds / options.runs;
  }
  const std::vector<Executable> segments = program.segments();
  if (segments.empty())
    throw Error(ErrorKind::Value, options.model + ": its shapes depend on what it is fed; give inputs with "
                                                  "--input or --random");
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Executable& segment : segments) {
    const Explanation explanation = explain(segment, measured);
    if (options.json) {
      json.push_back({{"kernels", nlohmann::ordered_json::parse(to_json(explanation.kernels))},
                      {"savings", nlohmann::ordered_json::parse(to_json(explanation.savings))}});
      continue;
    }
    for (const KernelExplanation& kernel : explanation.kernels) fmt::print("{}", to_string(kernel));
    fmt::print("{}", to_string(explanation.savings));
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::tool
