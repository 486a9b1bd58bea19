// Helpers of emitted C for parts of vectors: loads and stores of some lanes, lanes that lie apart, selection
// by a comparison. Each has a form in vector extensions, which works on any target. On x86-64 some also have
// a form with the instructions that compilers don't find by themselves.
#include <string_view>

#include <fmt/format.h>

#include "render/c_helpers.hpp"

namespace lathe::render {
namespace {

// Macros, since the calling convention of vector parameters differs between targets.
constexpr const char* kCommon = R"(
/* Vectors as far as they are in memory: lanes from lo to before hi; the others are 0, or not stored. */
#define lathe_load_part(V, T, n, p, lo, hi) __extension__({ \
  V lathe_v = {0}; \
  const char* const lathe_p = (const char*)(p); \
  const int64_t lathe_lo = lathe_lane(lo, n), lathe_hi = lathe_lane(hi, n), lathe_b = (int64_t)sizeof(T); \
  if (lathe_lo == 0 && lathe_hi == n) \
    memcpy(&lathe_v, lathe_p, sizeof lathe_v); \
  else if (lathe_lo < lathe_hi) \
    memcpy((char*)&lathe_v + lathe_lo * lathe_b, lathe_p + lathe_lo * lathe_b, (size_t)((lathe_hi - lathe_lo) * lathe_b)); \
  lathe_v; })
#define lathe_store_part(V, T, p, v, hi) do { \
  const V lathe_v = (v); \
  memcpy((void*)(p), &lathe_v, (hi) * sizeof(T)); } while (0)
#define lathe_load_apart(V, T, n, p, lo, hi, ...) __extension__({ \
  V lathe_v = {0}; \
  const T* const lathe_p = (const T*)(p); \
  const int32_t lathe_o[] = {__VA_ARGS__}; \
  const int lathe_lo = lathe_lane(lo, n), lathe_hi = lathe_lane(hi, n); \
  int lathe_i; \
  for (lathe_i = 0; lathe_i < n; ++lathe_i) \
    if (lathe_i >= lathe_lo && lathe_i < lathe_hi) lathe_v[lathe_i] = lathe_p[lathe_o[lathe_i]]; \
  lathe_v; })
#define lathe_store_apart(V, T, p, v, hi, ...) do { \
  const V lathe_v = (v); \
  T* const lathe_p = (T*)(p); \
  const int32_t lathe_o[] = {__VA_ARGS__}; \
  int lathe_i; \
  for (lathe_i = 0; lathe_i < hi; ++lathe_i) lathe_p[lathe_o[lathe_i]] = lathe_v[lathe_i]; } while (0)
#define lathe_where(T, M, x, op, y, a, b) ((T)(((M)((x) op (y)) & (M)(a)) | (~(M)((x) op (y)) & (M)(b))))

LATHE_FN int lathe_lane(int64_t i, int n) { return i < 0 ? 0 : i > n ? n : (int)i; }
LATHE_FN uint32_t lathe_lane_bits(int64_t lo, int64_t hi, int n) {
  return ((1u << lathe_lane(hi, n)) - 1u) & ~((1u << lathe_lane(lo, n)) - 1u);
}

/* The integers of builtins: int64_t may be long, theirs is long long. */
typedef long long lathe_llongx2 __attribute__((vector_size(16)));
typedef long long lathe_llongx4 __attribute__((vector_size(32)));
typedef long long lathe_llongx8 __attribute__((vector_size(64)));
typedef char lathe_charx16 __attribute__((vector_size(16)));

)";

struct Type {
  const char *name, *c_type, *mask;
  int bytes;
};
constexpr Type kTypes[] = {{"f32", "float", "i32", 4},    {"i32", "int32_t", "i32", 4},
                           {"u32", "uint32_t", "i32", 4}, {"f64", "double", "i64", 8},
                           {"i64", "int64_t", "i64", 8},  {"u64", "uint64_t", "i64", 8},
                           {"i8", "int8_t", "i8", 1},     {"u8", "uint8_t", "i8", 1},
                           {"i16", "int16_t", "i16", 2},  {"u16", "uint16_t", "i16", 2}};

std::string builtin_integers(int bytes, int lanes) {
  return bytes == 4 ? fmt::format("lathe_i32x{}", lanes) : fmt::format("lathe_llongx{}", lanes);
}

/// load_part and store_part by mask registers.
std::string masked_parts(const char* name, int lanes, int bytes) {
  return fmt::format(R"(#define lathe_load_part_{0}x{1}(p, lo, hi) \
  ((lathe_{0}x{1})__builtin_ia32_loadu{3}512_mask((const {2}*)(p), (lathe_{0}x{1}){{0}}, lathe_lane_bits(lo, hi, {1})))
#define lathe_store_part_{0}x{1}(p, v, hi) \
  __builtin_ia32_storeu{3}512_mask(({2}*)(p), v, lathe_lane_bits(0, hi, {1}))
)",
                     name, lanes, bytes == 4 ? "float" : "double", bytes == 4 ? "ps" : "pd");
}

/// load_part and store_part by a vector whose signs are the mask.
std::string signed_parts(const char* name, int lanes, int bytes) {
  std::string numbers;
  for (int i = 0; i < lanes; ++i) numbers += fmt::format("{}{}", i ? ", " : "", i);
  return fmt::format(R"(#define lathe_lanes_{0}x{1}(lo, hi) \
  (({2})((({2}){{{5}}} >= lathe_splat{1}({2}, lathe_lane(lo, {1}))) & (({2}){{{5}}} < lathe_splat{1}({2}, lathe_lane(hi, {1})))))
#define lathe_load_part_{0}x{1}(p, lo, hi) \
  ((lathe_{0}x{1})__builtin_ia32_maskload{3}{4}((const lathe_{0}x{1}*)(p), lathe_lanes_{0}x{1}(lo, hi)))
#define lathe_store_part_{0}x{1}(p, v, hi) \
  __builtin_ia32_maskstore{3}{4}((lathe_{0}x{1}*)(p), lathe_lanes_{0}x{1}(0, hi), v)
)",
                     name, lanes, builtin_integers(bytes, lanes), bytes == 4 ? "ps" : "pd",
                     lanes * bytes == 32 ? "256" : "", numbers);
}

/// load_apart and store_apart by gathers and scatters.
std::string lanes_apart(const char* name, int lanes, int bytes) {
  return fmt::format(R"(#define lathe_load_apart_{0}x{1}(p, lo, hi, ...) \
  ((lathe_{0}x{1})__builtin_ia32_{2}((lathe_{0}x{1}){{0}}, p, (({4}){{__VA_ARGS__}}), lathe_lane_bits(lo, hi, {1}), {5}))
#define lathe_store_apart_{0}x{1}(p, v, hi, ...) \
  __builtin_ia32_{3}(p, lathe_lane_bits(0, hi, {1}), (({4}){{__VA_ARGS__}}), v, {5})
)",
                     name, lanes, bytes == 4 ? "gathersiv16sf" : "gatherdiv8df",
                     bytes == 4 ? "scattersiv16sf" : "scatterdiv8df", builtin_integers(bytes, lanes), bytes);
}

/// lathe_max of integers by its instruction, which GCC does not recognise in a selection. `since` is the
/// macro of the extension that brought the instruction for vectors of `bits`.
std::string integer_maxima() {
  struct Instruction {
    const char *since, *type;
    int bits;
    bool masked = false; // the only form has a mask
  };
  constexpr Instruction instructions[] = {
      {"__AVX512F__", "i32", 512, true},  {"__AVX512F__", "u32", 512, true},
      {"__AVX512F__", "i64", 512, true},  {"__AVX512F__", "u64", 512, true},
      {"__AVX512VL__", "i64", 256, true}, {"__AVX512VL__", "u64", 256, true},
      {"__AVX512VL__", "i64", 128, true}, {"__AVX512VL__", "u64", 128, true},
      {"__AVX2__", "i32", 256},           {"__AVX2__", "u32", 256},
      {"__AVX2__", "i16", 256},           {"__AVX2__", "u16", 256},
      {"__SSE4_1__", "i32", 128},         {"__SSE4_1__", "u32", 128},
      {"__SSE4_1__", "i8", 128},          {"__SSE4_1__", "u16", 128},
      {"__SSE2__", "i16", 128},           {"__SSE2__", "u8", 128}};
  std::string out;
  for (const Instruction& max : instructions) {
    const int bytes = std::stoi(max.type + 1) / 8, lanes = max.bits / 8 / bytes;
    // The builtins take signed integers, or char for bytes.
    const std::string operand = bytes == 1   ? fmt::format("lathe_charx{}", lanes)
                                : bytes == 2 ? fmt::format("lathe_i16x{}", lanes)
                                             : builtin_integers(bytes, lanes);
    out += fmt::format("#if defined({0}) && !defined(__clang__)\n#define lathe_max_{1}x{2}(a, b) "
                       "((lathe_{1}x{2})__builtin_ia32_pmax{3}{4}{5}{6}(({7})(a), ({7})(b){8}))\n#endif\n",
                       max.since, max.type, lanes, max.type[0] == 'u' ? 'u' : 's',
                       bytes == 1   ? 'b'
                       : bytes == 2 ? 'w'
                       : bytes == 4 ? 'd'
                                    : 'q',
                       max.bits, max.masked ? "_mask" : "", operand,
                       max.masked ? fmt::format(", ({})(a), -1", operand) : "");
  }
  return out;
}

/// Selections by a comparison into a mask register and a blend. These are two instructions; GCC makes three
/// of a selection by masks.
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
                 : fmt::format("__builtin_ia32_cmp{0}{1}_mask(({2})(x), ({2})(y), {3}, -1)",
                               type.bytes == 4 ? "d" : "q", bits, builtin_integers(type.bytes, lanes),
                               less ? 1 : 4);
    out +=
        fmt::format("#define lathe_where_{0}_{1}x{2}(T, x, y, a, b) \\\n"
                    "  ((T)__builtin_ia32_blendm{3}_{4}_mask((lathe_{5}x{2})(b), (lathe_{5}x{2})(a), {6}))\n",
                    op, type.name, lanes, blend, bits, base, compare);
  }
  if (is_float)
    out += fmt::format(
        "#define lathe_max_{0}x{1}(a, b) ((lathe_{0}x{1})__builtin_ia32_max{2}{3}_mask(b, a, b, "
        "__builtin_ia32_cmp{2}{4}_mask(b, b, 7, -1{5}){5}))\n",
        type.name, lanes, blend, bits == 128 ? "" : std::to_string(bits), bits, bits == 512 ? ", 4" : "");
  return out;
}

std::string portable_parts(const Type& type, int lanes) {
  return fmt::format(
      "#define lathe_load_part_{0}x{1}(p, lo, hi) lathe_load_part(lathe_{0}x{1}, {2}, {1}, p, lo, hi)\n"
      "#define lathe_store_part_{0}x{1}(p, v, hi) lathe_store_part(lathe_{0}x{1}, {2}, p, v, hi)\n",
      type.name, lanes, type.c_type);
}

std::string portable_apart(const Type& type, int lanes) {
  return fmt::format("#define lathe_load_apart_{0}x{1}(p, lo, hi, ...) "
                     "lathe_load_apart(lathe_{0}x{1}, lathe_{2}_a, {1}, p, lo, hi, __VA_ARGS__)\n"
                     "#define lathe_store_apart_{0}x{1}(p, v, hi, ...) "
                     "lathe_store_apart(lathe_{0}x{1}, lathe_{2}_a, p, v, hi, __VA_ARGS__)\n",
                     type.name, lanes, type.c_type);
}

std::string parts_as_floats(const Type& type, const char* base, int lanes) {
  return fmt::format(
      "#define lathe_load_part_{0}x{2}(p, lo, hi) ((lathe_{0}x{2})lathe_load_part_{1}x{2}(p, lo, hi))\n"
      "#define lathe_store_part_{0}x{2}(p, v, hi) lathe_store_part_{1}x{2}(p, (lathe_{1}x{2})(v), hi)\n",
      type.name, base, lanes);
}

std::string apart_as_floats(const Type& type, const char* base, int lanes) {
  return fmt::format("#define lathe_load_apart_{0}x{2}(p, lo, hi, ...) "
                     "((lathe_{0}x{2})lathe_load_apart_{1}x{2}(p, lo, hi, __VA_ARGS__))\n"
                     "#define lathe_store_apart_{0}x{2}(p, v, hi, ...) "
                     "lathe_store_apart_{1}x{2}(p, (lathe_{1}x{2})(v), hi, __VA_ARGS__)\n",
                     type.name, base, lanes);
}

/// Helpers for parts of vectors of a float dtype and of the integers of its size.
std::string parts_of(const char* base, int bytes) {
  std::string out;
  for (int lanes : {2, 4, 8, 16}) {
    const int bits = 8 * bytes * lanes;
    std::string portable, as_floats, far, far_as_floats;
    for (const Type& type : kTypes) {
      if (type.bytes != bytes) continue;
      portable += portable_parts(type, lanes), far += portable_apart(type, lanes);
      if (type.name == std::string_view(base)) continue;
      as_floats += parts_as_floats(type, base, lanes), far_as_floats += apart_as_floats(type, base, lanes);
    }
    if (bits == 512)
      out += fmt::format("#if defined(__AVX512F__)\n{}{}{}{}#else\n{}{}#endif\n",
                         masked_parts(base, lanes, bytes), as_floats, lanes_apart(base, lanes, bytes),
                         far_as_floats, portable, far);
    else if (bits == 256 || bits == 128)
      out += fmt::format("#if defined(__AVX__)\n{}{}#else\n{}#endif\n", signed_parts(base, lanes, bytes),
                         as_floats, portable);
    else
      out += portable;
  }
  return out;
}

} // namespace

std::string lane_helpers() {
  std::string out = kCommon + parts_of("f32", 4) + parts_of("f64", 8);
  for (const Type& type : kTypes)
    if (type.bytes < 4)
      for (int lanes : {2, 4, 8, 16}) out += portable_parts(type, lanes);
  out += "\n#if defined(__AVX512F__) && !defined(__clang__)\n";
  for (const Type& type : kTypes)
    if (type.bytes >= 4) out += blends(type, 64 / type.bytes);
  out += "#endif\n#if defined(__AVX512VL__) && !defined(__clang__)\n";
  for (const Type& type : kTypes)
    if (type.bytes >= 4)
      for (int bytes : {16, 32}) out += blends(type, bytes / type.bytes);
  out += "#endif\n" + integer_maxima();
  for (const Type& type : kTypes)
    for (int lanes : {2, 4, 8, 16}) {
      for (const char* op : {"lt", "ne"})
        out += fmt::format("#ifndef lathe_where_{0}_{1}x{2}\n#define lathe_where_{0}_{1}x{2}(T, x, y, a, b) "
                           "lathe_where(T, lathe_{3}x{2}, x, {4}, y, a, b)\n#endif\n",
                           op, type.name, lanes, type.mask, op[0] == 'l' ? "<" : "!=");
      const char* max = type.name[0] == 'f'
                            ? "lathe_where_ne_{0}x{1}(lathe_{0}x{1}, b, b, b, lathe_larger_{0}x{1}(b, a))"
                            : "lathe_where_lt_{0}x{1}(lathe_{0}x{1}, a, b, b, a)";
      out += fmt::format("#ifndef lathe_max_{0}x{1}\n#define lathe_max_{0}x{1}(a, b) {2}\n#endif\n",
                         type.name, lanes, fmt::format(fmt::runtime(max), type.name, lanes));
    }
  return out;
}

} // namespace lathe::render
