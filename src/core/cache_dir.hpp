// Where lathe keeps what it learnt about this machine and what it compiled: $LATHE_CACHE_DIR, else
// ~/.cache/lathe.
#pragma once
#include <functional>
#include <iosfwd>
#include <string>

namespace lathe {

/// The directory's path; it may not exist yet. Empty if the user has no home.
std::string private_cache_dir();
/// The same, or a folder among the temporary files, which other users may write: for what is checked when it
/// is read, never for code.
std::string cache_dir();
/// Makes the directory that holds `file`, with its parents. Throws Error(File) naming it if that fails.
void make_parent_dir(const std::string& file);
/// Replaces `file` by `text` in one step: a reader sees the old or the new, never a part. Throws Error(File).
void write_atomically(const std::string& file, const std::string& text);
/// The same of what `write` writes.
void write_atomically(const std::string& file, const std::function<void(std::ostream&)>& write);

} // namespace lathe
