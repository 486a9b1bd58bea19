// Compiled objects on disk, in $LATHE_CACHE_DIR/objects or ~/.cache/lathe/objects. A file holds the whole key
// beside the object, lengths and a checksum, so a damaged file, or one of another key, counts as absent.
// Files are replaced in one step. Where the folder can't be written, nothing is kept and nothing fails.
// Thread-safe.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace lathe::runtime {

std::optional<std::string> find_object(const std::string& key);
void keep_object(const std::string& key, std::string_view object);

} // namespace lathe::runtime
