// States: what programs do to them, against the plain program of the same values.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/state_programs.hpp"

using namespace lathe;
using test::check_error;

namespace {

/// Small whole numbers for the program's inputs.
NamedTensors whole_inputs(const Executable& program, std::mt19937_64& random) {
  NamedTensors inputs;
  for (const KernelParam& input : program.inputs()) {
    std::vector<float> values(static_cast<size_t>(num_elements(input.shape).value()));
    for (float& v : values) v = static_cast<float>(random() % 9) - (is_float(input.dtype) ? 4 : 0);
    inputs.emplace(input.name, Tensor::from(values, input.shape).cast(input.dtype).realise());
  }
  return inputs;
}

void check_same(const Tensor& got, const Tensor& want) {
  CHECK(got.shape() == want.shape());
  CHECK(got.to_vector<float>() == want.to_vector<float>());
}

/// Runs some steps of both programs and compares all that they give.
void check_steps(const test::StateProgram& program, const Executable& step, uint64_t seed) {
  CAPTURE(program.name);
  NamedTensors outputs;
  for (const auto& [name, value] : program.functional()) outputs.emplace("next_" + name, value);
  std::mt19937_64 random(seed);
  const Executable plain = compile(outputs, on("interp"));
  NamedTensors now;
  for (const auto& [name, state] : step.states()) now.emplace(name, state.read());
  for (int k = 0; k < 4; ++k) {
    CAPTURE(k);
    NamedTensors inputs = whole_inputs(step, random);
    const NamedTensors got = step(inputs);
    NamedStates handed; // the plain program only reads the states
    for (const auto& [name, state] : plain.states()) handed.emplace(name, State(name, now.at(name)));
    const NamedTensors want = plain(inputs, handed);
    for (const auto& [name, value] : got) check_same(value, want.at("next_" + name));
    for (const Update& update : program.updates)
      now.at(update.state.name()) = want.at("next_" + update.state.name());
    for (const auto& [name, state] : step.states()) check_same(state.read(), now.at(name));
  }
}

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

} // namespace

TEST_CASE("programs with states compute what the plain programs do, on every device") {
  for (const std::string& device : present_devices())
    for (const test::StateProgram& program : test::state_programs()) {
      CAPTURE(device);
      check_steps(program, compile(program.outputs, on(device), program.updates), 1);
    }
}

TEST_CASE("states are written over themselves where that is right, and nowhere else") {
  for (const char* cpu : {"x86-64", "x86-64-v3", "x86-64-v4"}) // vectors of 4, 8 and 16
    for (const test::StateProgram& program : test::state_programs()) {
      CAPTURE(cpu);
      CAPTURE(program.name);
      CompileOptions options = on("interp", 1);
      options.cpu = cpu;
      const Executable step = compile(program.outputs, options, program.updates);
      const std::string text = step.print();
      CAPTURE(text);
      for (const std::string& name : program.in_place)
        CHECK(count(text, "update " + name + " in place\n") == 1);
      CHECK(count(text, " in place\n") == program.in_place.size());
      CHECK(count(text, "update ") == program.updates.size());
    }
}

TEST_CASE("a row that is appended costs the row") {
  const State cache("cache", {512, 33}, DType::F16);
  const Update append =
      cache.assign_at({Tensor::input("at", {}, DType::I32)}, Tensor::input("row", {1, 33}, DType::F16));
  const Executable step = compile({}, on("interp", 1), {append});
  REQUIRE(step.kernels().size() == 1);
  const std::string loops = step.kernels()[0].ast();
  CHECK(loops.find("in 512") == std::string::npos);
  CHECK(loops.find("cache") == std::string::npos); // the old values are not read
}

TEST_CASE("a call may use other states, each for itself") {
  const State mine("total", {3});
  const Executable add =
      compile({{"before", mine.value()}}, on("cpu"), {mine.assign(mine.value() + Tensor::input("x", {3}))});
  const State other("another_name", {3});
  const Tensor x = Tensor::from({1.f, 2.f, 3.f});
  add({{"x", x}}, {{"total", other}});
  const Tensor before = add({{"x", x}}, {{"total", other}}).at("before");
  CHECK(before.to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(other.read().to_vector<float>() == std::vector<float>{2, 4, 6});
  CHECK(mine.read().to_vector<float>() == std::vector<float>{0, 0, 0});
  // An output that is a view of a state keeps its values.
  add({{"x", x}}, {{"total", other}});
  CHECK(before.to_vector<float>() == std::vector<float>{1, 2, 3});

  std::vector<float> into(3, -1), values{1, 1, 1};
  add.run({{"x", values.data()}}, {{"before", into.data()}});
  CHECK(into == std::vector<float>{0, 0, 0});
  CHECK(mine.read().to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("programs share a state, which lives as long as one of them") {
  std::optional<Executable> write, read;
  {
    const State shared("shared", {4});
    write = compile({}, on("cpu"), {shared.assign(Tensor::input("x", {}))});
    read = compile({{"sum", shared.value().sum()}}, on("cpu"));
  }
  (*write)({{"x", Tensor::scalar(2.5f)}});
  CHECK((*read)({}).at("sum").item<float>() == 10.0f);
  read->states().at("shared").write(Tensor::ones({4}));
  CHECK((*read)({}).at("sum").item<float>() == 4.0f);
}

TEST_CASE("eight threads run one program on eight states") {
  const State counter("counter", {1031});
  const Executable step = compile({}, on("cpu"), {counter.assign(counter.value() + Tensor::input("x", {}))});
  std::vector<State> states;
  for (int k = 0; k < 8; ++k) states.emplace_back("counter", Shape{1031});
  std::vector<std::thread> threads;
  for (int k = 0; k < 8; ++k)
    threads.emplace_back([&, k] {
      const Tensor x = Tensor::scalar(static_cast<float>(k));
      for (int i = 0; i < 100; ++i) step({{"x", x}}, {{"counter", states[static_cast<size_t>(k)]}});
    });
  for (std::thread& t : threads) t.join();
  for (int k = 0; k < 8; ++k) {
    const std::vector<float> values = states[static_cast<size_t>(k)].read().to_vector<float>();
    CHECK(std::all_of(values.begin(), values.end(),
                      [&](float v) { return v == 100.0f * static_cast<float>(k); }));
  }
}

TEST_CASE("runs on one state wait for each other, whatever the order in which programs name their states") {
  const State a("a", {257}), b("b", {257});
  // Both programs keep a + b as it is.
  const Executable there = compile({}, on("cpu", 1), {a.assign(a.value() - 1.0), b.assign(b.value() + 1.0)});
  const Executable back = compile({}, on("cpu", 1), {b.assign(b.value() - 1.0), a.assign(a.value() + 1.0)});
  const Executable sum = compile(
      {{"low", (a.value() + b.value()).min()}, {"high", (a.value() + b.value()).max()}}, on("cpu", 1));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 6; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 200; ++i) {
        if (k % 3 < 2) {
          (k % 3 ? there : back)({});
          continue;
        }
        const NamedTensors seen = sum({});
        wrong += seen.at("low").item<float>() != 0 || seen.at("high").item<float>() != 0;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(a.read().to_vector<float>() == std::vector<float>(257, 0.0f));
}

TEST_CASE("a saved program has its states, with their values") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("step.lathe");
  for (const test::StateProgram& program : test::state_programs()) {
    CAPTURE(program.name);
    const Executable step = compile(program.outputs, on("cpu"), program.updates);
    std::mt19937_64 random(3);
    step(whole_inputs(step, random));
    save(step, path);
    const Executable loaded = load_executable(path);
    CHECK(count(loaded.print(), " in place\n") == count(step.print(), " in place\n"));
    REQUIRE(loaded.states().size() == step.states().size());
    for (int k = 0; k < 2; ++k) {
      for (const auto& [name, state] : step.states())
        check_same(loaded.states().at(name).read(), state.read());
      const NamedTensors inputs = whole_inputs(step, random), want = step(inputs), got = loaded(inputs);
      for (const auto& [name, value] : want) check_same(got.at(name), value);
    }
  }
}

TEST_CASE("emitted, a program with a state is the plain function") {
  const State w("w", {7});
  const std::string source = emit({{"next", w.assign(w.value() + Tensor::input("x", {7})).value}});
  CHECK(source.find("void lathe_program(const float* w, const float* x, float* next)") != std::string::npos);
}

TEST_CASE("narrow states") {
  const State codes("codes", {3, 5}, DType::F8E4M3FN);
  const Tensor x = Tensor::input("x", {3, 5});
  const Tensor next = codes.value().cast(DType::F32) + x;
  const Executable step = compile({}, on("cpu"), {codes.assign(next.cast(DType::F8E4M3FN))});
  for (int k = 0; k < 3; ++k) step({{"x", Tensor::full({3, 5}, 1.5f)}});
  CHECK(codes.read().to_vector<float>() == std::vector<float>(15, 4.5f));
}

TEST_CASE("parts at places that are known at run time") {
  std::vector<float> values(7 * 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor x = Tensor::from(values, {7, 5}), row = Tensor::input("row", {}, DType::I64);
  const Tensor column = Tensor::input("column", {1}, DType::I32);
  const Executable parts =
      compile({{"read", slice_at(x, {row, column}, {3, 2})},
               {"written", update_slice_at(x, {row, column}, Tensor::full({3, 2}, -1.0f))}},
              on("cpu"));
  for (int64_t r = -9; r <= 9; ++r)
    for (int32_t c = -6; c <= 6; ++c) {
      const NamedTensors got = parts({{"row", Tensor::scalar(r)}, {"column", Tensor::from({c})}});
      std::vector<float> read(6, 0), written = values;
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 2; ++j) {
          const int64_t y = (r < 0 ? r + 7 : r) + i, z = (c < 0 ? c + 5 : c) + j;
          if (y < 0 || y >= 7 || z < 0 || z >= 5) continue;
          read[static_cast<size_t>(i * 2 + j)] = values[static_cast<size_t>(y * 5 + z)];
          written[static_cast<size_t>(y * 5 + z)] = -1;
        }
      CHECK(got.at("read").to_vector<float>() == read);
      CHECK(got.at("written").to_vector<float>() == written);
    }
  const Expr n = Var("n", 0, 7);
  const Executable open =
      compile({{"y", slice_at(x, {n - 1, 1}, {2, 1}) + Tensor::input("x", {n, 1}).sum()}}, on("cpu"));
  CHECK(open({{"x", Tensor::zeros({3, 1})}}).at("y").to_vector<float>() == std::vector<float>{11, 16});
}

TEST_CASE("errors name the function, the state and what was expected") {
  const State s("s", {2, 3});
  check_error(ErrorKind::Name, "State", [] { State("no name", {2}); });
  check_error(ErrorKind::Shape, "State", [] { State("s", {Var("n", 1, 4)}); });
  check_error(ErrorKind::Shape, "State", [] { State("s", {-1}); });
  check_error(ErrorKind::DType, "assign", [&] { (void)s.assign(Tensor::zeros({2, 3}, DType::I32)); });
  check_error(ErrorKind::Shape, "assign", [&] { (void)s.assign(Tensor::zeros({3, 3})); });
  check_error(ErrorKind::Shape, "assign", [&] { (void)s.assign(Tensor::zeros({4, 2, 3})); });
  check_error(ErrorKind::Shape, "write", [&] { s.write(Tensor::zeros({3})); });
  check_error(ErrorKind::DType, "write", [&] { s.write(Tensor::zeros({2, 3}, DType::F64)); });
  check_error(ErrorKind::Shape, "update_slice_at",
              [&] { (void)s.assign_at({0, 0, 0}, Tensor::zeros({1, 1})); });
  check_error(ErrorKind::Shape, "update_slice_at", [&] { (void)s.assign_at({0}, Tensor::zeros({1})); });
  check_error(ErrorKind::DType, "update_slice_at",
              [&] { (void)s.assign_at({0}, Tensor::zeros({1, 1}, DType::I32)); });
  check_error(ErrorKind::DType, "update_slice_at",
              [&] { (void)s.assign_at({Tensor::scalar(0.5f)}, Tensor::zeros({1, 1})); });
  check_error(ErrorKind::Shape, "slice_at",
              [&] { (void)slice_at(s.value(), {Tensor::from({1, 2})}, {1, 1}); });
  check_error(ErrorKind::Shape, "slice_at", [&] { (void)slice_at(s.value(), {0}, {1}); });

  check_error(ErrorKind::Name, "compile",
              [&] { compile({}, {}, {s.assign(s.value() + 1.0), s.assign(s.value() * 2.0)}); });
  check_error(ErrorKind::Name, "compile", [&] { compile({{"y", s.value() + State("s", {2, 3}).value()}}); });
  check_error(ErrorKind::Name, "compile", [&] { compile({{"y", s.value() + Tensor::input("s", {2, 3})}}); });
  check_error(ErrorKind::Name, "compile", [&] {
    compile({{"y", Tensor::input("s", {2, 3}) + 1.0}}, {}, {s.assign(Tensor::zeros({2, 3}))});
  });

  const State t("t", {2, 3});
  const Executable f = compile({{"y", s.value() + 1.0}}, on("interp"), {s.assign(s.value() + t.value())});
  check_error(ErrorKind::Name, "call", [&] { f({}, {{"u", t}}); });
  check_error(ErrorKind::Shape, "call", [&] { f({}, {{"s", State("s", {3, 2})}}); });
  check_error(ErrorKind::DType, "call", [&] { f({}, {{"s", State("s", {2, 3}, DType::F64)}}); });
  check_error(ErrorKind::Value, "call", [&] { f({}, {{"s", t}}); });
  check_error(ErrorKind::Name, "call", [&] { f({{"s", Tensor::zeros({2, 3})}}); });
  std::vector<float> into(6);
  check_error(ErrorKind::Value, "run", [&] { f.run({}, {{"y", into.data()}}, {}, {{"t", s}}); });
  CHECK(f.inputs().empty());
  CHECK(f.outputs().size() == 1);
}
