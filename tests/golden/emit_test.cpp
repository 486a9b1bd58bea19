// Emitted C is one file that compiles alone under -std=c11 -Wall -Werror, and, linked with a five-line
// driver, gives the numbers that the interpreter gives. Emitted OpenCL names no header.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lathe/lathe.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

/// A folder of this test's own, removed at the end.
struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "lathe-emit-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Scratch() { fs::remove_all(path); }
};

void write(const fs::path& file, const void* data, size_t bytes) {
  std::ofstream(file, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void run(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

int64_t count(const KernelParam& param, int64_t var) {
  int64_t n = 1;
  for (Expr size : param.shape) n *= evaluate(size, [&](Expr) { return var; });
  return n;
}

/// Reads every input from stdin, calls the program, writes every output to stdout. All of f32.
std::string driver(const Executable& f, int64_t var) {
  std::string types, memory, calls, read, written;
  auto add = [&](const KernelParam& p, bool input) {
    types += fmt::format("{}float*, ", input ? "const " : "");
    memory += fmt::format("static float {}_[{}];\n", p.name, count(p, var));
    calls += (calls.empty() ? "" : ", ") + p.name + "_";
    if (input)
      read += fmt::format("if (fread({0}_, sizeof {0}_, 1, stdin) != 1) return 1; ", p.name);
    else
      written += fmt::format("fwrite({0}_, sizeof {0}_, 1, stdout); ", p.name);
  };
  for (const KernelParam& p : f.inputs()) add(p, true);
  for (const KernelParam& p : f.outputs()) add(p, false);
  types.resize(types.size() - 2);
  if (var) types += ", int64_t", calls += fmt::format(", {}", var);
  return fmt::format("#include <stdint.h>\n#include <stdio.h>\nvoid lathe_program({});\n{}int main(void) {{ "
                     "{}lathe_program({}); {}return 0; }}\n",
                     types, memory, read, calls, written);
}

/// Emits, compiles and runs; compares with the interpreter. `var` is the value of the one shape variable, if
/// there is one.
void check_emitted(const NamedTensors& program, const NamedTensors& inputs, int64_t var = 0) {
  CompileOptions options;
  options.device = "interp";
  options.use_database = false;
  Executable reference = compile(program, options);
  EmitOptions emit_options;
  emit_options.target = "c";
  emit_options.compile.use_database = false;
  emit_options.compile.device = "c";

  Scratch scratch;
  std::string source = emit(program, emit_options), main = driver(reference, var), in;
  write(scratch.path / "program.c", source.data(), source.size());
  write(scratch.path / "driver.c", main.data(), main.size());
  for (const KernelParam& p : reference.inputs()) {
    std::vector<float> values = inputs.at(p.name).to_vector<float>();
    in.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  write(scratch.path / "in", in.data(), in.size());
  std::string cd = "cd '" + scratch.path.string() + "' && ";
  run(cd + "cc -std=c11 -Wall -Werror -O2 -c program.c");
  run(cd + "cc -std=c11 -Wall -Werror -O2 -o program driver.c program.o -lm && ./program < in > out");

  NamedTensors want = reference(inputs);
  std::ifstream out(scratch.path / "out", std::ios::binary);
  for (const KernelParam& p : reference.outputs()) {
    std::vector<float> expected = want.at(p.name).to_vector<float>(), got(expected.size());
    REQUIRE(out.read(reinterpret_cast<char*>(got.data()),
                     static_cast<std::streamsize>(got.size() * sizeof(float))));
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst,
                       std::abs(double(got[i]) - expected[i]) / std::max(1.0, std::abs(double(expected[i]))));
    CHECK(worst < 1e-5);
  }
  CHECK(out.peek() == EOF);
}

Tensor named_input(const char* name, const Shape& shape) { return Tensor::input(name, shape); }

} // namespace

TEST_CASE("elementwise") {
  Tensor a = named_input("a", {1000}), b = named_input("b", {1000});
  check_emitted({{"y", (a * b + 1).relu() / (b.square() + 1)}},
                {{"a", Tensor::randn({1000}, 1)}, {"b", Tensor::randn({1000}, 2)}});
}

TEST_CASE("a matrix product of odd sizes with bias and gelu") {
  check_emitted(
      {{"y",
        (named_input("x", {37, 65}).matmul(named_input("w", {65, 33})) + named_input("b", {33})).gelu()}},
      {{"x", Tensor::randn({37, 65}, 1)}, {"w", Tensor::randn({65, 33}, 2)}, {"b", Tensor::randn({33}, 3)}});
}

TEST_CASE("softmax, and a second output") {
  Tensor x = named_input("x", {13, 70});
  check_emitted({{"probs", x.softmax(-1)}, {"sum", x.sum()}}, {{"x", Tensor::randn({13, 70}, 1)}});
}

TEST_CASE("a convolution with padding") {
  ConvOptions padded;
  padded.padding = {1};
  check_emitted({{"y", named_input("x", {1, 3, 9, 11}).conv2d(named_input("w", {4, 3, 3, 3}), {}, padded)}},
                {{"x", Tensor::randn({1, 3, 9, 11}, 1)}, {"w", Tensor::randn({4, 3, 3, 3}, 2)}});
}

TEST_CASE("a symbolic size") {
  Var n("n", 1, 100);
  check_emitted({{"y", named_input("x", {n, 24}).matmul(named_input("w", {24, 5})).softmax(-1)}},
                {{"x", Tensor::randn({17, 24}, 1)}, {"w", Tensor::randn({24, 5}, 2)}}, 17);
}

TEST_CASE("emitted CUDA C says how its kernels are launched; nothing runs them here") {
  EmitOptions options;
  options.target = "cuda";
  options.compile.use_database = false;
  const Tensor y = named_input("x", {64, 64}).softmax(-1);
  const std::string source = emit(y, options);
  CHECK(source.find("extern \"C\" __global__ __launch_bounds__(") != std::string::npos);
  CHECK(source.find("groups of") != std::string::npos);
  CHECK(source.find("// launch k_t") != std::string::npos);
  for (const DeviceInfo& device : devices()) CHECK(device.name != "cuda");
  CompileOptions compiled;
  compiled.device = "cuda";
  CHECK_THROWS_WITH(compile({{"y", y}}, compiled),
                    doctest::Contains("device \"cuda\" is unknown, expected cpu, c, opencl or interp"));
}

TEST_CASE("emitted OpenCL stands alone") {
  EmitOptions options;
  options.target = "opencl";
  options.compile.use_database = false;
  std::string source = emit(named_input("x", {64, 64}).softmax(-1), options);
  CHECK(source.find("__kernel") != std::string::npos);
  CHECK(source.find("#include") == std::string::npos);
}

namespace {

/// The comments before the kernels of a source.
std::string comments(const std::string& source) {
  std::string out;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("// ")) out += line + "\n";
  return out;
}

EmitOptions with_moves(const char* target, std::vector<std::string> moves) {
  EmitOptions options;
  options.target = target;
  options.compile.use_database = false;
  options.compile.moves = std::move(moves);
  return options;
}

} // namespace

TEST_CASE("a kernel begins with what it computes, its schedule and its predicted time") {
  const Tensor y =
      (named_input("x", {24, 40}).matmul(named_input("w", {40, 16})) + named_input("b", {16})).relu();
  for (const char* target : {"c", "opencl", "cuda"}) {
    const std::string text = comments(
        emit({{"y", y}}, with_moves(target, {"inline(t0)", "inline(t2)", "fuse_at(t1, t3.i0, packed)"})));
    INFO(text);
    CHECK(text.find("// reads      x f32[24, 40], w f32[40, 16], b f32[16]\n"
                    "// computes   t1 f32[24, 16]: t1[i0, i1] = sum over r2 < 40 of x[i0, r2] * w[r2, i1]\n"
                    "//            t3 f32[24, 16]: t3[i0, i1] = relu(t1[i0, i1] + b[i1]), the output \"y\"\n"
                    "// schedule   inline(t0); inline(t2); fuse_at(t1, t3.i0, packed)\n"
                    "// predicted  ") != std::string::npos);
  }
}

TEST_CASE("no name gets out of a comment") {
  const std::string text = comments(emit({{"y\n#error\\\\?"
                                           "?/",
                                           named_input("x", {5}).exp()}},
                                         with_moves("c", {})));
  INFO(text);
  CHECK(text.find("the output \"y_#error__?_/\"\n") != std::string::npos);
  const std::string grid =
      comments(emit({{"y\n#error", named_input("x", {5}).exp()}}, with_moves("cuda", {})));
  CHECK(grid.find("// output y_#error is t") != std::string::npos);
}

TEST_CASE("loops along an axis of a named size have its name") {
  const Var n("rows", 1, 100);
  const std::string source =
      emit({{"y", named_input("x", {n, 24}).sum({0})}}, with_moves("c", {"split(t0.r0, 4)"}));
  INFO(source);
  CHECK(source.find("t0[i1] = sum over r_rows < rows of x[r_rows, i1]") != std::string::npos);
  CHECK(source.find("for (int64_t t0_r_rows_o = 0; ") != std::string::npos);
  CHECK(source.find("for (int64_t t0_r_rows_i = 0; ") != std::string::npos);
  CHECK(source.find("for (int64_t t0_i1 = 0; ") != std::string::npos);
}

TEST_CASE("coefficients of functions have names, and only those that a file uses are defined") {
  for (const char* target : {"c", "opencl", "cuda"}) {
    const std::string source = emit(named_input("x", {50}).exp(), with_moves(target, {}));
    INFO(source);
    CHECK(source.find("#define lathe_exp_c3 0.16666487f\n") != std::string::npos);
    CHECK(source.find("lathe_exp_c3", source.find("// predicted")) != std::string::npos);
    CHECK(source.find("0.16666487f", source.find("// predicted")) == std::string::npos);
    CHECK(source.find("lathe_log_c3") == std::string::npos);
  }
}
