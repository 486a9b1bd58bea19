#include "search/store/database.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include <fmt/format.h>

#include "core/files.hpp"
#include "core/scanner.hpp"
#include "lathe/error.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2; // of the tables
constexpr const char* kCreate = R"(
CREATE TABLE IF NOT EXISTS schedules(program INTEGER NOT NULL, fingerprint TEXT NOT NULL, moves TEXT NOT NULL,
  seconds REAL NOT NULL, label TEXT NOT NULL DEFAULT '', made INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(program, fingerprint)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS candidates(program INTEGER NOT NULL, fingerprint TEXT NOT NULL, kernel INTEGER NOT NULL,
  seconds REAL NOT NULL, error TEXT NOT NULL, text TEXT NOT NULL, made INTEGER NOT NULL,
  PRIMARY KEY(program, fingerprint, kernel)) WITHOUT ROWID;)";
// The first version had no labels, times and candidates.
constexpr const char* kUpgrade = R"(
ALTER TABLE schedules ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN made INTEGER NOT NULL DEFAULT 0;)";
constexpr const char* kFind = "SELECT moves, seconds FROM schedules WHERE program = ?1 AND fingerprint = ?2";
constexpr const char* kElsewhere = "SELECT moves, seconds, fingerprint FROM schedules WHERE program = ?1 AND "
                                   "fingerprint != ?2 ORDER BY made DESC, seconds";
constexpr const char* kStore =
    "INSERT INTO schedules(program, fingerprint, moves, seconds, label, made)"
    " VALUES(?1, ?2, ?3, ?4, ?5, unixepoch())"
    " ON CONFLICT(program, fingerprint) DO UPDATE SET moves = excluded.moves, seconds = excluded.seconds,"
    " label = excluded.label, made = excluded.made"
    " WHERE excluded.seconds < schedules.seconds OR schedules.seconds = ?6";
constexpr const char* kRows = "SELECT moves, seconds, program, fingerprint, label, made FROM schedules ORDER "
                              "BY fingerprint, label, program";
constexpr const char* kStoreCandidate =
    "INSERT OR REPLACE INTO candidates(program, fingerprint, kernel, seconds, error, text, made)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, unixepoch())";
constexpr const char* kCandidates =
    "SELECT kernel, seconds, error, text FROM candidates WHERE program = ?1 AND fingerprint = ?2";

/// SQLite's error for a file that is not (or no longer) one of ours.
struct Damage {
  std::string reason;
};
/// Any other error of SQLite: locked for too long, no permission, disk full.
struct SqliteError {
  std::string reason;
  int code;
};

/// Held by one process at a time; an empty path takes no lock.
class FileLock {
public:
  explicit FileLock(const std::string& path) {
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file_ >= 0) ::flock(file_, LOCK_EX);
  }
  ~FileLock() {
    if (file_ >= 0) ::close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

private:
  int file_ = -1;
};

/// The path as SQLite's URI of a file that nobody changes.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = is_word(c) || c == '/' || c == '.' || c == '-';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

enum class Access { Read, ReadImmutable, Create };

class Connection {
public:
  Connection(const std::string& path, Access access) {
    const bool immutable = access == Access::ReadImmutable;
    const int flags = (immutable ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI : SQLITE_OPEN_READWRITE) |
                      SQLITE_OPEN_NOMUTEX | (access == Access::Create ? SQLITE_OPEN_CREATE : 0);
    sqlite3* opened = nullptr; // to be closed even if opening fails
    const int code =
        sqlite3_open_v2((immutable ? immutable_uri(path) : path).c_str(), &opened, flags, nullptr);
    db_.reset(opened);
    check(code);
    check(sqlite3_busy_timeout(get(), 10'000));
    if (access == Access::Create) {
      run("PRAGMA journal_mode = WAL");
      run("PRAGMA synchronous = NORMAL");
      make_tables();
    } else {
      run("PRAGMA schema_version"); // SQLite looks at the file only now
    }
  }
  /// Gives up the connection without closing it: after a fork, the parent process goes on using it.
  void abandon() { [[maybe_unused]] auto* theirs = db_.release(); }

  void check(int code) const {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    const std::string message = db_ ? sqlite3_errmsg(get()) : sqlite3_errstr(code);
    const int primary = code & 0xff;
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR ||
        primary == SQLITE_MISMATCH || primary == SQLITE_CONSTRAINT)
      throw Damage{message};
    throw SqliteError{message, primary};
  }
  int version() const {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(get(), "PRAGMA user_version", -1, &statement, nullptr));
    const int code = sqlite3_step(statement);
    const int version = code == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
    sqlite3_finalize(statement);
    check(code);
    return version;
  }
  void run(const char* sql) const { check(sqlite3_exec(get(), sql, nullptr, nullptr, nullptr)); }
  sqlite3* get() const { return db_.get(); }

private:
  /// The caller holds the file's lock.
  void make_tables() const {
    if (version() < kVersion) {
      run("BEGIN IMMEDIATE");
      int old = 0;
      check(sqlite3_exec(
          get(), "SELECT 1 FROM sqlite_master WHERE name = 'schedules'",
          [](void* found, int, char**, char**) { return *static_cast<int*>(found) = 1, 0; }, &old, nullptr));
      if (old) run(kUpgrade);
      run(kCreate);
      run("PRAGMA user_version = 2");
      run("COMMIT");
    }
  }

  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  std::unique_ptr<sqlite3, Close>
      db_; // closed also where the constructor throws, and its transaction with it
};

class Statement {
public:
  Statement(const Connection& db, const char* sql) : db_(db) {
    db_.check(sqlite3_prepare_v2(db_.get(), sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int at, int64_t v) { db_.check(sqlite3_bind_int64(statement_, at, v)); }
  void bind(int at, double v) { db_.check(sqlite3_bind_double(statement_, at, v)); }
  void bind(int at, const std::string& v) {
    db_.check(sqlite3_bind_text(statement_, at, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT));
  }
  bool step() {
    const int code = sqlite3_step(statement_);
    db_.check(code);
    return code == SQLITE_ROW;
  }
  std::string text(int column) const {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return t ? std::string(t, sqlite3_column_bytes(statement_, column)) : std::string();
  }
  double number(int column) const { return sqlite3_column_double(statement_, column); }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  void again() { db_.check(sqlite3_reset(statement_)); }

private:
  const Connection& db_;
  sqlite3_stmt* statement_ = nullptr;
};

/// A transaction that is undone unless it is committed.
class Transaction {
public:
  explicit Transaction(const Connection& db) : db_(db) { db_.run("BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (!committed_) sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  void commit() {
    db_.run("COMMIT");
    committed_ = true;
  }

private:
  const Connection& db_;
  bool committed_ = false;
};

std::vector<Move> parse_moves(const std::string& text) {
  std::vector<Move> moves;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    moves.push_back(parse_move(text.substr(at, end - at)));
    at = end + 1;
  }
  return moves;
}

} // namespace

/// True for a file without tables: another process has just created it.
static bool is_empty(const Connection& db) {
  Statement tables(db, "SELECT count(*) FROM sqlite_master");
  return tables.step() && tables.number(0) == 0;
}

struct Database::State {
  std::string path, damaged, fault;
  std::mutex mutex;
  std::unique_ptr<Connection> connection;
  pid_t opened_by = 0;
  bool writable = false;

  ~State() { leave_to_parent(); }

  /// Runs `f(connection)`. A damaged file is set aside, and f runs once more on the file that replaced it.
  template <class F> auto with(bool create, F&& f) {
    for (bool again = false;; again = true) {
      try {
        leave_to_parent();
        if (!connection || (create && !writable)) open(create);
        return f(*connection);
      } catch (const Damage& damage) {
        recover(damage.reason, again, create);
      } catch (const SqliteError& e) {
        // The header may declare the file read-only, which counts as damage.
        if (create && e.code == SQLITE_READONLY && may_write())
          recover(e.reason, again, create);
        else
          fail(e.reason, "a tuning database that can be opened");
      }
      std::error_code error;
      if (!create && !fs::exists(path, error)) return decltype(f(*connection)){};
    }
  }
  void recover(const std::string& reason, bool again, bool to_write) {
    connection.reset();
    if (again) fail(reason, "a tuning database");
    set_aside(reason, to_write);
  }
  [[noreturn]] void fail(const std::string& reason, const char* expected) {
    connection.reset();
    throw Error(ErrorKind::File, path + ": " + reason + ", expected " + expected);
  }
  bool may_write() const {
    return ::access(path.c_str(), W_OK) == 0 && ::access(fs::path(path).parent_path().c_str(), W_OK) == 0;
  }
  /// Gives up a connection from before a fork: SQLite's locks belong to the process that took them.
  void leave_to_parent() {
    if (!connection || opened_by == ::getpid()) return;
    connection->abandon();
    connection.reset();
  }

  /// Runs `f` if there is a file to read. Creates nothing, but renews tables of an older version. A file that
  /// can't be read counts as absent; `fault` says why.
  template <class F> auto read(F&& f) {
    using Result = decltype(f(*connection));
    std::error_code error;
    fault.clear();
    if (!connection && !fs::exists(path, error)) return Result{};
    try {
      if (!fs::is_regular_file(path, error)) fail("is no file", "a tuning database");
      const bool old = with(false, [](const Connection& db) {
        if (is_empty(db)) return false;
        Statement(db, kFind); // fails on a foreign file, before its tables are renewed
        return db.version() < kVersion;
      });
      return with(old, [&](const Connection& db) { return is_empty(db) ? Result{} : f(db); });
    } catch (const Error& e) {
      fault = e.what();
      return Result{};
    }
  }

  /// The entry in columns 0 and 1 of the row. A damaged one is dropped from the table.
  std::optional<Entry> entry(const Connection& db, const Statement& row, uint64_t program,
                             const std::string& where) {
    try {
      return Entry{parse_moves(row.text(0)), row.number(1)};
    } catch (const Error& e) {
      damaged = path + ": an entry was damaged (" + e.what() + ") and dropped";
      drop(db, program, where);
      return std::nullopt;
    }
  }
  static void drop(const Connection& db, uint64_t program, const std::string& where) {
    try {
      Statement drop(db, "DELETE FROM schedules WHERE program = ?1 AND fingerprint = ?2");
      drop.bind(1, static_cast<int64_t>(program));
      drop.bind(2, where);
      drop.step();
    } catch (const SqliteError&) { // the entry stays if the file can't be changed
    }
  }

  void open(bool create) {
    connection.reset();
    if (create && path.empty()) fail("no folder for it", "LATHE_CACHE_DIR or HOME to be set");
    if (create) make_parent_dir(path);
    // Turning a new file to WAL mode fails, rather than waits, when two processes do it at once.
    const FileLock lock(create ? path + ".lock" : std::string());
    try {
      connection = std::make_unique<Connection>(path, create ? Access::Create : Access::Read);
    } catch (const SqliteError&) {
      // On read-only storage SQLite can't create its files beside the database.
      std::error_code none;
      const auto log = fs::file_size(path + "-wal", none);
      if (create || may_write() || (!none && log > 0)) throw;
      connection = std::make_unique<Connection>(path, Access::ReadImmutable);
    }
    writable = create;
    opened_by = ::getpid();
  }

  // Another process may have met the same damage and replaced the file already. So a process moves the file
  // only while it holds the lock and still finds it damaged.
  void set_aside(const std::string& reason, bool to_write) {
    const FileLock lock(path + ".lock");
    damaged = path + " was damaged (" + reason + ") and set aside as " + path + ".damaged";
    if (intact(to_write)) return;
    std::error_code error;
    fs::rename(path, path + ".damaged", error);
    if (error) fs::remove_all(path, error);
    fs::remove(path + "-wal", error);
    fs::remove(path + "-shm", error);
  }

  bool intact(bool to_write) const {
    try {
      const Connection probe(path, Access::Read);
      Statement check(probe, "PRAGMA quick_check(1)");
      Statement find(probe, kFind);
      if (!check.step() || check.text(0) != "ok") return false;
      return !to_write || sqlite3_db_readonly(probe.get(), "main") == 0;
    } catch (const Damage&) {
      return false;
    } catch (const SqliteError&) {
      return false;
    }
  }
};

Database::Database(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->read([](const Connection&) { return true; }); // sets a damaged file aside now
}

Database::~Database() = default;

std::string Database::default_path() {
  const std::string dir = cache_dir();
  return dir.empty() ? dir : dir + "/tuning.db";
}

const std::string& Database::damaged() const { return state_->damaged; }
const std::string& Database::fault() const { return state_->fault; }

std::optional<Database::Entry> Database::find(uint64_t program, const std::string& where) {
  std::lock_guard lock(state_->mutex);
  return state_->read([&](const Connection& db) -> std::optional<Entry> {
    Statement find(db, kFind);
    find.bind(1, static_cast<int64_t>(program));
    find.bind(2, where);
    if (!find.step()) return std::nullopt;
    return state_->entry(db, find, program, where);
  });
}

std::vector<Database::Entry> Database::elsewhere(uint64_t program, const std::string& where) {
  std::lock_guard lock(state_->mutex);
  return state_->read([&](const Connection& db) {
    std::vector<Entry> entries;
    Statement find(db, kElsewhere);
    find.bind(1, static_cast<int64_t>(program));
    find.bind(2, where);
    while (find.step())
      if (auto entry = state_->entry(db, find, program, find.text(2))) entries.push_back(std::move(*entry));
    return entries;
  });
}

std::vector<Database::Row> Database::rows() {
  std::lock_guard lock(state_->mutex);
  return state_->read([&](const Connection& db) {
    std::vector<Row> rows;
    Statement all(db, kRows);
    while (all.step()) {
      Row row{static_cast<uint64_t>(all.integer(2)), all.text(3), all.text(4), {}, 0, all.integer(5)};
      auto entry = state_->entry(db, all, row.program, row.where);
      if (!entry) continue;
      row.moves = std::move(entry->moves);
      row.seconds = entry->seconds;
      rows.push_back(std::move(row));
    }
    return rows;
  });
}

void Database::store(uint64_t program, const std::string& where, const Entry& entry, const std::string& label,
                     std::optional<double> beaten) {
  std::string text;
  for (const Move& move : entry.moves) text += to_string(move) + "\n";
  std::lock_guard lock(state_->mutex);
  state_->with(true, [&](const Connection& db) {
    Statement store(db, kStore);
    store.bind(1, static_cast<int64_t>(program));
    store.bind(2, where);
    store.bind(3, text);
    store.bind(4, entry.seconds);
    store.bind(5, label);
    if (beaten) store.bind(6, *beaten); // else NULL, which equals nothing
    return store.step();
  });
}

void Database::store_candidates(uint64_t program, const std::string& where,
                                const std::vector<Candidate>& candidates) {
  if (candidates.empty()) return;
  std::lock_guard lock(state_->mutex);
  state_->with(true, [&](const Connection& db) {
    Transaction transaction(db);
    Statement store(db, kStoreCandidate);
    for (const Candidate& c : candidates) {
      store.bind(1, static_cast<int64_t>(program));
      store.bind(2, where);
      store.bind(3, static_cast<int64_t>(c.kernel));
      store.bind(4, c.seconds);
      store.bind(5, c.error);
      store.bind(6, c.text);
      store.step();
      store.again();
    }
    transaction.commit();
    return true;
  });
}

std::vector<Database::Candidate> Database::candidates(uint64_t program, const std::string& where) {
  std::lock_guard lock(state_->mutex);
  return state_->read([&](const Connection& db) {
    Statement find(db, kCandidates);
    find.bind(1, static_cast<int64_t>(program));
    find.bind(2, where);
    std::vector<Candidate> out;
    while (find.step())
      out.push_back({static_cast<uint64_t>(find.integer(0)), find.number(1), find.text(2), find.text(3)});
    return out;
  });
}

int64_t Database::candidate_count() {
  std::lock_guard lock(state_->mutex);
  return state_->read([&](const Connection& db) -> int64_t {
    Statement count(db, "SELECT count(*) FROM candidates");
    return count.step() ? count.integer(0) : 0;
  });
}

std::pair<int64_t, int64_t> Database::prune(const std::string& keep_prefix, int64_t made_before) {
  std::lock_guard lock(state_->mutex);
  return state_->with(true, [&](const Connection& db) {
    std::pair<int64_t, int64_t> gone;
    Transaction transaction(db);
    for (const char* table : {"schedules", "candidates"}) {
      Statement drop(db, (std::string("DELETE FROM ") + table +
                          " WHERE substr(fingerprint, 1, length(?1)) != ?1 OR made < ?2")
                             .c_str());
      drop.bind(1, keep_prefix);
      drop.bind(2, made_before);
      drop.step();
      (table[0] == 's' ? gone.first : gone.second) = sqlite3_changes64(db.get());
    }
    transaction.commit();
    return gone;
  });
}

} // namespace lathe::search
