// Files of a test.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "support/environment.hpp"

namespace lathe::test {

/// A folder of its own, removed with what is in it.
struct TemporaryDir {
  std::filesystem::path path;

  TemporaryDir() {
    std::random_device random;
    path = std::filesystem::temp_directory_path() /
           ("lathe-test-" + std::to_string(random()) + std::to_string(random()));
    std::filesystem::create_directories(path);
  }
  ~TemporaryDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryDir(const TemporaryDir&) = delete;
  TemporaryDir& operator=(const TemporaryDir&) = delete;
  std::string file(const std::string& name) const { return (path / name).string(); }
};

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A pipe at `path` with this process at its end. Writing to it does not wait, as long as it has room.
class Pipe {
public:
  explicit Pipe(const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) == 0) end_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  }
  ~Pipe() { ::close(end_); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  /// What was written to it so far.
  std::string received() const {
    std::string all(size_t{1} << 16, '\0');
    const ssize_t bytes = ::read(end_, all.data(), all.size());
    return all.substr(0, bytes < 0 ? 0 : static_cast<size_t>(bytes));
  }

private:
  int end_ = -1;
};

/// The cache directory of this process, while it lives: an empty one of its own.
struct CacheDir : TemporaryDir {
  Variable variable{"LATHE_CACHE_DIR", path.c_str()};
};

} // namespace lathe::test
