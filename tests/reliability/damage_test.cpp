// Damaged files crash nothing. A damaged saved program, file of weights or cached object is noticed; of a log
// and a database, what is still whole is read. LATHE_RUNS=n for damaged copies of each kind (a tenth of that
// for plans): 150 without it.
#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "compile/saved/program_file.hpp"
#include "lathe/export.hpp"
#include "lathe/lathe.hpp"
#include "lathe/program_file.hpp"
#include "runtime/object_cache.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"
#include "support/moves.hpp"
#include "support/mutations.hpp"
#include "support/runs.hpp"

using namespace lathe;

namespace {

int copies() { return test::runs(150); }

NamedTensors layer() {
  const Tensor x = Tensor::input("x", {3, 8});
  return {{"y", (x.matmul(Tensor::randn({8, 16}, 1).realise()) + Tensor::randn({16}, 2)).relu().softmax(-1)}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

} // namespace

TEST_CASE("saved programs") {
  const test::CacheDir cache;
  const std::string path = cache.file("p.lathe");
  save(compile(layer(), {.device = default_device(), .threads = 1}), path);
  const std::string whole = test::bytes_of(path);
  std::mt19937_64 random(1);
  for (int k = 0; k < copies(); ++k) {
    CAPTURE(k);
    test::write_file(path, test::damaged(whole, random));
    try {
      load_executable(path);
      FAIL("loaded");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::File);
    }
  }
}

TEST_CASE("saved programs whose texts are damaged and whose checksums fit") {
  const test::CacheDir cache;
  const std::string path = cache.file("p.lathe");
  save(compile(layer(), {.device = "interp", .threads = 1}), path);
  const pipeline::ProgramFile good = pipeline::read_program_file(path);
  std::mt19937_64 random(2);
  int loaded = 0;
  for (int k = 0; k < copies(); ++k) {
    CAPTURE(k);
    pipeline::ProgramFile bad = good;
    auto& program = bad.programs[0];
    std::vector<std::string*> texts{&program.graph, &program.outputs[0], &bad.text};
    for (std::string& move : program.moves) texts.push_back(&move);
    std::string& text = *texts[random() % 2 ? 0 : random() % texts.size()];
    text = test::damaged(text, random);
    try {
      pipeline::write_program_file(bad, path);
      const Executable program = load_executable(path);
      ++loaded; // it may make sense: a name, a number or a function is another
      program.print();
    } catch (const Error&) {
    }
  }
  MESSAGE(loaded << " of " << copies() << " make sense");
}

TEST_CASE("weights of exported programs") {
  const test::CacheDir cache;
  ExportOptions options;
  options.name = "net";
  std::string weights;
  for (const ExportedFile& file : export_program(layer(), options)) {
    test::write_file(cache.file(file.name), file.bytes);
    if (file.name == "net.weights") weights = file.bytes;
  }
  const std::string library = cache.file("net.so");
  REQUIRE(std::system(("cc -std=c11 -O1 -shared -fPIC -w " + cache.file("net.c") + " -o " + library + " -lm")
                          .c_str()) == 0);
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE((handle != nullptr));
  const auto check = reinterpret_cast<int (*)(const void*, size_t)>(dlsym(handle, "net_check_weights"));
  REQUIRE((check != nullptr));
  const auto verdict = [&](const std::string& bytes) {
    std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    return check(aligned.data(), bytes.size());
  };
  CHECK(verdict(weights) == 0);
  std::mt19937_64 random(3);
  for (int k = 0; k < copies(); ++k) {
    CAPTURE(k);
    CHECK(verdict(test::damaged(weights, random)) != 0);
  }
  dlclose(handle);
}

TEST_CASE("logs") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("log.jsonl");
  for (uint64_t k = 0; k < 12; ++k)
    search::append_log(path, {k % 3 ? search::LogRecord::Kind::Candidate : search::LogRecord::Kind::Plan,
                              k,
                              k << 60,
                              "a \"machine\"",
                              "cpu",
                              {test::move("split(t1.i0, 6)"), test::move("reorder(t1.i0, t1.r1)")},
                              1.25e-5,
                              1e-5,
                              k % 4 ? "" : "wrong result in \"y\"\nof two lines"});
  const std::string whole = test::bytes_of(path);
  const std::vector<std::string> good = lines_of(whole);
  std::mt19937_64 random(4);
  for (int k = 0; k < copies(); ++k) {
    CAPTURE(k);
    const std::string bytes = test::damaged(whole, random);
    test::write_file(path, bytes);
    const search::LogContents read = search::read_log(path);
    size_t untouched = 0;
    for (const std::string& line : lines_of(bytes)) untouched += std::count(good.begin(), good.end(), line);
    CHECK(read.records.size() >= untouched);
    CHECK(read.records.size() + read.damaged.size() <= lines_of(bytes).size());
    for (const search::LogDamage& damage : read.damaged) CHECK(damage.error.kind() == ErrorKind::Syntax);
  }
}

TEST_CASE("objects in the cache") {
  const test::CacheDir cache;
  const runtime::ObjectCache objects("things", ".o");
  const std::string key = "what names it", object = "what it holds: " + std::string(200, '\1');
  objects.keep(key, object);
  const std::string path = objects.find(key)->path, whole = test::bytes_of(path);
  std::mt19937_64 random(5);
  for (int k = 0; k < copies(); ++k) {
    CAPTURE(k);
    test::write_file(path, test::damaged(whole, random));
    CHECK(!objects.find(key));
  }
  test::write_file(path, whole);
  CHECK(objects.find(key)->object == object);
}

TEST_CASE("plans in the cache") {
  const test::CacheDir cache;
  const auto compiled = [] {
    clear_caches();
    return compile(layer(), {.device = "interp", .threads = 1, .use_database = false}).moves();
  };
  const std::vector<std::string> moves = compiled();
  std::string path;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path))
    if (entry.path().extension() == ".moves") path = entry.path();
  REQUIRE(!path.empty());
  const std::string whole = test::bytes_of(path);
  std::mt19937_64 random(6);
  for (int k = 0; k < copies() / 10; ++k) {
    CAPTURE(k);
    test::write_file(path, test::damaged(whole, random));
    CHECK(compiled() == moves);
  }
}

TEST_CASE("tuning databases") {
  const test::TemporaryDir folder;
  const std::string path = folder.file("tuning.db");
  const search::Database::Entry entry{{test::move("split(t0.i0, 6)")}, 1e-3};
  {
    search::Database database(path);
    for (uint64_t k = 0; k < 40; ++k) {
      database.store(k, "here", entry, "a label");
      database.store_candidates(k, "here", {{k, 1e-3, "", "a kernel"}, {k + 100, 0, "too slow", "another"}});
    }
  }
  const std::string whole = test::bytes_of(path);
  std::mt19937_64 random(7);
  int as_written = 0;
  for (int k = 0; k < copies(); ++k) {
    CAPTURE(k);
    for (const auto& file : std::filesystem::directory_iterator(folder.path)) std::filesystem::remove(file);
    test::write_file(path, test::damaged(whole, random));
    search::Database database(path);
    for (uint64_t program = 0; program < 40; ++program) {
      const auto found = database.find(program, "here");
      as_written += found && found->moves == entry.moves;
      database.candidates(program, "here");
    }
    database.elsewhere(3, "there");
    database.rows();
    try {
      database.store(1000, "here", entry);
      CHECK(database.find(1000, "here")->moves == entry.moves);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::File);
    }
  }
  MESSAGE(as_written << " of " << 40 * copies() << " entries were read as written");
}
