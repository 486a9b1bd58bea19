// The cpu device: programs that come and go, on several threads, and the objects it keeps on disk.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/cpu_device.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"
#include "support/kernel_check.hpp"
#include "support/sample_kernels.hpp"

using namespace lathe;
using namespace lathe::test;
namespace fs = std::filesystem;

namespace {

/// A cache of this test's own.
struct Cache : test::CacheDir {
  std::vector<fs::path> objects() const {
    std::vector<fs::path> out;
    if (fs::exists(path / "objects"))
      for (const auto& entry : fs::directory_iterator(path / "objects"))
        if (entry.path().extension() == ".o") out.push_back(entry.path());
    return out;
  }
};

ast::Kernel scaled(int by) {
  return ast::parse("kernel k(A: f32[100] in, O: f32[100] out) { for i in 100 { O[i] = A[i] * " +
                    std::to_string(by) + ":f32 } }");
}

std::string difference(const ast::Kernel& kernel, const runtime::CompileFlags& flags) {
  const auto program = cpu().compile(kernel, flags);
  Contents want = sample_contents(kernel, {}, false, 3), got = want;
  interpret(kernel, want, {});
  run_on(cpu(), *program, got, {});
  return first_difference(kernel, got, want, 1e-5);
}

} // namespace

TEST_CASE("objects are kept on disk, and a damaged one is made anew") {
  Cache cache;
  const ast::Kernel kernel = scaled(3);
  CHECK(difference(kernel, {}) == "");
  REQUIRE(cache.objects().size() == 1);
  const fs::path object = cache.objects()[0];
  const auto size = fs::file_size(object);
  const auto written = fs::last_write_time(object);
  CHECK(difference(kernel, {}) == "");
  CHECK(fs::last_write_time(object) == written); // found, not made again
  for (int damage = 0; damage < 4; damage++) {
    CAPTURE(damage);
    if (damage == 0) fs::resize_file(object, size / 2);
    if (damage == 1) fs::resize_file(object, 0);
    if (damage == 2) fs::resize_file(object, size + 100);
    if (damage == 3) {
      std::fstream file(object, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(size - 200));
      file.put('#');
    }
    CHECK(difference(kernel, {}) == "");
    CHECK(fs::file_size(object) == size);
  }
  CHECK(difference(scaled(5), {}) == "");
  CHECK(cache.objects().size() == 2);
  CHECK(difference(scaled(7), {.candidate = true}) == ""); // candidates are many: not kept
  CHECK(cache.objects().size() == 2);
}

TEST_CASE("a cache that can't be written is none") {
  const test::Variable nowhere("LATHE_CACHE_DIR", "/dev/null/nowhere");
  CHECK(difference(scaled(11), {}) == "");
}

TEST_CASE("a kernel whose registers overflow the stack is refused") {
  Cache cache;
  for (const char* size : {"3000000000", "1000000"}) {
    const auto kernel =
        ast::parse(fmt::format("kernel k(A: f32[{0}] in, O: f32[{0}] out) {{\n"
                               "alloc R: f32[{0}] register {{\nfor i in {0} {{ R[i] = A[i] }}\n"
                               "for i in {0} {{ O[i] = R[{0} - 1 - i] }}\n}}\n}}",
                               size));
    CHECK_THROWS_WITH_AS(cpu().compile(kernel, {}), doctest::Contains("stack frame size"), Error);
  }
}

TEST_CASE("eight threads compile, run and drop programs at once") {
  Cache cache;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 6; i++) {
        const auto text = i % 2 ? matmul_text(12 + t, 32, 5, 4, 16, 16, true) : "";
        const ast::Kernel kernel = i % 2 ? ast::parse(text) : scaled(100 * t + i);
        if (!difference(kernel, {.threads = 2, .candidate = i % 3 == 0}).empty()) wrong++;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("one program runs on several threads, and gives the same bits with any number of workers") {
  Cache cache;
  const ast::Kernel kernel = ast::parse(matmul_text(24, 64, 33, 4, 32, 16, true));
  Contents first;
  for (int workers : {1, 2, 4}) {
    const auto program = cpu().compile(kernel, {.threads = workers});
    std::vector<Contents> results(4, sample_contents(kernel, {}, false, 9));
    std::vector<std::thread> threads;
    for (Contents& result : results) threads.emplace_back([&] { run_on(cpu(), *program, result, {}); });
    for (auto& thread : threads) thread.join();
    for (const Contents& result : results) {
      if (first.empty()) first = result;
      CHECK(result == first);
    }
  }
}

TEST_CASE("a dropped program's memory is given back") {
  Cache cache;
  auto mapped = [] { // pages of this process
    std::ifstream in("/proc/self/statm");
    long pages = 0;
    in >> pages;
    return pages;
  };
  const auto compile = [](int i) { cpu().compile(scaled(i), {.candidate = true}); };
  for (int i = 0; i < 50; i++) compile(i);
  const long before = mapped();
  for (int i = 0; i < 200; i++) compile(1000 + i);
  CHECK(mapped() - before < 200); // a kernel takes at least two pages of its own
}

TEST_CASE("a program shows its source and takes many buffers") {
  Cache cache;
  std::string text = "kernel sum(";
  std::string value;
  for (int i = 0; i < 40; i++) {
    text += fmt::format("a{}: i32[5] in, ", i);
    value += fmt::format("{}a{}[i]", i ? " + " : "", i);
  }
  const ast::Kernel kernel = ast::parse(text + "out: i32[5] out) { for i in 5 { out[i] = " + value + " } }");
  CHECK(difference(kernel, {}) == "");
  CHECK(cpu().source(kernel, {}).find("define void @lathe_kernel") != std::string::npos);
  CHECK(cpu().name() == "cpu");
  CHECK(cpu().description().find("LLVM") == 0);
}
