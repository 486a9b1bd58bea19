// The C device against the interpreter: every op on every dtype, and the shapes of loops that schedules make.
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "runtime/c_compiler.hpp"
#include "support/device_suite.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {
runtime::Device& c() {
  static const auto device = runtime::make_c_device();
  return *device;
}
} // namespace

TEST_CASE("every op on every dtype, scalars and vectors") { check_ops(c()); }
TEST_CASE("every cast and bitcast, scalars and vectors") { check_casts(c()); }
TEST_CASE("loops as schedules make them") { check_loops(c()); }

namespace {

struct Cache : test::CacheDir {
  std::vector<std::filesystem::path> objects() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.path().extension() == ".so") found.push_back(entry.path());
    return found;
  }
};

const ast::Kernel& doubling() {
  static const ast::Kernel kernel =
      ast::parse("kernel doubling(A: f32[5] in, O: f32[5] out) {\nfor i in 5 { O[i] = A[i] + A[i] }\n}");
  return kernel;
}

} // namespace

TEST_CASE("objects are kept on disk, and damaged ones built again") {
  const Cache cache;
  CHECK(compare(c(), doubling()) == "");
  REQUIRE(cache.objects().size() == 1);
  const auto object = cache.objects()[0];
  const auto size = std::filesystem::file_size(object);
  const auto written = std::filesystem::last_write_time(object);
  CHECK(compare(c(), doubling()) == "");
  CHECK(std::filesystem::last_write_time(object) == written);

  std::filesystem::resize_file(object, size / 2); // a write cut short
  CHECK(compare(c(), doubling()) == "");
  CHECK(std::filesystem::file_size(object) == size);
  std::fstream(object, std::ios::in | std::ios::out | std::ios::binary).seekp(100) << "damage";
  CHECK(compare(c(), doubling()) == "");
  std::ofstream(object, std::ios::trunc) << "";
  CHECK(compare(c(), doubling()) == "");
  CHECK(std::filesystem::file_size(object) == size);
  CHECK(cache.objects().size() == 1);
}

TEST_CASE("a cache that can't be written is no cache") {
  const test::Variable nowhere("LATHE_CACHE_DIR", "/dev/null/nowhere");
  CHECK(compare(c(), doubling()) == "");
}

TEST_CASE("a compiler that is absent, and one that refuses the source") {
  const Cache cache;
  {
    const test::Variable absent("CC", "/nonexistent/cc");
    CHECK(message_of([] { runtime::make_c_device(); }).find("no C compiler runs") != std::string::npos);
  }
  const auto compiler = runtime::CCompiler::find();
  const std::string message =
      message_of([&] { compiler.build("int f(void) { return missing; }", {"-shared", "-fPIC"}); });
  CHECK(message.find("c: ") == 0);
  CHECK(message.find("missing") != std::string::npos);
  CHECK(std::filesystem::is_empty(cache.path));
}

TEST_CASE("many threads compile and launch at once") {
  const Cache cache;
  const auto shared = c().compile(doubling(), {.threads = 2});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Contents want = sample_contents(doubling(), {}, false, static_cast<uint64_t>(t)), got = want;
      interpret(doubling(), want, {});
      const auto own = c().compile(doubling(), {.threads = 2});
      for (const runtime::Program* program : {own.get(), shared.get()}) {
        run_on(c(), *program, got, {});
        if (!first_difference(doubling(), got, want, 0).empty()) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("the same bits for any number of threads") {
  const ast::Kernel kernel = ast::parse(matmul_text(24, 64, 33, 4, 32, 16, true));
  Contents first;
  for (int threads : {1, 2, 3, 4}) {
    Contents contents = sample_contents(kernel, {}, false, 5);
    run_on(c(), *c().compile(kernel, {.threads = threads}), contents, {});
    if (first.empty()) first = contents;
    CHECK(contents == first);
  }
}

TEST_CASE("kernels for other processors than this one's best") {
  for (const char* cpu : {"x86-64", "x86-64-v2", "x86-64-v3"}) {
    const ast::Kernel kernel = ast::parse(matmul_text(13, 37, 21, 3, 16, 16, false));
    Contents want = sample_contents(kernel, {}, false, 6), got = want;
    interpret(kernel, want, {});
    run_on(c(), *c().compile(kernel, {.threads = 1, .cpu = cpu}), got, {});
    CHECK(first_difference(kernel, got, want, 1e-5) == "");
  }
}
