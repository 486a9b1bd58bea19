// lathe-bench db: what was learnt by tuning, to look at, to carry to another machine, to throw away.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iostream>

#include "commands.hpp"
#include "search/moves/plan.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"

namespace lathe::bench {

namespace {
using search::Database;

std::string program_text(uint64_t program) { return fmt::format("{:016x}", program); }
std::string date(int64_t made) {
  if (made == 0) return "unknown";
  const auto time = static_cast<std::time_t>(made);
  std::tm local{};
  localtime_r(&time, &local);
  return fmt::format("{:%Y-%m-%d %H:%M}", local);
}

Json to_json(const Database::Row& row) {
  Json moves = Json::array();
  for (const search::Move& m : row.moves) moves.push_back(search::to_string(m));
  return {{"program", program_text(row.program)},
          {"label", row.label},
          {"where", row.where},
          {"seconds", row.seconds},
          {"made", row.made},
          {"moves", moves}};
}

int list(Database& db, const Options& options) {
  const std::vector<Database::Row> rows = db.rows();
  if (options.json) {
    Json json = Json::array();
    for (const Database::Row& row : rows) json.push_back(to_json(row));
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  std::string where;
  for (const Database::Row& row : rows) {
    if (row.where != where) fmt::print("{}\n", where = row.where);
    fmt::print("  {}  {:>10}  {:>3} moves  {}  {}\n", program_text(row.program), duration(row.seconds),
               row.moves.size(), date(row.made), row.label);
  }
  fmt::print("{} schedules, {} measured candidates in {}\n", rows.size(), db.candidate_count(),
             Database::default_path());
  return 0;
}

int show(Database& db, const Options& options) {
  if (options.key.empty())
    throw Error(ErrorKind::Value, "db show: which program is not said, expected a hash or a part of a label "
                                  "(see `lathe-bench db list`)");
  Json json = Json::array();
  for (const Database::Row& row : db.rows()) {
    if (!program_text(row.program).starts_with(options.key) &&
        row.label.find(options.key) == std::string::npos)
      continue;
    json.push_back(to_json(row));
    if (options.json) continue;
    fmt::print("{}  {}\n{}\n{}, {}\n", program_text(row.program), row.label, row.where, duration(row.seconds),
               date(row.made));
    for (const search::Move& m : row.moves) fmt::print("  {}\n", search::to_string(m));
  }
  if (json.empty())
    throw Error(ErrorKind::Name, "db show: nothing is stored for '" + options.key +
                                     "', expected a hash or a part of a label (see `lathe-bench db list`)");
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

/// As log lines, which `db import` and `tune --replay` read.
int export_all(Database& db, const Options& options) {
  for (const Database::Row& row : db.rows()) {
    search::LogRecord record;
    record.kind = search::LogRecord::Kind::Plan;
    record.program = row.program;
    record.fingerprint = row.where;
    record.moves = row.moves;
    record.measured = row.seconds;
    record.label = row.label;
    if (options.file.empty())
      fmt::print("{}\n", search::to_json_line(record));
    else
      search::append_log(options.file, record);
  }
  return 0;
}

int import_all(Database& db, const Options& options) {
  if (options.file.empty())
    throw Error(ErrorKind::Value,
                "db import: no file is given, expected one that `db export` or `tune --log` wrote");
  const search::LogContents log = search::read_log(options.file);
  int taken = 0, left = 0;
  for (const search::LogRecord& r : log.records) {
    if (r.kind != search::LogRecord::Kind::Plan || r.measured <= 0) {
      ++left;
      continue;
    }
    db.store(r.program, r.fingerprint, {r.moves, r.measured}, r.label);
    ++taken;
  }
  for (const search::LogDamage& damage : log.damaged)
    fmt::print(stderr, "lathe-bench: {}\n", damage.error.what());
  if (options.json)
    fmt::print("{}\n", Json{{"taken", taken}, {"left", left}, {"damaged", log.damaged.size()}}.dump(2));
  else
    fmt::print("{} schedules taken (the faster one stays), {} records are none, {} damaged lines\n", taken,
               left, log.damaged.size());
  return 0;
}

int prune(Database& db, const Options& options) {
  if (options.older_days < 0)
    throw Error(ErrorKind::Value,
                fmt::format("db prune: --older {} is no age, expected days", options.older_days));
  const int64_t before =
      options.older_days > 0 ? static_cast<int64_t>(std::time(nullptr)) - options.older_days * 86400 : 0;
  const auto [schedules, candidates] = db.prune(search::machine_fingerprint(), before);
  if (options.json)
    fmt::print("{}\n", Json{{"schedules", schedules}, {"candidates", candidates}}.dump(2));
  else
    fmt::print("{} schedules and {} candidates removed\n", schedules, candidates);
  return 0;
}
} // namespace

int db_command(const Options& options) {
  Database db;
  if (!db.fault().empty()) throw Error(ErrorKind::File, db.fault());
  if (!db.damaged().empty()) fmt::print(stderr, "lathe-bench: {}\n", db.damaged());
  if (options.action == "list") return list(db, options);
  if (options.action == "show") return show(db, options);
  if (options.action == "export") return export_all(db, options);
  if (options.action == "import") return import_all(db, options);
  return prune(db, options);
}

} // namespace lathe::bench
