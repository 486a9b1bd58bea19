#include "npz.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "values.hpp"

namespace lathe::tool {
namespace {

/// A ZIP archive. Its numbers are little endian; the places of its fields are those of PKWARE's APPNOTE.
class Archive {
public:
  explicit Archive(const std::string& path) : path_(path), bytes_(read_file(path)) {}

  std::vector<std::pair<std::string, std::string>> files() const {
    constexpr size_t kEntry = 46;
    const size_t end = end_record();
    size_t at = number(end + 16, 4);
    std::vector<std::pair<std::string, std::string>> found;
    for (size_t left = number(end + 10, 2); left > 0; --left) {
      if (number(at, 4) != 0x02014b50) bad("its directory is damaged");
      const size_t name_size = number(at + 28, 2);
      std::string name = part(at + kEntry, name_size);
      found.emplace_back(name, data(name, at));
      at += kEntry + name_size + number(at + 30, 2) + number(at + 32, 2);
    }
    return found;
  }

private:
  [[noreturn]] void bad(const std::string& why) const {
    throw Error(ErrorKind::File,
                fmt::format("{}: {}, expected a .npz file as numpy.savez writes it", path_, why));
  }

  std::string part(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) bad("it ends too early");
    return bytes_.substr(at, size);
  }

  size_t number(size_t at, size_t width) const {
    size_t value = 0;
    const std::string field = part(at, width);
    for (size_t k = 0; k < width; ++k) value |= static_cast<size_t>(static_cast<uint8_t>(field[k])) << 8 * k;
    return value;
  }

  /// The record at the end, behind which a comment may stand.
  size_t end_record() const {
    constexpr size_t kRecord = 22;
    const size_t found =
        bytes_.size() < kRecord ? std::string::npos : bytes_.rfind("PK\x05\x06", bytes_.size() - kRecord);
    if (found == std::string::npos) bad("it has no directory");
    return found;
  }

  /// Of the file with the directory's entry at `entry`.
  std::string data(const std::string& name, size_t entry) const {
    if (number(entry + 10, 2) != 0) bad(fmt::format("'{}' is compressed", name));
    const size_t size = number(entry + 24, 4), local = number(entry + 42, 4);
    if (size == UINT32_MAX) bad(fmt::format("'{}' has 4 GiB or more", name));
    if (number(local, 4) != 0x04034b50) bad(fmt::format("'{}' is not where its directory says", name));
    return part(local + 30 + number(local + 26, 2) + number(local + 28, 2), size);
  }

  std::string path_, bytes_;
};

} // namespace

std::vector<std::pair<std::string, std::string>> read_npz(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> files = Archive(path).files();
  for (auto& [name, bytes] : files)
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
  return files;
}

} // namespace lathe::tool
