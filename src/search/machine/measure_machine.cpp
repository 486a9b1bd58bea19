#include "search/machine/measure_machine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "core/storage.hpp"
#include "search/machine/machine_limits.hpp"

// On x86-64 each vector width is compiled for its instruction set and chosen at run time. Elsewhere only the
// compiler's default is measured.
#if defined(__x86_64__)
#include <smmintrin.h>
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

/// Seconds of several runs, the shortest first.
template <class F> std::vector<double> times(int runs, F&& f) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    f();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}
/// Seconds of the shortest run: the machine without other load.
template <class F> double shortest(int runs, F&& f) { return times(runs, f).front(); }

volatile float sink;

enum class Kind {
  MultiplyAdd, // on independent accumulators
  Mixed,       // on independent accumulators: of four, two multiply and add, one adds, one is logic
  Divide,      // on independent accumulators
  AddInTurn,   // here and below, each operation uses the result of the last
  MultiplyAddInTurn,
  AddInMemory,
};
constexpr int kAccumulators = 12; // a latency of 4 on two units needs 8; the narrow widths have 16 registers
constexpr int kOperands = 64;     // in memory, so that the compiler does not know them

/// Runs `rounds` operations, on each accumulator where there are several.
template <class V>
inline __attribute__((always_inline)) void arithmetic(Kind kind, const float* operands, int64_t rounds) {
  LATHE_CONTRACT
  typedef int32_t Ints __attribute__((vector_size(sizeof(V))));
  V acc[kAccumulators];
#pragma GCC unroll 12
  for (int i = 0; i < kAccumulators; ++i)
    acc[i] = V{} + operands[i]; // unknown values: the compiler drops constant and equal accumulators
  const V a = V{} + 0.999f, b = V{} + 1e-3f;
  V x = a;
  volatile V in_memory = a;
  switch (kind) {
  case Kind::MultiplyAdd:
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
      for (int i = 0; i < kAccumulators; ++i) acc[i] = acc[i] * a + b;
    break;
  case Kind::Mixed:
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
      for (int i = 0; i < kAccumulators; ++i)
        if (i % 4 == 0)
          acc[i] = acc[i] + b;
        else if (i % 4 == 1)
          acc[i] = reinterpret_cast<V>(reinterpret_cast<Ints>(acc[i]) & reinterpret_cast<Ints>(x));
        else
          acc[i] = acc[i] * a + b;
    break;
  case Kind::Divide:
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 12
      for (int i = 0; i < kAccumulators; ++i) acc[i] = a / acc[i];
    break;
  case Kind::AddInTurn:
    for (int64_t r = 0; r < rounds; ++r) x = x + operands[r % kOperands];
    break;
  case Kind::MultiplyAddInTurn:
    for (int64_t r = 0; r < rounds; ++r) x = x * operands[r % kOperands] + b;
    break;
  case Kind::AddInMemory:
    for (int64_t r = 0; r < rounds; ++r) in_memory = in_memory + b;
    x = in_memory;
    break;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kAccumulators; ++i) x += acc[i];
  sink = x[0];
}
using Arithmetic = void (*)(Kind, const float*, int64_t);
LATHE_FAST void arithmetic_16(Kind kind, const float* operands, int64_t rounds) {
  arithmetic<Floats16>(kind, operands, rounds);
}
LATHE_TARGET("avx2,fma") LATHE_FAST void arithmetic_16_fma(Kind kind, const float* operands, int64_t rounds) {
  arithmetic<Floats16>(kind, operands, rounds);
}
LATHE_TARGET("avx2,fma") LATHE_FAST void arithmetic_32(Kind kind, const float* operands, int64_t rounds) {
  arithmetic<Floats32>(kind, operands, rounds);
}
LATHE_TARGET("avx512f,avx512vl,fma")
LATHE_FAST void arithmetic_64(Kind kind, const float* operands, int64_t rounds) {
  arithmetic<Floats64>(kind, operands, rounds);
}

/// Maxima in turn: each is the larger of the last one and the operand, or the operand if that is NaN.
#if defined(__x86_64__)
LATHE_TARGET("avx2") LATHE_FAST void maximum_in_turn_avx2(const float* operands, int64_t rounds) {
  __m128 x = _mm_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r) {
    const __m128 y = _mm_set1_ps(operands[r % kOperands]);
    x = _mm_blendv_ps(_mm_max_ps(y, x), y, _mm_cmpunord_ps(y, y));
  }
  sink = _mm_cvtss_f32(x);
}
LATHE_FAST void maximum_in_turn(const float* operands, int64_t rounds) {
  __m128 x = _mm_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r) {
    const __m128 y = _mm_set1_ps(operands[r % kOperands]), unordered = _mm_cmpunord_ps(y, y);
    x = _mm_or_ps(_mm_and_ps(unordered, y), _mm_andnot_ps(unordered, _mm_max_ps(y, x)));
  }
  sink = _mm_cvtss_f32(x);
}
#else
LATHE_FAST void maximum_in_turn(const float* operands, int64_t rounds) {
  float x = 0;
  for (int64_t r = 0; r < rounds; ++r) {
    const float y = operands[r % kOperands], larger = y > x ? y : x;
    x = y != y ? y : larger;
  }
  sink = x;
}
constexpr auto maximum_in_turn_avx2 = maximum_in_turn;
#endif

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

/// Runs about 50 instructions for each cache line, on four independent numbers.
template <class V> inline __attribute__((always_inline)) void compute_all(const float* data, int64_t floats) {
  constexpr int64_t lanes = sizeof(V) / sizeof(float), rounds = 3 * sizeof(V) / 16;
  const V b = V{} + 1e-3f;
  V sum = {};
  const V* from = reinterpret_cast<const V*>(data);
  for (int64_t i = 0; i < floats / lanes; ++i) {
    const V x = from[i];
    V acc[4] = {x, x + b, b - x, b};
#pragma GCC unroll 12
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) acc[j] = acc[j] * x + b;
    sum += acc[0] + acc[1] + acc[2] + acc[3];
  }
  sink = sum[0];
}
LATHE_FAST void compute_16(const float* data, int64_t floats) { compute_all<Floats16>(data, floats); }
LATHE_TARGET("avx2,fma") LATHE_FAST void compute_32(const float* data, int64_t floats) {
  compute_all<Floats32>(data, floats);
}
LATHE_TARGET("avx512f,avx512vl,fma") LATHE_FAST void compute_64(const float* data, int64_t floats) {
  compute_all<Floats64>(data, floats);
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

/// Seconds of a cycle. Integer additions that use the last result take one cycle on every machine.
double cycle_seconds() {
  constexpr int64_t rounds = 20'000, sums = 10;
  return shortest(200,
                  [&] {
                    uint64_t x = 1, y = 1;
                    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 10
                      for (int64_t i = 0; i < sums; ++i) {
                        x += y;
                        asm volatile("" : "+r"(x), "+r"(y));
                      }
                  }) /
         (rounds * sums);
}

void measure_arithmetic(MachineProfile& profile, const Widths& widths) {
  float operands[kOperands];
  for (int i = 0; i < kOperands; ++i) operands[i] = 1.0f / static_cast<float>(1 + i);
  constexpr int64_t rounds = 100'000; // less than a millisecond, so that some run is not interrupted
  const auto seconds = [&](Arithmetic run, Kind kind) {
    return shortest(200, [&] { run(kind, operands, rounds); }) / rounds;
  };
  const Arithmetic narrow = widths.fma ? arithmetic_16_fma : arithmetic_16;
  const Arithmetic by_width[] = {narrow, widths.fma ? arithmetic_32 : narrow,
                                 widths.avx512 ? arithmetic_64
                                 : widths.fma  ? arithmetic_32
                                               : narrow};
  const double cycle = profile.cycle_seconds = cycle_seconds();
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && by_width[i] == by_width[i - 1]) {
      profile.flops_per_second[i] = profile.flops_per_second[i - 1];
      profile.mixed_per_cycle[i] = profile.mixed_per_cycle[i - 1];
      profile.division_cycles[i] = profile.division_cycles[i - 1];
      continue;
    }
    // The clock may rise for moments. The peak that lasts is the median.
    const std::vector<double> multiply_add =
        times(200, [&] { by_width[i](Kind::MultiplyAdd, operands, rounds); });
    profile.flops_per_second[i] =
        2.0 * (4 << i) * rounds * kAccumulators / multiply_add[multiply_add.size() / 2];
    profile.mixed_per_cycle[i] = cycle * kAccumulators / seconds(by_width[i], Kind::Mixed);
    profile.division_cycles[i] = seconds(by_width[i], Kind::Divide) / kAccumulators / cycle;
  }
  Latency& latency = profile.latency;
  latency.add = seconds(by_width[2], Kind::AddInTurn) / cycle;
  latency.multiply_add = seconds(by_width[2], Kind::MultiplyAddInTurn) / cycle;
  const auto maximum = widths.fma ? maximum_in_turn_avx2 : maximum_in_turn;
  latency.maximum = shortest(200, [&] { maximum(operands, rounds); }) / rounds / cycle;
  latency.through_memory = std::max(1.0, seconds(by_width[2], Kind::AddInMemory) / cycle - latency.add);
}

/// Seconds to read a line that no prefetcher foresees: down the columns of rows of `row_bytes` bytes.
double line_of_columns(const float* data, int64_t bytes, int64_t row_bytes) {
  const int64_t rows = bytes / row_bytes, columns = std::min<int64_t>(16, row_bytes / kCacheLine),
                row = row_bytes / 4;
  return shortest(6,
                  [&] {
                    float sums[4] = {};
                    for (int64_t c = 0; c < columns; ++c)
                      for (int64_t r = 0; r + 4 <= rows; r += 4)
                        for (int64_t i = 0; i < 4; ++i) sums[i] += data[(r + i) * row + c * 16];
                    sink = sums[0] + sums[1] + sums[2] + sums[3];
                  }) /
         static_cast<double>(rows * columns);
}

/// Seconds to read a cache line one number at a time, in turns with the lines of other rows: down the columns
/// of blocks of 32 rows. The time of the same reads in the first-level cache is subtracted.
double line_of_blocks(const float* data, int64_t bytes, int64_t row_bytes) {
  constexpr int64_t rows = 32;
  const int64_t row = row_bytes / 4, blocks = bytes / (rows * row_bytes);
  const auto run = [&](int64_t apart) {
    return shortest(4, [&] {
      float sums[4] = {};
      for (int64_t b = 0; b < blocks; ++b) {
        const float* block = data + b * apart;
        for (int64_t c = 0; c < row; ++c)
          for (int64_t r = 0; r < rows; r += 4)
            for (int64_t i = 0; i < 4; ++i) sums[i] += block[(r + i) * row + c];
      }
      sink = sums[0] + sums[1] + sums[2] + sums[3];
    });
  };
  return std::max(0.0, run(rows * row) - run(0)) /
         static_cast<double>(blocks * rows * row_bytes / kCacheLine);
}

/// Seconds of a pass through `data`. While one block is read, prefetches ask for the next: line by line, in
/// `Streams` parts that take turns.
template <int64_t Streams> double pass_by_hints(const float* data, int64_t bytes) {
  constexpr int64_t line = kCacheLine / sizeof(float), lines = 1024, part = lines / Streams;
  const int64_t blocks = bytes / (lines * kCacheLine);
  return shortest(6, [&] {
    float sums[4] = {};
    for (int64_t b = 0; b + 1 < blocks; ++b) {
      const float* block = data + b * lines * line;
      for (int64_t i = 0; i < lines; ++i) {
        __builtin_prefetch(block + (lines + i % Streams * part + i / Streams) * line, 0, 2);
        sums[i % 4] += block[i * line];
      }
    }
    sink = sums[0] + sums[1] + sums[2] + sums[3];
  });
}

/// Bytes of the working set that stands for level `i`. The levels beyond the second are shared with other
/// cores and, on a rented machine, with other guests, who evict parts of data that fill most of a level.
/// There it is the geometric mean of the two sizes between which data are in this level and in no nearer one.
int64_t working_set(const MachineProfile& profile, size_t i, int64_t memory) {
  if (i + 1 == profile.levels.size()) return memory;
  const auto bytes = static_cast<double>(profile.levels[i].bytes);
  const double between = i < 2 ? bytes : std::sqrt(bytes * static_cast<double>(profile.levels[i - 1].bytes));
  return std::min(memory, static_cast<int64_t>(std::min(bytes / 2, between)) / kPage * kPage);
}

/// Chooses one stream or four: the hardware's prefetcher may run ahead of each, or be confused by several.
void measure_hints(MachineProfile& profile, const float* data, int64_t memory) {
  const double one = pass_by_hints<1>(data, memory), four = pass_by_hints<4>(data, memory);
  profile.hint_streams = four < one ? 4 : 1;
  for (MachineProfile::Level& level : profile.levels)
    level.hinted_bytes_per_second = level.read_bytes_per_second;
  for (size_t i = 2; i < profile.levels.size(); ++i) {
    MachineProfile::Level& level = profile.levels[i];
    const bool last = i + 1 == profile.levels.size();
    const int64_t bytes = working_set(profile, i, memory);
    const double seconds = last         ? std::min(one, four)
                           : four < one ? pass_by_hints<4>(data, bytes)
                                        : pass_by_hints<1>(data, bytes);
    level.hinted_bytes_per_second =
        std::min(level.read_bytes_per_second, static_cast<double>(bytes) / seconds);
  }
}

/// Runs a loop of `trips` iterations, `times` times; at one address, which affects the time, too.
__attribute__((noinline, aligned(64))) void nested_loops(int64_t times, int64_t trips) {
  for (int64_t t = 0; t < times; ++t)
    for (int64_t i = trips; i > 0; --i) asm volatile("" ::: "memory");
}

/// Measures the largest number of iterations after which the end of an inner loop is predicted. Beyond it,
/// each execution takes as much longer as one of very many iterations.
void measure_loop_ends(MachineProfile& profile) {
  constexpr int64_t iterations = 100'000, most = 512;
  const auto seconds = [](int64_t trips) {
    const int64_t executions = std::max<int64_t>(1, iterations / trips);
    return shortest(50, [&] { nested_loops(executions, trips); }) / static_cast<double>(executions);
  };
  const double iteration = seconds(iterations) / iterations;
  const auto beyond = [&](int64_t trips) {
    return (seconds(trips) - static_cast<double>(trips) * iteration) / profile.cycle_seconds;
  };
  const double end = beyond(most);
  if (end < 4) { // predicted, too
    profile.predicted_trips = most;
    return;
  }
  profile.mispredict_cycles = end;
  profile.predicted_trips = 8;
  for (int64_t trips = 12; trips < most; trips += trips / 2) // some shorter ones may be missed by chance
    if (beyond(trips) < end / 2) profile.predicted_trips = static_cast<double>(trips);
}

void measure_bandwidth(MachineProfile& profile, const Widths& widths) {
  constexpr int64_t memory = int64_t{256} << 20;
  const StorageRef storage = Storage::allocate(memory);
  std::memset(storage->data(), 0, memory);
  float* data = static_cast<float*>(storage->data());
  const auto read = widths.avx512 ? read_64 : widths.fma ? read_32 : read_16;
  for (size_t i = 0; i < profile.levels.size(); ++i) {
    const bool last = i + 1 == profile.levels.size();
    const int64_t bytes = working_set(profile, i, memory);
    const int64_t floats = bytes / 4, passes = std::max<int64_t>(1, (int64_t{32} << 20) / bytes);
    read(data, floats);
    const double seconds = shortest(last ? 4 : 8, [&] {
      for (int64_t p = 0; p < passes; ++p) read(data, floats);
    });
    profile.levels[i].read_bytes_per_second =
        static_cast<double>(bytes) * static_cast<double>(passes) / seconds;
    profile.levels[i].line_seconds = line_of_columns(data, bytes, kPage + kCacheLine);
    profile.levels[i].line_of_page_seconds =
        std::max(profile.levels[i].line_seconds, line_of_columns(data, bytes, kPage));
    const double in_blocks =
        (line_of_blocks(data, bytes, 4 * kCacheLine) + line_of_blocks(data, bytes, 8 * kCacheLine)) / 2;
    profile.levels[i].line_of_column_seconds = std::max(profile.levels[i].line_seconds, in_blocks);
  }
  measure_hints(profile, data, memory);
  const auto compute = widths.avx512 ? compute_64 : widths.fma ? compute_32 : compute_16;
  constexpr int64_t near = 16 << 10;
  const double cached = shortest(50, [&] { compute(data, near / 4); }) * (memory / near);
  const double shows = shortest(10, [&] { compute(data, memory / 4); }) - cached;
  const double reading = memory / profile.levels.back().read_bytes_per_second;
  profile.late_share = std::clamp(shows / reading, 0.01, 1.0);
  profile.write_bytes_per_second = memory / shortest(4, [&] { write_all(data, memory / 4); });
  profile.streaming_write_bytes_per_second = memory / shortest(4, [&] { stream_all(data, memory / 4); });
}

// Two threads hand over to each other by spinning, there and back: a parallel loop starts and ends with a
// hand-over.
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
  profile.fork_seconds = 2 * best; // a hand-over of the work, one of its end, and the bookkeeping between
  profile.barrier_seconds = best;
}

} // namespace

MachineProfile measure_machine() {
  MachineProfile profile = default_machine_profile();
  const Widths widths = supported();
  measure_arithmetic(profile, widths);
  measure_loop_ends(profile);
  measure_bandwidth(profile, widths);
  measure_threads(profile);
  return profile;
}

} // namespace lathe::search
