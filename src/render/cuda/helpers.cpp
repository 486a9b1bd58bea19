// Helpers of emitted CUDA C.
#include "render/cuda/cuda.hpp"

namespace lathe::render {
namespace {

constexpr const char* kHead = R"(#if defined(__CUDACC_RTC__)
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t; typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#define LATHE_FN static __device__ __forceinline__
#define LATHE_ALIGNED(n) __align__(n)
#define lathe_bits_f32_to_u32(x) __float_as_uint(x)
#define lathe_bits_u32_to_f32(x) __uint_as_float(x)
#define lathe_bits_f64_to_u64(x) ((uint64_t)__double_as_longlong(x))
#define lathe_bits_u64_to_f64(x) __longlong_as_double((long long)(x))
#define lathe_nan_f32 __int_as_float(0x7fffffff)
#define lathe_nan_f64 __longlong_as_double(0x7fffffffffffffffLL)
#define lathe_infinity_f32 __int_as_float(0x7f800000)
#define lathe_infinity_f64 __longlong_as_double(0x7ff0000000000000LL)
#define lathe_prefetch(p) asm volatile("prefetch.global.L2 [%0];" : : "l"(p))
template <class T, class U> LATHE_FN T lathe_as(U x) { T y; memcpy(&y, &x, sizeof y); return y; }
)";

constexpr const char* kVectors = R"(
/* Vectors of N elements. A comparison gives a mask: integers as wide as what was compared, 0 or -1. */
template <int Bytes> struct lathe_int;
template <> struct lathe_int<1> { typedef int8_t type; };
template <> struct lathe_int<2> { typedef int16_t type; };
template <> struct lathe_int<4> { typedef int32_t type; };
template <> struct lathe_int<8> { typedef int64_t type; };
template <class T, int N> struct lathe_vec { T e[N]; typedef lathe_vec<typename lathe_int<sizeof(T)>::type, N> mask; };
template <class T, int N> LATHE_FN lathe_vec<T, N> lathe_splat(T x) {
  lathe_vec<T, N> v;
  for (int i = 0; i < N; ++i) v.e[i] = x;
  return v;
}
template <class T, class... A> LATHE_FN lathe_vec<T, sizeof...(A)> lathe_lanes(A... a) { return {{(T)a...}}; }
template <class T, int N> LATHE_FN lathe_vec<T, N> lathe_load(const T* p) {
  lathe_vec<T, N> v;
  for (int i = 0; i < N; ++i) v.e[i] = p[i];
  return v;
}
template <class T, int N> LATHE_FN void lathe_store(T* p, lathe_vec<T, N> v) {
  for (int i = 0; i < N; ++i) p[i] = v.e[i];
}
template <class U, class T, int N> LATHE_FN lathe_vec<U, N> lathe_convert(lathe_vec<T, N> v) {
  lathe_vec<U, N> w;
  for (int i = 0; i < N; ++i) w.e[i] = (U)v.e[i];
  return w;
}
template <int H, class T, int N> LATHE_FN lathe_vec<T, N / 2> lathe_half(lathe_vec<T, N> v) {
  lathe_vec<T, N / 2> w;
  for (int i = 0; i < N / 2; ++i) w.e[i] = v.e[i + H * (N / 2)];
  return w;
}
template <int... I, class T, int N> LATHE_FN lathe_vec<T, sizeof...(I)> lathe_pick(lathe_vec<T, N> a, lathe_vec<T, N> b) {
  return {{(I < N ? a.e[I % N] : b.e[I % N])...}};
}
template <class M, class T, int N> LATHE_FN lathe_vec<T, N> lathe_where(lathe_vec<M, N> m, lathe_vec<T, N> a, lathe_vec<T, N> b) {
  for (int i = 0; i < N; ++i) if (!m.e[i]) a.e[i] = b.e[i];
  return a;
}
template <class M, int N> LATHE_FN bool lathe_any(lathe_vec<M, N> m) {
  bool any = false;
  for (int i = 0; i < N; ++i) any |= m.e[i] != 0;
  return any;
}
template <class T, int N> LATHE_FN lathe_vec<T, N> lathe_fma(lathe_vec<T, N> a, lathe_vec<T, N> b, lathe_vec<T, N> c) {
  for (int i = 0; i < N; ++i) a.e[i] = fma(a.e[i], b.e[i], c.e[i]);
  return a;
}
template <class T, int N> LATHE_FN lathe_vec<T, N> operator-(lathe_vec<T, N> a) {
  for (int i = 0; i < N; ++i) a.e[i] = -a.e[i];
  return a;
}
template <class T, int N> LATHE_FN lathe_vec<T, N> operator~(lathe_vec<T, N> a) {
  for (int i = 0; i < N; ++i) a.e[i] = (T)~a.e[i];
  return a;
}
)";

/// The operator `op` for two vectors, and for a vector and a number.
std::string arithmetic(const std::string& op) {
  const std::string head =
      "template <class T, int N> LATHE_FN lathe_vec<T, N> operator" + op + "(lathe_vec<T, N> a, ";
  return head + "lathe_vec<T, N> b) {\n  for (int i = 0; i < N; ++i) a.e[i] = (T)(a.e[i] " + op +
         " b.e[i]);\n  return a;\n}\n" + head + "long long b) { return a " + op +
         " lathe_splat<T, N>((T)b); }\n";
}

std::string comparison(const std::string& op) {
  return "template <class T, int N> LATHE_FN typename lathe_vec<T, N>::mask operator" + op +
         "(lathe_vec<T, N> a, lathe_vec<T, N> b) {\n  typename lathe_vec<T, N>::mask m;\n" +
         "  for (int i = 0; i < N; ++i) m.e[i] = a.e[i] " + op + " b.e[i] ? -1 : 0;\n  return m;\n}\n";
}

std::string function(const std::string& name) {
  return "template <class T, int N> LATHE_FN lathe_vec<T, N> lathe_" + name +
         "(lathe_vec<T, N> a) {\n  for (int i = 0; i < N; ++i) a.e[i] = " + name +
         "(a.e[i]);\n  return a;\n}\n";
}

} // namespace

std::string cuda_helpers() {
  std::string out = std::string(kHead) + kVectors;
  for (const char* op : {"+", "-", "*", "/", "&", "|", "^", "<<", ">>"}) out += arithmetic(op);
  for (const char* op : {"<", ">", "<=", ">=", "==", "!="}) out += comparison(op);
  for (const char* name : {"sqrt", "trunc", "exp2", "log2", "sin", "cos"}) out += function(name);
  return out;
}

} // namespace lathe::render
