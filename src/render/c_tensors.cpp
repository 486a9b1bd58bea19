// Tensor loops of the C family: products of vectors of i32 whose lanes add up several products of bytes. The
// helpers have the instructions of x86-64, and portable forms with the same results.
#include <fmt/format.h>

#include "render/c_family.hpp"
#include "render/c_helpers.hpp"

namespace lathe::render {
namespace {

constexpr const char* kCommon = R"(
/* Sums of products of bytes, two or four to a lane; exact, modulo 2^32. */
LATHE_FN uint16_t lathe_bytes2(const void* p) { uint16_t y; memcpy(&y, p, sizeof y); return y; }
LATHE_FN uint32_t lathe_bytes4(const void* p) { uint32_t y; memcpy(&y, p, sizeof y); return y; }
#define lathe_add_x4(x, y) ((lathe_i32x4)((lathe_u32x4)(x) + (lathe_u32x4)(y)))
#define lathe_add_x8(x, y) ((lathe_i32x8)((lathe_u32x8)(x) + (lathe_u32x8)(y)))
#define lathe_add_x16(x, y) ((lathe_i32x16)((lathe_u32x16)(x) + (lathe_u32x16)(y)))
#define lathe_pairs_i8x4(v) ((lathe_i32x4)lathe_widen_i8x8((lathe_i8x8)(v)))
#define lathe_pairs_u8x4(v) ((lathe_i32x4)lathe_widen_u8x8((lathe_u8x8)(v)))
#define lathe_pairs_i8x8(v) ((lathe_i32x8)lathe_widen_i8x16((lathe_i8x16)(v)))
#define lathe_pairs_u8x8(v) ((lathe_i32x8)lathe_widen_u8x16((lathe_u8x16)(v)))
#if defined(__SSE2__)
#define lathe_add_pairs_x4(sum, a, b) lathe_add_x4(sum, __builtin_ia32_pmaddwd128((lathe_i16x8)(a), (lathe_i16x8)(b)))
#endif
#if defined(__AVX2__)
#define lathe_add_pairs_x8(sum, a, b) lathe_add_x8(sum, __builtin_ia32_pmaddwd256((lathe_i16x16)(a), (lathe_i16x16)(b)))
#endif
#if defined(__AVX512BW__)
typedef short lathe_shortx32 __attribute__((vector_size(64)));
#if defined(__clang__)
typedef signed char lathe_i8x32 __attribute__((vector_size(32)));
typedef unsigned char lathe_u8x32 __attribute__((vector_size(32)));
#define lathe_pairs_i8x16(v) ((lathe_i32x16)__builtin_convertvector((lathe_i8x32)(v), lathe_shortx32))
#define lathe_pairs_u8x16(v) ((lathe_i32x16)__builtin_convertvector((lathe_u8x32)(v), lathe_shortx32))
#define lathe_add_pairs_x16(sum, a, b) \
  lathe_add_x16(sum, __builtin_ia32_pmaddwd512((lathe_shortx32)(a), (lathe_shortx32)(b)))
#else
typedef char lathe_charx32 __attribute__((vector_size(32)));
#define lathe_pairs_i8x16(v) \
  ((lathe_i32x16)__builtin_ia32_pmovsxbw512_mask((lathe_charx32)(v), (lathe_shortx32){0}, 0xFFFFFFFFu))
#define lathe_pairs_u8x16(v) \
  ((lathe_i32x16)__builtin_ia32_pmovzxbw512_mask((lathe_charx32)(v), (lathe_shortx32){0}, 0xFFFFFFFFu))
#define lathe_add_pairs_x16(sum, a, b) \
  lathe_add_x16(sum, __builtin_ia32_pmaddwd512_mask( \
    (lathe_shortx32)(a), (lathe_shortx32)(b), (lathe_i32x16){0}, 0xFFFFu))
#endif
#else
#define lathe_pairs_i8x16(v) __extension__({ \
  const lathe_u32x16 lathe_w = lathe_widen_u16x16(v); \
  (lathe_i32x16)(((lathe_u32x16)((lathe_i32x16)(lathe_w << 24) >> 24) & 0xFFFFu) | \
                 (lathe_u32x16)((lathe_i32x16)(lathe_w << 16) >> 24) << 16); })
#define lathe_pairs_u8x16(v) __extension__({ \
  const lathe_u32x16 lathe_w = lathe_widen_u16x16(v); \
  (lathe_i32x16)((lathe_w & 0xFFu) | (lathe_w >> 8) << 16); })
#endif
)";

/// The builtins that Clang and GCC have for vpdpbusd.
std::string dots(int lanes) {
  const char* since =
      lanes == 16 ? "defined(__AVX512VNNI__)" : "(defined(__AVX512VNNI__) && defined(__AVX512VL__))";
  return fmt::format(R"(#if {1}
#if defined(__clang__)
#define lathe_add_dots_x{0}(sum, u, s) ((lathe_i32x{0})__builtin_ia32_vpdpbusd{2}(sum, u, s))
#else
#define lathe_add_dots_x{0}(sum, u, s) ((lathe_i32x{0})__builtin_ia32_vpdpbusd_v{0}si(sum, u, s))
#endif
#endif
)",
                     lanes, since, 32 * lanes);
}

std::string portable(int lanes) {
  return fmt::format(R"(#ifndef lathe_add_pairs_x{0}
#define lathe_low_x{0}(a) ((lathe_u32x{0})((lathe_i32x{0})((lathe_u32x{0})(a) << 16) >> 16))
#define lathe_high_x{0}(a) ((lathe_u32x{0})((a) >> 16))
#define lathe_add_pairs_x{0}(sum, a, b) \
  lathe_add_x{0}(sum, lathe_low_x{0}(a) * lathe_low_x{0}(b) + lathe_high_x{0}(a) * lathe_high_x{0}(b))
#endif
#ifndef lathe_add_dots_x{0}
#define lathe_dot_x{0}(u, s, k) \
  (((lathe_u32x{0})(u) >> (8 * k) & 0xFFu) * (lathe_u32x{0})((lathe_i32x{0})((lathe_u32x{0})(s) << (24 - 8 * k)) >> 24))
#define lathe_add_dots_x{0}(sum, u, s) \
  lathe_add_x{0}(sum, lathe_dot_x{0}(u, s, 0) + lathe_dot_x{0}(u, s, 1) + lathe_dot_x{0}(u, s, 2) + lathe_dot_x{0}(u, s, 3))
#endif
)",
                     lanes);
}

} // namespace

std::string tensor_helpers() {
  std::string out = kCommon;
  for (const int lanes : {4, 8, 16}) out += dots(lanes) + portable(lanes);
  return out;
}

/// An operand of a product by store.by, loaded once till something may change it.
std::string CFamily::product_operand(const ast::LoadAttr& load, const ast::TensorNest& nest, bool all_lanes) {
  const Instruction by = *nest.store->by;
  const int lanes = static_cast<int>(ast::tensor_product(nest)->columns->extent.value());
  const Expr first = ast::first_of(*load.buffer, load.index, nest);
  // Places of other loads begin with an expression.
  const Place place = {nullptr, first.node(), Expr(info(by).k).node(), Expr(lanes).node(),
                       Expr(all_lanes ? 1 : 0).node()};
  auto& known = loads_[load.buffer->id];
  if (const auto found = known.find(place); found != known.end()) return found->second.value.text;
  const std::string address = fmt::format("{} + {}", pointer(load.buffer), expr(first, Level::Sum));
  const std::string text = local(dialect_.type(DType::I32, lanes),
                                 dialect_.product_operand(by, load.buffer->dtype, address, lanes, all_lanes));
  known.emplace(place, Known{Operand{text, DType::I32, lanes}, indent_});
  deepest_load_ = std::max(deepest_load_, indent_);
  return text;
}

void CFamily::tensor_loops(const ast::For& loop) {
  const auto nest = ast::tensor_nest(loop);
  const ast::TensorProduct product = *ast::tensor_product(*nest);
  const ast::BufferRef& sums = product.store->buffer;
  const int lanes = static_cast<int>(product.columns->extent.value());
  const std::string a = product_operand(*product.a, *nest, true),
                    b = product_operand(*product.b, *nest, false);
  const Expr first = ast::first_of(*sums, product.store->index, *nest);
  const auto added = [&](const std::string& old) {
    return dialect_.add_products(*product.store->by, old, a, b, lanes);
  };
  if (const Slices* slices = slices_of(sums)) {
    const std::string& name = slices->at(first.value()).name;
    add(fmt::format("{} = {};", name, added(name)));
  } else {
    const std::string address = fmt::format("{} + {}", pointer(sums), expr(first, Level::Sum));
    const std::string old =
        local(dialect_.type(DType::I32, lanes), dialect_.vector_load(address, DType::I32, lanes));
    add(dialect_.vector_store(address, added(old), DType::I32, lanes, false));
  }
  columns_.clear();
  loads_.erase(sums->id);
}

} // namespace lathe::render
