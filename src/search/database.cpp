#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "lathe/error.hpp"
#include "core/cache_dir.hpp"
#include "search/search.hpp"

namespace lathe::search {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCreate = "CREATE TABLE IF NOT EXISTS schedules(program INTEGER NOT NULL, fingerprint "
                                "TEXT NOT NULL, moves TEXT NOT NULL,"
                                " seconds REAL NOT NULL, PRIMARY KEY(program, fingerprint)) WITHOUT ROWID";
constexpr const char* kFind = "SELECT moves, seconds FROM schedules WHERE program = ?1 AND fingerprint = ?2";
constexpr const char* kStore =
    "INSERT INTO schedules(program, fingerprint, moves, seconds) VALUES(?1, ?2, ?3, ?4)"
    " ON CONFLICT(program, fingerprint) DO UPDATE SET moves = excluded.moves, seconds = excluded.seconds"
    " WHERE excluded.seconds < schedules.seconds";

/// What SQLite says when the file is not (or no longer) one of ours.
struct Damage {
  std::string reason;
};
/// Any other refusal: locked for too long, no permission, disk full.
struct SqliteError {
  std::string reason;
};

/// Held by one process at a time; an empty path takes no lock.
class FileLock {
public:
  explicit FileLock(const std::string& path) {
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
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

class Connection {
public:
  Connection(const std::string& path, bool create) {
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    check(sqlite3_open_v2(path.c_str(), &db_, flags, nullptr));
    check(sqlite3_busy_timeout(db_, 10'000));
    if (create) {
      run("PRAGMA journal_mode = WAL");
      run("PRAGMA synchronous = NORMAL");
      run(kCreate);
    }
  }
  ~Connection() { sqlite3_close_v2(db_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void check(int code) const {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    const std::string message = db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(code);
    const int primary = code & 0xff;
    if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR ||
        primary == SQLITE_MISMATCH || primary == SQLITE_CONSTRAINT)
      throw Damage{message};
    throw SqliteError{message};
  }
  void run(const char* sql) const { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  sqlite3* get() const { return db_; }

private:
  sqlite3* db_ = nullptr;
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

private:
  const Connection& db_;
  sqlite3_stmt* statement_ = nullptr;
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

struct Database::State {
  std::string path, damaged;
  std::mutex mutex;
  std::unique_ptr<Connection> connection;
  bool writable = false;

  /// Runs `f(connection)`; a damaged file is set aside and f runs once more on what replaced it.
  template <class F> auto with(bool create, F&& f) {
    for (bool again = false;; again = true) {
      try {
        if (!connection || (create && !writable)) open(create);
        return f(*connection);
      } catch (const Damage& damage) {
        connection.reset();
        if (again) throw Error(ErrorKind::File, path + ": " + damage.reason + ", expected a tuning database");
        set_aside(damage.reason);
        if (!create && !fs::exists(path)) return decltype(f(*connection)){};
      } catch (const SqliteError& e) {
        connection.reset();
        throw Error(ErrorKind::File,
                    path + ": " + e.reason + ", expected a tuning database that can be opened");
      }
    }
  }

  void open(bool create) {
    connection.reset();
    if (create) make_parent_dir(path);
    // Turning a new file to WAL mode fails, rather than waits, when two processes do it at once.
    const FileLock lock(create ? path + ".lock" : std::string());
    connection = std::make_unique<Connection>(path, create);
    writable = create;
  }

  // Another process may have met the same damage and put a good file in its place already: only the one who
  // holds the lock, and still finds the file damaged, moves it.
  void set_aside(const std::string& reason) {
    const FileLock lock(path + ".lock");
    damaged = path + " was damaged (" + reason + ") and set aside as " + path + ".damaged";
    if (intact()) return;
    std::error_code error;
    fs::rename(path, path + ".damaged", error);
    if (error) fs::remove_all(path, error);
    fs::remove(path + "-wal", error);
    fs::remove(path + "-shm", error);
  }

  bool intact() const {
    try {
      const Connection probe(path, false);
      Statement check(probe, "PRAGMA quick_check(1)");
      Statement find(probe, kFind);
      return check.step() && check.text(0) == "ok";
    } catch (const Damage&) {
      return false;
    } catch (const SqliteError&) {
      return false;
    }
  }
};

/// True for a file without tables: another process has just created it.
static bool is_empty(const Connection& db) {
  Statement tables(db, "SELECT count(*) FROM sqlite_master");
  return tables.step() && tables.number(0) == 0;
}

Database::Database(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  std::error_code error;
  if (!fs::exists(path, error)) return;
  // Preparing the query reads the header and the schema: a foreign or broken file shows itself here.
  state_->with(false, [](const Connection& db) {
    if (!is_empty(db)) Statement(db, kFind);
    return true;
  });
}

Database::~Database() = default;

std::string Database::default_path() { return cache_dir() + "/tuning.db"; }

const std::string& Database::damaged() const { return state_->damaged; }

std::optional<Database::Entry> Database::find(uint64_t program, const std::string& fingerprint) {
  std::lock_guard lock(state_->mutex);
  std::error_code error;
  if (!state_->connection && !fs::exists(state_->path, error)) return std::nullopt;
  return state_->with(false, [&](const Connection& db) -> std::optional<Entry> {
    if (is_empty(db)) return std::nullopt;
    Statement find(db, kFind);
    find.bind(1, static_cast<int64_t>(program));
    find.bind(2, fingerprint);
    if (!find.step()) return std::nullopt;
    try {
      return Entry{parse_moves(find.text(0)), find.number(1)};
    } catch (const Error& e) {
      Statement drop(db, "DELETE FROM schedules WHERE program = ?1 AND fingerprint = ?2");
      drop.bind(1, static_cast<int64_t>(program));
      drop.bind(2, fingerprint);
      drop.step();
      state_->damaged = state_->path + ": an entry was damaged (" + e.what() + ") and dropped";
      return std::nullopt;
    }
  });
}

void Database::store(uint64_t program, const std::string& fingerprint, const Entry& entry) {
  std::string text;
  for (const Move& move : entry.moves) text += to_string(move) + "\n";
  std::lock_guard lock(state_->mutex);
  state_->with(true, [&](const Connection& db) {
    Statement store(db, kStore);
    store.bind(1, static_cast<int64_t>(program));
    store.bind(2, fingerprint);
    store.bind(3, text);
    store.bind(4, entry.seconds);
    return store.step();
  });
}

} // namespace lathe::search
