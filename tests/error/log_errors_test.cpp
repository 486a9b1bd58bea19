// Damaged log files: bad lines are reported by number with a typed error, the valid ones are kept.
#include <doctest/doctest.h>

#include "search/store/log.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {
const LogRecord kRecord{
    LogRecord::Kind::Plan, 1, 2, "m", "cpu", {test::move("unroll(t0.i0)")}, 1e-3, 2e-3, ""};

std::string changed(const std::string& from, const std::string& to) {
  std::string line = to_json_line(kRecord);
  const size_t at = line.find(from);
  REQUIRE(at != std::string::npos);
  return line.replace(at, from.size(), to);
}
} // namespace

TEST_CASE("every kind of damaged line is a syntax error") {
  const std::string whole = to_json_line(kRecord);
  CHECK(parse_log_line(whole).moves == kRecord.moves);
  const std::vector<std::string> bad = {"",
                                        "{",
                                        "null",
                                        "[]",
                                        "12",
                                        whole.substr(0, whole.size() / 2),
                                        std::string("\xff\xfe{}"),
                                        changed("\"plan\"", "\"plum\""),
                                        changed("\"plan\"", "7"),
                                        changed("0000000000000001", "1"),
                                        changed("0000000000000001", "000000000000000g"),
                                        changed("unroll(t0.i0)", "twist(t0.i0)"),
                                        changed("unroll(t0.i0)", ""),
                                        changed("[\"unroll(t0.i0)\"]", "[3]"),
                                        changed("[\"unroll(t0.i0)\"]", "\"unroll(t0.i0)\""),
                                        changed("0.001", "-1"),
                                        changed("0.002", "1e999"),
                                        changed("0.002", "\"fast\""),
                                        changed("\"measured\"", "\"mesured\"")};
  for (const std::string& line : bad) {
    CAPTURE(line);
    try {
      parse_log_line(line);
      FAIL_CHECK("accepted");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Syntax);
    }
  }
}

TEST_CASE("damaged lines are reported by number and the rest is kept") {
  test::TemporaryDir dir;
  const std::string path = dir.file("log.jsonl"), good = to_json_line(kRecord);
  test::write_file(path, good + "\nnot json\n\n" + good + "\r\n" + good.substr(0, 20));
  const LogContents log = read_log(path);
  CHECK(log.records.size() == 2);
  REQUIRE(log.damaged.size() == 2);
  CHECK(log.damaged[0].line == 2);
  CHECK(log.damaged[1].line == 5);
  CHECK(log.damaged[0].error.kind() == ErrorKind::Syntax);
  CHECK(std::string(log.damaged[1].error.what()).find(path + ":5: ") == 0);
}

TEST_CASE("files that can't be read or written are file errors that name them") {
  test::TemporaryDir dir;
  const auto check = [](const std::string& path, auto&& f) {
    try {
      f();
      FAIL_CHECK("no error for " << path);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::File);
      CHECK(std::string(e.what()).find(path) == 0);
    }
  };
  const std::string missing = dir.file("missing.jsonl"), folder = dir.file("folder");
  std::filesystem::create_directories(folder);
  check(missing, [&] { read_log(missing); });
  check(folder, [&] { read_log(folder); });
  check(folder, [&] { append_log(folder, kRecord); });
  test::write_file(dir.file("plain"), "");
  const std::string nowhere = dir.file("plain/log.jsonl");
  check(nowhere, [&] { append_log(nowhere, kRecord); });
}

TEST_CASE("an empty log has no records") {
  test::TemporaryDir dir;
  test::write_file(dir.file("log.jsonl"), "");
  CHECK(read_log(dir.file("log.jsonl")).records.empty());
}
