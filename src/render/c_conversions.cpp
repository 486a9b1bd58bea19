// Conversions of vectors in emitted C, in steps that double or halve the width of the elements. GCC splits a
// longer step into scalars. Even for a single step it emits four instructions if there is one that does it,
// so the helpers use builtins.
#include <fmt/format.h>

#include "lathe/dtype.hpp"
#include "render/c_dialect.hpp"
#include "render/c_helpers.hpp"

namespace lathe::render {
namespace {

std::string vector_type(DType dtype, int lanes) {
  return fmt::format("lathe_{}x{}", to_string(dtype), lanes);
}

DType integer_like(DType dtype, int bytes) {
  return is_signed(dtype) ? signed_of(bytes) : unsigned_of(bytes);
}

DType widened(DType dtype) {
  return dtype == DType::F32 ? DType::F64 : integer_like(dtype, 2 * size_of(dtype));
}

/// A macro that calls the builtin of one instruction. It is only for GCC, under the preprocessor condition
/// `since`. `arguments` are the builtin's arguments, with the vector as v.
std::string instruction(const char* since, const std::string& macro, DType to, int lanes,
                        const std::string& builtin, const std::string& arguments) {
  return fmt::format("#if {} && !defined(__clang__)\n#define {}(v) (({})__builtin_ia32_{}({}))\n#endif\n",
                     since, macro, vector_type(to, lanes), builtin, arguments);
}

std::string widening(DType from, int lanes) {
  const DType to = widened(from);
  const std::string macro = fmt::format("lathe_widen_{}x{}", to_string(from), lanes);
  const int bits = 8 * size_of(to) * lanes;
  std::string out;
  if (from == DType::F32) {
    if (bits == 512)
      out = instruction("defined(__AVX512F__)", macro, to, lanes, "cvtps2pd512_mask",
                        "v, (lathe_f64x8){0}, -1, 4");
    if (bits == 256) out = instruction("defined(__AVX__)", macro, to, lanes, "cvtps2pd256", "v");
  } else if (bits >= 128 && bits <= 512) {
    const char* sizes = size_of(from) == 1 ? "bw" : size_of(from) == 2 ? "wd" : "dq";
    const std::string name = fmt::format("pmov{}x{}{}", is_signed(from) ? 's' : 'z', sizes, bits);
    // The type of the builtin's operand: 16 bytes with the elements in the lower half, or the wider vector.
    const std::string whole =
        fmt::format("lathe_{}x{}", size_of(from) == 1 ? "char" : to_string(signed_of(size_of(from))),
                    std::max(16, bits / 16) / size_of(from));
    const std::string v = bits == 128 ? fmt::format("({})(lathe_llongx2){{(long long)(v), 0}}", whole)
                                      : fmt::format("({})(v)", whole);
    if (bits < 512)
      out = instruction(bits == 128 ? "defined(__SSE4_1__)" : "defined(__AVX2__)", macro, to, lanes, name, v);
    else if (size_of(from) > 1) // there are no vectors of 32 lanes
      out = instruction(
          "defined(__AVX512F__)", macro, to, lanes, name + "_mask",
          fmt::format("{}, ({}){{0}}, -1", v, size_of(to) == 4 ? "lathe_i32x16" : "lathe_llongx8"));
  }
  return out + fmt::format("#ifndef {0}\n#define {0}(v) __builtin_convertvector(v, {1})\n#endif\n", macro,
                           vector_type(to, lanes));
}

std::string narrowing(DType from, int lanes) {
  const DType to = signed_of(size_of(from) / 2);
  const std::string macro = fmt::format("lathe_narrow_{}x{}", to_string(from), lanes);
  const int bits = 8 * size_of(from) * lanes;
  const char* sizes = size_of(from) == 2 ? "wb" : size_of(from) == 4 ? "dw" : "qd";
  std::string out;
  if ((bits == 512 && size_of(from) > 2) || bits == 256) // the result has 16 bytes or more
    out = instruction(
        bits == 512          ? "defined(__AVX512F__)"
        : size_of(from) == 2 ? "defined(__AVX512VL__) && defined(__AVX512BW__)"
                             : "defined(__AVX512VL__)",
        macro, to, lanes, fmt::format("pmov{}{}_mask", sizes, bits),
        fmt::format("({})(v), ({}){{0}}, -1",
                    size_of(from) == 8 ? fmt::format("lathe_llongx{}", lanes) : vector_type(from, lanes),
                    size_of(to) == 1 ? "lathe_charx16" : vector_type(to, lanes)));
  return out + fmt::format("#ifndef {0}\n#define {0}(v) __builtin_convertvector(v, {1})\n#endif\n", macro,
                           vector_type(to, lanes));
}

/// Helpers for f16. Without instructions for f16, they adjust the bias of the exponent; 1 << 23 is one step
/// of a float's exponent. For subnormals, an addition of floats moves the bits into place and rounds them.
std::string half_floats(int lanes) {
  std::string out;
  if (lanes == 16)
    out = R"(#if defined(__AVX512F__) && !defined(__clang__)
#define lathe_value_f16x16(v) ((lathe_f32x16)__builtin_ia32_vcvtph2ps512_mask((lathe_i16x16)(v), (lathe_f32x16){0}, -1, 4))
#define lathe_bits_f16x16(v) ((lathe_u16x16)__builtin_ia32_vcvtps2ph512_mask(v, 0, (lathe_i16x16){0}, -1))
#endif
)";
  if (lanes == 8)
    out = R"(#if defined(__F16C__) && !defined(__clang__)
#define lathe_value_f16x8(v) ((lathe_f32x8)__builtin_ia32_vcvtph2ps256((lathe_i16x8)(v)))
#define lathe_bits_f16x8(v) ((lathe_u16x8)__builtin_ia32_vcvtps2ph256(v, 0))
#endif
)";
  if (lanes == 4)
    out = R"(#if defined(__F16C__) && !defined(__clang__)
#define lathe_value_f16x4(v) ((lathe_f32x4)__builtin_ia32_vcvtph2ps((lathe_i16x8)(lathe_llongx2){(long long)(v), 0}))
#define lathe_bits_f16x4(v) ((lathe_u16x4)((lathe_llongx2)__builtin_ia32_vcvtps2ph(v, 0))[0])
#endif
)";
  return out + fmt::format(R"(#ifndef lathe_value_f16x{0}
#define lathe_value_f16x{0}(v) __extension__({{ \
  const lathe_u32x{0} lathe_h = lathe_widen_u16x{0}(v), lathe_m = (lathe_h & 0x7FFFu) << 13; \
  const lathe_u32x{0} lathe_s = (lathe_u32x{0})((lathe_f32x{0})(lathe_m + (113u << 23)) - 6.103515625e-05f); \
  const lathe_u32x{0} lathe_n = lathe_where_lt_u32x{0}( \
    lathe_u32x{0}, lathe_m, lathe_splat{0}(lathe_u32x{0}, 1u << 23), lathe_s, lathe_m + (112u << 23)); \
  (lathe_f32x{0})((lathe_h & 0x8000u) << 16 | lathe_where_lt_u32x{0}( \
    lathe_u32x{0}, lathe_m, lathe_splat{0}(lathe_u32x{0}, 31u << 23), lathe_n, lathe_m + (224u << 23))); }})
#define lathe_bits_f16x{0}(v) __extension__({{ \
  const lathe_u32x{0} lathe_b = (lathe_u32x{0})(v), lathe_a = lathe_b & 0x7FFFFFFFu; \
  const lathe_u32x{0} lathe_s = (lathe_u32x{0})((lathe_f32x{0})lathe_a + 0.5f) - (126u << 23); \
  const lathe_u32x{0} lathe_n = lathe_where_lt_u32x{0}( \
    lathe_u32x{0}, lathe_a, lathe_splat{0}(lathe_u32x{0}, 113u << 23), lathe_s, \
    (lathe_a - (112u << 23) + 0xFFFu + (lathe_a >> 13 & 1u)) >> 13); \
  const lathe_u32x{0} lathe_e = lathe_where_lt_u32x{0}( /* infinity, or a NaN */ \
    lathe_u32x{0}, lathe_splat{0}(lathe_u32x{0}, 255u << 23), lathe_a, lathe_splat{0}(lathe_u32x{0}, 0x7E00u), \
    lathe_splat{0}(lathe_u32x{0}, 0x7C00u)); \
  const lathe_u32x{0} lathe_r = (lathe_b >> 16 & 0x8000u) | lathe_where_lt_u32x{0}( \
    lathe_u32x{0}, lathe_a, lathe_splat{0}(lathe_u32x{0}, 143u << 23), lathe_n, lathe_e); \
  (lathe_u16x{0})lathe_narrow_i32x{0}((lathe_i32x{0})lathe_r); }})
#endif
#define lathe_round_f16x{0}(v) __extension__({{ const lathe_u16x{0} lathe_k = lathe_bits_f16x{0}(v); lathe_value_f16x{0}(lathe_k); }})
)",
                           lanes);
}

/// Helpers for bf16: the upper half of a float's bits, rounded to even. A NaN stays a NaN.
std::string upper_halves(int lanes) {
  return fmt::format(R"(#define lathe_value_bf16x{0}(v) ((lathe_f32x{0})(lathe_widen_u16x{0}(v) << 16))
#define lathe_near_bf16x{0}(v) lathe_where_ne_f32x{0}(lathe_u32x{0}, v, v, (lathe_u32x{0})(v) | 0x400000u, \
  (lathe_u32x{0})(v) + 0x7FFFu + ((lathe_u32x{0})(v) >> 16 & 1u))
#define lathe_bits_bf16x{0}(v) ((lathe_u16x{0})lathe_narrow_i32x{0}((lathe_i32x{0})(lathe_near_bf16x{0}(v) >> 16)))
#define lathe_round_bf16x{0}(v) ((lathe_f32x{0})(lathe_near_bf16x{0}(v) & 0xFFFF0000u))
)",
                     lanes);
}

std::string at_once(const std::string& value, DType to, int lanes) {
  return fmt::format("__builtin_convertvector({}, {})", value, vector_type(to, lanes));
}

} // namespace

std::string convert_vector(std::string value, DType from, DType to, int lanes) {
  if (is_float(from) != is_float(to)) {
    const DType as_wide = signed_of(size_of(is_float(from) ? from : to));
    if (is_float(to) && size_of(from) < size_of(to))
      return at_once(convert_vector(std::move(value), from, as_wide, lanes), to, lanes);
    if (is_float(from) && size_of(to) < size_of(from))
      return convert_vector(at_once(value, as_wide, lanes), as_wide, to, lanes);
    return at_once(value, to, lanes);
  }
  if (is_float(to) && size_of(to) < size_of(from)) return at_once(value, to, lanes);
  DType now = from;
  for (; size_of(now) < size_of(to); now = widened(now))
    value = fmt::format("lathe_widen_{}x{}({})", to_string(now), lanes, value);
  if (size_of(now) > size_of(to) && !is_signed(now)) {
    now = signed_of(size_of(now));
    value = fmt::format("(({})({}))", vector_type(now, lanes), value);
  }
  for (; size_of(now) > size_of(to); now = signed_of(size_of(now) / 2))
    value = fmt::format("lathe_narrow_{}x{}({})", to_string(now), lanes, value);
  return now == to ? value : fmt::format("(({})({}))", vector_type(to, lanes), value);
}

std::string conversion_helpers() {
  std::string out = "\n";
  for (int lanes : {2, 4, 8, 16}) {
    for (DType from : {DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::U32, DType::F32})
      out += widening(from, lanes);
    for (DType from : {DType::I16, DType::I32, DType::I64}) out += narrowing(from, lanes);
    out += half_floats(lanes) + upper_halves(lanes);
  }
  return out;
}

} // namespace lathe::render
