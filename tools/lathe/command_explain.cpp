// lathe explain: why a model's kernels are as they are, and what would save most time.
#include <fmt/format.h>

#include "cli/explanation.hpp"
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
      auto kernels = nlohmann::ordered_json::array();
      for (const KernelExplanation& kernel : explanation.kernels) kernels.push_back(cli::json_of(kernel));
      json.push_back({{"kernels", kernels}, {"savings", cli::json_of(explanation.savings)}});
      continue;
    }
    for (const KernelExplanation& kernel : explanation.kernels) fmt::print("{}", cli::text_of(kernel));
    fmt::print("{}", cli::text_of(explanation.savings));
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::tool
