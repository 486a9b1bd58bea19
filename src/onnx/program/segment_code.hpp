// What runs a segment. A program that is to start at once makes it quickly first; a thread makes it better.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "lathe/executable.hpp"

namespace lathe::onnx {

/// Thread-safe.
class SegmentCode {
public:
  explicit SegmentCode(Executable made) : now_(std::move(made)) {}
  Executable now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void replace(Executable better) {
    const std::lock_guard lock(mutex_);
    std::swap(now_, better);
  }

private:
  mutable std::mutex mutex_;
  Executable now_;
};

/// Makes code that a quick search made again, by a full one, on a thread of its own and in the order in which
/// it comes. The thread yields to those that run programs. Thread-safe.
class Improver {
public:
  Improver() = default;
  /// Gives up what is not done.
  ~Improver();

  /// `outputs`: what the code computes. `options`: with the full search.
  void add(std::shared_ptr<SegmentCode> code, NamedTensors outputs, CompileOptions options);
  /// Waits until all code is done, and throws what compiling any of it threw. That code stays as it is.
  void wait();

private:
  struct Task {
    std::shared_ptr<SegmentCode> code;
    NamedTensors outputs;
    CompileOptions options;
  };
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> open_; // the first is being done
  std::exception_ptr thrown_;
  std::jthread thread_; // begins with the first task, ends before the rest does
};

} // namespace lathe::onnx
