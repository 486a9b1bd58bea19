// Inputs whose memory an output takes: what is right is what separate memory gives.
#include <doctest/doctest.h>

#include <numeric>
#include <optional>

#include "lathe/lathe.hpp"
#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"
#include "support/state_programs.hpp"

using namespace lathe;

namespace {

using Floats = std::vector<float>;

Floats ramp(size_t n, float start = 0) {
  Floats v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

std::vector<char> bytes_of(const Tensor& x) {
  std::vector<char> bytes(static_cast<size_t>(x.element_count() * size_of(x.dtype())));
  x.read(bytes.data(), x.dtype());
  return bytes;
}

CompileOptions donating(const std::string& device, std::map<std::string, std::string> donated) {
  CompileOptions options = on(device);
  if (device == "interp") options.cpu = "x86-64-v3"; // so that its plans are the same on every machine
  options.donated = std::move(donated);
  return options;
}

bool is_in_place(const Executable& f, const std::string& output) {
  return f.print().find("write %" + output + " in place of") != std::string::npos;
}
/// The device whose plans are known: there the tests say what is in place. On others the plan decides.
bool is_known(const std::string& device) { return device == "interp"; }

/// The value with an input of the same name in place of each state that is updated.
Tensor with_inputs_for_states(const Tensor& value, const test::StateProgram& program) {
  std::map<std::string, Tensor> inputs;
  for (const Update& update : program.updates) {
    const State& state = update.state;
    inputs.emplace(state.name(), Tensor::input(state.name(), state.shape(), state.dtype()));
  }
  return substitute({value}, inputs)[0];
}

std::optional<ErrorKind> refusal(const NamedTensors& outputs, std::map<std::string, std::string> donated) {
  try {
    (void)compile(outputs, donating("interp", std::move(donated)));
  } catch (const Error& error) {
    return error.kind();
  }
  return {};
}

} // namespace

TEST_CASE("an output over a donated input, and beside it") {
  const Tensor x = Tensor::input("x", {37}), z = Tensor::input("z", {37});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"y", x * 2.0f + z}, {"s", x.sum()}}, donating(device, {{"y", "x"}}));
    if (is_known(device)) CHECK(is_in_place(f, "y"));
    const Floats a = ramp(37), b = ramp(37, 100);
    Floats want(37);
    for (int i = 0; i < 37; ++i) want[i] = 2 * a[i] + b[i];
    Floats memory = a, other(37, -1), kept = a, shared = a;
    float sum = 0;
    f.run({{"x", memory.data()}, {"z", b.data()}}, {{"y", memory.data()}, {"s", &sum}});
    CHECK(memory == want);
    CHECK(sum == 666);
    f.run({{"x", kept.data()}, {"z", b.data()}}, {{"y", other.data()}, {"s", &sum}});
    CHECK(other == want);
    CHECK(kept == a);
    // Another input in the same memory, and one that begins inside of it.
    f.run({{"x", shared.data()}, {"z", shared.data()}}, {{"y", shared.data()}, {"s", &sum}});
    for (int i = 0; i < 37; ++i) CHECK(shared[i] == 3 * a[i]);
    Floats both = ramp(38);
    f.run({{"x", both.data()}, {"z", both.data() + 1}}, {{"y", both.data()}, {"s", &sum}});
    for (int i = 0; i < 37; ++i) CHECK(both[i] == static_cast<float>(3 * i + 1));
  }
}

TEST_CASE("where elements are read after they would be written, a donated input has other memory") {
  const Tensor x = Tensor::input("x", {64});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"y", x + x.roll(1, 0)}}, donating(device, {{"y", "x"}}));
    CHECK_FALSE(is_in_place(f, "y"));
    Floats memory = ramp(64);
    f.run({{"x", memory.data()}}, {{"y", memory.data()}});
    CHECK(memory[0] == 63);
    for (int i = 1; i < 64; ++i) CHECK(memory[i] == static_cast<float>(2 * i - 1));
  }
}

TEST_CASE("a call takes the memory of an argument that nothing else holds") {
  const Tensor x = Tensor::input("x", {1000});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"x", x + 1.0f}}, donating(device, {{"x", "x"}}));
    NamedTensors io{{"x", Tensor::from(ramp(1000), {1000})}};
    const void* const memory = io.at("x").data<float>().data();
    for (int step = 0; step < 3; ++step) io = f(std::move(io));
    CHECK((io.at("x").data<float>().data() == memory) == is_in_place(f, "x"));
    if (is_known(device)) CHECK(is_in_place(f, "x"));
    CHECK(io.at("x").to_vector<float>() == ramp(1000, 3));
    // Held elsewhere, or not given away: the argument keeps its values.
    const Tensor held = io.at("x");
    CHECK(f(std::move(io)).at("x").to_vector<float>() == ramp(1000, 4));
    CHECK(held.to_vector<float>() == ramp(1000, 3));
    const NamedTensors kept{{"x", held}};
    CHECK(f(kept).at("x").to_vector<float>() == ramp(1000, 4));
    CHECK(f({{"x", held}}).at("x").to_vector<float>() == ramp(1000, 4));
    CHECK(held.to_vector<float>() == ramp(1000, 3));
  }
  // Memory that belongs to someone else is not written.
  const Executable f = compile({{"x", x + 1.0f}}, donating("interp", {{"x", "x"}}));
  struct alignas(128) Memory {
    float values[1000];
  };
  const auto owned = std::make_shared<Memory>();
  std::fill(std::begin(owned->values), std::end(owned->values), 5.0f);
  NamedTensors io{
      {"x", Tensor::from_shared(std::shared_ptr<const void>(owned, owned->values), DType::F32, {1000})}};
  CHECK(f(std::move(io)).at("x").to_vector<float>() == Floats(1000, 6));
  CHECK(Floats(std::begin(owned->values), std::end(owned->values)) == Floats(1000, 5));
}

TEST_CASE("a row written into a donated cache leaves the others untouched") {
  const Tensor cache = Tensor::input("cache", {50, 7}), row = Tensor::input("row", {1, 7});
  const Tensor at = Tensor::input("at", {}, DType::I64);
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Tensor next = update_slice_at(cache, {at}, row);
    const Executable f = compile({{"next", next}, {"again", next}, {"total", next.sum()}},
                                 donating(device, {{"next", "cache"}}));
    if (is_known(device)) CHECK(is_in_place(f, "next"));
    Floats memory = ramp(350), again(350), values(7, 1);
    float total = 0;
    const int64_t position = 49;
    f.run({{"cache", memory.data()}, {"row", values.data()}, {"at", &position}},
          {{"next", memory.data()}, {"again", again.data()}, {"total", &total}});
    Floats want = ramp(350);
    std::fill(want.end() - 7, want.end(), 1.0f);
    CHECK(memory == want);
    CHECK(again == want);
    CHECK(total == std::accumulate(want.begin(), want.end(), 0.0f));
  }
}

TEST_CASE("sizes known at a call, none among them") {
  const Expr n = Var("n", 0, 100);
  const Tensor x = Tensor::input("x", {n * 2});
  const Tensor y = Tensor::input("y", {n});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"z", x - y.sum()}}, donating(device, {{"z", "x"}}));
    for (const int64_t size : {0, 1, 5}) {
      Floats memory = ramp(2 * size), ones(size, 1);
      memory.push_back(-1);
      f.run({{"x", memory.data()}, {"y", ones.data()}}, {{"z", memory.data()}}, {{"n", size}});
      Floats want = ramp(2 * size, -static_cast<float>(size));
      want.push_back(-1);
      CHECK(memory == want);
    }
    CHECK_THROWS_AS((void)f({{"x", Tensor::ones({4})}, {"y", Tensor::ones({3})}}), Error);
  }
}

TEST_CASE("all programs that update states, with donated inputs instead") {
  for (const std::string& device : present_devices())
    for (const test::StateProgram& program : test::state_programs()) {
      CAPTURE(device);
      CAPTURE(program.name);
      NamedTensors outputs;
      for (const auto& [name, value] : program.functional())
        outputs.emplace(name, with_inputs_for_states(value, program));
      std::map<std::string, std::string> donated;
      const std::vector<KernelParam> inputs = compile(outputs, on("interp")).inputs();
      NamedTensors given;
      for (const KernelParam& input : inputs) {
        const Tensor order = Tensor::iota({num_elements(input.shape)}, 0, DType::F32).reshape(input.shape);
        given.emplace(input.name, ((order % 5.0) - 2.0).abs().cast(input.dtype).realise());
        if (outputs.contains(input.name)) donated.emplace(input.name, input.name);
      }
      const NamedTensors want = compile(outputs, on("interp"))(given);
      const Executable f = compile(outputs, donating(device, donated));
      for (const std::string& name : program.in_place)
        if (donated.contains(name) && is_known(device)) CHECK(is_in_place(f, name));
      std::map<std::string, std::vector<char>> memory;
      std::map<std::string, const void*> in;
      std::map<std::string, void*> out;
      for (const KernelParam& input : inputs) {
        std::vector<char>& bytes = memory[input.name] = bytes_of(given.at(input.name));
        in.emplace(input.name, bytes.data());
      }
      for (const KernelParam& output : f.outputs()) {
        std::vector<char>& bytes = memory[output.name];
        bytes.resize(bytes_of(want.at(output.name)).size());
        out.emplace(output.name, bytes.data());
      }
      f.run(in, out);
      for (const auto& [name, value] : want) CHECK_MESSAGE(memory.at(name) == bytes_of(value), name);
    }
}

TEST_CASE("a saved program keeps what is donated") {
  const Tensor x = Tensor::input("x", {9});
  const test::TemporaryDir folder;
  const std::string path = folder.file("f");
  save(compile({{"y", x * x}}, donating("interp", {{"y", "x"}})), path);
  const Executable f = load_executable(path);
  CHECK(is_in_place(f, "y"));
  Floats memory = ramp(9);
  f.run({{"x", memory.data()}}, {{"y", memory.data()}});
  for (int i = 0; i < 9; ++i) CHECK(memory[i] == static_cast<float>(i * i));
}

TEST_CASE("what can't be donated is refused") {
  const Tensor x = Tensor::input("x", {9});
  const State s("s", {9});
  CHECK(refusal({{"y", x + 1.0f}}, {{"y", "x"}}) == std::nullopt);
  CHECK(refusal({{"y", x + 1.0f}}, {{"q", "x"}}) == ErrorKind::Name);
  CHECK(refusal({{"y", x + 1.0f}}, {{"y", "q"}}) == ErrorKind::Name);
  CHECK(refusal({{"y", x + s.value()}}, {{"y", "s"}}) == ErrorKind::Name);
  CHECK(refusal({{"y", x.sum()}}, {{"y", "x"}}) == ErrorKind::Shape);
  CHECK(refusal({{"y", x.cast(DType::I32)}}, {{"y", "x"}}) == ErrorKind::DType);
  CHECK(refusal({{"y", x + 1.0f}, {"z", x + 2.0f}}, {{"y", "x"}, {"z", "x"}}) == ErrorKind::Value);
}
