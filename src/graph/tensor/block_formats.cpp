// Blocks of quantised weights as expressions. ggml's block_q*_ structs (ggml-common.h) give the layouts, its
// dequantize_row_* and quantize_row_*_ref functions the arithmetic.
#include "lathe/block_formats.hpp"

#include <array>

#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

struct Layout {
  const char* name;
  int64_t elements, bytes;
};
constexpr std::array<Layout, 8> kLayouts{{{"q4_0", 32, 18},
                                          {"q4_1", 32, 20},
                                          {"q5_0", 32, 22},
                                          {"q5_1", 32, 24},
                                          {"q8_0", 32, 34},
                                          {"q4_k", 256, 144},
                                          {"q5_k", 256, 176},
                                          {"q6_k", 256, 210}}};
const Layout& layout_of(BlockFormat format) { return kLayouts[static_cast<size_t>(format)]; }

/// The numbers 0, 1 ... along an axis of these sizes, times `by`: to shift the bits of each by.
Tensor shifts(const Shape& shape, int axis, int64_t by) { return Tensor::iota(shape, axis, DType::I32) * by; }
/// `count` bits of an integer from bit `at` on.
Tensor bits(const Tensor& x, const Tensor& at, int64_t count) {
  return (x >> at) & ((int64_t{1} << count) - 1);
}
Tensor bits(const Tensor& x, int64_t at, int64_t count) { return bits(x, weak(at, x.dtype()), count); }

/// The bytes of blocks, [..., blocks, bytes of a block].
class Blocks {
public:
  explicit Blocks(Tensor bytes) : bytes_(std::move(bytes)) {}

  /// Bytes [begin, end) of each block, as an array of its own: constant weights then lie in memory field by
  /// field, and each product can have the order of reads that it wants.
  Tensor field(int64_t begin, int64_t end) const { return part(begin, end).contiguous(); }
  /// The f16 at a byte of each block as f32 [..., blocks, 1 ...], with so many axes of size 1.
  Tensor half(int64_t at, int axes) const {
    const Tensor low = part(at, at + 1).cast(DType::U16), high = part(at + 1, at + 2).cast(DType::U16);
    Tensor x = (low | (high << weak(8, DType::U16))).bitcast(DType::F16).contiguous().cast(DType::F32);
    for (int k = 1; k < axes; ++k) x = x.unsqueeze(-1);
    return x;
  }
  Tensor part(int64_t begin, int64_t end) const { return bytes_.index({Ellipsis{}, Slice{begin, end}}); }

private:
  Tensor bytes_;
};

/// The last axis as several ones.
Tensor folded(const Tensor& x, const std::vector<int64_t>& sizes) {
  Shape shape = x.shape();
  shape.pop_back();
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  return x.reshape(shape);
}
Tensor as_i32(const Tensor& x, const std::vector<int64_t>& sizes) {
  return folded(x.cast(DType::I32), sizes);
}

// ---- blocks of 32: the low bits of 16 bytes, then the high ones ----

Tensor four_bits(const Blocks& blocks, int64_t at) { // [..., 2, 16]
  return bits(as_i32(blocks.field(at, at + 16), {1, 16}), shifts({2, 1}, 0, 4), 4).cast(DType::F32);
}
Tensor five_bits(const Blocks& blocks,
                 int64_t at) { // [..., 2, 2, 8]: bit j of the first 4 bytes is of number j
  const Tensor low = bits(as_i32(blocks.field(at + 4, at + 20), {1, 2, 8}), shifts({2, 1, 1}, 0, 4), 4);
  const Tensor high = bits(as_i32(blocks.field(at, at + 4), {2, 2, 1}), shifts({8}, 0, 1), 1);
  return (low | (high << weak(4, DType::I32))).cast(DType::F32);
}

// ---- blocks of 256 ----

/// The scales and minima of Q4_K and Q5_K: 8 numbers of 6 bits each in 12 bytes. [..., 4, 2, 1].
struct SixBits {
  Tensor scale, minimum;
};
SixBits six_bits(const Blocks& blocks) {
  const Tensor a = blocks.part(4, 8), b = blocks.part(8, 12), c = blocks.part(12, 16);
  const auto joined = [&](const Tensor& first, const Tensor& low, const Tensor& high) {
    const Tensor last = low | (bits(high, 6, 2) << weak(4, DType::U8));
    return folded(concat({bits(first, 0, 6), last}, -1).contiguous(), {4, 2, 1}).cast(DType::F32);
  };
  return {joined(a, bits(c, 0, 4), a), joined(b, bits(c, 4, 4), b)};
}

Tensor scaled_with_minimum(const Blocks& blocks, const Tensor& codes) {
  const SixBits six = six_bits(blocks);
  return blocks.half(0, 3) * six.scale * codes.cast(DType::F32) - blocks.half(2, 3) * six.minimum;
}

Tensor q4_k(const Blocks& blocks) {
  return scaled_with_minimum(blocks,
                             bits(as_i32(blocks.field(16, 144), {4, 1, 32}), shifts({2, 1}, 0, 4), 4));
}
Tensor q5_k(const Blocks& blocks) {
  const Tensor low = bits(as_i32(blocks.field(48, 176), {4, 1, 32}), shifts({2, 1}, 0, 4), 4);
  const Tensor place = shifts({4, 1, 1}, 0, 2) + shifts({2, 1}, 0, 1);
  const Tensor high = bits(as_i32(blocks.field(16, 48), {1, 1, 32}), place, 1);
  return scaled_with_minimum(blocks, low | (high << weak(4, DType::I32)));
}
Tensor q6_k(const Blocks& blocks) { // numbers in the order [half, high bits of ql, second 32 of ql, 2, 16]
  const Tensor low = bits(as_i32(blocks.field(0, 128), {2, 1, 2, 2, 16}), shifts({2, 1, 1, 1}, 0, 4), 4);
  const Tensor place = shifts({2, 1, 1, 1}, 0, 4) + shifts({2, 1, 1}, 0, 2);
  const Tensor high = bits(as_i32(blocks.field(128, 192), {2, 1, 1, 2, 16}), place, 2);
  const Tensor codes = (low | (high << weak(4, DType::I32))).cast(DType::F32) - 32.f;
  const Tensor scale = folded(blocks.field(192, 208).bitcast(DType::I8), {2, 2, 2, 2, 1}).cast(DType::F32);
  return blocks.half(208, 5) * scale * codes;
}

Tensor numbers(const Blocks& blocks, BlockFormat format) {
  switch (format) {
  case BlockFormat::Q4_0: return (four_bits(blocks, 2) - 8.f) * blocks.half(0, 2);
  case BlockFormat::Q4_1: return four_bits(blocks, 4) * blocks.half(0, 2) + blocks.half(2, 2);
  case BlockFormat::Q5_0: return (five_bits(blocks, 2) - 16.f) * blocks.half(0, 3);
  case BlockFormat::Q5_1: return five_bits(blocks, 4) * blocks.half(0, 3) + blocks.half(2, 3);
  case BlockFormat::Q8_0: return blocks.field(2, 34).bitcast(DType::I8).cast(DType::F32) * blocks.half(0, 1);
  case BlockFormat::Q4_K: return q4_k(blocks);
  case BlockFormat::Q5_K: return q5_k(blocks);
  case BlockFormat::Q6_K: return q6_k(blocks);
  }
  throw InternalError("a block format without numbers");
}

/// The shape with `size` for its last axis, and perhaps one more after that.
Shape with_last(Shape shape, int64_t size, std::optional<int64_t> after = {}) {
  shape.back() = size;
  if (after) shape.push_back(*after);
  return shape;
}

/// The number of blocks along the last axis, of `each` elements.
int64_t count_blocks(std::string_view op, const Tensor& x, int64_t each, BlockFormat format) {
  const bool fits = x.rank() > 0 && x.shape().back().is_const() && x.shape().back().value() % each == 0;
  if (!fits)
    fail(ErrorKind::Shape, "{}: {} as {}, expected a last axis of a multiple of {}", op, text(x),
         to_string(format), each);
  return x.shape().back().value() / each;
}

/// x rounded to the nearest whole number, halves away from zero.
Tensor rounded(const Tensor& x) {
  const Tensor whole = x.trunc();
  return whole + ((x - whole) * 2.f).trunc();
}

Tensor bytes_of_half(const Tensor& x) { // [..., 1] to [..., 2]
  const Tensor code = x.cast(DType::F16).bitcast(DType::U16);
  return concat({bits(code, 0, 8).cast(DType::U8), bits(code, 8, 8).cast(DType::U8)}, -1);
}

/// 1 / x, and 0 for 0.
Tensor inverse(const Tensor& x) { return where(x == 0.f, Tensor::zeros(x.shape()), x.reciprocal()); }

Tensor to_q8_0(const Tensor& x) { // [..., 32] to [..., 34]
  const Tensor scale = x.abs().max({-1}, true) / 127.f;
  const Tensor codes = rounded(x * inverse(scale)).cast(DType::I8).bitcast(DType::U8);
  return concat({bytes_of_half(scale), codes}, -1);
}
Tensor to_q4_0(const Tensor& x) { // [..., 32] to [..., 18]
  // The number of the largest magnitude, with its sign, becomes -8.
  const Tensor scale = x.gather(-1, x.abs().argmax(-1, true)) / -8.f;
  const Tensor codes = minimum((x * inverse(scale) + 8.5f).trunc(), number(15, DType::F32)).cast(DType::U8);
  const Tensor low = codes.index({Ellipsis{}, Slice{0, 16}}), high = codes.index({Ellipsis{}, Slice{16, 32}});
  return concat({bytes_of_half(scale), low | (high << weak(4, DType::U8))}, -1);
}

} // namespace

const char* to_string(BlockFormat format) { return layout_of(format).name; }
int64_t block_elements(BlockFormat format) { return layout_of(format).elements; }
int64_t block_bytes(BlockFormat format) { return layout_of(format).bytes; }

BlockFormat parse_block_format(std::string_view name) {
  std::string known;
  for (size_t k = 0; k < kLayouts.size(); ++k) {
    if (kLayouts[k].name == name) return static_cast<BlockFormat>(k);
    known += (k ? ", " : "") + std::string(kLayouts[k].name);
  }
  fail(ErrorKind::Name, "parse_block_format: '{}' is unknown, expected one of {}", name, known);
}

Tensor dequantise(const Tensor& bytes, BlockFormat format) {
  if (bytes.dtype() != DType::U8)
    fail(ErrorKind::DType, "dequantise: dtype {}, expected u8", to_string(bytes.dtype()));
  const int64_t count = count_blocks("dequantise", bytes, block_bytes(format), format);
  const Shape shape = with_last(bytes.shape(), count * block_elements(format));
  check_shape("dequantise", shape, DType::F32);
  if (count == 0) return Tensor::zeros(shape);
  const Blocks blocks(bytes.reshape(with_last(bytes.shape(), count, block_bytes(format))));
  return numbers(blocks, format).reshape(shape);
}

Tensor quantise(const Tensor& x, BlockFormat format) {
  if (format != BlockFormat::Q4_0 && format != BlockFormat::Q8_0)
    fail(ErrorKind::Value, "quantise: format {}, expected q4_0 or q8_0", to_string(format));
  if (!is_float(x.dtype()) || is_narrow(x.dtype()))
    fail(ErrorKind::DType, "quantise: dtype {}, expected a float", to_string(x.dtype()));
  const int64_t count = count_blocks("quantise", x, block_elements(format), format);
  const Shape shape = with_last(x.shape(), count * block_bytes(format));
  if (count == 0) return Tensor::zeros(shape, DType::U8);
  const Tensor blocks = x.cast(DType::F32).reshape(with_last(x.shape(), count, block_elements(format)));
  return (format == BlockFormat::Q8_0 ? to_q8_0(blocks) : to_q4_0(blocks)).reshape(shape);
}

} // namespace lathe
