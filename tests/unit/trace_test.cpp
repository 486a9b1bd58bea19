// Traces: what compile() writes, what is read back, and what becomes of a file that is cut or damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stop_token>

#include "compile/trace/json_line.hpp"
#include "compile/view/layout.hpp"
#include "compile/view/picture.hpp"
#include "compile/view/reader.hpp"
#include "lathe/executable.hpp"
#include "lathe/explain.hpp"
#include "lathe/scan.hpp"
#include "lathe/trace.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

std::string fresh(const std::string& name) {
  static const test::TemporaryDir folder;
  return folder.file(name);
}

/// Two kernels: a product with a bias, and a softmax of its rows.
NamedTensors rows() {
  const Tensor x = Tensor::input("x", {24, 40}), w = Tensor::input("w", {40, 32}),
               b = Tensor::input("b", {32});
  return {{"y", (x.matmul(w) + b).softmax(1)}};
}

CompileOptions traced(const std::string& path) {
  CompileOptions options = on(default_device(), 1);
  options.use_database = false;
  options.trace = path;
  return options;
}

/// Tunes until a few candidates are measured, and runs the program twice.
std::string tuned_trace() {
  static const std::string path = [] {
    const std::string made = fresh("tuned");
    CompileOptions options = traced(made);
    std::stop_source stop;
    TuneOptions tune;
    tune.stop = stop.get_token();
    tune.progress = [&](const TuneProgress& p) {
      if (p.measured >= 12) stop.request_stop();
    };
    options.tune = tune;
    const Executable program = compile(rows(), options);
    std::vector<float> x(24 * 40, 0.5f), w(40 * 32, 0.25f), b(32, 1), y(24 * 32);
    for (int run = 0; run < 2; ++run)
      program.run({{"x", x.data()}, {"w", w.data()}, {"b", b.data()}}, {{"y", y.data()}});
    return made;
  }();
  return path;
}

} // namespace

TEST_CASE("a trace of tuning has every kind of record, and its states replay to the hashes that they claim") {
  const TraceCheck check = check_trace(tuned_trace(), 1 << 20);
  for (const TraceFault& fault : check.faults) MESSAGE(fault.message);
  CHECK(check.faults.empty());
  CHECK(!check.cut);
  for (const char* kind :
       {"trace", "graph", "rewrite", "program", "search", "found", "plan", "root", "kernels", "kept",
        "measured", "chosen", "kernel", "memory", "machine", "explanation", "launch", "run", "pass"})
    CHECK_MESSAGE(check.records.contains(kind), kind);
  const auto contents = view::read_trace(tuned_trace());
  REQUIRE(contents.compilations.size() == 1);
  const view::Compilation& of = contents.compilations[0];
  CHECK(check.replayed == static_cast<int64_t>(of.states.size()));
  CHECK(check.replayed > 100);
  CHECK(std::ranges::count_if(of.states, [](const auto& s) { return s.second.measured > 0; }) >= 6);
  CHECK(of.chosen.how == "tuning");
}

TEST_CASE("launches and memory are those of the program") {
  const std::string path = fresh("runs");
  const Executable program = compile(rows(), traced(path));
  std::vector<float> x(24 * 40, 0.5f), w(40 * 32, 0.25f), b(32, 1), y(24 * 32);
  for (int run = 0; run < 3; ++run)
    program.run({{"x", x.data()}, {"w", w.data()}, {"b", b.data()}}, {{"y", y.data()}});
  const auto contents = view::read_trace(path);
  const view::Compilation& of = view::pick(contents, path, -1);
  REQUIRE(of.kernels.size() == program.kernel_count());
  std::map<int64_t, int> launches;
  for (const view::LaunchRecord& launch : of.launches) {
    ++launches[launch.kernel];
    CHECK(launch.end >= launch.start);
  }
  CHECK(launches[-1] == 3);
  for (size_t k = 0; k < of.kernels.size(); ++k) {
    CHECK(of.kernels[k].name == program.kernels()[k].name());
    CHECK(of.kernels[k].moves == program.kernels()[k].moves());
    CHECK(launches[static_cast<int64_t>(k)] == 3);
  }
  CHECK(of.arena_bytes == program.arena_bytes());
  for (const view::BufferRecord& a : of.buffers)
    for (const view::BufferRecord& b2 : of.buffers)
      if (&a != &b2 && a.home == "arena" && b2.home == "arena" && a.first <= b2.last && b2.first <= a.last)
        CHECK((a.offset + a.bytes <= b2.offset || b2.offset + b2.bytes <= a.offset));
}

TEST_CASE("an explanation in a trace is that of explain(), with the times of the runs") {
  const std::string path = fresh("why");
  const Executable program = compile(rows(), traced(path));
  const auto read = [&] { return view::read_trace(path).compilations.at(0); };
  const Explanation want = explain(program), predicted = view::explanation(read());
  REQUIRE(predicted.kernels.size() == program.kernel_count());
  CHECK(to_json(predicted.savings) == to_json(want.savings));
  for (size_t k = 0; k < want.kernels.size(); ++k)
    CHECK(to_string(predicted.kernels[k]) == to_string(want.kernels[k]));

  std::vector<float> x(24 * 40, 0.5f), w(40 * 32, 0.25f), b(32, 1), y(24 * 32);
  program.run({{"x", x.data()}, {"w", w.data()}, {"b", b.data()}}, {{"y", y.data()}});
  const view::Compilation of = read();
  const Explanation measured = view::explanation(of);
  for (size_t k = 0; k < want.kernels.size(); ++k) {
    CHECK(measured.kernels[k].measured == view::median_seconds(of, k));
    CHECK(measured.kernels[k].measured > 0);
    const std::string text = print_trace(path, {.picture = "kernel", .kernel = want.kernels[k].name});
    CHECK(text.find(to_string(measured.kernels[k])) != std::string::npos);
  }
  CHECK(to_json(measured.savings) == to_json(largest_savings(measured.kernels)));

  // An explanation of other kernels is a fault of its line.
  std::string damaged = test::bytes_of(path);
  const size_t at = damaged.find("\"kernel\":\"", damaged.find("\"k\":\"explanation\""));
  REQUIRE(at != std::string::npos);
  test::write_file(path, damaged.insert(at + 10, "no_"));
  CHECK(check_trace(path, 0).faults.size() == 1);
}

TEST_CASE("borders of every kind are read back as they were written") {
  using Tried = KernelBorder::Tried;
  const std::string path = fresh("borders");
  std::vector<KernelExplanation> kernels = explain(compile(rows(), traced(path))).kernels;
  const KernelBorder never{.other = "a", .stage = "b"};
  KernelBorder known = never, refused = never, apart = never;
  known.reason = "b is an output";
  refused.tried = Tried::BySearch, refused.reason = "no loop of that size";
  apart.tried = Tried::Again, apart.legal = true, apart.moves = "inline(b)", apart.apart = 1e-6,
  apart.together = 2e-6;
  kernels.at(0).borders = {never, known, refused, apart};
  std::string trace;
  std::istringstream lines(test::bytes_of(path));
  for (std::string line; std::getline(lines, line); trace += line + "\n") {
    auto record = nlohmann::ordered_json::parse(line);
    if (record["k"] != "explanation") continue;
    record["kernels"] = nlohmann::ordered_json::parse(to_json(kernels));
    line = record.dump();
  }
  test::write_file(path, trace);
  REQUIRE(check_trace(path, 0).faults.empty());
  const Explanation read = view::explanation(view::read_trace(path).compilations.at(0));
  CHECK(to_string(read.kernels.at(0)) == to_string(kernels.at(0)));
}

TEST_CASE("a recurrence's record has the loops and sources of its steps") {
  const std::string path = fresh("recurrence");
  const Tensor x = Tensor::input("x", {300, 8});
  const Scanned scanned = scan(
      [](const std::vector<Tensor>& states, const std::vector<Tensor>& rows) {
        const Tensor next = (states[0] * 0.5f + rows[0]).tanh();
        return ScanStep{{next}, {next}};
      },
      {Tensor::zeros({8})}, {x});
  compile({{"y", scanned.stacked[0]}}, traced(path));
  size_t recurrences = 0;
  const view::Compilation of = view::read_trace(path).compilations.at(0);
  for (const view::KernelRecord& kernel : of.kernels)
    for (const auto& [language, text] : kernel.sources) {
      if (language == "body") CHECK((++recurrences, text.find("kernel ") != std::string::npos));
      CHECK(!text.empty());
    }
  CHECK(recurrences == 1);
}

TEST_CASE("what the pool's threads do of a launch is within it") {
  const std::string path = fresh("parts");
  CompileOptions options = traced(path);
  options.threads = 2;
  const Tensor x = Tensor::input("x", {1 << 21});
  const Executable program = compile({{"y", (x * 2.0 + 1.0).exp()}}, options);
  std::vector<float> in(1 << 21, 0.5f), out(1 << 21);
  for (int run = 0; run < 20; ++run) program.run({{"x", in.data()}}, {{"y", out.data()}});
  const view::Compilation of = view::read_trace(path).compilations.at(0);
  size_t parts = 0;
  double last = 0; // end of the last part; the run ends after it
  const view::LaunchRecord* launch = nullptr;
  for (const view::LaunchRecord& record : of.launches) {
    if (record.kernel < 0) {
      CHECK(last <= record.end);
      continue;
    }
    if (!record.is_part) {
      launch = &record;
      continue;
    }
    ++parts;
    REQUIRE(launch);
    CHECK(record.kernel == launch->kernel);
    CHECK(record.thread != launch->thread);
    CHECK(record.start >= launch->start);
    CHECK(record.end >= record.start);
    last = record.end;
  }
  const bool is_parallel = std::ranges::any_of(
      program.kernels()[0].moves(), [](const std::string& move) { return move.starts_with("parallel"); });
  if (default_device() == "cpu" && is_parallel) CHECK(parts > 0);
}

TEST_CASE("the rules of a trace lead from the graph given to the graph simplified") {
  const std::string path = fresh("rules");
  const Tensor x = Tensor::input("x", {8, 8});
  // x * 1 + 0 twice over, and a sum of both: rules take most of it away.
  compile({{"y", (x * 1.0 + 0.0).exp() + (x * 1.0).exp()}}, traced(path));
  const auto contents = view::read_trace(path);
  const view::RewritePicture picture = view::rewrite_picture(contents.compilations.at(0));
  REQUIRE(picture.steps.size() > 2);
  // Each step changes the live nodes by what it says; a pass changes nothing that its rules have not changed.
  std::map<int, std::vector<int>> live; // with what they read
  const auto add = [&](int node) {
    CHECK(live.emplace(node, picture.nodes[static_cast<size_t>(node)].sources).second);
  };
  for (const int node : picture.live) add(node);
  for (const view::RewriteStep& step : picture.steps) {
    for (const int node : step.removed) CHECK(live.erase(node) == 1);
    for (const int node : step.added) add(node);
    for (const auto& [node, sources] : step.rewired) {
      CHECK(live.contains(node));
      live[node] = sources;
    }
    for (const auto& [node, sources] : live)
      for (const int source : sources) CHECK(live.contains(source));
    if (step.before < 0) CHECK(step.added.empty());
  }
  CHECK(live.size() < picture.live.size());
  // exp() stays the node that it is while what it reads is replaced.
  const auto is_exp = [&](int node) { return picture.nodes[static_cast<size_t>(node)].op == "Exp2"; };
  const auto in_all = static_cast<size_t>(
      std::ranges::count_if(picture.nodes, [](const auto& node) { return node.op == "Exp2"; }));
  CHECK(in_all == static_cast<size_t>(std::ranges::count_if(picture.live, is_exp)));
}

TEST_CASE("a cut trace gives what is whole; a damaged one says which lines are not") {
  const std::string whole = test::bytes_of(tuned_trace()), path = fresh("cut");
  test::write_file(path, whole.substr(0, whole.size() - 7));
  const TraceCheck cut = check_trace(path, 10);
  CHECK(cut.cut);
  CHECK(cut.faults.empty());
  CHECK(print_trace(path, {.picture = "search"}).find("best so far") != std::string::npos);

  // Any cut, also in the middle of the first line, and lines of the middle damaged.
  const size_t first = whole.find('\n');
  for (const size_t at : {size_t{0}, size_t{5}, first, first + 1, whole.size() / 3, whole.size() / 2}) {
    test::write_file(path, whole.substr(0, at));
    if (at <= first) {
      CHECK_THROWS_AS(print_trace(path), Error);
      continue;
    }
    CHECK_NOTHROW(check_trace(path, 50));
    for (const char* picture : {"graph", "rewrites", "search", "timeline", "arena"})
      CHECK_NOTHROW(print_trace(path, {.picture = picture}));
  }
  std::vector<std::string> lines;
  std::istringstream in(whole);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (size_t k = 1; k < lines.size(); k += std::max<size_t>(1, lines.size() / 12)) {
    std::string damaged;
    for (size_t j = 0; j < lines.size(); ++j)
      damaged += (j == k ? lines[j].substr(0, lines[j].size() / 2) : lines[j]) + "\n";
    test::write_file(path, damaged);
    const TraceCheck check = check_trace(path, 20);
    REQUIRE(!check.faults.empty());
    CHECK(check.faults[0].line == static_cast<int64_t>(k + 1));
    CHECK_NOTHROW(write_trace_page({path}, path + ".html"));
  }
}

TEST_CASE("a state with another hash, and moves that are not legal, are faults of their line") {
  const std::string whole = test::bytes_of(tuned_trace()), path = fresh("states");
  std::string text = whole;
  const size_t root = text.find("\"k\":\"root\""), hash = text.find("\"hash\":\"", root) + 8;
  text[hash] = text[hash] == '0' ? '1' : '0';
  test::write_file(path, text);
  const TraceCheck check = check_trace(path, 1 << 20);
  REQUIRE(!check.faults.empty());
  CHECK(check.faults[0].line == 1 + std::ranges::count(text.substr(0, root), '\n'));
  CHECK(check.faults[0].message.find("hash") != std::string::npos);
}

TEST_CASE("no trace, no file, no such picture: typed errors") {
  CHECK_THROWS_AS(check_trace(fresh("absent")), Error);
  CHECK_THROWS_AS(check_trace(fs::temp_directory_path().string()), Error);
  CHECK_THROWS_AS(print_trace(tuned_trace(), {.picture = "poem"}), Error);
  CHECK_THROWS_AS(print_trace(tuned_trace(), {.picture = "kernel", .kernel = "nobody"}), Error);
  CHECK_THROWS_AS(print_trace(tuned_trace(), {.compilation = 7}), Error);
  CHECK_THROWS_AS(write_trace_page({tuned_trace()}, "/proc/nobody/out.html"), Error);
  CHECK_THROWS_AS(compile(rows(), traced("/proc/nobody/trace")), Error);
  const Tensor x = Tensor::input("x", {4});
  if (fs::exists("/dev/full")) CHECK_THROWS_AS(compile({{"y", x + 1.0}}, traced("/dev/full")), Error);
}

TEST_CASE("the text of a record parses to what was written") {
  std::string text = "what an earlier record left";
  const search::Move move = search::parse_move("split(t0.i0, 4)");
  tracing::JsonLine line(text);
  line.open('{').key("a").open('[').number(-3).seconds(1.23456e-7).seconds(-1).hash(255).close(']');
  line.key("s")
      .string("a\"b\\\n\xff")
      .key("m")
      .open('[')
      .move(move)
      .move(move)
      .close(']')
      .key("t")
      .microseconds(0.25)
      .close('}');
  const auto json = nlohmann::json::parse(text);
  CHECK(json["a"] == nlohmann::json::parse(R"([-3, 1.2346e-07, 0, "00000000000000ff"])"));
  CHECK(json["s"] == "a\"b\\\n\xef\xbf\xbd");
  CHECK(json["m"] == nlohmann::json{"split(t0.i0, 4)", "split(t0.i0, 4)"});
  CHECK(json["t"] == 0.25);
}

TEST_CASE("compilations append; each is found by its number") {
  const std::string path = fresh("two");
  const Tensor x = Tensor::input("x", {16});
  compile({{"a", x + 1.0}}, traced(path));
  compile({{"b", x.exp()}}, traced(path));
  const auto contents = view::read_trace(path);
  REQUIRE(contents.compilations.size() == 2);
  CHECK(print_trace(path, {.compilation = 0}) != print_trace(path, {.compilation = 1}));
  CHECK(print_trace(path) == print_trace(path, {.compilation = 1}));
}

TEST_CASE("a layout puts sources above their users, and nodes of a layer side by side") {
  // A ladder of 200 rungs with legs that cross.
  view::Layered graph;
  for (int n = 0; n < 400; ++n) {
    std::vector<int> sources;
    if (n >= 2) sources = {n - 2 + (n % 4 < 2 ? 1 - 2 * (n % 2) : 0)};
    if (n >= 7) sources.push_back(n - 7);
    graph.sources.push_back(sources);
    graph.widths.push_back(20 + n % 5 * 10);
  }
  const view::Places places = view::lay_out(graph, 10);
  for (size_t n = 0; n < graph.sources.size(); ++n) {
    for (const int source : graph.sources[n])
      CHECK(places.layers[static_cast<size_t>(source)] < places.layers[n]);
    for (size_t other = 0; other < n; ++other)
      if (places.layers[n] == places.layers[other])
        CHECK(std::abs(places.x[n] - places.x[other]) >= (graph.widths[n] + graph.widths[other]) / 2 + 9.99);
    CHECK(places.x[n] >= graph.widths[n] / 2 - 0.01);
    CHECK(places.x[n] <= places.width);
  }
}
