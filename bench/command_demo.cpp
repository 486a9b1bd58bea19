// lathe-bench demo: the main job, digits by nearest neighbour, tuned live and checked on every device.
#include <fmt/format.h>

#include "commands.hpp"

namespace lathe::bench {

int demo_command(const Options& given) {
  Options options = given;
  options.workload = "digits";
  const Selection chosen = select(options)[0];
  Case c = make_case(*chosen.workload, chosen.shape, DType::F32);
  Reference want = c.reference(c.inputs);
  auto say = [&](const std::string& text) {
    if (!options.json) fmt::print("{}", text), std::fflush(stdout);
  };
  say(fmt::format("1,797 handwritten digits: {} by their nearest neighbour among {} others,\n"
                  "as one tensor program: distances through a matrix product, then argmin.\n\n",
                  c.shape[1], c.shape[0]));

  Tuned tuned = tune_case(c, want, options);
  say("\nthe schedule that won:\n" + schedule_text(tuned.executable) + "\n");

  std::vector<Row> rows;
  CompileOptions compile = compile_options(options);
  Row untuned = tuned.row;
  untuned.tuned = false;
  untuned.seconds = tuned.untuned_seconds;
  untuned.extra = Json::object();
  rows = {untuned, tuned.row};

  bool right = true;
  Json counts = Json::object();
  for (const DeviceInfo& device : devices()) {
    if (!device.available) {
      say(fmt::format("{:<8} absent: {}\n", device.name, device.detail));
      continue;
    }
    compile.device = device.name;
    Compiled compiled(c, compile);
    double error = compiled.verify(want);
    auto correct = static_cast<int64_t>(compiled.outputs().at("correct").get(0));
    right = right && error == 0;
    counts[device.name] = correct;
    say(fmt::format("{:<8} {}/{} right{}\n", device.name, correct, c.shape[1],
                    error == 0 ? "" : ", but not the neighbours of the plain search"));
  }
  say("\n");
  rows[1].extra["correct"] = counts;
  return report(rows, options) || !right;
}

} // namespace lathe::bench
