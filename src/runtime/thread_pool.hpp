// The process's one pool of worker threads. A fork and join takes well under a microsecond while the pool is
// in use; otherwise its threads sleep. They run till the process ends. The child of a fork() has a pool of
// its own.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

namespace lathe::runtime {

class ThreadPool {
public:
  static ThreadPool& instance();

  /// Work for the pool. Each worker that joins calls `enter`, if set, before its first iteration. If `enter`
  /// returns false, the worker does no iterations. Neither function may throw.
  struct Job {
    void (*run)(void* context, int64_t index);
    bool (*enter)(void* context);
    void* context;
  };
  /// Calls job.run once for every index in [0, count), on the calling thread and up to threads - 1 workers.
  /// Returns when all calls are done. Each thread begins with a part of its own, the same in every call with
  /// the same count and number of threads. Then it takes from the parts of others. The calling thread runs
  /// everything if it is itself inside a parallel_for, or if another thread is using the pool.
  void parallel_for(int threads, int64_t count, const Job& job);

  /// What a worker did of a parallel_for.
  struct Part {
    int64_t thread = 0; // as the system numbers it
    std::chrono::steady_clock::time_point start, end;
  };
  /// While it lives, the parts that workers do of the calling thread's parallel_for are noted.
  class Watch {
  public:
    Watch();
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    const std::vector<Part>& parts() const { return parts_; }

  private:
    friend class ThreadPool;
    std::vector<Part> parts_;
    Watch* outer_;
  };

private:
  ThreadPool();
  struct State;
  State* state_;
};

} // namespace lathe::runtime
