// Helpers of emitted C for parts of vectors: loads and stores of some lanes, lanes that lie apart, selection by a
// comparison. Each has a form in vector extensions, which is right anywhere, and on x86-64 the instructions that
// compilers don't find by themselves.
#include <fmt/format.h>

#include "render/c_helpers.hpp"

namespace lathe::render {
namespace {

// `p` is of any type: elements need not be aligned, and may alias anything.
constexpr const char* kParts = R"(
#define LATHE_PARTS(name, T, n) \
  LATHE_FN lathe_##name##x##n lathe_load_part_##name##x##n(const void* p, int64_t lo, int64_t hi) { \
    lathe_##name##x##n v = {0}; \
    if (lo <= 0 && hi >= n) return *(const lathe_##name##x##n##_u*)p; \
    if (lo < 0) lo = 0; \
    if (hi > n) hi = n; \
    if (lo < hi) memcpy((char*)&v + lo * (int64_t)sizeof(T), (const char*)p + lo * (int64_t)sizeof(T), (size_t)(hi - lo) * sizeof(T)); \
    return v; \
  } \
  LATHE_FN void lathe_store_part_##name##x##n(void* p, lathe_##name##x##n v, int64_t hi) { \
    memcpy(p, &v, (size_t)hi * sizeof(T)); \
  }
#define LATHE_STRIDED(name, T, n) \
  LATHE_FN lathe_##name##x##n lathe_load_strided_##name##x##n(const void* p, int64_t stride, int64_t lo, int64_t hi) { \
    const lathe_##T##_a* const q = (const lathe_##T##_a*)p; \
    lathe_##name##x##n v = {0}; \
    int lane; \
    for (lane = 0; lane < n; ++lane) \
      if (lane >= lo && lane < hi) v[lane] = q[lane * stride]; \
    return v; \
  } \
  LATHE_FN void lathe_store_strided_##name##x##n(void* p, int64_t stride, lathe_##name##x##n v, int64_t hi) { \
    lathe_##T##_a* const q = (lathe_##T##_a*)p; \
    int lane; \
    for (lane = 0; lane < n; ++lane) \
      if (lane < hi) q[lane * stride] = v[lane]; \
  }
)";

// The same for integers as for the floats of their size.
constexpr const char* kAsFloats = R"(
#define LATHE_PARTS_AS(name, as, n) \
  LATHE_FN lathe_##name##x##n lathe_load_part_##name##x##n(const void* p, int64_t lo, int64_t hi) { \
    return (lathe_##name##x##n)lathe_load_part_##as##x##n(p, lo, hi); \
  } \
  LATHE_FN void lathe_store_part_##name##x##n(void* p, lathe_##name##x##n v, int64_t hi) { \
    lathe_store_part_##as##x##n(p, (lathe_##as##x##n)v, hi); \
  }
#define LATHE_STRIDED_AS(name, as, n) \
  LATHE_FN lathe_##name##x##n lathe_load_strided_##name##x##n(const void* p, int64_t stride, int64_t lo, int64_t hi) { \
    return (lathe_##name##x##n)lathe_load_strided_##as##x##n(p, stride, lo, hi); \
  } \
  LATHE_FN void lathe_store_strided_##name##x##n(void* p, int64_t stride, lathe_##name##x##n v, int64_t hi) { \
    lathe_store_strided_##as##x##n(p, stride, (lathe_##as##x##n)v, hi); \
  }

/* A bit for each lane from lo to before hi. */
LATHE_FN uint32_t lathe_lane_bits(int64_t lo, int64_t hi, int n) {
  const uint32_t below_hi = hi <= 0 ? 0u : hi >= n ? (1u << n) - 1u : (1u << hi) - 1u;
  const uint32_t below_lo = lo <= 0 ? 0u : lo >= n ? (1u << n) - 1u : (1u << lo) - 1u;
  return below_hi & ~below_lo;
}
)";

constexpr const char* kCommon = R"(
typedef long long lathe_llongx2 __attribute__((vector_size(16)));
typedef long long lathe_llongx4 __attribute__((vector_size(32)));
typedef long long lathe_llongx8 __attribute__((vector_size(64)));
#define lathe_where(T, M, x, op, y, a, b) \
  ((T)(((M)((x) op (y)) & (M)(a)) | (~(M)((x) op (y)) & (M)(b))))
)";

struct Type {
  const char *name, *c_type, *mask;
  int bytes;
};
constexpr Type kTypes[] = {{"f32", "float", "i32", 4},  {"i32", "int32_t", "i32", 4},
                           {"u32", "uint32_t", "i32", 4}, {"f64", "double", "i64", 8},
                           {"i64", "int64_t", "i64", 8}, {"u64", "uint64_t", "i64", 8},
                           {"i8", "int8_t", "i8", 1},    {"u8", "uint8_t", "i8", 1},
                           {"i16", "int16_t", "i16", 2}, {"u16", "uint16_t", "i16", 2}};

/// The type of integer vectors that builtins take: int64_t may be long, theirs is long long.
std::string builtin_integers(int bytes, int lanes) {
  return bytes == 4 ? fmt::format("lathe_i32x{}", lanes) : fmt::format("lathe_llongx{}", lanes);
}

/// By mask registers.
std::string masked_parts(const char* name, int lanes, int bytes) {
  const char* element = bytes == 4 ? "float" : "double";
  const char* suffix = bytes == 4 ? "ps" : "pd";
  return fmt::format(R"(LATHE_FN lathe_{0}x{1} lathe_load_part_{0}x{1}(const void* p, int64_t lo, int64_t hi) {{
  const lathe_{0}x{1} zero = {{0}};
  return (lathe_{0}x{1})__builtin_ia32_loadu{3}{4}_mask((const {2}*)p, zero, lathe_lane_bits(lo, hi, {1}));
}}
LATHE_FN void lathe_store_part_{0}x{1}(void* p, lathe_{0}x{1} v, int64_t hi) {{
  __builtin_ia32_storeu{3}{4}_mask(({2}*)p, v, lathe_lane_bits(0, hi, {1}));
}}
)",
                     name, lanes, element, suffix, lanes * bytes * 8);
}

/// By the signs of a vector.
std::string signed_parts(const char* name, int lanes, int bytes) {
  const char* mask = bytes == 4 ? "i32" : "i64";
  const char* suffix = bytes == 4 ? "ps" : "pd";
  std::string numbers;
  for (int i = 0; i < lanes; ++i) numbers += fmt::format("{}{}", i ? ", " : "", i);
  return fmt::format(R"(LATHE_FN lathe_{2}x{1} lathe_lanes_{0}x{1}(int64_t lo, int64_t hi) {{
  const lathe_{2}x{1} lane = {{{5}}};
  const int first = lo < 0 ? 0 : lo > {1} ? {1} : (int)lo, end = hi < 0 ? 0 : hi > {1} ? {1} : (int)hi;
  return (lathe_{2}x{1})((lane >= lathe_splat{1}(lathe_{2}x{1}, first)) & (lane < lathe_splat{1}(lathe_{2}x{1}, end)));
}}
LATHE_FN lathe_{0}x{1} lathe_load_part_{0}x{1}(const void* p, int64_t lo, int64_t hi) {{
  return (lathe_{0}x{1})__builtin_ia32_maskload{3}{4}((const lathe_{0}x{1}*)p, ({6})lathe_lanes_{0}x{1}(lo, hi));
}}
LATHE_FN void lathe_store_part_{0}x{1}(void* p, lathe_{0}x{1} v, int64_t hi) {{
  __builtin_ia32_maskstore{3}{4}((lathe_{0}x{1}*)p, ({6})lathe_lanes_{0}x{1}(0, hi), v);
}}
)",
                     name, lanes, mask, suffix, lanes * bytes == 32 ? "256" : "", numbers,
                     builtin_integers(bytes, lanes));
}

/// Gathers and scatters.
std::string strided(const char* name, int lanes, int bytes) {
  const char* index = bytes == 4 ? "i32" : "i64";
  const char* load = bytes == 4 ? "gathersiv16sf" : "gatherdiv8df";
  const char* store = bytes == 4 ? "scattersiv16sf" : "scatterdiv8df";
  std::string offsets;
  for (int i = 0; i < lanes; ++i) offsets += fmt::format("{}{} * step", i ? ", " : "", i);
  const char* step = bytes == 4 ? "const int32_t step = (int32_t)stride;" : "const int64_t step = stride;";
  return fmt::format(
      R"(LATHE_FN lathe_{0}x{1} lathe_load_strided_{0}x{1}(const void* p, int64_t stride, int64_t lo, int64_t hi) {{
  {7}
  const lathe_{2}x{1} offsets = {{{6}}};
  const lathe_{0}x{1} zero = {{0}};
  return (lathe_{0}x{1})__builtin_ia32_{3}(zero, p, ({8})offsets, lathe_lane_bits(lo, hi, {1}), {5});
}}
LATHE_FN void lathe_store_strided_{0}x{1}(void* p, int64_t stride, lathe_{0}x{1} v, int64_t hi) {{
  {7}
  const lathe_{2}x{1} offsets = {{{6}}};
  __builtin_ia32_{4}(p, lathe_lane_bits(0, hi, {1}), ({8})offsets, v, {5});
}}
)",
      name, lanes, index, load, store, bytes, offsets, step, builtin_integers(bytes, lanes));
}

/// GCC makes three operations of a selection by masks: a comparison into a mask register and a blend are two.
std::string blends(const Type& type, int lanes) {
  const int bits = 8 * type.bytes * lanes;
  const bool is_float = type.name[0] == 'f';
  if (type.name[0] == 'u') return {};
  const char* blend = type.bytes == 4 ? "ps" : "pd";
  const char* base = type.bytes == 4 ? "f32" : "f64";
  std::string out;
  for (const char* op : {"lt", "ne"}) {
    const bool less = op[0] == 'l';
    const std::string compare =
        is_float ? fmt::format("__builtin_ia32_cmp{}{}_mask(x, y, {}, -1{})", blend, bits, less ? 1 : 4,
                               bits == 512 ? ", 4" : "")
                 : fmt::format("__builtin_ia32_cmp{}{}_mask(x, y, {}, -1)", type.bytes == 4 ? "d" : "q", bits,
                               less ? 1 : 4);
    out += fmt::format("#define lathe_where_{0}_{1}x{2}(T, x, y, a, b) \\\n"
                       "  ((T)__builtin_ia32_blendm{3}_{4}_mask((lathe_{5}x{2})(b), (lathe_{5}x{2})(a), {6}))\n",
                       op, type.name, lanes, blend, bits, base, compare);
  }
  if (is_float && bits == 512)
    out += fmt::format("#define lathe_max_{0}x{1}(a, b) ((lathe_{0}x{1})__builtin_ia32_max{2}512_mask(a, b, a, "
                       "__builtin_ia32_cmp{2}512_mask(a, a, 7, -1, 4), 4))\n",
                       type.name, lanes, blend);
  return out;
}

std::string parts_of_floats(const char* base, int bytes) {
  std::string out;
  const auto as_floats = [&](const char* macro, int lanes) {
    std::string text;
    for (const Type& type : kTypes)
      if (type.bytes == bytes && type.name != std::string(base))
        text += fmt::format("{}({}, {}, {})\n", macro, type.name, base, lanes);
    return text;
  };
  const auto portable = [&](const char* macro, int lanes) {
    std::string text;
    for (const Type& type : kTypes)
      if (type.bytes == bytes) text += fmt::format("{}({}, {}, {})\n", macro, type.name, type.c_type, lanes);
    return text;
  };
  for (int lanes : {2, 4, 8, 16}) {
    const int bits = 8 * bytes * lanes;
    if (bits > 512 || bits < 128) {
      out += portable("LATHE_PARTS", lanes);
      continue;
    }
    out += fmt::format("#if defined(__AVX{}__)\n{}{}", bits == 512 ? "512F" : "",
                       bits == 512 ? masked_parts(base, lanes, bytes) : signed_parts(base, lanes, bytes),
                       as_floats("LATHE_PARTS_AS", lanes));
    out += fmt::format("#else\n{}#endif\n", portable("LATHE_PARTS", lanes));
    if (bits == 512)
      out += fmt::format("#if defined(__AVX512F__)\n{}#else\n{}#endif\n",
                         strided(base, lanes, bytes) + as_floats("LATHE_STRIDED_AS", lanes),
                         portable("LATHE_STRIDED", lanes));
  }
  return out;
}

} // namespace

std::string lane_helpers() {
  std::string out = std::string(kParts) + kAsFloats + kCommon;
  out += parts_of_floats("f32", 4) + parts_of_floats("f64", 8);
  for (const Type& type : kTypes)
    if (type.bytes < 4)
      for (int lanes : {2, 4, 8, 16})
        out += fmt::format("LATHE_PARTS({}, {}, {})\n", type.name, type.c_type, lanes);
  out += "#if defined(__AVX512F__) && !defined(__clang__)\n";
  for (const Type& type : kTypes)
    if (type.bytes >= 4) out += blends(type, 64 / type.bytes);
  out += "#endif\n#if defined(__AVX512VL__) && !defined(__clang__)\n";
  for (const Type& type : kTypes)
    if (type.bytes >= 4)
      for (int bytes : {16, 32}) out += blends(type, bytes / type.bytes);
  out += "#endif\n";
  for (const Type& type : kTypes)
    for (int lanes : {2, 4, 8, 16}) {
      for (const char* op : {"lt", "ne"})
        out += fmt::format("#ifndef lathe_where_{0}_{1}x{2}\n#define lathe_where_{0}_{1}x{2}(T, x, y, a, b) "
                           "lathe_where(T, lathe_{3}x{2}, x, {4}, y, a, b)\n#endif\n",
                           op, type.name, lanes, type.mask, op[0] == 'l' ? "<" : "!=");
      if (type.name[0] == 'f')
        out += fmt::format("#ifndef lathe_max_{0}x{1}\n#define lathe_max_{0}x{1}(a, b) "
                           "lathe_where_ne_{0}x{1}(lathe_{0}x{1}, a, a, a, lathe_larger_{0}x{1}(a, b))\n#endif\n",
                           type.name, lanes);
    }
  return out;
}

} // namespace lathe::render
