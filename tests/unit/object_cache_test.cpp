// Objects on disk: found again, never wrong, and never more than the limit, with several processes in one
// folder.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/core.h>

#include "runtime/object_cache.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"

using lathe::runtime::ObjectCache;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// A cache folder of this test's own, limited to one MiB.
struct Folder : lathe::test::CacheDir {
  lathe::test::Variable limit{"LATHE_CACHE_MIB", "1"};
  size_t bytes() const {
    size_t sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file()) sum += entry.file_size();
    return sum;
  }
};

std::string object_of(const std::string& key, size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(key)));
  std::string object(bytes, '\0');
  for (char& c : object) c = static_cast<char>(random());
  return object;
}

bool holds(const ObjectCache& cache, const std::string& key, size_t bytes) {
  const auto found = cache.find(key);
  if (!found) return false;
  CHECK(found->object == object_of(key, bytes));
  return true;
}

} // namespace

TEST_CASE("an object is found under its whole key, and not when its file is damaged") {
  const Folder folder;
  const ObjectCache cache("things", ".o");
  CHECK_FALSE(cache.find("a"));
  for (size_t bytes : {0, 1, 7, 8, 1000}) {
    cache.keep("a", object_of("a", bytes));
    CHECK(holds(cache, "a", bytes));
  }
  CHECK_FALSE(cache.find("b"));
  // Keys that share a file's name: the file of another key, as long as this one, is not believed.
  cache.keep("b", object_of("b", 1000));
  fs::copy_file(cache.find("a")->path, cache.find("b")->path, fs::copy_options::overwrite_existing);
  CHECK_FALSE(cache.find("b"));
  const auto path = cache.find("a")->path;
  const auto size = fs::file_size(path);
  for (size_t at = 0; at < size; at += 13) {
    cache.keep("a", object_of("a", 1000));
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int before = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(before ^ 4));
    file.close();
    CHECK_FALSE(cache.find("a"));
  }
  for (size_t cut : {size_t{0}, size_t{5}, size / 2, size - 1}) {
    cache.keep("a", object_of("a", 1000));
    fs::resize_file(path, cut);
    CHECK_FALSE(cache.find("a"));
  }
}

TEST_CASE("what was not used for longest goes when the folder is full") {
  const Folder folder;
  const ObjectCache cache("things", ".o");
  constexpr size_t kBytes = 50000;
  for (int i = 0; i < 100; ++i) {
    const std::string key = fmt::format("object {}", i);
    cache.keep(key, object_of(key, kBytes));
    CHECK(holds(cache, key, kBytes));                   // the newest is there
    if (i > 0) CHECK(holds(cache, "object 0", kBytes)); // used all the time
    CHECK(folder.bytes() < kMiB + 100);
  }
  int held = 0;
  for (int i = 0; i < 100; ++i) held += holds(cache, fmt::format("object {}", i), kBytes);
  CHECK(held >= 10);
  for (int i = 90; i < 100; ++i) CHECK(holds(cache, fmt::format("object {}", i), kBytes));

  cache.keep("large",
             object_of("large", 2 * kMiB)); // larger than the whole folder: not kept, and nothing goes for it
  CHECK_FALSE(cache.find("large"));
  CHECK(holds(cache, "object 99", kBytes));
}

TEST_CASE("a lost or damaged ledger is made anew") {
  const Folder folder;
  const ObjectCache cache("things", ".o");
  for (int i = 0; i < 60; ++i) {
    const std::string key = fmt::format("object {}", i);
    if (i % 7 == 0) fs::remove(folder.path / "things" / "ledger");
    if (i % 7 == 3) std::ofstream(folder.path / "things" / "ledger", std::ios::trunc) << "x";
    cache.keep(key, object_of(key, 50000));
    CHECK(holds(cache, key, 50000));
    CHECK(folder.bytes() < kMiB + 100);
  }
}

TEST_CASE("several processes share a folder") {
  const Folder folder;
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t id = fork();
    REQUIRE(id >= 0);
    if (id == 0) {
      const ObjectCache cache("things", ".o");
      std::mt19937 random(static_cast<unsigned>(child));
      int wrong = 0;
      for (int i = 0; i < 200; ++i) {
        const std::string key = fmt::format("object {}", random() % 80);
        if (const auto found = cache.find(key))
          wrong += found->object != object_of(key, 20000);
        else
          cache.keep(key, object_of(key, 20000));
      }
      _exit(wrong ? 1 : 0);
    }
    children.push_back(id);
  }
  for (const pid_t id : children) {
    int status = 0;
    REQUIRE(waitpid(id, &status, 0) == id);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(folder.bytes() < kMiB + 100);
  const ObjectCache cache("things", ".o");
  int held = 0;
  for (int i = 0; i < 80; ++i) held += holds(cache, fmt::format("object {}", i), 20000);
  CHECK(held > 20);
}
