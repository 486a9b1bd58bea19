// The works bound by memory as one writes them by hand for AVX-512: one thread, sizes in whole vectors. What
// is written is streamed, and where that was faster, what will be read is asked for.
#include <algorithm>
#include <cmath>
#include <map>

#include "peers/peers.hpp"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace lathe::bench {

#ifdef __AVX512F__
namespace {

constexpr int64_t kLanes = 16, kAhead = 2048; // bytes

__m512 all(float x) { return _mm512_set1_ps(x); }

__m512 read(const float* p) { return _mm512_load_ps(p); }
__m512 read_and_ask(const float* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p) + kAhead, _MM_HINT_T0);
  return _mm512_load_ps(p);
}

/// e^x = 2^n e^f; of e^f, where |f| is at most half of ln 2, the terms up to the sixth leave 2e-7.
__m512 exp(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x * all(1.44269504f), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_fnmadd_ps(n, all(0.693147181f), x);
  __m512 p = all(1.f / 720);
  for (const float c : {1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2, 1.f, 1.f}) p = _mm512_fmadd_ps(p, f, all(c));
  return _mm512_scalef_ps(p, n);
}

void elementwise(const Case& c, float* y, float*) {
  const float *a = c.inputs.at("a").as<float>(), *b = c.inputs.at("b").as<float>(),
              *k = c.inputs.at("c").as<float>(), *d = c.inputs.at("d").as<float>();
  for (int64_t i = 0; i < c.shape[0]; i += kLanes) {
    const __m512 product = (read(a + i) + read(b + i)) * read(k + i);
    _mm512_stream_ps(y + i, _mm512_max_ps(product, all(0)) + read(d + i));
  }
}

void gelu(const Case& c, float* y, float*) {
  const float* x = c.inputs.at("x").as<float>();
  constexpr float s = -2 * 0.7978845608f; // x (1 + tanh u) / 2 = x / (1 + e^-2u)
  for (int64_t i = 0; i < c.shape[0]; i += kLanes) {
    const __m512 v = read(x + i);
    const __m512 e = exp(v * _mm512_fmadd_ps(v * v, all(s * 0.044715f), all(s)));
    _mm512_stream_ps(y + i, v / (e + all(1)));
  }
}

/// Four streams side by side, which memory serves faster than one.
void reduce(const Case& c, float* y, float*) {
  const float* x = c.inputs.at("x").as<float>();
  constexpr int64_t streams = 4;
  const int64_t each = c.shape[0] / streams / kLanes * kLanes;
  __m512 sums[streams] = {};
  for (int64_t i = 0; i < each; i += kLanes)
    for (int64_t s = 0; s < streams; ++s) sums[s] += read(x + s * each + i);
  for (int64_t i = streams * each; i < c.shape[0]; i += kLanes) sums[0] += read(x + i);
  *y = _mm512_reduce_add_ps((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// The row's exponentials stay in the first cache until their sum is known. The next row is asked for there.
void softmax(const Case& c, float* y, float* row) {
  const float* x = c.inputs.at("x").as<float>();
  const int64_t columns = c.shape[1];
  for (int64_t r = 0; r < c.shape[0]; ++r, x += columns, y += columns) {
    __m512 most[4] = {all(-INFINITY), all(-INFINITY), all(-INFINITY), all(-INFINITY)}, sum[2] = {};
    for (int64_t j = 0; j < columns; j += kLanes)
      most[j / kLanes % 4] = _mm512_max_ps(most[j / kLanes % 4], read(x + j));
    const __m512 shift = all(_mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]))));
    for (int64_t j = 0; j < columns; j += kLanes) {
      _mm_prefetch(x + columns + j, _MM_HINT_T0);
      const __m512 e = exp(read(x + j) - shift);
      _mm512_store_ps(row + j, e);
      sum[j / kLanes % 2] += e;
    }
    const __m512 scale = all(1 / _mm512_reduce_add_ps(sum[0] + sum[1]));
    for (int64_t j = 0; j < columns; j += kLanes) _mm512_stream_ps(y + j, read(row + j) * scale);
  }
}

void layernorm(const Case& c, float* y, float*) {
  const float *x = c.inputs.at("x").as<float>(), *weight = c.inputs.at("weight").as<float>(),
              *bias = c.inputs.at("bias").as<float>();
  const int64_t columns = c.shape[1];
  const auto mean_of = [&](const __m512(&s)[4]) {
    return _mm512_reduce_add_ps((s[0] + s[1]) + (s[2] + s[3])) / static_cast<float>(columns);
  };
  for (int64_t r = 0; r < c.shape[0]; ++r, x += columns, y += columns) {
    __m512 sums[4] = {}, squares[4] = {};
    for (int64_t j = 0; j < columns; j += kLanes) sums[j / kLanes % 4] += read_and_ask(x + j);
    const __m512 mean = all(mean_of(sums));
    for (int64_t j = 0; j < columns; j += kLanes) {
      const __m512 d = read(x + j) - mean;
      squares[j / kLanes % 4] = _mm512_fmadd_ps(d, d, squares[j / kLanes % 4]);
    }
    const __m512 scale = all(1 / std::sqrt(mean_of(squares) + 1e-5f));
    for (int64_t j = 0; j < columns; j += kLanes) {
      const __m512 normal = (read(x + j) - mean) * scale;
      _mm512_stream_ps(y + j, _mm512_fmadd_ps(normal, read(weight + j), read(bias + j)));
    }
  }
}

/// 16 rows of 16 become columns: pairs, then fours of a quarter of the register, then quarters.
void transpose_tile(__m512 (&t)[16]) {
  __m512 u[16];
  for (int i = 0; i < 16; i += 2) {
    u[i] = _mm512_unpacklo_ps(t[i], t[i + 1]);
    u[i + 1] = _mm512_unpackhi_ps(t[i], t[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; ++k) {
      const __m512d low = _mm512_castps_pd(u[i + k]), high = _mm512_castps_pd(u[i + k + 2]);
      t[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      t[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  for (int k = 0; k < 4; ++k) {
    const __m512 a = _mm512_shuffle_f32x4(t[k], t[k + 4], 0x88),
                 b = _mm512_shuffle_f32x4(t[k], t[k + 4], 0xDD),
                 d = _mm512_shuffle_f32x4(t[k + 8], t[k + 12], 0x88),
                 e = _mm512_shuffle_f32x4(t[k + 8], t[k + 12], 0xDD);
    u[k] = _mm512_shuffle_f32x4(a, d, 0x88), u[k + 8] = _mm512_shuffle_f32x4(a, d, 0xDD);
    u[k + 4] = _mm512_shuffle_f32x4(b, e, 0x88), u[k + 12] = _mm512_shuffle_f32x4(b, e, 0xDD);
  }
  for (int i = 0; i < 16; ++i) t[i] = u[i];
}

/// Stripes of 64 rows, which become four whole lines of each row of the result.
void transpose(const Case& c, float* y, float*) {
  const float* x = c.inputs.at("x").as<float>();
  const int64_t rows = c.shape[0], columns = c.shape[1];
  for (int64_t i = 0; i < rows; i += 4 * kLanes)
    for (int64_t j = 0; j < columns; j += kLanes)
      for (int64_t r = i; r < std::min(rows, i + 4 * kLanes); r += kLanes) {
        __m512 tile[16];
        for (int64_t k = 0; k < kLanes; ++k) tile[k] = read_and_ask(x + (r + k) * columns + j);
        transpose_tile(tile);
        for (int64_t k = 0; k < kLanes; ++k) _mm512_stream_ps(y + (j + k) * rows + r, tile[k]);
      }
}

/// Eight rows at a time onto sums that stay in the first cache.
void column_sums(const Case& c, float* y, float*) {
  const float* x = c.inputs.at("x").as<float>();
  const int64_t columns = c.shape[1];
  std::fill_n(y, columns, 0.f);
  for (int64_t r = 0; r < c.shape[0]; r += 8)
    for (int64_t j = 0; j < columns; j += kLanes) {
      __m512 sum = read(y + j);
      for (int64_t k = r; k < std::min(c.shape[0], r + 8); ++k) sum += read_and_ask(x + k * columns + j);
      _mm512_store_ps(y + j, sum);
    }
}

/// The row's maximum, then where it is: by then the row is in the first cache.
void argmax(const Case& c, float* y, float*) {
  const float* x = c.inputs.at("x").as<float>();
  const int64_t columns = c.shape[1];
  for (int64_t r = 0; r < c.shape[0]; ++r, x += columns) {
    __m512 most[4] = {all(-INFINITY), all(-INFINITY), all(-INFINITY), all(-INFINITY)};
    for (int64_t j = 0; j < columns; j += kLanes)
      most[j / kLanes % 4] = _mm512_max_ps(most[j / kLanes % 4], read_and_ask(x + j));
    const __m512 largest = all(_mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3]))));
    int64_t j = 0;
    __mmask16 at = 0;
    while ((at = _mm512_cmpeq_ps_mask(read(x + j), largest)) == 0) j += kLanes;
    y[r] = static_cast<float>(j + __builtin_ctz(at));
  }
}

/// x moved up by N lanes, zeros below.
template <int N> __m512 moved_up(__m512 x) {
  return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(x), _mm512_setzero_si512(), 16 - N));
}

/// Sums within each vector in four steps; from one vector to the next a single sum is waited for.
void cumsum(const Case& c, float* y, float*) {
  const float* x = c.inputs.at("x").as<float>();
  const int64_t columns = c.shape[1];
  for (int64_t r = 0; r < c.shape[0]; ++r, x += columns, y += columns) {
    __m512 before = all(0);
    for (int64_t j = 0; j < columns; j += kLanes) {
      __m512 sums = read(x + j);
      sums += moved_up<1>(sums);
      sums += moved_up<2>(sums);
      sums += moved_up<4>(sums);
      sums += moved_up<8>(sums);
      _mm512_stream_ps(y + j, sums + before);
      before += _mm512_permutexvar_ps(_mm512_set1_epi32(15), sums);
    }
  }
}

using Work = void (*)(const Case& c, float* y, float* row);

std::vector<Contender> contenders(const Case& c, const CompileOptions& plan) {
  static const std::map<std::string, Work> works{
      {"elementwise", elementwise}, {"gelu", gelu},           {"reduce", reduce},
      {"softmax", softmax},         {"layernorm", layernorm}, {"transpose", transpose},
      {"column-sums", column_sums}, {"argmax", argmax},       {"cumsum", cumsum}};
  const auto work = works.find(c.workload);
  const auto whole = [](int64_t size) { return size % kLanes == 0; };
  if (work == works.end() || c.dtype != DType::F32 || plan.threads > 1 ||
      !std::all_of(c.shape.begin(), c.shape.end(), whole))
    return {};
  const auto to = make_outputs(c);
  const auto row = std::make_shared<HostTensor>(DType::F32, Sizes{c.shape.back()});
  float* y = to->begin()->second.as<float>();
  return {{"by-hand", [run = work->second, &c, y, row] { run(c, y, row->as<float>()); }, nullptr, to}};
}

} // namespace

Peer by_hand_peer() { return {"by-hand", true, "loops with AVX-512 intrinsics", contenders, true}; }
#else
Peer by_hand_peer() { return {"by-hand", false, "written for AVX-512", nullptr, true}; }
#endif

} // namespace lathe::bench
