#include "search/measure_machine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/storage.hpp"

// The widths are compiled for their instruction sets here and chosen at run time; elsewhere only the
// compiler's default is measured.
#if defined(__x86_64__)
#include <emmintrin.h>
#define LATHE_TARGET(features) __attribute__((target(features)))
#else
#define LATHE_TARGET(features)
#endif
#if defined(__clang__)
#define LATHE_CONTRACT _Pragma("clang fp contract(fast)")
#define LATHE_FAST
#else
#define LATHE_CONTRACT
#define LATHE_FAST __attribute__((optimize("O3,fp-contract=fast")))
#endif

namespace lathe::search {
namespace {

using Clock = std::chrono::steady_clock;
typedef float Floats16 __attribute__((vector_size(16)));
typedef float Floats32 __attribute__((vector_size(32)));
typedef float Floats64 __attribute__((vector_size(64)));

/// The shortest of several runs: what the machine does when nothing else runs on it.
template <class F> double shortest(int runs, F&& f) {
  double best = 1e300;
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

volatile float sink;

constexpr int kAccumulators = 12; // latency 4 on two units needs 8; the narrow widths have 16 registers

// A multiply and an add on each of the accumulators, `rounds` times.
template <class V> inline __attribute__((always_inline)) void multiply_add(int64_t rounds) {
  LATHE_CONTRACT
  V acc[kAccumulators];
#pragma GCC unroll 12
  for (int i = 0; i < kAccumulators; ++i)
    acc[i] = V{} + static_cast<float>(i); // different, or one would do for all
  const V a = V{} + 0.999f, b = V{} + 1e-3f;
  for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) acc[i] = acc[i] * a + b;
  V sum = acc[0];
#pragma GCC unroll 12
  for (int i = 1; i < kAccumulators; ++i) sum += acc[i];
  sink = sum[0];
}
LATHE_FAST void multiply_add_16(int64_t rounds) { multiply_add<Floats16>(rounds); }
LATHE_TARGET("avx2,fma") LATHE_FAST void multiply_add_16_fma(int64_t rounds) {
  multiply_add<Floats16>(rounds);
}
LATHE_TARGET("avx2,fma") LATHE_FAST void multiply_add_32(int64_t rounds) { multiply_add<Floats32>(rounds); }
LATHE_TARGET("avx512f,avx512vl,fma") LATHE_FAST void multiply_add_64(int64_t rounds) {
  multiply_add<Floats64>(rounds);
}

template <class V> inline __attribute__((always_inline)) void read_all(const float* data, int64_t floats) {
  constexpr int64_t lanes = sizeof(V) / sizeof(float);
  V acc[8] = {};
  const V* from = reinterpret_cast<const V*>(data);
  for (int64_t i = 0; i + 8 <= floats / lanes; i += 8)
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) acc[j] += from[i + j];
  sink = (acc[0] + acc[1] + acc[2] + acc[3] + acc[4] + acc[5] + acc[6] + acc[7])[0];
}
LATHE_FAST void read_16(const float* data, int64_t floats) { read_all<Floats16>(data, floats); }
LATHE_TARGET("avx2,fma") LATHE_FAST void read_32(const float* data, int64_t floats) {
  read_all<Floats32>(data, floats);
}
LATHE_TARGET("avx512f,avx512vl,fma") LATHE_FAST void read_64(const float* data, int64_t floats) {
  read_all<Floats64>(data, floats);
}

LATHE_FAST void write_all(float* data, int64_t floats) {
  Floats16* to = reinterpret_cast<Floats16*>(data);
  for (int64_t i = 0; i < floats / 4; ++i) to[i] = Floats16{} + 1.0f;
}
void stream_all(float* data, int64_t floats) {
#if defined(__x86_64__)
  for (int64_t i = 0; i + 4 <= floats; i += 4) _mm_stream_ps(data + i, _mm_set1_ps(1.0f));
  _mm_sfence();
#else
  write_all(data, floats);
#endif
}

struct Widths {
  bool fma = false, avx512 = false;
};
Widths supported() {
  Widths w;
#if defined(__x86_64__)
  __builtin_cpu_init();
  w.fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  w.avx512 = w.fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
#endif
  return w;
}

void measure_arithmetic(MachineProfile& profile, const Widths& widths) {
  constexpr int64_t rounds = 100'000; // a fraction of a millisecond: some run is not interrupted
  const auto rate = [&](void (*run)(int64_t), int lanes) {
    return 2.0 * kAccumulators * lanes * rounds / shortest(200, [&] { run(rounds); });
  };
  profile.flops_per_second[0] = rate(widths.fma ? multiply_add_16_fma : multiply_add_16, 4);
  profile.flops_per_second[1] = widths.fma ? rate(multiply_add_32, 8) : profile.flops_per_second[0];
  profile.flops_per_second[2] = widths.avx512 ? rate(multiply_add_64, 16) : profile.flops_per_second[1];
}

void measure_bandwidth(MachineProfile& profile, const Widths& widths) {
  constexpr int64_t memory = int64_t{256} << 20;
  const StorageRef storage = Storage::allocate(memory);
  std::memset(storage->data(), 0, memory);
  float* data = static_cast<float*>(storage->data());
  const auto read = widths.avx512 ? read_64 : widths.fma ? read_32 : read_16;
  for (size_t i = 0; i < profile.levels.size(); ++i) {
    const bool last = i + 1 == profile.levels.size();
    const int64_t bytes = last ? memory : std::min(memory, profile.levels[i].bytes / 2);
    const int64_t floats = bytes / 4, passes = std::max<int64_t>(1, (int64_t{32} << 20) / bytes);
    read(data, floats);
    const double seconds = shortest(last ? 4 : 8, [&] {
      for (int64_t p = 0; p < passes; ++p) read(data, floats);
    });
    profile.levels[i].read_bytes_per_second =
        static_cast<double>(bytes) * static_cast<double>(passes) / seconds;
  }
  profile.write_bytes_per_second = memory / shortest(4, [&] { write_all(data, memory / 4); });
  profile.streaming_write_bytes_per_second = memory / shortest(4, [&] { stream_all(data, memory / 4); });
}

// Two threads that wait for each other by spinning: there and back is what a parallel loop costs to start and
// to end.
void measure_threads(MachineProfile& profile) {
  if (profile.cores < 2) return;
  constexpr int turns = 2000;
  std::atomic<int> ball{0};
  std::thread other([&] {
    for (int i = 0; i < turns; ++i) {
      while (ball.load(std::memory_order_acquire) != 2 * i + 1) {
      }
      ball.store(2 * i + 2, std::memory_order_release);
    }
  });
  double best = 1e300;
  auto start = Clock::now();
  for (int i = 0; i < turns; ++i) {
    ball.store(2 * i + 1, std::memory_order_release);
    while (ball.load(std::memory_order_acquire) != 2 * i + 2) {
    }
    if (i % 100 == 99) {
      const auto now = Clock::now();
      best = std::min(best, std::chrono::duration<double>(now - start).count() / 100);
      start = now;
    }
  }
  other.join();
  profile.fork_seconds =
      2 * best; // one hand-over of the work and one of its end, with the bookkeeping between
  profile.barrier_seconds = best;
}

} // namespace

MachineProfile measure_machine() {
  MachineProfile profile = default_machine_profile();
  const Widths widths = supported();
  measure_arithmetic(profile, widths);
  measure_bandwidth(profile, widths);
  measure_threads(profile);
  return profile;
}

} // namespace lathe::search
