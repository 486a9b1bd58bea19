#include "runtime/llvm/object_cache.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/core.h>

#include "core/hash.hpp"

namespace lathe::runtime {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8] = {'l', 'a', 't', 'h', 'e', 'o', 'b', '1'};
  uint64_t key_bytes = 0, object_bytes = 0, checksum = 0;
};

uint64_t checksum(std::string_view bytes) {
  uint64_t sum = bytes.size();
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    sum = mix(sum, word);
  }
  return mix(sum, hash_text(bytes.substr(i)));
}

/// Empty if there is no home for it.
fs::path path_of(const std::string& key) {
  fs::path folder;
  if (const char* dir = std::getenv("LATHE_CACHE_DIR"); dir && *dir)
    folder = dir;
  else if (const char* home = std::getenv("HOME"); home && *home)
    folder = fs::path(home) / ".cache" / "lathe";
  else
    return {};
  return folder / "objects" / fmt::format("{:016x}.o", hash_text(key));
}

} // namespace

std::optional<std::string> find_object(const std::string& key) {
  const fs::path path = path_of(key);
  if (path.empty()) return {};
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  Header header, expected;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  const size_t body = file.size() - sizeof header;
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.key_bytes != key.size() ||
      header.key_bytes > body || header.object_bytes != body - header.key_bytes)
    return {};
  const std::string_view contents = std::string_view(file).substr(sizeof header);
  if (contents.substr(0, key.size()) != key || checksum(contents) != header.checksum) return {};
  return std::string(contents.substr(key.size()));
}

void keep_object(const std::string& key, std::string_view object) {
  const fs::path path = path_of(key);
  if (path.empty()) return;
  static std::atomic<int> files{0};
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path fresh = path;
  fresh += fmt::format(".{}.{}", getpid(), files++);
  const std::string contents = key + std::string(object);
  Header header;
  header.key_bytes = key.size();
  header.object_bytes = object.size();
  header.checksum = checksum(contents);
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (out) fs::rename(fresh, path, error);
  if (!out || error) fs::remove(fresh, error);
}

} // namespace lathe::runtime
