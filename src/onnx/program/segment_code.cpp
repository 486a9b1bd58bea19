#include "onnx/program/segment_code.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace lathe::onnx {
namespace {

/// Lowers the priority of this thread, and of those that it starts: the compiler's.
void yield_to_others() {
#ifdef __linux__
  constexpr int kNicer = 10;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNicer);
#endif
}

} // namespace

Improver::~Improver() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
}

void Improver::add(std::shared_ptr<SegmentCode> code, NamedTensors outputs, CompileOptions options) {
  const std::lock_guard lock(mutex_);
  open_.push_back({std::move(code), std::move(outputs), std::move(options)});
  changed_.notify_all();
  try {
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error&) { // the system gives no thread: the code that is there stays
    open_.clear();
  }
}

void Improver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_.empty(); });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Improver::work(const std::stop_token& stop) {
  yield_to_others();
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !open_.empty(); })) {
    Task task = std::move(open_.front());
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task.options.stop = stop;
      task.code->replace(compile(task.outputs, task.options));
    } catch (...) {
      thrown = std::current_exception();
    }
    task = {}; // what it held of the model goes before wait() returns
    lock.lock();
    if (thrown && !thrown_) thrown_ = thrown;
    open_.pop_front();
    changed_.notify_all();
  }
}

} // namespace lathe::onnx
