#include "core/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <streambuf>
#include <vector>

#include "lathe/error.hpp"

namespace lathe {
namespace fs = std::filesystem;
namespace {

/// Whether only this user, root and this user's group can change the file or folder. In a sticky folder
/// nobody can change others' files.
bool is_trusted(const struct stat& status) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return false;
  if (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX)) return true;
  if (status.st_mode & S_IWOTH) return false;
  return !(status.st_mode & S_IWGRP) || status.st_gid == ::getegid();
}

bool is_trusted_folder(const fs::path& folder) {
  struct stat status{};
  return ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && is_trusted(status);
}

/// The cache folder of a user without a home; empty if the folder is not this user's alone.
std::string temporary_cache_dir() {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) return {};
  const std::string dir = (temporary / ("lathe-" + std::to_string(::geteuid()))).string();
  constexpr mode_t kMine = 0700;
  if (::mkdir(dir.c_str(), kMine) != 0 && errno != EEXIST) return {};
  struct stat status{}; // another user may have made it first
  const bool is_mine = ::lstat(dir.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                       status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
  return is_mine ? dir : std::string();
}

class File {
public:
  File(const std::string& path, int flags, mode_t mode = 0)
      : number_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  /// Closes the file. False if the system reports an error, such as a write that failed.
  bool close() {
    const bool closed = ::close(number_) == 0;
    number_ = -1;
    return closed;
  }

private:
  int number_;
};

class FileBuffer : public std::streambuf {
public:
  explicit FileBuffer(int file) : file_(file) { setp(bytes_.data(), bytes_.data() + bytes_.size()); }

protected:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    if (count < epptr() - pptr()) return std::streambuf::xsputn(from, count);
    return sync() == 0 && write(from, count) ? count : 0;
  }
  int sync() override {
    const bool written = write(pbase(), pptr() - pbase());
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return written ? 0 : -1;
  }

private:
  bool write(const char* from, std::streamsize count) const {
    while (count > 0) {
      const ssize_t written = ::write(file_, from, static_cast<size_t>(count));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      from += written;
      count -= written;
    }
    return true;
  }

  int file_;
  std::array<char, 1 << 14> bytes_;
};

/// Whether all that `write` writes reached the file.
bool put(int file, const std::function<void(std::ostream&)>& write) {
  FileBuffer buffer(file);
  std::ostream out(&buffer);
  write(out);
  out.flush();
  return out.good();
}

[[noreturn]] void cannot_write(const std::string& file) {
  throw Error(ErrorKind::File,
              file + ": can't be written, expected a file in a folder with room and permission");
}

/// A new file beside another. replace() moves it over the other; else the destructor deletes it.
class Replacement {
public:
  explicit Replacement(const std::string& of) : of_(of) {
    constexpr int kMostTries = 100; // names tried; a process of the same id may have left some
    static std::atomic<int> made{0};
    for (int k = 0; k < kMostTries && !is_open(); ++k) {
      path_ = of + "." + std::to_string(::getpid()) + "." + std::to_string(made++) + ".new";
      file_.emplace(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
      if (!is_open() && errno != EEXIST) return;
    }
  }
  ~Replacement() {
    if (is_open()) ::unlink(path_.c_str());
  }
  bool is_open() const { return file_ && file_->is_open(); }
  int number() const { return file_->number(); }
  bool replace() {
    const bool done = file_->close() && ::rename(path_.c_str(), of_.c_str()) == 0;
    if (!done) ::unlink(path_.c_str());
    return done;
  }

private:
  const std::string& of_;
  std::string path_;
  std::optional<File> file_;
};

} // namespace

std::string cache_dir() {
  if (const char* dir = std::getenv("LATHE_CACHE_DIR"); dir && *dir) return dir;
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/lathe";
  return temporary_cache_dir();
}

std::optional<std::string> read_cached(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const File file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status{};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !is_trusted(status) || !is_trusted_folder(folder) || !is_trusted_folder(folder.parent_path()))
    return {};
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t more = ::read(file.number(), text.data() + filled, text.size() - filled);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return {};
    filled += static_cast<size_t>(more);
  }
  return text;
}

void make_parent_dir(const std::string& file) {
  std::error_code error;
  fs::path dir = fs::path(file).parent_path();
  std::vector<fs::path> missing;
  for (; !dir.empty() && !fs::exists(dir, error); dir = dir.parent_path()) missing.push_back(dir);
  const std::string cache = cache_dir();
  for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
    const bool in_cache = !cache.empty() && (*next == cache || next->string().starts_with(cache + "/"));
    if (::mkdir(next->c_str(), in_cache ? 0700 : 0777) == 0 || errno == EEXIST) continue;
    throw Error(ErrorKind::File, file + ": its folder can't be made (" +
                                     std::error_code(errno, std::generic_category()).message() +
                                     "), expected a path that can be written");
  }
}

void write_atomically(const std::string& file, const std::string& text, Durability durability) {
  write_atomically(file, [&](std::ostream& out) { out << text; }, durability);
}

void write_atomically(const std::string& file, const std::function<void(std::ostream&)>& write,
                      Durability durability) {
  make_parent_dir(file);
  Replacement made(file);
  const bool written = made.is_open() && put(made.number(), write) &&
                       (durability == Durability::Cached || ::fsync(made.number()) == 0) && made.replace();
  if (!written) cannot_write(file);
}

void write_to_path(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::error_code error;
  const fs::path target = fs::is_symlink(path, error) ? fs::canonical(path, error) : fs::path(path);
  const fs::file_status status = fs::status(path, error);
  const bool is_replaceable =
      !fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status); // an error follows
  if (is_replaceable) return write_atomically(target.empty() ? path : target.string(), write);
  File stream(path, O_WRONLY);
  if (!stream.is_open() || !put(stream.number(), write) || !stream.close()) cannot_write(path);
}

} // namespace lathe
