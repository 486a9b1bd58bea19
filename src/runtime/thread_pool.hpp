// The process's one pool of worker threads: a fork and join in well under a microsecond while it is in use,
// asleep otherwise. Its threads run till the process ends. The child of a fork has a pool of its own.
#pragma once
#include <cstdint>

namespace lathe::runtime {

class ThreadPool {
public:
  static ThreadPool& instance();

  /// Work handed to the pool. `enter` is called on each worker that joins, before its first iteration; if it
  /// says no the worker stays away. Neither may throw.
  struct Job {
    void (*run)(void* context, int64_t index);
    bool (*enter)(void* context);
    void* context;
  };
  /// Calls job.run once for every index in [0, count) on the calling thread and up to threads - 1 workers,
  /// each beginning with a part of its own (the same one in every call of this length) and taking from the
  /// others' when that is done. Returns when all are done. Runs everything on the calling thread if that is
  /// itself inside a parallel_for, or while another thread has the pool.
  void parallel_for(int threads, int64_t count, const Job& job);

private:
  ThreadPool();
  struct State;
  State* state_;
};

} // namespace lathe::runtime
