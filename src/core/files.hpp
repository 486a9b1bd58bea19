// Files that lathe writes, and the cache: what lathe learnt about this machine and what it compiled.
#pragma once
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace lathe {

/// The cache folder: $LATHE_CACHE_DIR, else ~/.cache/lathe, else lathe-<user id> among the temporary files,
/// which is made if it is not there. The first two may not exist yet. Empty if the last belongs to someone
/// else or is open to others.
std::string cache_dir();
/// The contents of a file of the cache; nothing if it can't be read or is no regular file. The cache holds
/// code. So this user or root must own the file, its folder and the folder around that, and nobody outside
/// the user's group may change them; else the result is nothing. Never waits.
std::optional<std::string> read_cached(const std::string& file);

/// Makes the directory that holds `file`, with its parents; in the cache, for this user alone. Throws
/// Error(File) naming it if that fails.
void make_parent_dir(const std::string& file);

/// What is left of a file after the machine stops without warning. Kept: the old contents or the new. Cached:
/// either, or a damaged file, which the reader must notice.
enum class Durability { Cached, Kept };
/// Replaces `file` by `text` in one step: a reader sees the old or the new, never a part. Throws Error(File).
void write_atomically(const std::string& file, const std::string& text,
                      Durability durability = Durability::Kept);
/// Replaces `file` in the same way by what `write` writes.
void write_atomically(const std::string& file, const std::function<void(std::ostream&)>& write,
                      Durability durability = Durability::Kept);
/// Writes to a path that the user gave: as write_atomically, but into a device or a pipe, and to the file
/// that a link leads to. Not for the cache, where somebody else may have put the link.
void write_to_path(const std::string& path, const std::function<void(std::ostream&)>& write);

} // namespace lathe
