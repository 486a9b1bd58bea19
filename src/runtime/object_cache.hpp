// Compiled objects on disk, in folders of $LATHE_CACHE_DIR or ~/.cache/lathe.
//
// A file holds the object, followed by its whole key and a seal (lengths and a checksum). The dynamic linker
// can load such a file as it is. A file that is damaged or has another key counts as absent. The cache
// replaces files atomically. If a folder would outgrow its limit ($LATHE_CACHE_MIB, 512 if not set), the
// cache removes the least recently used objects, down to three quarters of the limit. An object that is open
// or loaded stays usable when its file is removed. If the folder can't be written, the cache keeps nothing
// and reports no error. Any number of processes may share one folder. Thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::runtime {

class ObjectCache {
public:
  /// Objects in `folder` of the cache directory, in files that end in `suffix`.
  ObjectCache(std::string folder, std::string suffix)
      : folder_(std::move(folder)), suffix_(std::move(suffix)) {}

  struct Found {
    std::string path; // another process may remove the file at any moment
    std::string object;
  };
  std::optional<Found> find(const std::string& key) const;
  void keep(const std::string& key, std::string_view object) const;

private:
  std::string path_of(const std::string& key) const;
  std::string folder_, suffix_;
};

} // namespace lathe::runtime
