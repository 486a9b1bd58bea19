#include "compile/trace/trace_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/files.hpp"
#include "lathe/error.hpp"

namespace lathe::tracing {
namespace {

constexpr size_t kAtOnce = 64 << 10; // bytes that wait for one write: they stay in a cache

[[noreturn]] void fail(const std::string& path, int reason) {
  throw Error(ErrorKind::File, fmt::format("trace {}: {}, expected a file that can be appended to", path,
                                           std::strerror(reason)));
}

} // namespace

TraceFile::TraceFile(std::string path) : path_(std::move(path)) {
  make_parent_dir(path_);
  file_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0 && errno == EACCES) file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) fail(path_, errno);
  // A stopped writer may have left half a line. A newline keeps it from spoiling the next one.
  char last = '\n';
  if (::lseek(file_, -1, SEEK_END) >= 0 && ::read(file_, &last, 1) == 1 && last != '\n')
    waiting_.push_back('\n');
}

TraceFile::~TraceFile() {
  write_out();
  ::close(file_);
}

void TraceFile::add(std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (fault_) return;
  if (waiting_.capacity() < kAtOnce) waiting_.reserve(kAtOnce + kAtOnce / 4); // less than malloc maps anew
  waiting_.append(line).push_back('\n');
  if (waiting_.size() >= kAtOnce) write_out();
}

void TraceFile::flush() {
  const std::lock_guard lock(mutex_);
  write_out();
  if (fault_) fail(path_, fault_);
}

void TraceFile::write_out() {
  for (size_t at = 0; !fault_ && at < waiting_.size();) {
    const ssize_t written = ::write(file_, waiting_.data() + at, waiting_.size() - at);
    if (written > 0)
      at += static_cast<size_t>(written);
    else if (errno != EINTR)
      fault_ = errno ? errno : EIO;
  }
  waiting_.clear();
}

} // namespace lathe::tracing
