// The helpers that emitted C needs: op semantics that C has no operator for, vector types, and the target's
// form of vector operations without an operator (fused multiply-add, square root, truncation, non-temporal
// store).
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "render/c_helpers.hpp"
#include "render/helper_text.hpp"
#include "render/render.hpp"

namespace lathe::render {
namespace {

// The head for C with GCC's and Clang's extensions.
constexpr const char* kHead = R"(#include <stdint.h>
#include <string.h>

/* Squares are transposed as a whole, and need not be used so. */
#pragma GCC diagnostic ignored "-Wunused-variable"
#if defined(__GNUC__) && !defined(__clang__)
/* A vector's first lane may lie before an array, and is not loaded then. */
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#if defined(__OPTIMIZE__)
/* The loops are as they should be. Else short ones around a register tile are unrolled, and what one iteration loads is
   kept for the next, till the tile no longer fits in registers. The vectors are written out; GCC 12 with AVX-512 makes
   wrong sums of eight that run over interleaved elements. */
#pragma GCC optimize("O2", "no-predictive-commoning", "no-tree-vectorize")
#endif
#if defined(__x86_64__)
/* An older GCC takes a new processor for its predecessor. One with halves of vectors is thought to load a vector
   for each product rather than once. */
#pragma GCC target("tune=generic")
#endif
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wunused-but-set-variable"
#endif
#define LATHE_FN static inline __attribute__((unused, always_inline))
#define LATHE_ALIGNED(n) __attribute__((aligned(n)))
#define LATHE_RESTRICT __restrict__
#define LATHE_MAY_ALIAS __attribute__((may_alias))
#define lathe_prefetch(p) __builtin_prefetch(p, 0, 3)
#define lathe_prefetch_far(p) __builtin_prefetch(p, 0, 2)
#define lathe_infinity_f32 __builtin_inff()
#define lathe_infinity_f64 __builtin_inf()
#define lathe_nan_f32 __builtin_nanf("")
#define lathe_nan_f64 __builtin_nan("")
#define LATHE_MATH(name) __builtin_##name
)";

// The head for plain C11 or C++11.
constexpr const char* kPortableHead = R"(#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#endif
#define LATHE_FN static inline
#if defined(__cplusplus)
#define LATHE_ALIGNED(n) alignas(n)
#define LATHE_RESTRICT
#else
#define LATHE_ALIGNED(n) _Alignas(n)
#define LATHE_RESTRICT restrict
#endif
#if defined(__GNUC__)
#define LATHE_MAY_ALIAS __attribute__((may_alias))
#else
#define LATHE_MAY_ALIAS
#endif
#define lathe_prefetch(p) ((void)0)
#define lathe_prefetch_far(p) ((void)0)
#define lathe_infinity_f32 ((float)INFINITY)
#define lathe_infinity_f64 ((double)INFINITY)
#define lathe_nan_f32 ((float)NAN)
#define lathe_nan_f64 ((double)NAN)
#define LATHE_MATH(name) name
#if defined(FP_FAST_FMAF)
#define lathe_fma_f32(a, b, c) fmaf(a, b, c)
#else
#define lathe_fma_f32(a, b, c) ((a) * (b) + (c))
#endif
#if defined(FP_FAST_FMA)
#define lathe_fma_f64(a, b, c) fma(a, b, c)
#else
#define lathe_fma_f64(a, b, c) ((a) * (b) + (c))
#endif
#define lathe_stream_fence() ((void)0)
)";

constexpr const char* kScalars = R"(
struct lathe_env;
typedef void (*lathe_body)(int64_t, void* const*, const int64_t*, char*, char*, const struct lathe_env*);
struct lathe_env {
  void (*parallel_for)(const struct lathe_env*, int64_t, lathe_body, void* const*, const int64_t*, char*);
  size_t scratch_bytes;
  int threads;
};

#define lathe_sqrt_f32(a) LATHE_MATH(sqrtf)(a)
#define lathe_sqrt_f64(a) LATHE_MATH(sqrt)(a)
#define lathe_trunc_f32(a) LATHE_MATH(truncf)(a)
#define lathe_trunc_f64(a) LATHE_MATH(trunc)(a)
#define lathe_exp2_f32(a) LATHE_MATH(exp2f)(a)
#define lathe_exp2_f64(a) LATHE_MATH(exp2)(a)
#define lathe_log2_f32(a) LATHE_MATH(log2f)(a)
#define lathe_log2_f64(a) LATHE_MATH(log2)(a)
#define lathe_sin_f32(a) LATHE_MATH(sinf)(a)
#define lathe_sin_f64(a) LATHE_MATH(sin)(a)
#define lathe_cos_f32(a) LATHE_MATH(cosf)(a)
#define lathe_cos_f64(a) LATHE_MATH(cos)(a)
)";

constexpr const char* kHalves = R"(
#if defined(__F16C__)
#define LATHE_HARDWARE_F16
typedef float lathe_half_f32x4 __attribute__((vector_size(16)));
typedef short lathe_half_i16x8 __attribute__((vector_size(16)));
LATHE_FN float lathe_value_f16(uint16_t bits) {
  return __builtin_ia32_vcvtph2ps((lathe_half_i16x8){(short)bits, 0, 0, 0, 0, 0, 0, 0})[0];
}
LATHE_FN uint16_t lathe_bits_f16(float x) {
  return (uint16_t)__builtin_ia32_vcvtps2ph((lathe_half_f32x4){x, 0, 0, 0}, 0)[0];
}
#endif
)";

std::string fused_multiply_add() {
  std::string out = R"(
/* Where the target has no fused multiply-add, the product is rounded: a library call would be far slower. */
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
#define lathe_fma_f32(a, b, c) __builtin_fmaf(a, b, c)
#define lathe_fma_f64(a, b, c) __builtin_fma(a, b, c)
#else
)";
  for (const char* dtype : {"f32", "f64"})
    for (const char* lanes : {"", "x2", "x4", "x8", "x16"})
      out += fmt::format("#define lathe_fma_{}{}(a, b, c) ((a) * (b) + (c))\n", dtype, lanes);
  return out + "#endif\n";
}

constexpr const char* kScale = R"(
/* y * 2^n for n in [-252, 254], in two factors, so that a subnormal result is rounded once:
   12583166 is 1.5 * 2^23, which leaves n in the low bits, and 254. */
LATHE_FN float lathe_scale_f32(float y, float n) {
  const uint32_t biased = lathe_bits_f32_to_u32(n + 12583166.0f), half = biased >> 1;
  return y * lathe_bits_u32_to_f32(half << 23) * lathe_bits_u32_to_f32((biased - half) << 23);
}
#if defined(__AVX512F__)
#define lathe_scale_f32x16(y, n) ((lathe_f32x16)__builtin_ia32_scalefps512_mask(y, n, y, 0xFFFF, 4))
#endif
#if defined(__AVX512VL__)
#define lathe_scale_f32x8(y, n) ((lathe_f32x8)__builtin_ia32_scalefps256_mask(y, n, y, 0xFF))
#define lathe_scale_f32x4(y, n) ((lathe_f32x4)__builtin_ia32_scalefps128_mask(y, n, y, 0xF))
#endif
)";

constexpr const char* kX86 = R"(
#if defined(__AVX512F__)
#define lathe_fma_f32x16(a, b, c) ((lathe_f32x16)__builtin_ia32_vfmaddps512_mask(a, b, c, 0xFFFF, 4))
#define lathe_fma_f64x8(a, b, c) ((lathe_f64x8)__builtin_ia32_vfmaddpd512_mask(a, b, c, 0xFF, 4))
#define lathe_trunc_f32x16(a) ((lathe_f32x16)__builtin_ia32_rndscaleps_mask(a, 11, a, 0xFFFF, 4))
#define lathe_trunc_f64x8(a) ((lathe_f64x8)__builtin_ia32_rndscalepd_mask(a, 11, a, 0xFF, 4))
#if defined(__clang__)
#define lathe_larger_f32x16(a, b) ((lathe_f32x16)__builtin_ia32_maxps512(a, b, 4))
#define lathe_larger_f64x8(a, b) ((lathe_f64x8)__builtin_ia32_maxpd512(a, b, 4))
#define lathe_lesser_f32x16(a, b) ((lathe_f32x16)__builtin_ia32_minps512(a, b, 4))
#define lathe_lesser_f64x8(a, b) ((lathe_f64x8)__builtin_ia32_minpd512(a, b, 4))
#define lathe_sqrt_f32x16(a) ((lathe_f32x16)__builtin_ia32_sqrtps512(a, 4))
#define lathe_sqrt_f64x8(a) ((lathe_f64x8)__builtin_ia32_sqrtpd512(a, 4))
#else
#define lathe_larger_f32x16(a, b) ((lathe_f32x16)__builtin_ia32_maxps512_mask(a, b, a, 0xFFFF, 4))
#define lathe_larger_f64x8(a, b) ((lathe_f64x8)__builtin_ia32_maxpd512_mask(a, b, a, 0xFF, 4))
#define lathe_lesser_f32x16(a, b) ((lathe_f32x16)__builtin_ia32_minps512_mask(a, b, a, 0xFFFF, 4))
#define lathe_lesser_f64x8(a, b) ((lathe_f64x8)__builtin_ia32_minpd512_mask(a, b, a, 0xFF, 4))
#define lathe_sqrt_f32x16(a) ((lathe_f32x16)__builtin_ia32_sqrtps512_mask(a, a, 0xFFFF, 4))
#define lathe_sqrt_f64x8(a) ((lathe_f64x8)__builtin_ia32_sqrtpd512_mask(a, a, 0xFF, 4))
#endif
#endif
#if defined(__FMA__)
#define lathe_fma_f32x8(a, b, c) ((lathe_f32x8)__builtin_ia32_vfmaddps256(a, b, c))
#define lathe_fma_f32x4(a, b, c) ((lathe_f32x4)__builtin_ia32_vfmaddps(a, b, c))
#define lathe_fma_f64x4(a, b, c) ((lathe_f64x4)__builtin_ia32_vfmaddpd256(a, b, c))
#define lathe_fma_f64x2(a, b, c) ((lathe_f64x2)__builtin_ia32_vfmaddpd(a, b, c))
#endif
#if defined(__AVX__)
#define lathe_larger_f32x8(a, b) ((lathe_f32x8)__builtin_ia32_maxps256(a, b))
#define lathe_larger_f64x4(a, b) ((lathe_f64x4)__builtin_ia32_maxpd256(a, b))
#define lathe_lesser_f32x8(a, b) ((lathe_f32x8)__builtin_ia32_minps256(a, b))
#define lathe_lesser_f64x4(a, b) ((lathe_f64x4)__builtin_ia32_minpd256(a, b))
#define lathe_trunc_f32x8(a) ((lathe_f32x8)__builtin_ia32_roundps256(a, 11))
#define lathe_trunc_f64x4(a) ((lathe_f64x4)__builtin_ia32_roundpd256(a, 11))
#define lathe_sqrt_f32x8(a) ((lathe_f32x8)__builtin_ia32_sqrtps256(a))
#define lathe_sqrt_f64x4(a) ((lathe_f64x4)__builtin_ia32_sqrtpd256(a))
#endif
#if defined(__SSE4_1__)
#define lathe_trunc_f32x4(a) ((lathe_f32x4)__builtin_ia32_roundps(a, 11))
#define lathe_trunc_f64x2(a) ((lathe_f64x2)__builtin_ia32_roundpd(a, 11))
#endif
#if defined(__SSE2__)
#define lathe_larger_f32x4(a, b) ((lathe_f32x4)__builtin_ia32_maxps(a, b))
#define lathe_larger_f64x2(a, b) ((lathe_f64x2)__builtin_ia32_maxpd(a, b))
#define lathe_lesser_f32x4(a, b) ((lathe_f32x4)__builtin_ia32_minps(a, b))
#define lathe_lesser_f64x2(a, b) ((lathe_f64x2)__builtin_ia32_minpd(a, b))
#define lathe_sqrt_f32x4(a) ((lathe_f32x4)__builtin_ia32_sqrtps(a))
#define lathe_sqrt_f64x2(a) ((lathe_f64x2)__builtin_ia32_sqrtpd(a))
#endif

/* Stores past the caches, where the address allows it and the target can. */
#define lathe_stream64(T, p, v) *(T##_u*)(p) = (v)
#define lathe_stream32(T, p, v) *(T##_u*)(p) = (v)
#define lathe_stream16(T, p, v) *(T##_u*)(p) = (v)
#if defined(__x86_64__)
#define lathe_stream_fence() __builtin_ia32_sfence()
#else
#define lathe_stream_fence() ((void)0)
#endif
#define LATHE_STREAM_IF(bytes, T, p, v, fast) \
  do { void* lathe_p = (p); if (((uintptr_t)lathe_p & (bytes - 1)) == 0) fast; else *(T##_u*)lathe_p = (v); } while (0)
#if defined(__AVX512F__)
#undef lathe_stream64
#if defined(__clang__)
#define lathe_stream64(T, p, v) LATHE_STREAM_IF(64, T, p, v, __builtin_nontemporal_store(v, (T*)lathe_p))
#else
#define lathe_stream64(T, p, v) LATHE_STREAM_IF(64, T, p, v, __builtin_ia32_movntps512((float*)lathe_p, (lathe_f32x16)(v)))
#endif
#endif
#if defined(__AVX__)
#undef lathe_stream32
#if defined(__clang__)
#define lathe_stream32(T, p, v) LATHE_STREAM_IF(32, T, p, v, __builtin_nontemporal_store(v, (T*)lathe_p))
#else
#define lathe_stream32(T, p, v) LATHE_STREAM_IF(32, T, p, v, __builtin_ia32_movntps256((float*)lathe_p, (lathe_f32x8)(v)))
#endif
#endif
)";

/// A vector function as name(a[0], b[0]), name(a[1], b[1]) ..., for targets without a builtin for it.
std::string lane_fallback(const char* function, const char* params, std::vector<const char*> args,
                          const char* dtype, int lanes, const char* scalar) {
  std::string list;
  for (int i = 0; i < lanes; ++i) {
    std::string call;
    for (const char* a : args) call += fmt::format("{}({})[{}]", call.empty() ? "" : ", ", a, i);
    list += fmt::format("{}{}({})", i ? ", " : "", scalar, call);
  }
  const std::string name = fmt::format("lathe_{}_{}x{}", function, dtype, lanes);
  return fmt::format("#ifndef {0}\n#define {0}({1}) ((lathe_{2}x{3}){{{4}}})\n#endif\n", name, params, dtype,
                     lanes, list);
}

/// a where it is larger, or lesser, than b, else b: for targets without a builtin.
std::string pick_fallback(const char* function, const char* dtype, int lanes, char compare) {
  const std::string integers = fmt::format("lathe_i{}x{}", dtype + 1, lanes);
  return fmt::format("#ifndef lathe_{0}_{1}x{2}\n#define lathe_{0}_{1}x{2}(a, b) "
                     "((lathe_{1}x{2})(({3} & ({4})(a)) | (~{3} & ({4})(b))))\n#endif\n",
                     function, dtype, lanes, fmt::format("({})((a) {} (b))", integers, compare), integers);
}

std::string splat(int lanes) {
  return fmt::format("#define lathe_splat{}(T, x) ((T){{{}}})\n", lanes,
                     fmt::join(std::vector<const char*>(lanes, "x"), ", "));
}

std::string scalar_types() {
  std::string out = "\n/* Scratch is used for one dtype after another. */\n";
  for (const char* type : {"int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
                           "uint64_t", "float", "double"})
    out += fmt::format("typedef {0} LATHE_MAY_ALIAS lathe_{0}_a;\n", type);
  return out;
}

std::string reinterpretations() {
  std::string out = "\n";
  for (const auto& [bits, float_type] : {std::pair(32, "float"), std::pair(64, "double")})
    for (const bool to_float : {false, true})
      for (const char* sign : {"", "u"}) {
        const std::string float_name = fmt::format("f{}", bits),
                          name = fmt::format("{}{}", *sign ? 'u' : 'i', bits),
                          type = fmt::format("{}int{}_t", sign, bits);
        out += fmt::format(
            "LATHE_FN {0} lathe_bits_{1}_to_{2}({3} x) {{ {0} y; memcpy(&y, &x, sizeof y); return y; }}\n",
            to_float ? float_type : type, to_float ? name : float_name, to_float ? float_name : name,
            to_float ? type : float_type);
      }
  return out;
}

std::string vector_types() {
  std::string out = "\n/* Vectors; those ending in _u lie at any address and may alias anything. */\n";
  for (const char* name : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64"})
    for (int lanes : {2, 4, 8, 16}) {
      const int bytes = std::stoi(name + 1) / 8;
      const std::string type = name[0] == 'f' ? (bytes == 4 ? "float" : "double")
                                              : fmt::format("{}int{}_t", name[0] == 'u' ? "u" : "", name + 1);
      // Both types are on one line, since macros build the second name from the first (see HelperText).
      out += fmt::format(
          "typedef {0} lathe_{1}x{2} __attribute__((vector_size({3}))); typedef {0} lathe_{1}x{2}_u "
          "__attribute__((vector_size({3}), aligned({4}), may_alias));\n",
          type, name, lanes, lanes * bytes, bytes);
    }
  return out;
}

std::string vector_helpers() {
  std::string out = "\n";
  for (int lanes : {2, 4, 8, 16}) out += splat(lanes);
  for (const char* dtype : {"f32", "f64"}) {
    const bool is_double = dtype[1] == '6';
    for (int lanes : {2, 4, 8, 16}) {
      out += lane_fallback("fma", "a, b, c", {"a", "b", "c"}, dtype, lanes,
                           is_double ? "lathe_fma_f64" : "lathe_fma_f32");
      if (!is_double) out += lane_fallback("scale", "y, n", {"y", "n"}, dtype, lanes, "lathe_scale_f32");
      out += pick_fallback("larger", dtype, lanes, '>') + pick_fallback("lesser", dtype, lanes, '<');
      out +=
          lane_fallback("sqrt", "a", {"a"}, dtype, lanes, is_double ? "__builtin_sqrt" : "__builtin_sqrtf");
      out += lane_fallback("trunc", "a", {"a"}, dtype, lanes,
                           is_double ? "__builtin_trunc" : "__builtin_truncf");
    }
  }
  return out;
}

} // namespace

std::string c_prelude(std::string_view code) {
  static const HelperText helpers(kHead + (kScalars + scalar_types() + reinterpretations()) + kHalves +
                                  common_helpers() + fused_multiply_add() + vector_types() + kScale + kX86 +
                                  vector_helpers() + lane_helpers() + conversion_helpers() +
                                  tensor_helpers());
  return helpers.used_by(code);
}

std::string c_portable_prelude(std::string_view code) {
  static const HelperText helpers(kPortableHead + (kScalars + scalar_types() + reinterpretations()) +
                                  common_helpers());
  return helpers.used_by(code);
}

} // namespace lathe::render
