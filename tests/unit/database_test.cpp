// The database of schedules: keeps the faster, survives damage, shared by threads and processes.
#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "search/store/database.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {
Database::Entry entry(double seconds, int64_t factor = 16) {
  return {{test::move("split(t3.i0, {})", factor), test::move("vectorise(t3.i0.i)")}, seconds};
}
} // namespace

TEST_CASE("what was stored is found, by program and machine") {
  test::TemporaryDir dir;
  const std::string path = dir.file("deep/er/tuning.db");
  {
    Database db(path);
    CHECK(!db.find(1, "m"));
    CHECK(!std::filesystem::exists(path)); // looking makes no file
    db.store(1, "m", entry(2e-3));
    REQUIRE(db.find(1, "m"));
    CHECK(!db.find(1, "other"));
    CHECK(!db.find(2, "m"));
  }
  Database again(path);
  const auto found = again.find(1, "m");
  REQUIRE(found);
  CHECK(found->seconds == 2e-3);
  CHECK(found->moves == entry(0).moves);
  CHECK(again.damaged().empty());
}

TEST_CASE("the faster entry stays") {
  test::TemporaryDir dir;
  Database db(dir.file("t.db"));
  db.store(7, "m", entry(3e-3, 8));
  db.store(7, "m", entry(5e-3, 16));
  CHECK(db.find(7, "m")->moves == entry(0, 8).moves);
  db.store(7, "m", entry(1e-3, 32));
  CHECK(db.find(7, "m")->moves == entry(0, 32).moves);
}

TEST_CASE("an entry that was beaten side by side goes, whatever its time; another's is safe") {
  test::TemporaryDir dir;
  Database db(dir.file("t.db"));
  const double fast = 1e-3 / 3; // of a better moment
  db.store(7, "m", entry(fast, 8));
  db.store(7, "m", entry(5e-3, 16), "a product", fast);
  REQUIRE(db.find(7, "m"));
  CHECK(db.find(7, "m")->moves == entry(0, 16).moves);
  CHECK(db.find(7, "m")->seconds == 5e-3);
  // Meanwhile another process has stored a better one than that which was beaten.
  db.store(7, "m", entry(2e-3, 32));
  db.store(7, "m", entry(3e-3, 4), "", 5e-3);
  CHECK(db.find(7, "m")->moves == entry(0, 32).moves);
  db.store(7, "m", entry(1e-3, 2), "", 5e-3); // faster than both
  CHECK(db.find(7, "m")->moves == entry(0, 2).moves);
}

TEST_CASE("hashes with the top bit and an empty schedule survive") {
  test::TemporaryDir dir;
  Database db(dir.file("t.db"));
  db.store(~uint64_t{0}, "m", {{}, 1.0});
  REQUIRE(db.find(~uint64_t{0}, "m"));
  CHECK(db.find(~uint64_t{0}, "m")->moves.empty());
}

TEST_CASE("threads and processes share one file") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  const auto work = [&](int who) {
    Database db(path);
    for (int i = 0; i < 10; ++i) {
      db.store(static_cast<uint64_t>(i), "m", entry(1.0 + (who * 7 + i) % 11, 2 + who));
      db.store_candidates(1, "m",
                          {{static_cast<uint64_t>(who * 100 + i), 1.0, "", "text"}, {7777, 2.0, "", "text"}});
    }
  };
  std::vector<pid_t> children;
  for (int who = 0; who < 4; ++who) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        work(who);
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::thread> threads;
  for (int who = 4; who < 6; ++who) threads.emplace_back(work, who);
  for (auto& t : threads) t.join();
  for (pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  Database db(path);
  CHECK(db.damaged().empty());
  for (int i = 0; i < 10; ++i) {
    double fastest = 1e9;
    for (int who = 0; who < 6; ++who) fastest = std::min(fastest, 1.0 + (who * 7 + i) % 11);
    REQUIRE(db.find(static_cast<uint64_t>(i), "m"));
    CHECK(db.find(static_cast<uint64_t>(i), "m")->seconds == fastest);
  }
  CHECK(db.candidates(1, "m").size() == 6 * 10 + 1);
}

TEST_CASE("candidates are kept by program and machine, the rejected ones with their reason") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  {
    Database db(path);
    CHECK(db.candidates(1, "m").empty());
    db.store_candidates(1, "m",
                        {{~uint64_t{0}, 1e-3, "", "kernel a"}, {5, 0, "wrong result in t0", "kernel b"}});
    db.store_candidates(2, "m", {{6, 2e-3, "", "kernel c"}});
    db.store_candidates(1, "n", {{7, 3e-3, "", "kernel d"}});
  }
  Database db(path);
  CHECK(db.candidates(1, "m").size() == 2);
  CHECK(db.candidate_count() == 4);
  for (const auto& c : db.candidates(1, "m")) {
    CHECK((c.kernel == ~uint64_t{0} || c.kernel == 5));
    if (c.kernel == 5) CHECK(c.error == "wrong result in t0");
    if (c.kernel != 5) CHECK(c.text == "kernel a");
  }
  db.store_candidates(2, "m", {{6, 1e-3, "", "kernel c"}}); // measured again: the newer one
  CHECK(db.candidates(2, "m")[0].seconds == 1e-3);
}

TEST_CASE("what is known elsewhere is told apart, listed, and pruned") {
  test::TemporaryDir dir;
  Database db(dir.file("t.db"));
  db.store(1, "this machine, one thread", entry(1e-3), "a product");
  db.store(1, "this machine, two threads", entry(2e-3, 8));
  db.store(1, "that machine", entry(3e-3, 4));
  db.store(2, "that machine", entry(4e-3));
  db.store_candidates(1, "that machine", {{1, 1.0, "", ""}});
  const auto elsewhere = db.elsewhere(1, "this machine, one thread");
  REQUIRE(elsewhere.size() == 2);
  for (const auto& e : elsewhere) CHECK(e.moves != entry(0).moves);
  const auto rows = db.rows();
  REQUIRE(rows.size() == 4);
  int labelled = 0;
  for (const auto& row : rows) {
    CHECK(row.made > 1'600'000'000);
    labelled += row.label == "a product";
  }
  CHECK(labelled == 1);
  CHECK(db.prune("this machine", 0) == std::pair<int64_t, int64_t>(2, 1));
  CHECK(db.rows().size() == 2);
  CHECK(db.prune("this machine", rows[0].made + 1000).first == 2); // older than the future
  CHECK(db.rows().empty());
}

TEST_CASE("a database of the first version is renewed, with what it holds") {
  test::TemporaryDir dir;
  const std::string path = dir.file("t.db");
  sqlite3* old = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &old) == SQLITE_OK);
  CHECK(sqlite3_exec(
            old,
            "CREATE TABLE schedules(program INTEGER NOT NULL, fingerprint TEXT NOT NULL, moves TEXT NOT NULL,"
            " seconds REAL NOT NULL, PRIMARY KEY(program, fingerprint)) WITHOUT ROWID;"
            "INSERT INTO schedules VALUES(9, 'm', 'vectorise(t0.i0)', 0.5)",
            nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(old);
  Database db(path);
  CHECK(db.candidates(9, "m").empty());
  REQUIRE(db.find(9, "m"));
  CHECK(db.find(9, "m")->seconds == 0.5);
  db.store(9, "m", entry(0.25), "new");
  CHECK(db.rows().size() == 1);
  CHECK(db.rows()[0].label == "new");
  CHECK(db.damaged().empty());
}

TEST_CASE("one Database object serves several threads") {
  test::TemporaryDir dir;
  Database db(dir.file("t.db"));
  std::vector<std::thread> threads;
  for (int who = 0; who < 4; ++who)
    threads.emplace_back([&, who] {
      for (int i = 0; i < 20; ++i) {
        db.store(static_cast<uint64_t>(who * 100 + i), "m", entry(1));
        CHECK(db.find(static_cast<uint64_t>(who * 100 + i), "m"));
      }
    });
  for (auto& t : threads) t.join();
}

TEST_CASE("the program's hash knows its structure and its connections") {
  const auto hash = [](const Tensor& y) { return program_hash(*test::lowered(y)); };
  const Tensor a = test::in("a", {8, 16}), b = test::in("b", {8, 16});
  CHECK(hash(a * b + a) == hash(test::in("a", {8, 16}) * test::in("b", {8, 16}) + test::in("a", {8, 16})));
  CHECK(hash((a * b).sum(1)) != hash((a * b).sum(0)));
  CHECK(hash((a * b).contiguous() + a) != hash((a * b).contiguous() + b));
  CHECK(hash(a + b) != hash(test::in("a", {8, 17}) + test::in("b", {8, 17})));
  CHECK(hash(a + b) != hash(test::in("a", {8, 16}) + test::in("c", {8, 16}))); // moves name inputs
}
