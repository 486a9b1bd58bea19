// Compiled objects on disk, in folders of $LATHE_CACHE_DIR or ~/.cache/lathe.
//
// A file is the object, followed by its whole key and a seal (lengths and a checksum), so that a file that is
// damaged or of another key counts as absent, and so that the dynamic linker can load it as it is. Files are
// replaced in one step. When a folder has grown over its limit ($LATHE_CACHE_MIB, 512 if not set) the objects
// that were not used for longest go, down to three quarters of it; any number of processes share one folder.
// An object that is open or loaded stays usable when its file goes. Where the folder can't be written nothing
// is kept and nothing fails. Thread-safe.
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
    std::string path; // which may go at any moment
    std::string object;
  };
  std::optional<Found> find(const std::string& key) const;
  void keep(const std::string& key, std::string_view object) const;

private:
  std::string path_of(const std::string& key) const;
  std::string folder_, suffix_;
};

} // namespace lathe::runtime
