// Processes that lathe starts: what they leave behind, and those that never answer.
#include <doctest/doctest.h>

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lathe/lathe.hpp"
#include "runtime/device.hpp"
#include "support/devices.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

/// TMPDIR, while it lives.
struct Temporary {
  test::TemporaryDir folder;
  test::Variable variable{"TMPDIR", folder.path.c_str()};
};

} // namespace

TEST_CASE("a C compiler that never answers is no C compiler") {
  const test::TemporaryDir folder;
  const std::string compiler = folder.file("hanging-cc");
  test::write_file(compiler, "#!/bin/sh\necho $$ >> " + folder.file("processes") + "\nsleep 1000\n");
  ::chmod(compiler.c_str(), 0755);
  const test::Variable variable("CC", compiler.c_str());
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(
      runtime::make_c_device(),
      ("c: no C compiler runs ($CC is " + compiler + "), expected $CC, cc, gcc or clang on the path").c_str(),
      Error);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  std::ifstream processes(folder.file("processes"));
  int started = 0;
  for (pid_t process; processes >> process; ++started) CHECK(::kill(process, 0) != 0);
  CHECK(started > 0);
}

TEST_CASE("nothing is left in the folder of temporary files") {
  const test::CacheDir cache;
  const Temporary temporary;
  for (const char* device : {"cpu", "c"}) {
    if (!has_device(device)) continue;
    CAPTURE(device);
    TuneProgress last;
    const TuneOptions tune{.budget_seconds = 2, .progress = [&](const TuneProgress& p) { last = p; }};
    const Tensor a = Tensor::input("a", {40, 30}), b = Tensor::input("b", {30, 50});
    compile({{"y", a.matmul(b)}}, {.device = device, .threads = 1, .tune = tune});
    CHECK(last.measured > 0);
    CHECK(fs::is_empty(temporary.folder.path));
  }
}

TEST_CASE("a measuring process that is stopped ends the search with an error") {
  // Its program is looked for beside the library: here is a library with another one.
  const test::CacheDir cache;
  const test::TemporaryDir folder;
  Dl_info library;
  REQUIRE(dladdr(reinterpret_cast<void*>(&default_device), &library));
  for (const auto& file : fs::directory_iterator(fs::path(library.dli_fname).parent_path()))
    if (file.path().filename().string().starts_with("liblathe"))
      fs::copy_file(fs::canonical(file.path()), folder.path / file.path().filename());
  const std::string program = folder.file("lathe-measure");
  test::write_file(program, "#!/bin/sh\nkill -STOP $$\n");
  ::chmod(program.c_str(), 0755);
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(("LD_LIBRARY_PATH=" + folder.path.string() +
                                  " timeout -k 1 120 " LATHE_EXITS " tune >" + folder.file("out") + " 2>&1")
                                     .c_str());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  INFO(test::bytes_of(folder.file("out")));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(test::bytes_of(folder.file("out")).find("lathe-measure does not answer") != std::string::npos);
  CHECK(seconds < 40);
}
