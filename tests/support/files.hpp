// Files of a test.
#pragma once
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

/// The cache directory of this process, while it lives: an empty one of its own.
struct CacheDir : TemporaryDir {
  Variable variable{"LATHE_CACHE_DIR", path.c_str()};
};

} // namespace lathe::test
