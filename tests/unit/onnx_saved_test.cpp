// Programs of models with control flow, saved and loaded: the same values on ways that were taken before and
// on new ones, in this process and in another; and files that are not whole.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "lathe/profile.hpp"
#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Program;
using onnx::Value;
namespace fs = std::filesystem;

namespace {

Tensor flag(bool value) { return Tensor::full({}, value); }
Tensor integer(int64_t value) { return Tensor::full({}, value); }
Tensor number(float value) { return Tensor::full({}, value); }
Tensor vector(const std::vector<float>& values) { return Tensor::from(values); }

struct Sample {
  std::string name, bytes;         // of the model
  std::vector<NamedValues> inputs; // each takes a way of its own through it
};

Sample branches() {
  Graph inner_then, inner_else, outer_then, outer_else, g;
  inner_then.node("Add", {"middle", "x"}, {"in_then"}).output("in_then");
  inner_else.node("Sub", {"middle", "w"}, {"in_else"}).output("in_else");
  outer_then.node("Mul", {"x", "w"}, {"middle"});
  outer_then.node("If", {"inner"}, {"out_then"},
                  {attribute("then_branch", inner_then), attribute("else_branch", inner_else)});
  outer_then.output("out_then");
  outer_else.initialiser<float>("offsets", {2}, {100, 200});
  outer_else.node("Sub", {"offsets", "x"}, {"out_else"}).output("out_else");
  g.input("outer", DType::Bool).input("inner", DType::Bool).input("x", DType::F32, {2});
  g.initialiser<float>("w", {2}, {7, 11});
  g.node("If", {"outer"}, {"y"},
         {attribute("then_branch", outer_then), attribute("else_branch", outer_else)});
  g.output("y");
  Sample sample{"branches", model(g), {}};
  for (const auto& [outer, inner] : {std::pair(true, false), {false, false}, {true, true}})
    sample.inputs.push_back({{"outer", flag(outer)}, {"inner", flag(inner)}, {"x", vector({3, 5})}});
  return sample;
}

/// How often its Loop runs depends on what it computes; the sums of each step are an output.
Sample loop() {
  Graph body, g;
  body.input("i", DType::I64).input("go", DType::Bool).input("state", DType::F32, {2});
  body.node("Mul", {"state", "factors"}, {"next"});
  body.node("ReduceSum", {"next"}, {"sum"}, {attribute("keepdims", 0)});
  body.node("Less", {"sum", "bound"}, {"go_on"});
  body.output("go_on", DType::Bool).output("next").output("sum");
  g.input("x", DType::F32, {2}).input("bound", DType::F32).initialiser<float>("factors", {2}, {2, 3});
  g.node("Loop", {"", "", "x"}, {"y", "sums"}, {attribute("body", body)});
  g.output("y").output("sums");
  Sample sample{"loop", model(g), {}};
  for (const float bound : {20.f, 1.f, 400.f})
    sample.inputs.push_back({{"x", vector({1, 2})}, {"bound", number(bound)}});
  return sample;
}

/// A trip count that is fed, down to none at all, and a function in the body.
Sample trips() {
  Function grow("my.ops", "Grow", {"a"}, {"b"});
  grow.takes(attribute("slope", 0.5));
  grow.node("LeakyRelu", {"a"}, {"b"}, {reference("alpha", "slope", Attribute::FLOAT)});
  Graph body, g;
  body.input("i", DType::I64).input("go", DType::Bool).input("state", DType::F32, {2});
  body.node("Grow", {"state"}, {"next"}, {}, "my.ops").node("Identity", {"go"}, {"go_on"});
  body.node("Identity", {"next"}, {"seen"});
  body.output("go_on", DType::Bool).output("next").output("seen");
  g.input("trips", DType::I64).input("x", DType::F32, {2});
  g.node("Loop", {"trips", "", "x"}, {"last", "all"}, {attribute("body", body)});
  g.output("last").output("all");
  Sample sample{"trips", model(g, 17, {grow}, {"my.ops"}), {}};
  for (const int64_t count : {2, 0, 5})
    sample.inputs.push_back({{"trips", integer(count)}, {"x", vector({-16, 3})}});
  return sample;
}

/// Sequences in and out, a shape that is fed, and sizes of which each set has a tree of its own.
Sample sequences() {
  Graph g;
  g.input_sequence("list", DType::F32).input("x", DType::F32, {"n"}).input("shape", DType::I64, {2});
  g.node("Reshape", {"x", "shape"}, {"table"}).node("SequenceInsert", {"list", "table"}, {"longer"});
  g.node("SequenceLength", {"longer"}, {"length"}).node("NonZero", {"x"}, {"where"});
  g.node("SequenceEmpty", {}, {"none"}, {attribute("dtype", 1)});
  g.output("longer").output("length", DType::I64).output("where", DType::I64).output("none");
  Sample sample{"sequences", model(g), {}};
  const Value list = Value::sequence(DType::F32, {vector({1}), vector({2, 3})});
  const auto feed = [&](const Value& first, const std::vector<float>& x, int64_t rows) {
    sample.inputs.push_back(
        {{"list", first}, {"x", vector(x)}, {"shape", Tensor::from({rows, int64_t{-1}})}});
  };
  feed(list, {1, 0, 3, 4}, 2);
  feed(list, {1, 0, 3, 4}, 4);
  feed(Value::sequence(DType::F32, {}), {0, 0, 0, 0, 0, 6}, 3);
  return sample;
}

/// One program for all sizes; one of its outputs is computed of the sizes alone, another is constant.
Sample sizes() {
  Graph g;
  g.input("x", DType::F32, {"n", 3}).initialiser<float>("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  g.node("MatMul", {"x", "w"}, {"y"}).node("Shape", {"x"}, {"shape"});
  g.node("Identity", {"w"}, {"same"});
  g.output("y").output("shape", DType::I64, Dims{2}).output("same");
  Sample sample{"sizes", model(g), {}};
  for (const int64_t n : {2, 5, 1}) sample.inputs.push_back({{"x", Tensor::randn({n, 3}, 1).realise()}});
  return sample;
}

std::vector<Sample> samples() { return {branches(), loop(), trips(), sequences(), sizes()}; }

void check_same(const NamedValues& got, const NamedValues& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    CHECK(onnx::compare(got.at(name), value, 0.0).why == "");
  }
}

CompileOptions small(const std::string& device) { return {.device = device, .threads = 1}; }

} // namespace

TEST_CASE("a loaded program goes the ways that were taken, and makes those that were not") {
  const test::TemporaryDir folder;
  for (const std::string& device : {std::string("interp"), present_devices().front()})
    for (const Sample& sample : samples()) {
      CAPTURE(sample.name);
      set_default_device(device);
      const onnx::ImportOptions options{.compile = small(device),
                                        .versions = 0}; // which depend on the calls before
      const Program fresh = load(sample.bytes).compile(options), saved = load(sample.bytes).compile(options);
      std::vector<NamedValues> expected;
      for (const NamedValues& inputs : sample.inputs) expected.push_back(fresh(inputs));
      // With the first `taken` ways in the file.
      for (size_t taken = 0; taken <= sample.inputs.size(); ++taken) {
        CAPTURE(taken);
        if (taken > 0) saved(sample.inputs[taken - 1]);
        onnx::save(saved, folder.file("p.lathe"));
        const Program loaded = onnx::load_program(folder.file("p.lathe"));
        CHECK(loaded.print() == saved.print());
        CHECK(loaded.segments().size() == saved.segments().size());
        for (size_t k = 0; k < taken; ++k) check_same(loaded(sample.inputs[k]), expected[k]);
        CHECK(loaded.segments().size() == saved.segments().size());
        for (size_t k = 0; k < sample.inputs.size(); ++k) check_same(loaded(sample.inputs[k]), expected[k]);
        CHECK(loaded.print().size() == fresh.print().size());
        // What was loaded and went on can be saved again.
        onnx::save(loaded, folder.file("q.lathe"));
        const Program again = onnx::load_program(folder.file("q.lathe"));
        for (size_t k = 0; k < sample.inputs.size(); ++k) check_same(again(sample.inputs[k]), expected[k]);
        CHECK(again.segments().size() == fresh.segments().size());
      }
    }
}

TEST_CASE("another process goes on with a saved program") {
  const test::TemporaryDir folder;
  for (const Sample& sample : samples()) {
    CAPTURE(sample.name);
    const Program program = load(sample.bytes).compile({.compile = small("interp")});
    program(sample.inputs[0]);
    onnx::save(program, folder.file(sample.name));
  }
  const std::string command = "LATHE_LOAD_FOLDER=" + folder.path.string() + " " +
                              fs::read_symlink("/proc/self/exe").string() +
                              " --no-skip --test-case='only started by the test above' > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("only started by the test above" * doctest::skip()) {
  const char* folder = std::getenv("LATHE_LOAD_FOLDER");
  REQUIRE(folder);
  set_default_device("interp");
  for (const Sample& sample : samples()) {
    CAPTURE(sample.name);
    const Program loaded = onnx::load_program((fs::path(folder) / sample.name).string());
    const Program fresh = load(sample.bytes).compile({.compile = small("interp")});
    for (const NamedValues& inputs : sample.inputs) check_same(loaded(inputs), fresh(inputs));
  }
}

TEST_CASE("weights that the model and its segments share are in the file once") {
  const test::TemporaryDir folder;
  Graph then_body, else_body, g;
  std::vector<float> weights(64 * 1024);
  for (size_t k = 0; k < weights.size(); ++k) weights[k] = static_cast<float>(k % 17);
  then_body.node("MatMul", {"x", "w"}, {"a"}).output("a");
  else_body.node("Add", {"x", "x"}, {"twice"}).node("MatMul", {"twice", "w"}, {"b"}).output("b");
  g.input("c", DType::Bool).input("x", DType::F32, {64}).initialiser<float>("w", {64, 1024}, weights);
  g.node("If", {"c"}, {"y"}, {attribute("then_branch", then_body), attribute("else_branch", else_body)});
  g.output("y");
  const Program program = load(model(g)).compile({.compile = small("interp")});
  for (const bool c : {true, false}) program({{"c", flag(c)}, {"x", Tensor::randn({64}, 1).realise()}});
  onnx::save(program, folder.file("p.lathe"));
  CHECK(fs::file_size(folder.file("p.lathe")) < weights.size() * 4 * 5 / 4);
}

TEST_CASE("the instructions of all segments are one numbered list") {
  const Sample sample = branches();
  const Program program = load(sample.bytes).compile({.compile = small("interp")});
  for (const NamedValues& inputs : sample.inputs) program(inputs);
  const std::string text = program.print();
  INFO(text);
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count("return y = ") == 3);
  CHECK(count("jump ") == 5);  // one set of shapes, two ways and two more
  CHECK(count("look ") == 3);  // at the shapes, and two conditions
  CHECK(count("trace ") == 3); // where a way would be new
  CHECK(count("launch ") == 3);
  CHECK(text.rfind("   0  look at the inputs' shapes\n   1  jump 3 if ", 0) == 0);
}

TEST_CASE("a profile has one event an instruction") {
  const Sample sample = branches();
  const Program program = load(sample.bytes).compile({.compile = small("interp")});
  const auto instructions = [&] {
    Profile profile;
    program(sample.inputs[0]);
    std::map<double, std::string> by_start;
    for (const LaunchTime& launch : profile.launches()) by_start[launch.start] = "launch";
    for (const InstructionTime& other : profile.others()) {
      CHECK(other.seconds >= 0);
      by_start[other.start] = other.instruction;
    }
    std::vector<std::string> names;
    for (const auto& [start, name] : by_start) names.push_back(name);
    return names;
  };
  const std::vector<std::string> first = instructions();
  CHECK(std::count(first.begin(), first.end(), "trace") == 1);
  CHECK(instructions() ==
        std::vector<std::string>{"look", "jump", "look", "jump", "alloc", "launch", "free", "return"});
}

TEST_CASE("damaged files and foreign ones are errors that name them") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("p.lathe");
  const Sample sample = loop();
  const Program program = load(sample.bytes).compile({.compile = small("interp")});
  program(sample.inputs[0]);
  onnx::save(program, path);
  const std::string whole = bytes_of(path);
  const auto message_for = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return message_of([&] { onnx::load_program(path); });
  };
  CHECK(message_for(whole) == "");
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    std::string bytes = whole;
    const size_t at = trial < 72 ? static_cast<size_t>(trial) : random() % whole.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    CAPTURE(at);
    CHECK(message_for(bytes).rfind(path, 0) == 0);
    CHECK(message_for(whole.substr(0, at)).rfind(path, 0) == 0);
  }
  // Whole, but not what it should be: each text is read, or refused with an error that names the file.
  const SavedParts good = (message_for(whole), load_parts(path));
  for (int trial = 0; trial < 2000; ++trial) {
    SavedParts bad = good;
    const size_t at = random() % bad.text.size();
    switch (trial % 3) {
    case 0: bad.text[at] = static_cast<char>(random()); break;
    case 1: bad.text.resize(at); break;
    default: bad.text.erase(at, 1 + random() % 8);
    }
    lathe::save(bad, path);
    const std::string message = message_of([&] { onnx::load_program(path); });
    CHECK_MESSAGE((message.empty() || message.rfind(path, 0) == 0), message);
  }
  for (SavedParts bad : {SavedParts{good.format, good.text, {}, good.tensors},
                         SavedParts{good.format, good.text, good.programs, {}}, SavedParts{good.format}}) {
    lathe::save(bad, path);
    CHECK(message_of([&] { onnx::load_program(path); }).rfind(path, 0) == 0);
  }
  lathe::save(good.programs[0], path);
  CHECK(message_of([&] { onnx::load_program(path); }).find("format ''") != std::string::npos);
  CHECK(message_of([&] { onnx::save(program, path + "/none"); }) != "");
}
