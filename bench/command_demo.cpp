// lathe-bench demo: the main job, digits by nearest neighbour, tuned live, checked on every device, beside
// Eigen and beside fixed rules of fusion; three more programs beside the same; and a page that shows what was
// done.
#include <fmt/format.h>

#include <filesystem>

#include "baseline.hpp"
#include "commands.hpp"
#include "lathe/trace.hpp"
#include "temporary_dir.hpp"
#include "timing.hpp"

namespace lathe::bench {

namespace {

namespace fs = std::filesystem;

/// A program of the demo, and the shares of the budget that its own search and that by fixed rules get.
struct Part {
  const char* workload;
  Sizes shape; ///< empty: the default
  double share, share_of_rules;
};
const Part kParts[] = {{"digits", {}, 0.3, 0.15},
                       {"softmax", {1024, 1024}, 0.1, 0.1},
                       {"layernorm", {1024, 768}, 0.075, 0.075},
                       {"attention", {}, 0.1, 0.1}};

class Demo {
public:
  explicit Demo(const Options& options)
      : options_(options), budget_(parse_seconds("--budget", options.budget)) {}

  int run() {
    trace_ = folder_.path() + "/demo.trace";
    for (const Part& part : kParts) {
      const Workload& workload = find_workload(part.workload);
      const Case c = make_case(workload, part.shape.empty() ? workload.shapes[0] : part.shape, DType::F32);
      const bool is_first = &part == kParts;
      if (is_first)
        say(fmt::format(
            "1,797 handwritten digits: {} by their nearest neighbour among {} others, as one tensor\n"
            "program: distances through a matrix product, then argmin. And three programs more.\n\n",
            c.shape[1], c.shape[0]));
      const Reference want = c.reference(c.inputs);
      const Tuned tuned = tuned_of(c, want, part);
      if (is_first) {
        say("the schedule that won:\n" + schedule_text(tuned.executable) + "\n");
        check_devices(c, want);
      }
      rows_.push_back(row_of(c, want, tuned, part));
      say(line_of(rows_.back()));
    }
    say("(times of lathe's program; x: how many times as long the other one takes)\n\n");
    if (!options_.json) {
      write_trace_page({trace_}, options_.page);
      say(fmt::format("graph, search and kernels of the digits: open {}\n",
                      fs::absolute(options_.page).lexically_normal().string()));
    }
    const bool is_reported = options_.json ? report(rows_, options_) != 0 : !all_verified(rows_);
    return is_reported || !right_;
  }

private:
  void say(const std::string& text) const {
    if (!options_.json) fmt::print("{}", text), std::fflush(stdout);
  }

  Tuned tuned_of(const Case& c, const Reference& want, const Part& part) const {
    Options own = options_;
    own.budget = fmt::format("{:.3f}s", budget_ * part.share);
    own.trace = &part == kParts && !options_.json ? trace_ : "";
    return tune_case(c, want, own);
  }

  /// The digits as every device classifies them.
  void check_devices(const Case& c, const Reference& want) {
    CompileOptions compile = compile_options(options_);
    for (const DeviceInfo& device : devices()) {
      if (!device.available) {
        say(fmt::format("{:<8} absent: {}\n", device.name, device.detail));
        continue;
      }
      compile.device = device.name;
      Compiled compiled(c, compile);
      const double error = compiled.verify(want);
      const auto correct = static_cast<int64_t>(compiled.outputs().at("correct").get(0));
      right_ = right_ && error == 0;
      correct_[device.name] = correct;
      say(fmt::format("{:<8} {}/{} right{}\n", device.name, correct, c.shape[1],
                      error == 0 ? "" : ", but not the neighbours of the plain search"));
    }
    say(fmt::format("\n{:<22} {:>10} {:>18} {:>18} {:>18}\n", "", "lathe", "untuned", "fixed rules",
                    "Eigen"));
  }

  /// Times the tuned program in turns with the untuned one, that of fixed rules, and Eigen.
  Row row_of(const Case& c, const Reference& want, const Tuned& tuned, const Part& part) {
    CompileOptions with = compile_options(options_);
    with.use_database = false;
    TuneOptions tune;
    tune.budget_seconds = budget_ * part.share_of_rules;
    tune.beam = options_.beam;
    tune.seed = options_.seed;
    Compiled own(c, tuned.executable), untuned(c, with),
        rules(c, compiled_by(Baseline::FixedRules, c.program, with, tune));
    Row row = tuned.row;
    for (Compiled* program : {&own, &untuned, &rules})
      row.verified = row.verified && program->verify(want) <= program->tolerance();
    std::deque<Case> copies;
    const std::vector<Contender> eigen = verified_contenders(c, want, {eigen_peer()}, with, copies);
    std::vector<std::string> names{"untuned", "fixed rules"};
    std::vector<std::function<void()>> calls{[&] { own.run(); }, [&] { untuned.run(); },
                                             [&] { rules.run(); }};
    for (const Contender& contender : eigen) names.push_back(contender.name), calls.push_back(contender.run);
    const std::vector<double> times = median_seconds(calls);
    row.seconds = times[0];
    row.extra["untuned_ms"] = times[1] * 1e3;
    row.extra["speedup"] = times[1] / times[0];
    if (&part == kParts) row.extra["correct"] = correct_;
    for (size_t k = 0; k < names.size(); ++k) row.peers.push_back({names[k], times[k + 1]});
    return row;
  }

  static std::string line_of(const Row& row) {
    std::string line =
        fmt::format("{:<22} {:>10}", row.workload + " " + to_string(row.shape), duration(row.seconds));
    for (const PeerTime& peer : row.peers)
      line += fmt::format(" {:>10} {:>6.2f}x", duration(peer.seconds), peer.seconds / row.seconds);
    return line + (row.verified ? "\n" : "  WRONG\n");
  }

  const Options& options_;
  const double budget_;
  const TemporaryDir folder_;
  std::string trace_;
  std::vector<Row> rows_;
  Json correct_ = Json::object(); // by device
  bool right_ = true;
};

} // namespace

int demo_command(const Options& options) { return Demo(options).run(); }

} // namespace lathe::bench
