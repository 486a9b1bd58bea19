// The thread pool and the way host kernels call back into it.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "lathe/error.hpp"
#include "runtime/kernel_abi.hpp"
#include "runtime/thread_pool.hpp"

using namespace lathe;
using namespace lathe::runtime;

namespace {

struct Counts {
  std::vector<std::atomic<int>> calls;
  explicit Counts(size_t n) : calls(n) {}
  ThreadPool::Job job() {
    return {[](void* self, int64_t i) { ++static_cast<Counts*>(self)->calls[static_cast<size_t>(i)]; },
            nullptr, this};
  }
  bool each_once() const {
    for (const auto& c : calls)
      if (c != 1) return false;
    return true;
  }
};

} // namespace

TEST_CASE("every index runs exactly once, for any number of threads and indices") {
  for (const int threads : {1, 2, 3, 4, 8})
    for (const int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
      Counts counts(static_cast<size_t>(count));
      ThreadPool::instance().parallel_for(threads, count, counts.job());
      CHECK(counts.each_once());
    }
}

TEST_CASE("what a thread can't get to, the others take over") {
  // One of the first iterations waits for all others, those next to it in its thread's part included.
  struct State {
    std::atomic<int64_t> done{0};
    bool in_time = true;
  } state;
  constexpr int64_t kCount = 1000;
  ThreadPool::instance().parallel_for(2, kCount,
                                      {[](void* p, int64_t i) {
                                         auto* s = static_cast<State*>(p);
                                         const auto give_up =
                                             std::chrono::steady_clock::now() + std::chrono::seconds(20);
                                         while (i == 3 && s->done < kCount - 1 && s->in_time) {
                                           std::this_thread::yield();
                                           s->in_time = std::chrono::steady_clock::now() < give_up;
                                         }
                                         ++s->done;
                                       },
                                       nullptr, &state});
  CHECK(state.in_time);
  CHECK(state.done == kCount);
}

TEST_CASE("each thread works through neighbouring indices") {
  struct State {
    std::vector<std::thread::id> by = std::vector<std::thread::id>(1000);
  } state;
  ThreadPool::instance().parallel_for(2, 1000,
                                      {[](void* p, int64_t i) {
                                         auto& by = static_cast<State*>(p)->by;
                                         by[static_cast<size_t>(i)] = std::this_thread::get_id();
                                         for (const auto end = std::chrono::steady_clock::now() +
                                                               std::chrono::microseconds(10);
                                              std::chrono::steady_clock::now() < end;) {
                                         }
                                       },
                                       nullptr, &state});
  int changes = 0;
  for (size_t i = 1; i < state.by.size(); ++i) changes += state.by[i] != state.by[i - 1];
  CHECK(changes < 50); // one, and two for each time that one of them ran out of work
}

TEST_CASE("many short calls, with and without sleeping workers") {
  for (int k = 0; k < 2000; ++k) {
    Counts counts(3);
    ThreadPool::instance().parallel_for(2, 3, counts.job());
    REQUIRE(counts.each_once());
    if (k % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_CASE("a nested call runs inline") {
  struct Nested {
    std::atomic<int> inner{0}, elsewhere{0};
    std::thread::id runner;
  } state;
  ThreadPool::instance().parallel_for(4, 8,
                                      {[](void* outer, int64_t) {
                                         const auto here = std::this_thread::get_id();
                                         struct Inner {
                                           Nested* state;
                                           std::thread::id caller;
                                         } inner{static_cast<Nested*>(outer), here};
                                         ThreadPool::instance().parallel_for(
                                             4, 5,
                                             {[](void* p, int64_t) {
                                                auto* in = static_cast<Inner*>(p);
                                                ++in->state->inner;
                                                if (std::this_thread::get_id() != in->caller)
                                                  ++in->state->elsewhere;
                                              },
                                              nullptr, &inner});
                                       },
                                       nullptr, &state});
  CHECK(state.inner == 40);
  CHECK(state.elsewhere == 0);
}

TEST_CASE("several callers at once all get their work done") {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 8; ++t)
    callers.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        Counts counts(17);
        ThreadPool::instance().parallel_for(3, 17, counts.job());
        if (!counts.each_once()) ++wrong;
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a worker that may not enter leaves the work to the others") {
  struct State {
    std::thread::id caller = std::this_thread::get_id();
    int done = 0, elsewhere = 0;
  } state;
  ThreadPool::instance().parallel_for(4, 50,
                                      {[](void* p, int64_t) {
                                         auto* s = static_cast<State*>(p);
                                         ++s->done;
                                         if (std::this_thread::get_id() != s->caller) ++s->elsewhere;
                                       },
                                       [](void*) { return false; }, &state});
  CHECK(state.done == 50);
  CHECK(state.elsewhere == 0);
}

TEST_CASE("a host kernel's parallel loop sees its buffers, variables and scratch of its own") {
  // out[i] = vars[0] * i, each iteration going through private scratch; the caller's scratch is `outer`.
  const KernelFunction kernel = [](void* const* buffers, const int64_t* vars, char* scratch,
                                   const KernelEnv* env) {
    std::memset(scratch, 0x5A, 64);
    env->parallel_for(
        env, vars[1],
        [](int64_t i, void* const* b, const int64_t* v, char* outer, char* mine, const KernelEnv* e) {
          auto* slot = reinterpret_cast<int64_t*>(mine + 128);
          CHECK_MESSAGE(e->scratch_bytes == 256, "scratch size");
          for (int k = 0; k < 16; ++k) slot[k] = v[0] * i;
          int64_t sum = 0;
          for (int k = 0; k < 16; ++k) sum += slot[k];
          static_cast<int64_t*>(b[0])[i] = sum / 16 + (outer[3] == 0x5A ? 0 : 1000000);
        },
        buffers, vars, scratch);
  };
  std::vector<int64_t> out(1000, -1);
  void* buffers[] = {out.data()};
  const int64_t vars[] = {3, 1000};
  for (const int threads : {1, 2, 4}) {
    std::fill(out.begin(), out.end(), -1);
    run_host_kernel(kernel, buffers, vars, 256, threads);
    bool same = true;
    for (int64_t i = 0; i < 1000; ++i) same &= out[static_cast<size_t>(i)] == 3 * i;
    CHECK(same);
  }
}
