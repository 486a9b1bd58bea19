// The database of schedules: keeps the faster, survives damage, shared by threads and processes.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {
Database::Entry entry(double seconds, int64_t factor = 16) {
  return {{{MoveKind::Split, {"t3.i0"}, {factor}}, {MoveKind::Vectorise, {"t3.i0.i"}, {}}}, seconds};
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
    for (int i = 0; i < 10; ++i)
      db.store(static_cast<uint64_t>(i), "m", entry(1.0 + (who * 7 + i) % 11, 2 + who));
  };
  std::vector<pid_t> children;
  for (int who = 0; who < 3; ++who) {
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
  for (int who = 3; who < 6; ++who) threads.emplace_back(work, who);
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
