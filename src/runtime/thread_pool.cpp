#include "runtime/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lathe::runtime {
namespace {

// Waking a sleeping thread takes some 100 us on a virtual machine. So a worker without work waits awake for
// the next job before it sleeps. Until kSpin it keeps its core; until kYield it yields the core to other
// threads.
constexpr auto kSpin = std::chrono::microseconds(100), kYield = std::chrono::microseconds(1000);
constexpr int kMaxWorkers = 255;
thread_local bool inside_parallel_for = false;
thread_local ThreadPool::Watch* watch = nullptr;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// The indices [begin, end) that one thread still has to do. One 64-bit word holds both ends. The owner takes
/// indices from the front, other threads from the back. Each does so with one atomic exchange, so that no
/// thread waits. A Range has a cache line of its own, since mostly only its owner uses it.
class alignas(64) Range {
public:
  void set(uint64_t begin, uint64_t end) { ends_.store(end << 32 | begin, std::memory_order_relaxed); }
  uint64_t left() const { return left(ends_.load(std::memory_order_relaxed)); }
  /// Takes the first index out of the range; false if there is none.
  bool take(uint64_t& index) {
    uint64_t ends = ends_.load(std::memory_order_relaxed);
    do {
      if (left(ends) == 0) return false;
      index = ends & kLow;
    } while (!ends_.compare_exchange_weak(ends, ends + 1, std::memory_order_relaxed));
    return true;
  }
  /// Takes the second half, rounded up, out of the range; false if the range is empty.
  bool give_half(uint64_t& begin, uint64_t& end) {
    uint64_t ends = ends_.load(std::memory_order_relaxed);
    do {
      if (left(ends) == 0) return false;
      end = ends >> 32;
      begin = end - (left(ends) + 1) / 2;
    } while (!ends_.compare_exchange_weak(ends, begin << 32 | (ends & kLow), std::memory_order_relaxed));
    return true;
  }

private:
  static constexpr uint64_t kLow = 0xffffffff;
  static uint64_t left(uint64_t ends) { return (ends >> 32) - (ends & kLow); }
  std::atomic<uint64_t> ends_{0};
};

/// One parallel_for. Each thread begins with a part of consecutive indices. So its caches hold the data that
/// neighbouring iterations share. In a next kernel with the same loop, the thread gets the same part.
struct Shared {
  const ThreadPool::Job* job;
  int64_t count, unit; // unit: indices handed out at once; more than 1 if `count` is too large for a Range
  Range* ranges;
  size_t parts;
  ThreadPool::Part* noted = nullptr; // by part, if somebody watches

  Shared(const ThreadPool::Job& j, int64_t n, std::vector<Range>& r, size_t threads)
      : job(&j), count(n), unit((n - 1) / kMostUnits + 1), ranges(r.data()), parts(threads) {
    const uint64_t units = static_cast<uint64_t>((count - 1) / unit + 1);
    for (size_t k = 0; k < parts; ++k) ranges[k].set(units * k / parts, units * (k + 1) / parts);
  }

  void work(size_t part) {
    do {
      for (uint64_t index; ranges[part].take(index);) {
        const int64_t begin = static_cast<int64_t>(index) * unit, end = std::min(begin + unit, count);
        for (int64_t i = begin; i < end; ++i) job->run(job->context, i);
      }
    } while (steal(part));
  }

  /// What a worker does.
  void work_beside(size_t part) {
    if (!noted) return work(part);
    noted[part].thread = ::gettid();
    noted[part].start = std::chrono::steady_clock::now();
    work(part);
    noted[part].end = std::chrono::steady_clock::now();
  }

private:
  static constexpr int64_t kMostUnits = 0x7fffffff;

  /// Takes half of the indices of the thread with the most left; false if no thread has any left.
  bool steal(size_t part) {
    for (;;) {
      size_t busiest = 0;
      uint64_t most = 0;
      for (size_t k = 0; k < parts; ++k) {
        const uint64_t left = ranges[k].left();
        if (left > most) most = left, busiest = k;
      }
      if (most == 0) return false;
      uint64_t begin, end;
      if (!ranges[busiest].give_half(begin, end)) continue;
      ranges[part].set(begin, end);
      return true;
    }
  }
};

/// One worker thread, which runs till the process ends. Nothing can stop it safely at exit: the stopper might
/// be a fork's child, which has no such thread, or other threads might still run kernels. `phase_` is a
/// handshake with the caller. The caller posts work; the worker takes the post, runs and becomes idle. If no
/// work is left, the caller takes back a post, so that it never waits for a worker that is slow to wake.
class Worker {
public:
  /// A new worker. Throws std::system_error if the system has no more threads.
  static Worker* start() {
    auto worker = std::make_unique<Worker>();
    // Not std::thread: only the new thread's stack would point to its state, and a fork's child has no such
    // stack.
    const int error = ::pthread_create(
        &worker->handle_, nullptr,
        [](void* started) -> void* {
          static_cast<Worker*>(started)->loop();
          return nullptr;
        },
        worker.get());
    if (error != 0) throw std::system_error(error, std::generic_category());
    ::pthread_detach(worker->handle_);
    return worker.release();
  }

  void post(Shared* work, size_t part) {
    work_ = work;
    part_ = part;
    phase_.store(kPosted);
    if (!asleep_.load()) return;
    {
      std::lock_guard lock(mutex_); // the worker has not checked the phase yet, or is really waiting
      keep_off_this_core();
    }
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
    for (;;) {
      wait();
      int posted = kPosted;
      if (!phase_.compare_exchange_strong(posted, kRunning, std::memory_order_acquire)) continue;
      if (!work_->job->enter || work_->job->enter(work_->job->context)) work_->work_beside(part_);
      phase_.store(kIdle, std::memory_order_release);
    }
  }
  /// Waits till the caller posts work. The caller may have taken the post back when this returns.
  void wait() {
    const auto begin = std::chrono::steady_clock::now();
    for (auto waited = begin - begin; waited < kYield; waited = std::chrono::steady_clock::now() - begin) {
      for (int k = 0; k < 64; ++k) {
        if (phase_.load(std::memory_order_relaxed) == kPosted) return;
        pause();
      }
      if (waited >= kSpin) std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    asleep_.store(true);
    wake_.wait(lock, [this] { return phase_.load() == kPosted; });
    asleep_.store(false);
    if (kept_off_) ::pthread_setaffinity_np(::pthread_self(), sizeof cores_, &cores_);
    kept_off_ = false;
  }

  /// Keeps the worker off the core of the calling thread, which wakes it. The system often puts a woken
  /// thread on the waker's core, where it waits till the waker has done all the work.
  void keep_off_this_core() {
    const int here = ::sched_getcpu();
    if (!asleep_.load() || here < 0 || ::sched_getaffinity(0, sizeof cores_, &cores_) != 0) return;
    cpu_set_t others = cores_;
    CPU_CLR(static_cast<size_t>(here), &others);
    kept_off_ = CPU_COUNT(&others) > 0 && ::pthread_setaffinity_np(handle_, sizeof others, &others) == 0;
  }

  std::atomic<int> phase_{kIdle};
  std::atomic<bool> asleep_{false};
  Shared* work_ = nullptr;
  size_t part_ = 0;
  std::mutex mutex_;
  cpu_set_t cores_{};     // the caller's cores at the last wake; the awake worker may use them
  bool kept_off_ = false; // the worker may not use the caller's core till it is awake
  std::condition_variable wake_;
  pthread_t handle_{};
};

} // namespace

struct ThreadPool::State {
  std::mutex owner; // held by the thread whose parallel_for is running
  std::vector<Worker*> workers;
  std::vector<Range> ranges;    // of the caller and the workers
  State* before_fork = nullptr; // the parent process's: never used, but no leak
};

// The child of a fork() has none of the workers, and the locks that they and their caller held stay locked.
// So it gets a new state.
ThreadPool::ThreadPool() : state_(new State) {
  ::pthread_atfork(nullptr, nullptr, [] {
    auto* own = new State;
    own->before_fork = instance().state_;
    instance().state_ = own;
    inside_parallel_for = false;
  });
}

ThreadPool& ThreadPool::instance() {
  static auto* pool = new ThreadPool;
  return *pool;
}

void ThreadPool::parallel_for(int threads, int64_t count, const Job& job) {
  const int64_t wanted = std::min<int64_t>({int64_t{threads} - 1, count - 1, kMaxWorkers});
  std::unique_lock<std::mutex> owner;
  if (wanted > 0 && !inside_parallel_for) owner = std::unique_lock(state_->owner, std::try_to_lock);
  if (!owner) {
    for (int64_t i = 0; i < count; ++i) job.run(job.context, i);
    return;
  }

  auto& workers = state_->workers;
  try {
    while (static_cast<int64_t>(workers.size()) < wanted) workers.push_back(Worker::start());
  } catch (const std::system_error&) { // the system has no more threads; fewer will do
  }
  const size_t used = std::min(workers.size(), static_cast<size_t>(wanted));
  if (state_->ranges.size() <= used) state_->ranges = std::vector<Range>(used + 1);
  Shared shared(job, count, state_->ranges, used + 1);
  std::vector<Part> noted(watch ? used + 1 : 0);
  if (watch) shared.noted = noted.data();
  inside_parallel_for = true;
  for (size_t k = 0; k < used; ++k) workers[k]->post(&shared, k + 1);
  shared.work(0);
  for (size_t k = 0; k < used; ++k) workers[k]->finish();
  inside_parallel_for = false;
  for (const Part& part : noted) // the caller's own and those of workers that came too late have no thread
    if (part.thread != 0) watch->parts_.push_back(part);
}

ThreadPool::Watch::Watch() : outer_(std::exchange(watch, this)) {}
ThreadPool::Watch::~Watch() { watch = outer_; }

} // namespace lathe::runtime
