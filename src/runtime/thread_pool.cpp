#include "runtime/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lathe::runtime {
namespace {

// Waking a sleeping thread takes some 100 us on a virtual machine. So a worker waits awake for what may come
// next, at first with the core to itself, then giving it to whoever else wants it.
constexpr auto kSpin = std::chrono::microseconds(100), kYield = std::chrono::microseconds(1000);
constexpr int kMaxWorkers = 255;
thread_local bool inside_parallel_for = false;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

struct Shared {
  const ThreadPool::Job* job;
  int64_t count;
  std::atomic<int64_t> next{0};

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) job->run(job->context, i);
  }
};

/// One worker thread. `phase` is a handshake with the caller: the caller posts, the worker takes the post (or
/// the caller takes it back when no work is left, so that a worker slow to wake is never waited for), runs
/// and goes idle.
class Worker {
public:
  Worker() : thread_([this] { loop(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_.store(true);
    }
    wake_.notify_one();
    thread_.join();
  }

  void post(Shared* work) {
    work_ = work;
    phase_.store(kPosted);
    if (!asleep_.load()) return;
    { std::lock_guard lock(mutex_); } // it is either before its check of the phase or really waiting
    wake_.notify_one();
  }
  void finish() {
    int posted = kPosted;
    if (phase_.compare_exchange_strong(posted, kIdle, std::memory_order_acquire)) return;
    for (int tries = 0; phase_.load(std::memory_order_acquire) != kIdle; ++tries) {
      if (tries < 4000)
        pause();
      else
        std::this_thread::yield();
    }
  }

private:
  enum : int { kIdle, kPosted, kRunning };

  void loop() {
    inside_parallel_for = true;
    while (wait()) {
      int posted = kPosted;
      if (!phase_.compare_exchange_strong(posted, kRunning, std::memory_order_acquire)) continue;
      if (!work_->job->enter || work_->job->enter(work_->job->context)) work_->work();
      phase_.store(kIdle, std::memory_order_release);
    }
  }
  /// True when something is or was posted, which the caller may have taken back; false to stop.
  bool wait() {
    const auto begin = std::chrono::steady_clock::now();
    for (auto waited = begin - begin; waited < kYield; waited = std::chrono::steady_clock::now() - begin) {
      for (int k = 0; k < 64; ++k) {
        if (phase_.load(std::memory_order_relaxed) == kPosted) return true;
        pause();
      }
      if (stop_.load()) return false;
      if (waited >= kSpin) std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    asleep_.store(true);
    wake_.wait(lock, [this] { return phase_.load() == kPosted || stop_.load(); });
    asleep_.store(false);
    return !stop_.load();
  }

  std::atomic<int> phase_{kIdle};
  std::atomic<bool> asleep_{false}, stop_{false};
  Shared* work_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

} // namespace

struct ThreadPool::State {
  std::mutex owner; // held by the thread whose parallel_for is running
  std::vector<std::unique_ptr<Worker>> workers;
};

ThreadPool::ThreadPool() : state_(std::make_unique<State>()) {}
ThreadPool::~ThreadPool() = default;

ThreadPool& ThreadPool::instance() {
  static ThreadPool pool;
  return pool;
}

void ThreadPool::parallel_for(int threads, int64_t count, const Job& job) {
  Shared shared{&job, count};
  const int64_t wanted = std::min<int64_t>({int64_t{threads} - 1, count - 1, kMaxWorkers});
  std::unique_lock<std::mutex> owner;
  if (wanted > 0 && !inside_parallel_for) owner = std::unique_lock(state_->owner, std::try_to_lock);
  if (!owner) return shared.work();

  auto& workers = state_->workers;
  try {
    while (static_cast<int64_t>(workers.size()) < wanted) workers.push_back(std::make_unique<Worker>());
  } catch (const std::system_error&) { // no more threads to be had: fewer will do
  }
  const size_t used = std::min(workers.size(), static_cast<size_t>(wanted));
  inside_parallel_for = true;
  for (size_t k = 0; k < used; ++k) workers[k]->post(&shared);
  shared.work();
  for (size_t k = 0; k < used; ++k) workers[k]->finish();
  inside_parallel_for = false;
}

} // namespace lathe::runtime
