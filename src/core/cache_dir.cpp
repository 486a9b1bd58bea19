#include "core/cache_dir.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lathe/error.hpp"

namespace lathe {
namespace fs = std::filesystem;

std::string private_cache_dir() {
  if (const char* dir = std::getenv("LATHE_CACHE_DIR"); dir && *dir) return dir;
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/lathe";
  return {};
}

std::string cache_dir() {
  const std::string dir = private_cache_dir();
  return dir.empty() ? (fs::temp_directory_path() / "lathe-cache").string() : dir;
}

void make_parent_dir(const std::string& file) {
  const fs::path dir = fs::path(file).parent_path();
  if (dir.empty()) return;
  std::error_code error;
  fs::create_directories(dir, error);
  if (error)
    throw Error(ErrorKind::File, file + ": its folder can't be made (" + error.message() +
                                     "), expected a path that can be written");
}

void write_atomically(const std::string& file, const std::string& text) {
  write_atomically(file, [&](std::ostream& out) { out << text; });
}

void write_atomically(const std::string& file, const std::function<void(std::ostream&)>& write) {
  make_parent_dir(file);
  static std::atomic<int> files{0};
  const std::string temporary =
      file + "." + std::to_string(getpid()) + "." + std::to_string(files++) + ".new";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  write(out);
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, file, error);
  if (!out || error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw Error(ErrorKind::File,
                file + ": can't be written, expected a file in a folder with room and permission");
  }
}

} // namespace lathe
