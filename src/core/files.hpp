// Files that lathe writes, and where it keeps what it learnt about this machine and what it compiled.
#pragma once
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace lathe {

/// Where the cache is: $LATHE_CACHE_DIR, else ~/.cache/lathe, else lathe-<user id> among the temporary files,
/// which is made if it is not there. The first two may not exist yet. Empty if the last belongs to someone
/// else or is open to others.
std::string cache_dir();
/// What a file of the cache holds. Nothing if it can't be read, is no regular file, or if someone other than
/// this user and root owns or may write it, its folder or the folder around that: the cache holds code. Never
/// waits.
std::optional<std::string> read_cached(const std::string& file);

/// Makes the directory that holds `file`, with its parents; in the cache, for this user alone. Throws
/// Error(File) naming it if that fails.
void make_parent_dir(const std::string& file);

/// What is left of a file after the machine stops without warning. Kept: the old contents or the new. Cached:
/// either or a damaged one, which whoever reads it must notice.
enum class Durability { Cached, Kept };
/// Replaces `file` by `text` in one step: a reader sees the old or the new, never a part. Throws Error(File).
void write_atomically(const std::string& file, const std::string& text,
                      Durability durability = Durability::Kept);
/// The same of what `write` writes.
void write_atomically(const std::string& file, const std::function<void(std::ostream&)>& write,
                      Durability durability = Durability::Kept);

} // namespace lathe
