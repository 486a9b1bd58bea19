// Weights of 2, 4 or 8 bits, packed into bytes, with a scale and a zero point for each block.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/microsoft/refuse.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/quantise.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

struct Blocks {
  int64_t bits, size;

  double middle() const { return static_cast<double>(int64_t{1} << (bits - 1)); }
  int64_t per_byte() const { return 8 / bits; }
};

Blocks read_blocks(const Call& call, int64_t size) {
  const int64_t bits = call.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8)
    call.fail(ErrorKind::Value, "bits " + std::to_string(bits) + ", expected 2, 4 or 8");
  if (size < 16 || (size & (size - 1)) != 0)
    call.fail(ErrorKind::Value,
              "block_size " + std::to_string(size) + ", expected a power of two of at least 16");
  return {bits, size};
}

/// The numbers in the bytes of the last axis, low bits first.
Tensor unpack(const Tensor& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  // Not a stack of parts: a product with the numbers then unpacks each byte where it reads it.
  const Tensor shifts = Tensor::iota({8 / bits}, 0, DType::I32) * bits;
  const Tensor parts = (bytes.cast(DType::I32).unsqueeze(-1) >> shifts) & ((int64_t{1} << bits) - 1);
  Shape joined = bytes.shape();
  joined.back() = joined.back() * (8 / bits);
  return parts.reshape(joined);
}

/// The zero points that are packed into bytes along the last axis, for `count` blocks.
Tensor unpack_zero_points(const Tensor& bytes, const Blocks& blocks, Expr count) {
  return slices(unpack(bytes, blocks.bits), bytes.rank() - 1, 0, count).tensor().cast(DType::F32);
}

/// Input 4, g_idx, where it is given: which block's scale and zero point each of K columns has. It may go on
/// for the columns that fill up the last block.
std::optional<Tensor> block_of_column(Call& call, int64_t count, int64_t columns) {
  if (!call.has(4)) return std::nullopt;
  std::vector<int64_t> block_of = call.integers(4);
  if (static_cast<int64_t>(block_of.size()) < columns)
    call.fail(ErrorKind::Shape, "g_idx of " + std::to_string(block_of.size()) + " elements, expected " +
                                    std::to_string(columns));
  block_of.resize(static_cast<size_t>(columns));
  for (const int64_t block : block_of)
    if (block < 0 || block >= count)
      call.fail(ErrorKind::Value,
                "g_idx holds " + std::to_string(block) + ", expected blocks below " + std::to_string(count));
  return Tensor::from(block_of);
}

/// [N, K] of f32. Inputs 1 to 3: bytes [N, blocks, bytes of a block], scales and zero points [N, blocks],
/// which some exporters flatten.
Tensor block_quantised_weight(Call& call, const Blocks& blocks, int64_t rows, int64_t columns) {
  const int64_t count = (columns + blocks.size - 1) / blocks.size;
  const Tensor bytes = call.tensor(1), scales = call.tensor(2).reshape({rows, count}).cast(DType::F32);
  if (bytes.dtype() != DType::U8)
    call.fail(ErrorKind::DType, std::string("weights of ") + to_string(bytes.dtype()) + ", expected u8");
  const Tensor packed = bytes.reshape({rows, count, blocks.size / blocks.per_byte()});
  const Tensor all = unpack(packed, blocks.bits).reshape({rows, count * blocks.size});
  const Tensor integers = slices(all, 1, 0, columns).tensor();
  const std::optional<Tensor> block_of = block_of_column(call, count, columns);
  const auto of_columns = [&](const Tensor& parameter) {
    return block_of ? parameter.take(*block_of, 1) : repeat_blocks(parameter, 1, blocks.size, columns);
  };
  Tensor zero = weak(blocks.middle(), DType::F32);
  if (const std::optional<Tensor> given = call.optional_tensor(3)) {
    const bool is_packed = given->dtype() == DType::U8;
    zero = of_columns(is_packed ? unpack_zero_points(given->reshape({rows, -1}), blocks, count)
                                : given->reshape({rows, count}).cast(DType::F32));
  }
  return (integers.cast(DType::F32) - zero) * of_columns(scales);
}

std::vector<Value> matmul_of_few_bits(Call& call) {
  call.ignore("accuracy_level"); // how far ONNX Runtime may round A, which is not rounded here
  const Blocks blocks = read_blocks(call, call.integer("block_size"));
  const int64_t rows = call.integer("N"), columns = call.integer("K");
  if (rows < 1 || columns < 1)
    call.fail(ErrorKind::Value,
              "N " + std::to_string(rows) + " and K " + std::to_string(columns) + ", expected at least 1");
  refuse_attribute(call, "weight_prepacked"); // other layouts are a device's own
  const Tensor weight = block_quantised_weight(call, blocks, rows, columns);
  const std::optional<Tensor> bias = call.optional_tensor(5);
  return {in_single(call.tensor(0), [&](const Tensor& a) {
    const Tensor product = a.matmul(weight.transpose());
    return bias ? product + bias->cast(DType::F32) : product;
  })};
}

/// Elements of 4 bits that are not packed: any two axes will do, and a zero point is 0 if none is given.
std::vector<Value> gather_unpacked(Call& call, int64_t block, int axis, int along) {
  const Tensor data = call.tensor(0), index = call.tensor(1), scales = call.tensor(2);
  if (axis == along)
    call.fail(ErrorKind::Axis, "gather_axis and quantize_axis " + std::to_string(axis) + ", expected two");
  if (scales.rank() != data.rank() || scales.size(along) != ceildiv(data.size(along), block))
    call.fail(ErrorKind::Shape, "scales " + to_string(scales.shape()) + " for data " +
                                    to_string(data.shape()) + ", expected one for each block");
  // What is gathered has the index's axes in place of one.
  const int place = along < axis ? along : along + index.rank() - 1;
  const auto of_blocks = [&](const Tensor& parameter) {
    return repeat_blocks(parameter.take(index, axis).cast(DType::F32), place, block, data.size(along));
  };
  Tensor values = data.take(index, axis).cast(DType::F32);
  if (const std::optional<Tensor> zero = call.optional_tensor(3)) values = values - of_blocks(*zero);
  return {(values * of_blocks(scales)).cast(scales.dtype())};
}

/// Rows of a table are read first, and then only what was read is unpacked.
std::vector<Value> gather_blocks(Call& call) {
  const Blocks blocks = read_blocks(call, call.integer("block_size", 128));
  const Tensor data = call.tensor(0), index = call.tensor(1), scales = call.tensor(2);
  const int axis = normalise_axis(call, call.integer("gather_axis", 0), data.rank());
  const int along = normalise_axis(call, call.integer("quantize_axis", 1), data.rank());
  if (data.dtype() == DType::I4 || data.dtype() == DType::U4)
    return gather_unpacked(call, blocks.size, axis, along);
  if (data.dtype() != DType::U8)
    call.fail(ErrorKind::DType,
              std::string("data of ") + to_string(data.dtype()) + ", expected u8, i4 or u4");
  if (axis != 0 || along != data.rank() - 1 || along == 0)
    call.fail(ErrorKind::Axis, "gather_axis " + std::to_string(axis) + " and quantize_axis " +
                                   std::to_string(along) +
                                   ", expected the first and the last of two or more");
  const Expr columns = data.size(along) * blocks.per_byte();
  if (scales.rank() != data.rank() || scales.size(along) != ceildiv(columns, blocks.size))
    call.fail(ErrorKind::Shape, "scales " + to_string(scales.shape()) + " for data " +
                                    to_string(data.shape()) + ", expected one for each block");
  const Tensor integers = unpack(data.take(index, 0), blocks.bits).cast(DType::F32);
  const int last = integers.rank() - 1;
  const Tensor scale = repeat_blocks(scales.take(index, 0).cast(DType::F32), last, blocks.size, columns);
  Tensor zero = weak(blocks.middle(), DType::F32);
  if (const std::optional<Tensor> given = call.optional_tensor(3))
    zero = repeat_blocks(unpack_zero_points(given->take(index, 0), blocks, scales.size(along)), last,
                         blocks.size, columns);
  return {((integers - zero) * scale).cast(scales.dtype())};
}

const OpRow kMicrosoftBlockQuantisedOps[] = {
    {"MatMulNBits", 1, matmul_of_few_bits, kMicrosoft, 6},
    {"GatherBlockQuantized", 1, gather_blocks, kMicrosoft, 4},
};

} // namespace

OpTable microsoft_block_quantised_ops() { return kMicrosoftBlockQuantisedOps; }

} // namespace lathe::onnx
