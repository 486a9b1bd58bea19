// An exported program, built by each compiler there is and run, gives the numbers of the interpreter; twice
// exported it is the same; weights that are not its own are refused.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lathe/export.hpp"
#include "lathe/lathe.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

constexpr const char* kWarnings = "-Wall -Wextra -Werror";

struct Compiler {
  std::string name, command, runner;
};

bool runs(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

/// Optimised by none of them: the point is what the source says.
std::vector<Compiler> compilers() {
  std::vector<Compiler> all = {{"C11", "cc -std=c11 -O1", ""},
                               {"C11 for this machine", "cc -std=c11 -O1 -march=native", ""},
                               {"plain C11", "cc -std=c11 -O1 -pedantic -DLATHE_PORTABLE", ""},
                               {"C++", "g++ -x c++ -O1", ""},
                               {"plain C++", "g++ -x c++ -std=c++11 -O1 -pedantic -DLATHE_PORTABLE", ""}};
  if (runs("arm-linux-gnueabihf-gcc --version") && runs("qemu-arm --version")) {
    const std::string run = "qemu-arm -L /usr/arm-linux-gnueabihf ";
    all.push_back({"32-bit ARM", "arm-linux-gnueabihf-gcc -std=c11 -O1", run});
    all.push_back({"32-bit ARM with NEON", "arm-linux-gnueabihf-gcc -std=c11 -O1 -mfpu=neon-vfpv4", run});
    all.push_back({"plain, 32-bit ARM", "arm-linux-gnueabihf-gcc -std=c11 -O1 -DLATHE_PORTABLE", run});
  } else {
    MESSAGE("skipped for ARM: no arm-linux-gnueabihf-gcc or qemu-arm");
  }
  return all;
}

/// A folder of this test's own, removed at the end.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "lathe-export-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Scratch() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int run(const std::string& command) const {
    const int status =
        std::system(fmt::format("cd '{}' && {{ {}; }} >out 2>err", path.string(), command).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

ExportOptions options_for(const std::string& arena) {
  ExportOptions options;
  options.name = "net";
  options.arena = arena;
  options.compile.use_database = false;
  options.compile.threads = 1;
  options.compile.device = default_device();
  return options;
}

/// Convolution, pooling and a product: constants that are laid out anew, intermediates, and scratch.
NamedTensors small_network() {
  const Tensor x = Tensor::input("data", {1, 3, 20, 20});
  ConvOptions padded;
  padded.padding = {1};
  const Tensor kernel = (Tensor::randn({16, 3, 3, 3}, 1) * 0.2f).realise();
  const Tensor matrix = (Tensor::randn({16 * 10 * 10, 10}, 2) * 0.05f).realise();
  const Tensor bias = Tensor::randn({10}, 3).realise();
  const Tensor pooled = x.conv2d(kernel, {}, padded).relu().max_pool2d({2}, {});
  const Tensor scores = pooled.reshape({1, 16 * 10 * 10}).matmul(matrix) + bias;
  return {{"probs", scores.softmax(-1)}, {"most", scores.max()}};
}

std::string raw(const Tensor& tensor) {
  const std::vector<float> values = tensor.to_vector<float>();
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<double> expected(const NamedTensors& program, const NamedTensors& inputs) {
  CompileOptions options;
  options.device = "interp";
  options.search = Search::Quick;
  options.use_database = false;
  std::vector<double> all;
  for (const auto& [name, tensor] : compile(program, options)(inputs))
    for (float value : tensor.to_vector<float>()) all.push_back(value);
  return all;
}

void write_files(const Scratch& folder, const std::vector<ExportedFile>& files) {
  for (const ExportedFile& file : files) folder.write(file.name, file.bytes);
}

void check_output(const Scratch& folder, const std::vector<double>& want) {
  std::istringstream out(folder.read("out"));
  std::vector<double> got;
  for (double value = 0; out >> value;) got.push_back(value);
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (size_t k = 0; k < got.size(); ++k)
    worst = std::max(worst, std::abs(got[k] - want[k]) / std::max(1.0, std::abs(want[k])));
  CHECK(worst < 1e-5);
}

/// Memory is full of rubbish: what is printed has been computed, from nothing that was not.
constexpr const char* kPoison = "MALLOC_PERTURB_=165";

void check_with(const Compiler& compiler, const Scratch& folder, const std::string& arguments,
                const std::vector<double>& want, const std::string& libraries = "-lm") {
  INFO(compiler.name);
  const int built =
      folder.run(fmt::format("{} {} net.c main.c -o net {}", compiler.command, kWarnings, libraries));
  INFO(folder.read("err"));
  REQUIRE(built == 0);
  const int ran = folder.run(fmt::format("{} {}./net net.weights {}", kPoison, compiler.runner, arguments));
  INFO(folder.read("err"));
  REQUIRE(ran == 0);
  check_output(folder, want);
}

} // namespace

TEST_CASE("a small network, on every compiler") {
  const NamedTensors network = small_network();
  const Tensor data = Tensor::randn({1, 3, 20, 20}, 4);
  const std::vector<double> want = expected(network, {{"data", data}});
  const Scratch folder;
  folder.write("data.raw", raw(data));
  write_files(folder, export_program(network, options_for("static")));
  for (const Compiler& compiler : compilers()) check_with(compiler, folder, "data.raw", want);
}

TEST_CASE("vectors of bools that lie apart, and a program without inputs, on every compiler") {
  const Tensor low = Tensor::randint(-9, 9, {16, 37}, 1, DType::I8).realise();
  const NamedTensors apart = {
      {"y", where(Tensor::input("mask", {37, 16}, DType::Bool).transpose(), low, -low).cast(DType::F32)}};
  const Tensor mask = Tensor::randint(0, 2, {37, 16}, 2).cast(DType::Bool).realise();
  const std::vector<uint8_t> bytes = mask.to_vector<uint8_t>();
  const NamedTensors alone = {{"c", (Tensor::randn({37}, 3) + 1.0f).exp()}};
  const Scratch folder;
  folder.write("mask.raw", {bytes.begin(), bytes.end()});
  for (const Compiler& compiler : compilers()) {
    write_files(folder, export_program(apart, options_for("static")));
    check_with(compiler, folder, "mask.raw", expected(apart, {{"mask", mask}}));
    write_files(folder, export_program(alone, options_for("static")));
    check_with(compiler, folder, "", expected(alone, {}));
  }
}

TEST_CASE("arenas and threads") {
  const NamedTensors network = small_network();
  const Tensor data = Tensor::randn({1, 3, 20, 20}, 5);
  const std::vector<double> want = expected(network, {{"data", data}});
  const std::vector<Compiler> all = compilers();
  for (const char* arena : {"static", "caller", "malloc"})
    for (int threads : {1, 3}) {
      if (threads == 1 && arena == std::string("static")) continue; // as above
      INFO(arena, " ", threads);
      ExportOptions options = options_for(arena);
      options.compile.threads = threads;
      const Scratch folder;
      folder.write("data.raw", raw(data));
      write_files(folder, export_program(network, options));
      check_with(all[1], folder, "data.raw", want, "-lm -lpthread");
      if (threads == 1 || arena != std::string("static")) continue;
      check_with(all[4], folder, "data.raw", want, "-lm -lpthread");
      check_with({"no threads", "cc -std=c11 -O1 -DLATHE_NO_THREADS", ""}, folder, "data.raw", want);
      if (all.size() > 5) check_with(all[5], folder, "data.raw", want, "-lm -lpthread");
    }
}

TEST_CASE("sizes of 0, known and at run time") {
  const Tensor x = Tensor::input("x", {Var("n", 0, 9), 2}), none = Tensor::input("none", {0, 2});
  const NamedTensors program{{"all", concat({none, x, Tensor::ones({1, 2})}, 0)},
                             {"gone", none * 2.0},
                             {"sum", x.sum(0)},
                             {"columns", x.softmax(0).sum()}};
  const Scratch folder;
  write_files(folder, export_program(program, options_for("malloc")));
  folder.write("none.raw", "");
  for (const int64_t rows : {0, 1, 5}) {
    const Tensor data = Tensor::randn({rows, 2}, 6);
    folder.write("x.raw", raw(data));
    const std::vector<double> want = expected(program, {{"x", data}, {"none", Tensor::zeros({0, 2})}});
    for (const Compiler& compiler : {compilers()[1], compilers()[4]})
      check_with(compiler, folder, fmt::format("{} none.raw x.raw", rows), want);
  }
}

TEST_CASE("recurrences are loops, for every number of steps") {
  const Var n("n", 0, 40);
  const Tensor x = Tensor::input("x", {n, 6}), matrix = (Tensor::randn({6, 6}, 8) * 0.2f).realise();
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    const Tensor next = (state[0].matmul(matrix) + rows[0]).tanh();
    return {{next, state[1] + next.sum(0, true)}, {next, next.softmax(-1)}};
  };
  const Scanned ahead = scan(step, {Tensor::ones({6}), Tensor::zeros({1})}, {x});
  const Scanned back = scan(step, {ahead.state[0], Tensor::zeros({1})}, {ahead.stacked[1]}, {{}, true});
  const NamedTensors program{{"ahead", ahead.stacked[0]},
                             {"back", back.stacked[1]},
                             {"last", back.state[0]},
                             {"sum", back.state[1]}};
  for (const int threads : {1, 3}) {
    const Scratch folder;
    ExportOptions options = options_for("malloc");
    options.compile.threads = threads;
    write_files(folder, export_program(program, options));
    for (const int64_t rows : {0, 1, 2, 37}) {
      const Tensor data = Tensor::randn({rows, 6}, 9);
      folder.write("x.raw", raw(data));
      for (const Compiler& compiler : {compilers()[1], compilers()[4]})
        check_with(compiler, folder, fmt::format("{} x.raw", rows), expected(program, {{"x", data}}),
                   "-lm -lpthread");
    }
  }
}

TEST_CASE("loops that end by their data, and their derivatives") {
  const Tensor x = Tensor::input("x", {6}), matrix = (Tensor::randn({6, 6}, 8) * 0.3f).realise();
  const auto is_small = [](const std::vector<Tensor>& s) { return s[0].square().sum() < 300.0f; };
  const auto next = [&](const std::vector<Tensor>& s) -> std::vector<Tensor> {
    return {s[0].matmul(matrix).tanh() + s[0] * 1.2f, s[1] + 1.0f};
  };
  const std::vector<Tensor> made = while_loop(is_small, next, {x, Tensor::zeros({})}, 60);
  const Tensor slope = gradients(made[0].square().sum(), {x})[0];
  const NamedTensors program{{"last", made[0]}, {"slope", slope}, {"steps", made[1]}};
  for (const int threads : {1, 3}) {
    const Scratch folder;
    ExportOptions options = options_for("malloc");
    options.compile.threads = threads;
    write_files(folder, export_program(program, options));
    for (const float scale : {100.0f, 1.0f, 0.01f}) { // no step, and two other numbers of them
      const Tensor data = (Tensor::randn({6}, 9) * scale).realise();
      folder.write("x.raw", raw(data));
      for (const Compiler& compiler : {compilers()[1], compilers()[4]})
        check_with(compiler, folder, "x.raw", expected(program, {{"x", data}}), "-lm -lpthread");
    }
  }
}

TEST_CASE("a parallel loop's iterations each run once, however many and long they are, by the same threads") {
  ExportOptions options = options_for("static");
  options.compile.threads = 3;
  const Scratch folder;
  write_files(folder, export_program(small_network(), options));
  folder.write("loops.c", R"(#ifndef LATHE_NO_THREADS
#include <pthread.h>
static int created;
static int count_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* argument) {
  ++created;
  return pthread_create(thread, how, run, argument);
}
#define pthread_create count_create
#else
static const int created = 2;
#endif
#include "net.c"
#include <time.h>
static int runs[1000];
static volatile int64_t sink;
static void count_run(int64_t i, void* const* buffers, const int64_t* vars, char* outer, char* scratch,
                      const struct lathe_env* env) {
  const int64_t work = vars[0] == 0 ? 0 : vars[0] > 0 ? i * 300 : (vars[1] - i) * 300;
  int64_t k;
  for (k = 0; k < work; ++k) sink = k;
  (void)buffers;
  runs[i] += scratch >= outer && (size_t)(scratch - outer) <= 2 * env->scratch_bytes ? 1 : 1000;
}
int main(void) {
  static char scratch[1 << 20];
  static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 61, 999};
  static const struct timespec pause = {0, 20000000};
  struct lathe_team team;
  size_t k, i;
  lathe_begin(&team);
  if (3 * team.env.scratch_bytes > sizeof scratch) return 2;
  for (k = 0; k < 3 * sizeof counts / sizeof counts[0]; ++k) {
    int64_t vars[2];
    vars[0] = (int64_t)(k % 3) - 1, vars[1] = counts[k / 3];
    memset(runs, 0, sizeof runs);
    if (k % 5 == 0) nanosleep(&pause, NULL); /* they go to sleep */
    lathe_parallel_for(&team.env, vars[1], count_run, NULL, vars, scratch);
    for (i = 0; i < sizeof runs / sizeof runs[0]; ++i)
      if (runs[i] != ((int64_t)i < vars[1])) return 1;
  }
  lathe_end(&team);
  return created == 2 ? 0 : 3;
}
)");
  for (const char* how : {"", "-DLATHE_NO_THREADS"}) {
    INFO(how);
    REQUIRE(folder.run(
                fmt::format("cc -std=gnu11 -O1 {} {} loops.c -o loops -lm -lpthread", kWarnings, how)) == 0);
    CHECK(folder.run("./loops") == 0);
  }
}

TEST_CASE("a size that each call says") {
  const Var n("n", 1, 40);
  const Tensor matrix = Tensor::randn({24, 5}, 6).realise();
  const NamedTensors program = {{"y", (Tensor::input("x", {n, 24}).matmul(matrix)).softmax(-1)}};
  const Tensor x = Tensor::randn({17, 24}, 7);
  for (const char* arena : {"caller", "malloc"}) {
    const Scratch folder;
    folder.write("x.raw", raw(x));
    write_files(folder, export_program(program, options_for(arena)));
    check_with(compilers()[0], folder, "17 x.raw", expected(program, {{"x", x}}));
    CHECK(folder.run("./net net.weights 41") != 0);
    CHECK(folder.read("err").find("error 6") != std::string::npos);
  }
}

TEST_CASE("two exports are the same") {
  for (const char* target : {"c", "opencl"}) {
    ExportOptions options = options_for("caller");
    options.target = target;
    const auto once = export_program(small_network(), options),
               again = export_program(small_network(), options);
    REQUIRE(once.size() == again.size());
    for (size_t k = 0; k < once.size(); ++k) {
      CHECK(once[k].name == again[k].name);
      CHECK(once[k].bytes == again[k].bytes);
    }
  }
}

TEST_CASE("weights that are damaged, cut or another program's are refused") {
  const Scratch folder;
  const auto files = export_program(small_network(), options_for("static"));
  write_files(folder, files);
  REQUIRE(folder.run("cc -std=c11 -O0 net.c main.c -o net -lm") == 0);
  REQUIRE(folder.run("./net net.weights") == 0);
  const std::string good = folder.read("net.weights");
  const auto refused = [&](const std::string& bytes, const char* code) {
    folder.write("bad.weights", bytes);
    CHECK(folder.run("./net bad.weights") == 1);
    CHECK(folder.read("out").empty());
    INFO(folder.read("err"));
    CHECK(folder.read("err").find(fmt::format("({})", code)) != std::string::npos);
  };
  for (size_t at : {size_t{0}, size_t{7}}) {
    std::string bad = good;
    bad[at] ^= 1;
    refused(bad, "1");
  }
  for (size_t at : {size_t{8}, size_t{20}, size_t{100}}) {
    std::string bad = good;
    bad[at] ^= 1;
    refused(bad, "2");
  }
  for (size_t at : {size_t{128}, good.size() / 2, good.size() - 1}) {
    std::string bad = good;
    bad[at] ^= 1;
    refused(bad, "3");
  }
  // The highest bits of two words, which a checksum of products alone does not see together.
  for (size_t first = 128, second = 136; second < good.size() && second < 128 + 20 * 64; second += 64) {
    std::string bad = good;
    for (size_t word : {first, second}) bad[word + 7] = static_cast<char>(bad[word + 7] ^ 0x80);
    refused(bad, "3");
  }
  refused(good.substr(0, good.size() - 128), "3");
  refused(good + std::string(128, '\0'), "3");
  refused("", "1");
  const Tensor x = Tensor::input("x", {8});
  for (const ExportedFile& file :
       export_program({{"y", x * Tensor::randn({8}, 8).realise()}}, options_for("static")))
    if (file.name == "net.weights") refused(file.bytes, "2");
}

TEST_CASE("OpenCL, with its host") {
  bool is_there = false;
  for (const DeviceInfo& device : devices()) is_there |= device.name == "opencl" && device.available;
  if (!is_there) {
    MESSAGE("skipped: no OpenCL device");
    return;
  }
  const NamedTensors network = small_network();
  const Tensor data = Tensor::randn({1, 3, 20, 20}, 9);
  const Scratch folder;
  folder.write("data.raw", raw(data));
  ExportOptions options = options_for("static");
  options.target = "opencl";
  write_files(folder, export_program(network, options));
  check_with({"C11", "cc -std=c11 -O1", ""}, folder, "data.raw", expected(network, {{"data", data}}),
             "-lOpenCL");
  CHECK(folder.run(fmt::format("g++ -x c++ {} -fsyntax-only net.c main.c", kWarnings)) == 0);
}

TEST_CASE("a name that CMake keeps for a target of its own") {
  for (const char* name : {"all", "test", "m"}) {
    CAPTURE(name);
    const Scratch folder;
    ExportOptions options = options_for("static");
    options.name = name;
    write_files(folder, export_program({{"y", Tensor::input("x", {5}) * 2.0f}}, options));
    const int built = folder.run("cmake -S . -B b && cmake --build b");
    INFO(folder.read("err"));
    CHECK(built == 0);
  }
}

TEST_CASE("inputs, outputs and sizes of names that the files use themselves, or that differ in capitals") {
  const std::vector<std::string> names{"status",    "team",     "t",       "T",     "memset",
                                       "uintptr_t", "cl_int",   "CL_TRUE", "M_PI",  "net_fail",
                                       "NET_OK",    "clFinish", "weights", "size_t"};
  for (const char* target : {"c", "opencl"}) {
    CAPTURE(target);
    Tensor sum = Tensor::zeros({});
    NamedTensors outputs;
    for (size_t k = 0; k < names.size(); ++k) {
      const auto size = static_cast<int64_t>(k + 1);
      const Tensor x = Tensor::input(names[k], {size, Var(names[k] + "_", 1, 9)});
      sum = sum + x.sum();
      outputs[names[k] + (k % 2 ? "" : "_out")] = x * 2.0f;
    }
    outputs["t"] = Tensor::input("rows", {Var("t", 1, 20), 3}).softmax(0);
    outputs["sum"] = sum;
    ExportOptions options = options_for("malloc");
    options.target = target;
    options.compile.threads = 2;
    const Scratch folder;
    write_files(folder, export_program(outputs, options));
    const int built = folder.run("cc -std=c11 -O0 -Wall -Werror -c net.c main.c");
    INFO(folder.read("err"));
    CHECK(built == 0);
  }
}

TEST_CASE("what can't be exported is said") {
  ExportOptions options = options_for("static");
  options.target = "fortran";
  CHECK_THROWS_WITH_AS(export_program(small_network(), options),
                       "export: target \"fortran\" is unknown, expected c or opencl", Error);
  options = options_for("heap");
  CHECK_THROWS_WITH_AS(export_program(small_network(), options),
                       "export: arena \"heap\" is unknown, expected static, caller or malloc", Error);
}

TEST_CASE("inputs and outputs are parameters in the order that is asked for") {
  // Alphabetically first, second; a call that swaps the two would not be told.
  const Tensor first = Tensor::input("z_first", {2}), second = Tensor::input("a_second", {2}),
               third = Tensor::input("m_third", {2});
  const NamedTensors program{{"sum", first + third}, {"difference", first - second}};
  ExportOptions options = options_for("static");
  const auto header = [&] {
    for (const ExportedFile& file : export_program(program, options))
      if (file.name == "net.h") return file.bytes;
    return std::string();
  };
  const auto places = [&](const std::string& text, const std::vector<std::string>& names) {
    const std::string call = text.substr(text.find("net_run("));
    std::vector<size_t> out;
    for (const std::string& name : names) out.push_back(call.find(name));
    return out;
  };
  std::vector<size_t> at = places(header(), {"a_second", "m_third", "z_first", "difference", "sum"});
  CHECK(std::is_sorted(at.begin(), at.end()));
  options.order = {"z_first", "a_second", "sum", "unknown"};
  at = places(header(), {"z_first", "a_second", "m_third", "sum", "difference"});
  CHECK(std::is_sorted(at.begin(), at.end()));

  const Scratch folder;
  write_files(folder, export_program(program, options));
  const std::vector<std::pair<const char*, Tensor>> fed = {{"z", Tensor::from({1.f, 2.f})},
                                                           {"a", Tensor::from({10.f, 20.f})},
                                                           {"m", Tensor::from({100.f, 200.f})}};
  for (const auto& [name, tensor] : fed) folder.write(name, raw(tensor));
  check_with(compilers()[0], folder, "z a m", {101, 202, -9, -18});
}
