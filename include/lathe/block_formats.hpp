// Weights in blocks of few bits: the formats of ggml, which GGUF files hold.
//
// A block is 32 or 256 neighbours in a row: integers of 4 to 8 bits, and the numbers that scale them. The
// bytes are a tensor of u8, in ggml's own layout. dequantise() makes floats of them by an expression, so a
// product unpacks the weights as it reads them: with constant weights, a vector times a matrix reads the
// bytes of the blocks, not those of floats.
//
//   Tensor w = Tensor::from_memory(bytes, count, DType::U8, {rows, row_bytes});   // a GGUF tensor of [rows,
//   columns] Tensor y = x.matmul(dequantise(w, BlockFormat::Q4_K).transpose());            // x: [tokens,
//   columns]
#pragma once
#include <string_view>

#include "lathe/tensor.hpp"

namespace lathe {

/// Q4_0: 32 numbers d * (q - 8). Q4_1: d * q + m. Q5_0, Q5_1: the same with 5 bits (q - 16). Q8_0: 32 numbers
/// d * q of 8 bits. Q4_K and Q5_K: 256 numbers; each 32 have a scale and a minimum of 6 bits, d * scale * q -
/// dmin * minimum. Q6_K: 256 numbers; each 16 have a scale of 8 bits, d * scale * (q - 32). d, m and dmin are
/// f16.
enum class BlockFormat { Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K };

/// "q4_0" ... "q6_k".
const char* to_string(BlockFormat format);
/// The format of that name. Error(Name) for an unknown one.
BlockFormat parse_block_format(std::string_view name);
/// Numbers in a block: 32 or 256.
int64_t block_elements(BlockFormat format);
/// Bytes of a block.
int64_t block_bytes(BlockFormat format);

/// The numbers of a u8 tensor [..., bytes of a row] as f32 [..., columns], computed as ggml does. Leading
/// sizes may hold Vars. Error(DType) unless u8; Error(Shape) unless there is an axis and its size is a static
/// multiple of block_bytes(format).
Tensor dequantise(const Tensor& bytes, BlockFormat format);
/// The inverse for Q4_0 and Q8_0: floats [..., columns] to u8 [..., bytes of a row], rounded as ggml's
/// reference does. Error(Value) for other formats, Error(DType) unless floats, Error(Shape) unless the last
/// axis is a static multiple of 32.
Tensor quantise(const Tensor& x, BlockFormat format);

} // namespace lathe
