// Standalone C: what it asks of a compiler, and that it computes the same when a plain compiler builds it.
#include <doctest/doctest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/format.h>

#include "ast/passes/prepare.hpp"
#include "lathe/error.hpp"
#include "render/c_names.hpp"
#include "render/render.hpp"
#include "runtime/kernel_abi.hpp"
#include "support/kernel_check.hpp"
#include "support/op_kernels.hpp"
#include "support/sample_kernels.hpp"

using namespace lathe;
using namespace lathe::test;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("lathe-render-{}", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

bool succeeds(const std::string& command) { return std::system(command.c_str()) == 0; }

/// A function of a file of its own, to be called from elsewhere.
std::string standalone(const ast::Kernel& kernel, int vector_bytes = 64) {
  std::string text = render::render_c(kernel, {.vector_bytes = vector_bytes,
                                               .standalone = true,
                                               .scratch_offsets = runtime::layout_scratch(kernel).offset_of});
  const std::string is_static = "static ", head = is_static + "void " + render::function_name(kernel) + "(";
  return text.erase(text.find(head), is_static.size());
}

std::vector<std::string> compilers() {
  if (succeeds("command -v clang > /dev/null 2>&1")) return {"cc", "clang"};
  return {"cc"};
}

using ContentsOf = std::function<Contents(const ast::Kernel&)>;

/// What `compiler`, a command with its flags, makes of the kernels computes what the interpreter does. Each
/// kernel has six buffers.
void check_compiled(const std::vector<ast::Kernel>& kernels, const std::string& compiler, int vector_bytes,
                    const ContentsOf& contents, double tolerance) {
  const Folder folder;
  std::string source;
  for (size_t k = 0; k < kernels.size(); ++k) {
    ast::Kernel kernel = kernels[k];
    kernel.name = fmt::format("k{}", k);
    source += standalone(kernel, vector_bytes);
  }
  const std::string file = (folder.path / "kernels.c").string(), object_file = file + ".so";
  std::ofstream(file) << render::c_prelude(source) << source;
  INFO(compiler << " " << vector_bytes);
  REQUIRE(succeeds(fmt::format("{} -std=c11 -shared -fPIC -o {} {} -lm", compiler, object_file, file)));
  void* object = dlopen(object_file.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE((object != nullptr));
  for (size_t k = 0; k < kernels.size(); ++k) {
    auto function = reinterpret_cast<void (*)(const void*, const void*, const void*, void*, void*, void*)>(
        dlsym(object, fmt::format("k{}", k).c_str()));
    REQUIRE((function != nullptr));
    Contents want = contents(kernels[k]), got = want;
    interpret(kernels[k], want, {});
    function(got[0].data(), got[1].data(), got[2].data(), got[3].data(), got[4].data(), got[5].data());
    INFO(ast::print(kernels[k]));
    CHECK(first_difference(kernels[k], got, want, tolerance) == "");
  }
  dlclose(object);
}

Contents plain(const ast::Kernel& kernel) { return sample_contents(kernel, {}, false, 3); }
Contents edges(const ast::Kernel& kernel) { return sample_contents(kernel, {}, true, 3); }

} // namespace

TEST_CASE("standalone source of every sample compiles as strict C11 without a warning") {
  const Folder folder;
  std::string source;
  int number = 0;
  const auto add = [&](ast::Kernel kernel) {
    kernel.name = fmt::format("k{}", number++);
    source += standalone(kernel);
  };
  for (const SampleKernel& sample : sample_kernels()) add(ast::parse(sample.text));
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 16}) {
      add(arithmetic_kernel(static_cast<DType>(i), width));
      add(cast_kernel(static_cast<DType>(i), width));
    }
  const std::string file = (folder.path / "all.c").string();
  std::ofstream(file) << render::c_prelude(source) << source;
  CHECK(succeeds(fmt::format("cc -std=c11 -Wall -Werror -c -o {0}.o {0}", file)));
  if (succeeds("command -v clang > /dev/null 2>&1"))
    CHECK(succeeds(fmt::format("clang -std=c11 -Wall -Werror -c -o {0}.o {0}", file)));
}

TEST_CASE("standalone source computes what the interpreter does") {
  const Folder folder;
  ast::Kernel kernel = ast::parse(matmul_text(13, 37, 21, 3, 16, 16, true));
  const std::string file = (folder.path / "matmul.c").string();
  const std::string source = standalone(kernel);
  std::ofstream(file) << render::c_prelude(source) << source;
  REQUIRE(succeeds(fmt::format("cc -std=c11 -O1 -shared -fPIC -o {0}.so {0} -lm", file)));
  void* object = dlopen((file + ".so").c_str(), RTLD_NOW);
  REQUIRE((object != nullptr));
  auto function = reinterpret_cast<void (*)(const void*, const void*, void*)>(dlsym(object, "matmul"));
  REQUIRE((function != nullptr));
  Contents want = sample_contents(kernel, {}, false, 3), got = want;
  interpret(kernel, want, {});
  function(got[0].data(), got[1].data(), got[2].data());
  CHECK(first_difference(kernel, got, want, 1e-5) == "");
  dlclose(object);
}

TEST_CASE("parts of vectors, whatever the target has for them") {
  std::vector<std::string> targets = {""};
#if defined(__x86_64__)
  targets = {"-march=x86-64"};
  if (__builtin_cpu_supports("avx2")) targets.push_back("-march=x86-64 -mavx2");
  if (__builtin_cpu_supports("avx512f")) targets.push_back("-march=x86-64 -mavx512f");
  if (__builtin_cpu_supports("avx512vl")) targets.push_back("-march=native");
#endif
  const std::vector<ast::Kernel> kernels = {
      ast::parse(parts_text("f32", 16, 13)), ast::parse(parts_text("f64", 8, 5)),
      ast::parse(parts_text("u32", 8, 7)), ast::parse(parts_text("i8", 16, 9))};
  for (const std::string& target : targets)
    for (const std::string& compiler : compilers())
      for (int bytes : {16, 64}) check_compiled(kernels, compiler + " -O2 " + target, bytes, plain, 1e-5);
}

TEST_CASE("maxima, choices and conversions of vectors, whatever the target has for them") {
  struct Target {
    std::string flags;
    int vector_bytes;
  };
  std::vector<Target> targets = {{"", 64}};
#if defined(__x86_64__)
  targets = {{"-march=x86-64", 16}};
  if (__builtin_cpu_supports("avx2")) targets.push_back({"-march=x86-64-v3", 32});
  if (__builtin_cpu_supports("avx512vl")) targets.push_back({"-march=native", 64});
#endif
  std::vector<DType> numbers;
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto dtype = static_cast<DType>(i); dtype != DType::Bool) numbers.push_back(dtype);
  std::vector<ast::Kernel> kernels;
  for (size_t i = 0; i < numbers.size(); ++i) {
    kernels.push_back(ast::parse(choices_text(numbers[i], 16)));
    std::vector<DType> others = numbers;
    others.erase(others.begin() + static_cast<long>(i));
    others.insert(others.begin(), DType::Bool);
    for (size_t first : {size_t(0), size_t(5), others.size() - 5}) {
      const auto five = others.begin() + static_cast<long>(first);
      kernels.push_back(ast::parse(conversions_text(numbers[i], {five, five + 5})));
    }
  }
  const std::vector<ast::Kernel> parts_of_halves = {ast::parse(parts_text("f16", 16, 13)),
                                                    ast::parse(parts_text("bf16", 8, 5))};
  for (const Target& target : targets)
    for (const std::string& compiler : compilers()) {
      check_compiled(kernels, compiler + " -O0 " + target.flags, target.vector_bytes, edges, 0);
      check_compiled(parts_of_halves, compiler + " -O0 " + target.flags, target.vector_bytes, plain,
                     1e-2); // sums of halves, rounded in another order
    }
}

TEST_CASE("a product with a power of two has the same bits, whatever the target has for it") {
  const ast::Kernel kernel = ast::expand_math(ast::parse(
      R"(kernel k(a: f32[4096] in, b: f32[16] in, c: f32[4096] in, y: f32[4096] out, s: f32[4096] out, z: f32[4096] out) {
  for i in 256 {
    for l in 16 vector(16) {
      y[i*16 + l] = exp2(a[i*16 + l])
      s[i*16 + l] = ((exp2(a[i*16 + l]) + b[l])*(b[l] - exp2(c[i*16 + l])))
      z[i*16 + l] = exp2((a[i] + b[0]))
    }
  }
  for j in 4096 {
    z[j] += exp2(c[j])
  }
})"));
  // From where the result is 0, by all that is subnormal, to where it is infinite.
  const ContentsOf exponents = [](const ast::Kernel& k) {
    Contents contents = plain(k);
    for (const size_t buffer : {0, 2})
      for (int64_t i = 0; i < 4096; ++i) {
        const float x = -153 + static_cast<float>(i) * (284.0f / 4096);
        std::memcpy(contents[buffer].data() + 4 * i, &x, 4);
      }
    return contents;
  };
  std::vector<std::string> targets = {""};
#if defined(__x86_64__)
  targets = {"-march=x86-64-v3"};
  if (__builtin_cpu_supports("avx512f")) targets.push_back("-march=x86-64-v3 -mavx512f");
  if (__builtin_cpu_supports("avx512vl")) targets.push_back("-march=native");
#endif
  for (const std::string& target : targets)
    for (const std::string& compiler : compilers())
      for (int bytes : {16, 64})
        check_compiled({kernel}, compiler + " -O2 -ffp-contract=off " + target, bytes, exponents, 0);
}

TEST_CASE("vectors of halves: all there are, and floats near them") {
  constexpr int all = 1 << 16;
  const std::vector<ast::Kernel> kernels = {
      ast::parse("kernel halves(A: f16[65536] in, B: f32[65536] in, C: f32[65536] in, O: f32[65536] out, "
                 "P: f16[65536] out, Q: bf16[65536] out) {\nfor i in 4096 { for l in 16 vector(16) {\n"
                 "O[i*16 + l] = cast_f32(A[i*16 + l])\nP[i*16 + l] = cast_f16(B[i*16 + l])\n"
                 "Q[i*16 + l] = cast_bf16(C[i*16 + l])\n} }\n}")};
  const ContentsOf contents = [&](const ast::Kernel& kernel) {
    Contents c = sample_contents(kernel, {}, false, 1);
    for (int i = 0; i < all; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(&c[0][2 * size_t(i)], &bits, 2);
      // Halfway to the next one, or one step of a float to either side of that.
      const auto value = static_cast<float>(Scalar::from_memory(DType::F16, &c[0][2 * size_t(i)]).as_float());
      const uint32_t step = static_cast<uint32_t>(i % 3) - 1,
                     near = std::bit_cast<uint32_t>(value) + 0x1000 + step;
      const uint32_t brain = (uint32_t(bits) << 16) + 0x8000 + step;
      std::memcpy(&c[1][4 * size_t(i)], &near, 4);
      std::memcpy(&c[2][4 * size_t(i)], &brain, 4);
    }
    return c;
  };
  check_compiled(kernels, "cc", 16, contents, 0);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) check_compiled(kernels, "cc -march=x86-64-v3", 32, contents, 0);
  if (__builtin_cpu_supports("avx512vl")) check_compiled(kernels, "cc -march=native", 64, contents, 0);
#endif
}

TEST_CASE("what copies that advance together hand on are variables, as long as the function may be") {
  std::string value = "x[i*64 + c*16 + l]";
  for (int step = 0; step < 80; ++step) value = "(" + value + " * 0.5:f32 + x[i*64 + c*16 + l])";
  const ast::Kernel kernel =
      ast::parse("kernel k(x: f32[256] in, y: f32[256] out) {\nfor i in 4 {\nfor c in 4 unroll {\n"
                 "for l in 16 vector(16) {\ny[i*64 + c*16 + l] = " +
                 value + "\n}\n}\n}\n}");
  const ast::Kernel prepared = ast::prepare(kernel);
  REQUIRE(ast::print(prepared).find("alloc y.s") != std::string::npos);
  const std::string source = standalone(prepared);
  for (size_t at = source.find("y_s"); at != std::string::npos; at = source.find("y_s", at + 1)) {
    const size_t end = source.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at);
    CHECK(source[end] != '['); // an array
  }
}

TEST_CASE("narrower vectors and none") {
  const ast::Kernel kernel = ast::parse("kernel k(A: f32[16] in, O: f32[16] out) {\n"
                                        "for l in 16 vector(16) { O[l] = A[l] + A[l] }\n}");
  const auto has = [&](int vector_bytes, const char* text) {
    return standalone(kernel, vector_bytes).find(text) != std::string::npos;
  };
  CHECK(has(64, "lathe_f32x16"));
  CHECK(has(16, "lathe_f32x4"));
  CHECK_FALSE(has(16, "lathe_f32x16"));
  CHECK(has(0, "for (int64_t l = 0; l < 16; ++l)"));
}

TEST_CASE("identifiers") {
  CHECK(render::identifier("t3.i0") == "t3_i0");
  CHECK(render::identifier("float") == "float_");
  CHECK(render::identifier("float4") == "float4_");
  CHECK(render::identifier("v12") == "v12_");
  CHECK(render::identifier("vec") == "vec");
  CHECK(render::identifier("0a") == "t0a");
  CHECK(render::identifier("__x") == "t__x");
  CHECK(render::identifier("lathe_min") == "lathe_min_");
  render::Names names;
  CHECK(names.fresh("a.b") == "a_b");
  CHECK(names.fresh("a_b") == "a_b_1");
}

TEST_CASE("a barrier has no meaning on the c device") {
  const ast::Kernel kernel = ast::parse("kernel k(O: f32[1] out) {\nbarrier\nO[0] = 1:f32\n}");
  CHECK_THROWS_AS(render::render_c(kernel, {}), Error);
}
