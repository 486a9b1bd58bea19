// Damaged, foreign and unreachable database files: set aside and rebuilt, or a typed error that names the
// file.
#include <doctest/doctest.h>

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "search/store/database.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

const Database::Entry kEntry{{test::move("vectorise(t0.i0)")}, 1e-3};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void execute(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

/// Opens, uses and stores: whatever the file holds, this must work and leave a good file.
void check_rebuilt(const std::string& path, const std::string& before) {
  Database db(path);
  CHECK(!db.find(1, "m"));
  CHECK(db.damaged().find(path) == 0);
  db.store(1, "m", kEntry);
  CHECK(db.find(1, "m"));
  CHECK(read_file(path + ".damaged") == before);
  Database again(path);
  CHECK(again.damaged().empty());
  CHECK(again.find(1, "m")->moves == kEntry.moves);
}

} // namespace

TEST_CASE("a file of another kind is set aside") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db"), text(5000, 'x');
  test::write_file(path, text);
  check_rebuilt(path, text);
}

TEST_CASE("a SQLite file with other tables is set aside") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  execute(path, "CREATE TABLE schedules(something_else TEXT)");
  check_rebuilt(path, read_file(path));
}

TEST_CASE("a truncated file is set aside") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  {
    Database db(path);
    for (uint64_t i = 0; i < 400; ++i) db.store(i, "some machine with a long description", kEntry);
  }
  execute(path, "PRAGMA wal_checkpoint(TRUNCATE)");
  const std::string whole = read_file(path);
  REQUIRE(whole.size() > 9000);
  test::write_file(path, whole.substr(0, whole.size() / 2));
  Database db(path);
  // Whether opening or a later query meets the damage depends on which pages are gone.
  for (uint64_t i = 0; i < 400; ++i) {
    db.find(i, "some machine with a long description");
    db.store(i, "some machine with a long description", kEntry);
    CHECK(db.find(i, "some machine with a long description"));
  }
  CHECK(!db.damaged().empty());
}

TEST_CASE("overwritten pages are found out") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  {
    Database db(path);
    for (uint64_t i = 0; i < 400; ++i) db.store(i, "m", kEntry);
  }
  execute(path, "PRAGMA wal_checkpoint(TRUNCATE)");
  std::string bytes = read_file(path);
  for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37);
  test::write_file(path, bytes);
  Database db(path);
  db.find(3, "m");
  db.store(3, "m", kEntry);
  CHECK(db.find(3, "m"));
  CHECK(!db.damaged().empty());
}

TEST_CASE("an entry whose moves don't parse is dropped, the others stay") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  {
    Database db(path);
    db.store(1, "m", kEntry);
    db.store(2, "m", kEntry);
  }
  execute(path, "UPDATE schedules SET moves = 'twist(t0.i0)' WHERE program = 1");
  Database db(path);
  CHECK(!db.find(1, "m"));
  CHECK(db.damaged().find("twist") != std::string::npos);
  CHECK(db.find(2, "m"));
  CHECK(!std::filesystem::exists(path + ".damaged"));
}

TEST_CASE("an empty file is a new database") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  test::write_file(path, "");
  Database db(path);
  CHECK(!db.find(1, "m"));
  db.store(1, "m", kEntry);
  CHECK(db.find(1, "m"));
  CHECK(db.damaged().empty());
}

TEST_CASE("a place where nothing can be written is a file error that names it") {
  test::TemporaryDir dir;
  test::write_file(dir.file("plain"), "a file, not a folder");
  const std::string path = dir.file("plain/t.db");
  Database db(path);
  CHECK(!db.find(1, "m"));
  try {
    db.store(1, "m", kEntry);
    FAIL("stored into nowhere");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::File);
    CHECK(std::string(e.what()).find(path) == 0);
    CHECK(std::string(e.what()).find("expected") != std::string::npos);
  }
}

TEST_CASE("what is no file, or can't be opened, is as good as absent to readers") {
  test::TemporaryDir dir;
  const std::string folder = dir.file("folder.db"), pipe = dir.file("pipe.db");
  std::filesystem::create_directories(folder + "/of a user");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {folder, pipe}) {
    Database db(path);
    CHECK(!db.find(1, "m"));
    CHECK(db.rows().empty());
    CHECK(db.fault().find(path) == 0);
    CHECK_THROWS_AS(db.store(1, "m", kEntry), Error);
  }
  CHECK(std::filesystem::exists(folder + "/of a user"));
}

TEST_CASE("a header that says nobody writes is set aside like other damage") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  {
    Database db(path);
    db.store(1, "m", kEntry);
  }
  std::string bytes = read_file(path);
  constexpr size_t kWriteVersion = 18; // of the file format
  bytes[kWriteVersion] = 77;
  test::write_file(path, bytes);
  Database db(path);
  db.store(2, "m", kEntry);
  CHECK(db.find(2, "m"));
  CHECK(read_file(path + ".damaged") == bytes);
}

TEST_CASE("storage that can't be written is read, and says so when something is stored") {
  test::TemporaryDir dir;
  const std::string folder = dir.file("image"), path = folder + "/t.db";
  std::filesystem::create_directory(folder);
  {
    Database db(path);
    db.store(1, "m", kEntry);
  }
  CHECK(!std::filesystem::exists(path + "-wal")); // closed: one file
  std::filesystem::remove(path + ".lock");
  ::chmod(dir.path.c_str(), 0755);
  ::chmod(path.c_str(), 0444);
  ::chmod(folder.c_str(), 0555);
  const pid_t child = ::fork();
  if (child == 0) { // as a user whom permissions hold
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(2);
    Database db(path);
    const auto found = db.find(1, "m");
    bool refused = false;
    try {
      db.store(2, "m", kEntry);
    } catch (const Error& e) {
      refused = std::string(e.what()).find(path) == 0;
    }
    ::_exit(found && found->moves == kEntry.moves && refused && db.find(1, "m") ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ::chmod(folder.c_str(), 0755);
}

TEST_CASE("a fork's child does not use its parent's connection") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  Database db(path);
  db.store(1, "m", kEntry);
  const pid_t child = ::fork();
  if (child == 0) {
    db.store(2, "m", kEntry);
    const bool found = db.find(1, "m") && db.find(2, "m");
    db.~Database(); // as at its exit
    ::_exit(found ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(db.find(2, "m"));
  db.store(3, "m", kEntry);
  CHECK(db.rows().size() == 3);
  CHECK(db.damaged().empty());
}
