// Standalone C: what it asks of a compiler, and that it computes the same when a plain compiler builds it.
#include <doctest/doctest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "render/c_names.hpp"
#include "render/render.hpp"
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

const render::COptions standalone = {.vector_bytes = 64, .standalone = true, .scratch_offsets = {}};

} // namespace

TEST_CASE("standalone source of every sample compiles as strict C11 without a warning") {
  const Folder folder;
  std::string source = render::c_prelude();
  int number = 0;
  const auto add = [&](ast::Kernel kernel) {
    kernel.name = fmt::format("k{}", number++);
    source += render::render_c(kernel, standalone);
  };
  for (const SampleKernel& sample : sample_kernels()) add(ast::parse(sample.text));
  for (int i = 0; i < kDTypeCount; ++i)
    for (int width : {0, 16}) {
      add(arithmetic_kernel(static_cast<DType>(i), width));
      add(cast_kernel(static_cast<DType>(i), width));
    }
  const std::string file = (folder.path / "all.c").string();
  std::ofstream(file) << source;
  CHECK(succeeds(fmt::format("cc -std=c11 -Wall -Werror -c -o {0}.o {0}", file)));
  if (succeeds("command -v clang > /dev/null 2>&1"))
    CHECK(succeeds(fmt::format("clang -std=c11 -Wall -Werror -c -o {0}.o {0}", file)));
}

TEST_CASE("standalone source computes what the interpreter does") {
  const Folder folder;
  ast::Kernel kernel = ast::parse(matmul_text(13, 37, 21, 3, 16, 16, true));
  const std::string file = (folder.path / "matmul.c").string();
  std::ofstream(file) << render::c_prelude() << render::render_c(kernel, standalone);
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

TEST_CASE("parts of vectors, maxima, choices and conversions, whatever the target has for them") {
  struct Target {
    std::string flags;
    std::vector<int> vector_bytes;
  };
  std::vector<Target> targets = {{"", {16, 64}}};
#if defined(__x86_64__)
  targets = {{"-march=x86-64", {64}}};
  if (__builtin_cpu_supports("sse4.1")) targets.push_back({"-march=x86-64 -msse4.1", {16}});
  if (__builtin_cpu_supports("avx2")) targets.push_back({"-march=x86-64-v3", {32}});
  if (__builtin_cpu_supports("avx512f")) targets.push_back({"-march=x86-64 -mavx512f", {64}});
  if (__builtin_cpu_supports("avx512vl")) targets.push_back({"-march=native", {16, 64}});
#endif
  std::vector<std::string> compilers = {"cc"};
  if (succeeds("command -v clang > /dev/null 2>&1")) compilers.push_back("clang");
  // Six buffers each, called with as many pointers.
  std::vector<ast::Kernel> kernels = {
      ast::parse(parts_text("f32", 16, 13)), ast::parse(parts_text("f64", 8, 5)),
      ast::parse(parts_text("u32", 8, 7)), ast::parse(parts_text("i8", 16, 9))};
  const size_t parts = kernels.size();
  std::vector<DType> numbers;
  for (int i = 0; i < kDTypeCount; ++i)
    if (const auto dtype = static_cast<DType>(i); dtype != DType::Bool && !is_half(dtype))
      numbers.push_back(dtype);
  for (size_t i = 0; i < numbers.size(); ++i) {
    kernels.push_back(ast::parse(choices_text(numbers[i], 16)));
    std::vector<DType> others = numbers;
    others.erase(others.begin() + static_cast<long>(i));
    others.insert(others.begin(), DType::Bool);
    for (auto five = others.begin(); five != others.end(); five += 5)
      kernels.push_back(ast::parse(conversions_text(numbers[i], {five, five + 5})));
  }
  const Folder folder;
  for (const Target& target : targets)
    for (const std::string& compiler : compilers)
      for (int bytes : target.vector_bytes) {
        std::string source = render::c_prelude();
        for (size_t k = 0; k < kernels.size(); ++k) {
          ast::Kernel kernel = kernels[k];
          kernel.name = fmt::format("k{}", k);
          render::COptions options = standalone;
          options.vector_bytes = bytes;
          source += render::render_c(kernel, options);
        }
        const std::string file = (folder.path / "parts.c").string(), object_file = file + ".so";
        std::ofstream(file) << source;
        INFO(compiler << " " << target.flags << " " << bytes);
        REQUIRE(succeeds(fmt::format("{} -std=c11 -O1 {} -shared -fPIC -o {} {} -lm", compiler, target.flags,
                                     object_file, file)));
        void* object = dlopen(object_file.c_str(), RTLD_NOW | RTLD_LOCAL);
        REQUIRE((object != nullptr));
        for (size_t k = 0; k < kernels.size(); ++k) {
          auto function = reinterpret_cast<void (*)(const void*, const void*, void*, void*, void*, void*)>(
              dlsym(object, fmt::format("k{}", k).c_str()));
          REQUIRE((function != nullptr));
          Contents want = sample_contents(kernels[k], {}, k >= parts, 3), got = want;
          interpret(kernels[k], want, {});
          function(got[0].data(), got[1].data(), got[2].data(), got[3].data(), got[4].data(), got[5].data());
          INFO(ast::print(kernels[k]));
          CHECK(first_difference(kernels[k], got, want, 1e-5) == "");
        }
        dlclose(object);
        std::filesystem::remove(object_file);
      }
}

TEST_CASE("narrower vectors and none") {
  const ast::Kernel kernel = ast::parse("kernel k(A: f32[16] in, O: f32[16] out) {\n"
                                        "for l in 16 vector(16) { O[l] = A[l] + A[l] }\n}");
  render::COptions options = standalone;
  const auto has = [&](const char* text) {
    return render::render_c(kernel, options).find(text) != std::string::npos;
  };
  CHECK(has("lathe_f32x16"));
  options.vector_bytes = 16;
  CHECK(has("lathe_f32x4"));
  CHECK_FALSE(has("lathe_f32x16"));
  options.vector_bytes = 0;
  CHECK(has("for (int64_t l = 0; l < 16; ++l)"));
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
