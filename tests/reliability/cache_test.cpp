// The cache holds code: nobody but its user and root can put any there, or have its files written elsewhere.
#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "core/files.hpp"
#include "lathe/error.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

} // namespace

TEST_CASE("a user without a home has a folder of his own among the temporary files, or none") {
  const test::TemporaryDir dir;
  const test::Variable cache("LATHE_CACHE_DIR", nullptr), home("HOME", nullptr),
      temporary("TMPDIR", dir.path.c_str());
  const std::string mine = dir.file("lathe-" + std::to_string(::geteuid()));
  CHECK(cache_dir() == mine);
  CHECK(mode_of(mine) == 0700);
  CHECK(cache_dir() == mine);
  ::chmod(mine.c_str(), 0770);
  CHECK(cache_dir().empty());
  fs::remove(mine);
  fs::create_directory(dir.file("elsewhere"));
  fs::create_symlink(dir.file("elsewhere"), mine);
  CHECK(cache_dir().empty());
  fs::remove(mine);
  if (::geteuid() == 0) {
    fs::create_directory(mine);
    REQUIRE(::chown(mine.c_str(), 65534, 65534) == 0);
    ::chmod(mine.c_str(), 0700);
    CHECK(cache_dir().empty());
  }
}

TEST_CASE("what others may have written is not read") {
  const test::CacheDir cache;
  const std::string file = cache.file("objects/a");
  write_atomically(file, "code");
  CHECK(mode_of(cache.file("objects")) == 0700);
  CHECK(read_cached(file) == "code");
  ::chmod(file.c_str(), 0666);
  CHECK(!read_cached(file));
  ::chmod(file.c_str(), 0644);
  for (const std::string& folder : {cache.file("objects"), cache.path.string()}) {
    ::chmod(folder.c_str(), 0777);
    CHECK(!read_cached(file));
    ::chmod(folder.c_str(), 0755);
    CHECK(read_cached(file) == "code");
  }
  if (::geteuid() == 0) {
    REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
    CHECK(!read_cached(file));
    REQUIRE(::chown(file.c_str(), 0, 0) == 0);
    CHECK(read_cached(file) == "code");
  }
}

TEST_CASE("what is no file is not read, and is not waited for") {
  const test::CacheDir cache;
  const std::string pipe = cache.file("objects/pipe"), folder = cache.file("objects/folder"),
                    link = cache.file("objects/link"), device = cache.file("objects/device");
  write_atomically(cache.file("objects/a"), "code");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_directory(folder);
  fs::create_symlink(cache.file("objects/a"), link);
  fs::create_symlink("/dev/zero", device);
  for (const std::string& path : {pipe, folder, link, device, cache.file("objects/none")}) {
    CAPTURE(path);
    CHECK(!read_cached(path));
  }
}

TEST_CASE("a link in the place of a temporary file is not written through") {
  const test::TemporaryDir dir;
  const std::string victim = dir.file("victim"), file = dir.file("file");
  test::write_file(victim, "precious");
  for (int k = 0; k < 40; ++k) // whoever knows how the names are made
    fs::create_symlink(victim, file + "." + std::to_string(::getpid()) + "." + std::to_string(k) + ".new");
  write_atomically(file, "text");
  CHECK(test::bytes_of(victim) == "precious");
  CHECK(test::bytes_of(file) == "text");
  CHECK(!fs::is_symlink(file));
}

TEST_CASE("a path that the user gives may be a pipe, which stays, or a link, which is followed") {
  const test::TemporaryDir dir;
  const std::string pipe = dir.file("pipe"), file = dir.file("file"), link = dir.file("link");
  const test::Pipe end(pipe);
  write_to_path(pipe, [](std::ostream& out) { out << "text"; });
  CHECK(end.received() == "text");
  CHECK(fs::is_fifo(pipe));
  test::write_file(file, "old");
  fs::create_symlink(file, link);
  write_to_path(link, [](std::ostream& out) { out << "new"; });
  CHECK(test::bytes_of(file) == "new");
  CHECK(fs::is_symlink(link));
  CHECK_THROWS_AS(write_to_path(dir.path.string(), [](std::ostream& out) { out << "text"; }), Error);
}

TEST_CASE("a file is replaced as a whole or not at all") {
  const test::TemporaryDir dir;
  const std::string file = dir.file("file");
  const std::string large(100'000, 'x');
  write_atomically(file, large);
  CHECK(test::bytes_of(file) == large);
  CHECK_THROWS_AS(write_atomically(file,
                                   [](std::ostream& out) {
                                     out << "half";
                                     out.setstate(std::ios::failbit);
                                   }),
                  Error);
  CHECK(test::bytes_of(file) == large);
  fs::create_directory(dir.file("folder"));
  CHECK_THROWS_AS(write_atomically(dir.file("folder"), "text"), Error);
  CHECK_THROWS_AS(write_atomically(dir.file("file/below"), "text"), Error);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir.path)) ++files;
  CHECK(files == 2); // nothing is left beside them
}
