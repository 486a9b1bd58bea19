// Programs compile and run whatever lies where the cache's files should be.
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "lathe/lathe.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

/// In a process of its own, which has nothing in memory.
void check_compiles(const std::string& device) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = false;
    try {
      const Tensor x = Tensor::input("x", {7});
      const Executable program = compile({{"y", (x * 3.0f).exp2()}}, {.device = device, .threads = 1});
      const Tensor y = program({{"x", Tensor::from({0.f, 1.f, 2.f, 3.f, 4.f, -1.f, -2.f})}}).at("y");
      right = y.to_vector<float>() == std::vector<float>{1, 8, 64, 512, 4096, 0.125f, 0.015625f};
    } catch (const std::exception& e) {
      std::fputs(e.what(), stderr);
    }
    std::exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

bool is_there(const std::string& device) {
  for (const DeviceInfo& info : devices())
    if (info.name == device) return info.available;
  return false;
}

void each_file(const fs::path& folder, const std::function<void(const fs::path&)>& f) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  REQUIRE(!files.empty());
  for (const fs::path& file : files) f(file);
}

} // namespace

TEST_CASE("whatever lies in the place of the cache's files") {
  const std::function<void(const fs::path&)> hostile[] = {
      [](const fs::path& file) { // a folder
        fs::remove(file);
        fs::create_directory(file);
      },
      [](const fs::path& file) { // a pipe that nobody writes to
        fs::remove(file);
        ::mkfifo(file.c_str(), 0600);
      },
      [](const fs::path& file) { // a link to nothing
        fs::remove(file);
        fs::create_symlink("/nowhere/at all", file);
      },
      [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); },
      [](const fs::path& file) { ::chmod(file.c_str(), 0666); },
  };
  for (const char* device : {"cpu", "c"})
    for (const auto& change : hostile) {
      if (!is_there(device)) continue;
      const test::CacheDir cache;
      check_compiles(device);
      each_file(cache.path, change);
      check_compiles(device);
    }
}

TEST_CASE("a folder in the place of the database, and a file in the place of the cache") {
  const test::CacheDir cache;
  fs::create_directories(cache.file("tuning.db"));
  fs::create_directories(cache.file("machine.json"));
  check_compiles(default_device());
  const test::TemporaryDir dir;
  test::write_file(dir.file("file"), "text");
  const test::Variable elsewhere("LATHE_CACHE_DIR", dir.file("file").c_str());
  check_compiles(default_device());
  check_compiles("c");
}

TEST_CASE("the database is one file when a program that tuned has ended") {
  const test::CacheDir cache;
  const pid_t child = ::fork();
  if (child == 0) {
    const Tensor x = Tensor::input("x", {64, 64});
    TuneOptions tune;
    tune.budget_seconds = 1;
    compile({{"y", x.matmul(x)}}, {.device = default_device(), .threads = 1, .tune = tune});
    std::exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(fs::exists(cache.file("tuning.db")));
  CHECK(!fs::exists(cache.file("tuning.db-wal")));
}

TEST_CASE("tuning that can't be stored goes on with what it found") {
  const test::CacheDir cache;
  fs::create_directories(cache.file("tuning.db"));
  const Tensor x = Tensor::input("x", {64, 64});
  TuneProgress last;
  TuneOptions tune;
  tune.budget_seconds = 1;
  tune.progress = [&](const TuneProgress& progress) { last = progress; };
  const Executable program =
      compile({{"y", x.matmul(x)}}, {.device = default_device(), .threads = 1, .tune = tune});
  CHECK(program.tuned());
  CHECK(last.not_stored.find("tuning.db") != std::string::npos);
}
