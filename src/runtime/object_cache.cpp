#include "runtime/object_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fmt/core.h>

#include "core/checksum.hpp"
#include "core/files.hpp"
#include "lathe/error.hpp"

namespace lathe::runtime {
namespace {

namespace fs = std::filesystem;

struct Seal {
  char magic[8] = {'l', 'a', 't', 'h', 'e', 'o', 'b', '2'};
  uint64_t object_bytes = 0, key_bytes = 0, checksum = 0;
};

int64_t limit_bytes() {
  constexpr int64_t kDefault = 512, kMost = int64_t{1} << 32;
  const char* text = std::getenv("LATHE_CACHE_MIB");
  if (!text || !*text) return kDefault << 20;
  char* end = nullptr;
  const long long mib = std::strtoll(text, &end, 10);
  return (*end || mib < 0 ? kDefault : std::min<int64_t>(mib, kMost)) << 20;
}

/// The folder's ledger: a file with the bytes that the folder holds, which are the bytes at the last count
/// plus those kept since. The file is locked while this object lives, so that one process at a time counts
/// and evicts. The system releases the lock of a process that dies.
class Ledger {
public:
  static constexpr const char* kName = "ledger";
  explicit Ledger(const fs::path& folder)
      : file_(open((folder / kName).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644)) {
    if (file_ >= 0 && flock(file_, LOCK_EX) != 0) {
      close(file_);
      file_ = -1;
    }
  }
  ~Ledger() {
    if (file_ < 0) return;
    flock(file_, LOCK_UN); // closing may not do: a child just forked by another thread may hold the file open
    close(file_);
  }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  bool is_locked() const { return file_ >= 0; }
  /// The bytes that the folder holds; negative if unknown.
  int64_t bytes() const {
    int64_t value = 0;
    return pread(file_, &value, sizeof value, 0) == sizeof value ? value : -1;
  }
  void set_bytes(int64_t value) {
    if (pwrite(file_, &value, sizeof value, 0) == sizeof value) return;
    [[maybe_unused]] const int ignored = ftruncate(file_, 0); // the next process then counts the folder
  }

private:
  int file_;
};

/// Removes files, the least recently used first, till the folder holds at most `most` bytes. Returns the
/// bytes that it then holds.
int64_t evict(const fs::path& folder, int64_t most) {
  struct File {
    timespec used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  int64_t held = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat status{};
    if (it->path().filename() == Ledger::kName || lstat(it->path().c_str(), &status) != 0) continue;
    files.push_back({status.st_atim, status.st_size, it->path()});
    held += status.st_size;
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (held <= most) break;
    std::error_code ignored;
    if (fs::remove(file.path, ignored)) held -= file.bytes;
  }
  return held;
}

/// Makes room for a file of `bytes`, and adds it to the ledger. The caller must write the file while `ledger`
/// lives, since another process that counts the folder before the file exists would miss it.
void make_room(const fs::path& folder, Ledger& ledger, int64_t bytes) {
  if (!ledger.is_locked()) return;
  const int64_t limit = limit_bytes(), before = ledger.bytes();
  if (before >= 0 && before + bytes <= limit)
    ledger.set_bytes(before + bytes);
  else
    ledger.set_bytes(evict(folder, std::max<int64_t>(limit / 4 * 3 - bytes, 0)) + bytes);
}

} // namespace

std::string ObjectCache::path_of(const std::string& key) const {
  const std::string dir = cache_dir();
  if (dir.empty()) return {};
  return fmt::format("{}/{}/{:016x}{}", dir, folder_, hash_text(key), suffix_);
}

std::optional<ObjectCache::Found> ObjectCache::find(const std::string& key) const {
  std::string path = path_of(key);
  if (path.empty()) return {};
  std::optional<std::string> read = read_cached(path);
  if (!read) return {};
  std::string& file = *read;
  Seal seal;
  if (file.size() < sizeof seal) return {};
  const std::string_view contents = std::string_view(file).substr(0, file.size() - sizeof seal);
  std::memcpy(&seal, file.data() + contents.size(), sizeof seal);
  if (std::memcmp(seal.magic, Seal{}.magic, sizeof seal.magic) != 0 || seal.key_bytes != key.size() ||
      seal.key_bytes > contents.size() || seal.object_bytes != contents.size() - seal.key_bytes ||
      contents.substr(seal.object_bytes) != key || checksum(contents) != seal.checksum)
    return {};
  const timespec used[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  utimensat(AT_FDCWD, path.c_str(), used, 0);
  file.resize(seal.object_bytes);
  return Found{std::move(path), std::move(file)};
}

void ObjectCache::keep(const std::string& key, std::string_view object) const {
  const std::string path = path_of(key);
  if (path.empty()) return;
  std::string contents = std::string(object) + key;
  Seal seal;
  seal.object_bytes = object.size();
  seal.key_bytes = key.size();
  seal.checksum = checksum(contents);
  contents.append(reinterpret_cast<const char*>(&seal), sizeof seal);
  if (static_cast<int64_t>(contents.size()) > limit_bytes()) return;
  try {
    const fs::path folder = fs::path(path).parent_path();
    make_parent_dir(path);
    Ledger ledger(folder);
    make_room(folder, ledger, static_cast<int64_t>(contents.size()));
    write_atomically(path, contents, Durability::Cached);
  } catch (const Error&) { // the cache then does not keep the object
  }
}

} // namespace lathe::runtime
