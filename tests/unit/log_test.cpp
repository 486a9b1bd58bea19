// The tuning log: records survive the round trip, the best plan is found.
#include <doctest/doctest.h>

#include <thread>

#include "search/store/log.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {
LogRecord record(LogRecord::Kind kind, uint64_t program, double predicted, double measured) {
  return {kind,
          program,
          0x8000000000000001ull,
          "a \"machine\"",
          "cpu",
          {test::move("reorder(t1.i0, t1.r1)"), test::move("split(t1.i0, 6)")},
          predicted,
          measured,
          ""};
}
} // namespace

TEST_CASE("a record survives the round trip") {
  LogRecord r = record(LogRecord::Kind::Candidate, ~uint64_t{0}, 1.25e-5, 0);
  r.error = "wrong result in \"y\"\nsecond line, \xff not text";
  const std::string line = to_json_line(r);
  CHECK(line.find('\n') == std::string::npos);
  const LogRecord back = parse_log_line(line);
  CHECK(back.kind == r.kind);
  CHECK(back.program == r.program);
  CHECK(back.kernel == r.kernel);
  CHECK(back.fingerprint == r.fingerprint);
  CHECK(back.device == "cpu");
  CHECK(back.moves == r.moves);
  CHECK(back.predicted == r.predicted);
  CHECK(back.measured == 0);
  CHECK(back.error.find("wrong result in \"y\"\nsecond line") == 0);
}

TEST_CASE("appending from several threads keeps whole lines") {
  test::TemporaryDir dir;
  const std::string path = dir.file("new/folder/log.jsonl");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        append_log(path, record(LogRecord::Kind::Candidate, static_cast<uint64_t>(t), 1, i + 1));
    });
  for (auto& t : threads) t.join();
  const LogContents log = read_log(path);
  CHECK(log.records.size() == 200);
  CHECK(log.damaged.empty());
}

TEST_CASE("half a line that a stopped writer left takes no other with it") {
  test::TemporaryDir dir;
  const std::string path = dir.file("log.jsonl");
  append_log(path, record(LogRecord::Kind::Plan, 1, 1e-3, 1e-3));
  const std::string whole = test::bytes_of(path);
  test::write_file(path, whole + whole.substr(0, whole.size() / 2));
  append_log(path, record(LogRecord::Kind::Plan, 2, 1e-3, 1e-3));
  const LogContents log = read_log(path);
  CHECK(log.records.size() == 2);
  CHECK(log.damaged.size() == 1);
  CHECK(log.damaged.at(0).line == 2);
}

TEST_CASE("the best plan of a program: measured before predicted, rejected never") {
  std::vector<LogRecord> records;
  CHECK(!best_plan(records, 5));
  records.push_back(record(LogRecord::Kind::Plan, 5, 1e-3, 0));
  records.push_back(record(LogRecord::Kind::Plan, 5, 2e-3, 4e-3));
  records.push_back(record(LogRecord::Kind::Plan, 5, 3e-3, 3e-3));
  records.push_back(record(LogRecord::Kind::Plan, 6, 1e-9, 1e-9));
  records.push_back(record(LogRecord::Kind::Candidate, 5, 1e-9, 1e-9));
  records.push_back(record(LogRecord::Kind::Plan, 5, 1e-9, 1e-9));
  records.back().error = "wrong result";
  REQUIRE(best_plan(records, 5));
  CHECK(best_plan(records, 5)->measured == 3e-3);
}
