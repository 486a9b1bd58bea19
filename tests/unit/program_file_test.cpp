// Programs saved and loaded again: the same numbers, no search, no compiler; and files that are not whole.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "compile/realise.hpp"
#include "compile/saved/program_file.hpp"
#include "lathe/executable.hpp"
#include "lathe/lathe.hpp"
#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

/// Values without a compiler.
std::vector<float> wave(size_t count) {
  std::vector<float> values;
  for (size_t k = 0; k < count; ++k) values.push_back(std::sin(static_cast<float>(k)));
  return values;
}

Executable round_trip(const Executable& program) {
  const test::TemporaryDir folder;
  save(program, folder.file("p.lathe"));
  return load_executable(folder.file("p.lathe"));
}

/// Both give the same bits, and say the same of themselves.
void check_same(const Executable& a, const Executable& b, const NamedTensors& inputs) {
  const NamedTensors x = a(inputs), y = b(inputs);
  REQUIRE(x.size() == y.size());
  for (const auto& [name, tensor] : x) {
    CAPTURE(name);
    CHECK(tensor.shape() == y.at(name).shape());
    CHECK(tensor.dtype() == y.at(name).dtype());
    const Tensor u = tensor.contiguous().bitcast(DType::I32), v = y.at(name).contiguous().bitcast(DType::I32);
    CHECK(u.to_vector<int>() == v.to_vector<int>());
  }
  CHECK(a.kernel_count() == b.kernel_count());
  CHECK(a.moves() == b.moves());
  CHECK(a.print() == b.print());
  CHECK(a.tuned() == b.tuned());
  for (size_t k = 0; k < a.kernel_count(); ++k) CHECK(a.kernels()[k].ast() == b.kernels()[k].ast());
}

/// A layer with constants, its input as well, and what takes two kernels.
NamedTensors layer() {
  const Tensor x = Tensor::input("x", {8, 32}), w = Tensor::randn({32, 24}, 1), b = Tensor::randn({24}, 2);
  return {{"probabilities", (x.matmul(w) + b).relu().softmax(-1)}, {"sum", x.sum(1)}};
}

std::optional<ErrorKind> kind_of_load(const std::string& path) {
  try {
    load_executable(path);
  } catch (const Error& error) {
    CHECK_MESSAGE(std::string(error.what()).rfind(path, 0) == 0, error.what());
    return error.kind();
  }
  return {};
}

} // namespace

TEST_CASE("constants, symbolic sizes and several outputs, on every device") {
  const Var n("n", 1, 64);
  const Tensor x = Tensor::input("x", {n, 32}), w = Tensor::randn({32, 24}, 1);
  const NamedTensors symbolic{{"rows", x.matmul(w).softmax(-1)},
                              {"count", Tensor::scalar(n) * 2 + x.sum().cast(DType::I64) * 0}};
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable fixed = compile(layer(), on(device));
    const NamedTensors inputs{{"x", Tensor::randn({8, 32}, 3).realise()}};
    check_same(fixed, round_trip(fixed), inputs);
    check_same(fixed, round_trip(round_trip(fixed)), inputs);
    const Executable any = compile({{"rows", symbolic.at("rows")}}, on(device));
    const Executable loaded = round_trip(any);
    for (const int64_t rows : {1, 7, 64})
      check_same(any, loaded, {{"x", Tensor::randn({rows, 32}, 4).realise()}});
    CHECK_THROWS_AS(loaded({{"x", Tensor::randn({65, 32}, 4).realise()}}), Error);
    CHECK(
        compile(symbolic, on(device))({{"x", Tensor::ones({5, 32}).realise()}}).at("count").item<int64_t>() ==
        round_trip(compile(symbolic, on(device)))({{"x", Tensor::ones({5, 32}).realise()}})
            .at("count")
            .item<int64_t>());
  }
}

TEST_CASE("outputs that are views of inputs and of constants, and inputs that nothing uses") {
  const Tensor x = Tensor::input("x", {4, 6}), w = Tensor::randn({4, 6}, 1).realise();
  const Tensor unused = Tensor::input("unused", {Var("m", 1, 9), 2});
  const Executable moved =
      compile({{"turned", x.transpose()}, {"constant", w.flip({0})}, {"same", x}}, on("interp"));
  check_same(moved, round_trip(moved), {{"x", Tensor::randn({4, 6}, 2).realise()}});
  const Executable mixed =
      compile({{"turned", x.transpose()},
               {"y", x.exp() + where(Tensor::zeros({}, DType::Bool), unused.sum(), Tensor::scalar(1.f))}},
              on("interp"));
  const NamedTensors inputs{{"x", Tensor::randn({4, 6}, 2).realise()},
                            {"unused", Tensor::ones({3, 2}).realise()}};
  const Executable loaded = round_trip(mixed);
  REQUIRE(loaded.inputs().size() == mixed.inputs().size());
  for (size_t k = 0; k < loaded.inputs().size(); ++k) {
    CHECK(loaded.inputs()[k].name == mixed.inputs()[k].name);
    CHECK(loaded.inputs()[k].shape == mixed.inputs()[k].shape);
  }
  check_same(mixed, loaded, inputs);
}

TEST_CASE("a schedule with a rewritten graph and constants laid out anew") {
  if (!has_device("cpu")) return;
  const Tensor x = Tensor::input("x", {1, 16, 16, 16}), w = Tensor::randn({16, 16, 3, 3}, 1);
  ConvOptions same;
  same.padding = {1};
  const NamedTensors outputs{{"y", x.conv2d(w, {}, same).relu().reshape({16, 256})}};
  CompileOptions options = on("cpu");
  options.winograd = 0;
  const NamedTensors inputs{{"x", Tensor::randn({1, 16, 16, 16}, 2).realise()}};
  const Executable direct = compile(outputs, options);
  check_same(direct, round_trip(direct), inputs);
  options.winograd = 4;
  const auto program = pipeline::lowered(outputs);
  for (size_t stage = 0; stage < program->stages.size(); ++stage) {
    options.moves = {"winograd(t" + std::to_string(stage) + ", 2)"};
    try {
      const Executable rewritten = compile(outputs, options);
      CHECK(rewritten.outputs()[0].shape == Shape{16, 256});
      check_same(rewritten, round_trip(rewritten), inputs);
      return;
    } catch (const Error& error) { // another stage is the convolution
      CHECK(error.kind() == ErrorKind::Schedule);
    }
  }
  FAIL("no stage is a convolution");
}

TEST_CASE("the same program makes the same file") {
  const test::TemporaryDir folder;
  save(compile(layer(), on("interp")), folder.file("a"));
  save(compile(layer(), on("interp")), folder.file("b"));
  CHECK(test::bytes_of(folder.file("a")) == test::bytes_of(folder.file("b")));
  CHECK(program_file_format(folder.file("a")) == "");
  CHECK(!program_file_format(folder.file("none")));
}

TEST_CASE("another process loads it without a compiler or a search") {
  const test::TemporaryDir folder;
  const Tensor x = Tensor::input("x", {8, 32}), w = Tensor::from(wave(32 * 24), {32, 24});
  for (const std::string& device : {std::string("cpu"), std::string("c")}) {
    if (!has_device(device)) continue;
    CAPTURE(device);
    const std::string path = folder.file(device + ".lathe"), cache = folder.file(device + "-cache");
    save(compile({{"y", x.matmul(w)}}, on(device)), path);
    const std::string command = std::string("LATHE_CACHE_DIR=") + cache + " LATHE_LOAD_FILE=" + path + " " +
                                fs::read_symlink("/proc/self/exe").string() +
                                " --no-skip --test-case='only started by the test above' > /dev/null";
    CHECK(std::system(command.c_str()) == 0);
    // What is compiled or searched for is kept.
    CHECK(!fs::exists(fs::path(cache) / "objects"));
    CHECK(!fs::exists(fs::path(cache) / "c"));
    CHECK(!fs::exists(fs::path(cache) / "plans"));

    // Code of another machine is compiled anew.
    pipeline::ProgramFile foreign = pipeline::read_program_file(path);
    CHECK(!foreign.objects.empty());
    pipeline::SavedObjects elsewhere;
    for (const auto& [id, object] : foreign.objects) elsewhere.emplace(id + 1, "code of another machine");
    foreign.objects = elsewhere;
    pipeline::write_program_file(foreign, path);
    CHECK(std::system(command.c_str()) == 0);
    CHECK((fs::exists(fs::path(cache) / "objects") || fs::exists(fs::path(cache) / "c")));

    // So are moves that this version does not take.
    foreign.programs[0].moves = {"split(t99.i0, 16)"};
    pipeline::write_program_file(foreign, path);
    CHECK(std::system(command.c_str()) == 0);
  }
}

TEST_CASE("only started by the test above" * doctest::skip()) {
  const char* path = std::getenv("LATHE_LOAD_FILE");
  REQUIRE(path);
  const Executable f = load_executable(path);
  const std::vector<float> x = wave(8 * 32), w = wave(32 * 24);
  const std::vector<float> got = f({{"x", Tensor::from(x, {8, 32})}}).at("y").to_vector<float>();
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 24; ++j) {
      float sum = 0;
      for (size_t k = 0; k < 32; ++k) sum += x[i * 32 + k] * w[k * 24 + j];
      CHECK(got[i * 24 + j] == doctest::Approx(sum).epsilon(1e-4));
    }
}

TEST_CASE("damaged, truncated and foreign files are errors that name them") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("p.lathe");
  save(compile(layer(), on(has_device("cpu") ? "cpu" : "interp")), path);
  const std::string whole = test::bytes_of(path);
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    std::string bytes = whole;
    // The first ones go through the header, byte by byte.
    const size_t at = trial < 64 ? static_cast<size_t>(trial) : random() % whole.size();
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    CAPTURE(at);
    write(bytes);
    CHECK(kind_of_load(path) == ErrorKind::File);
  }
  for (int trial = 0; trial < 100; ++trial) {
    const size_t length = trial < 64 ? static_cast<size_t>(trial) : random() % whole.size();
    CAPTURE(length);
    write(whole.substr(0, length));
    CHECK(kind_of_load(path) == ErrorKind::File);
  }
  write(whole + "x");
  CHECK(kind_of_load(path) == ErrorKind::File);
  write(std::string(5000, 'x'));
  CHECK(kind_of_load(path) == ErrorKind::File);
  CHECK(kind_of_load(folder.file("none")) == ErrorKind::File);
  CHECK(kind_of_load(folder.path.string()) == ErrorKind::File);
  write(whole);
  CHECK(!kind_of_load(path));
  CHECK_THROWS_AS(save(load_executable(path), path + "/p.lathe"), Error);
}

TEST_CASE("a file whose parts are whole but make no program") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("p.lathe");
  save(compile(layer(), on("interp")), path);
  const pipeline::ProgramFile good = pipeline::read_program_file(path);
  const auto kind_with = [&](auto change) {
    pipeline::ProgramFile bad = good;
    change(bad.programs[0]);
    pipeline::write_program_file(bad, path);
    return kind_of_load(path);
  };
  using File = pipeline::ProgramFile::Program;
  CHECK(!kind_with([](File&) {}));
  CHECK(kind_with([](File& f) { f.graph = "no graph"; }) == ErrorKind::File);
  CHECK(kind_with([](File& f) { f.outputs.resize(20, "more"); }) == ErrorKind::File);
  CHECK(kind_with([](File& f) { f.outputs.resize(1); }) == ErrorKind::File);
  CHECK(kind_with([](File& f) { f.constants.pop_back(); }) == ErrorKind::File);
  CHECK(kind_with([](File& f) { f.constants[0].dtype = DType::F64, f.constants[0].sizes = {1}; }) ==
        ErrorKind::File);
  CHECK(kind_with([](File& f) { f.moves = {"no move"}; }) == ErrorKind::File);
}

TEST_CASE("several programs and tensors in a file, whose common data is there once") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("parts.lathe");
  const Tensor x = Tensor::input("x", {32}), w = Tensor::from(wave(32 * 1024), {1024, 32});
  SavedParts parts{
      .format = "of a test", .text = std::string("a\0b", 3), .tensors = {w, Tensor::from(wave(3))}};
  parts.programs = {compile({{"y", w.matmul(x)}}, on("interp")),
                    compile({{"z", (w * x).sum()}}, on("interp"))};
  save(parts, path);
  CHECK(fs::file_size(path) < 3 * 32 * 1024 * 4 / 2);
  CHECK(program_file_format(path) == "of a test");
  CHECK(kind_of_load(path) == ErrorKind::File);

  const SavedParts loaded = load_parts(path);
  CHECK(loaded.text == parts.text);
  REQUIRE(loaded.tensors.size() == 2);
  CHECK(loaded.tensors[0].shape() == Shape{1024, 32});
  CHECK(loaded.tensors[0].to_vector<float>() == wave(32 * 1024));
  CHECK(loaded.tensors[1].to_vector<float>() == wave(3));
  REQUIRE(loaded.programs.size() == 2);
  const NamedTensors inputs{{"x", Tensor::from(wave(32))}};
  for (size_t k = 0; k < 2; ++k) check_same(parts.programs[k], loaded.programs[k], inputs);
  save(loaded, folder.file("again"));
  CHECK(test::bytes_of(folder.file("again")) == test::bytes_of(path));

  CHECK_THROWS_AS(save({.tensors = {x}}, path), Error);
  CHECK_THROWS_AS(save({.format = "a name of a format too long"}, path), Error);
}
