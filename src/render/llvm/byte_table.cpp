#include "render/llvm/byte_table.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace lathe::render {
namespace {

using llvm::IRBuilderBase;
using llvm::Value;

constexpr int kPermuted = 128, kShuffled = 16; // bytes of a table that an instruction looks up in
constexpr int kHalf = 128;                     // of a table

int lanes_of(const Value* vector) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements());
}

llvm::Constant* bytes_of(IRBuilderBase& b, int value, int lanes) {
  return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)),
                                        b.getInt8(static_cast<uint8_t>(value)));
}

/// `count` lanes from lane `first` on. Those past the end are undefined.
Value* lanes_from(IRBuilderBase& b, Value* vector, int first, int count) {
  const int lanes = lanes_of(vector);
  if (first == 0 && count == lanes) return vector;
  std::vector<int> mask(static_cast<size_t>(count), -1);
  for (int i = 0; i < std::min(count, lanes - first); ++i) mask[static_cast<size_t>(i)] = first + i;
  return b.CreateShuffleVector(vector, mask);
}

/// AVX-512 VBMI permutes the bytes of two registers by the low 7 bits of each place.
Value* permute(IRBuilderBase& b, std::span<Value* const> quarters, Value* places) {
  const auto half = [&](Value* below, Value* above) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {}, {below, places, above});
  };
  Value* low = half(quarters[0], quarters[1]);
  Value* high = half(quarters[2], quarters[3]);
  Value* is_high = b.CreateICmpSLT(places, llvm::Constant::getNullValue(places->getType())); // from 128 on
  return b.CreateSelect(is_high, high, low);
}

/// SSSE3 shuffles the 16 bytes of a part by the low 4 bits of each place, and gives 0 where the place is
/// negative. Part k counts for all places of its half from 16 k on, so it holds what differs from the part
/// before.
Value* shuffle(IRBuilderBase& b, std::span<Value* const> parts, Value* places) {
  const int lanes = lanes_of(places);
  const auto id = lanes == 16   ? llvm::Intrinsic::x86_ssse3_pshuf_b_128
                  : lanes == 32 ? llvm::Intrinsic::x86_avx2_pshuf_b
                                : llvm::Intrinsic::x86_avx512_pshuf_b_512;
  Value* found = nullptr;
  Value* left = places; // less what the parts before have covered; negative where this part does not count
  for (size_t k = 0; k < parts.size(); ++k) {
    if (k == kHalf / kShuffled)
      left = b.CreateXor(places, bytes_of(b, kHalf, lanes));
    else if (k > 0)
      left = b.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, left, bytes_of(b, kShuffled, lanes));
    Value* bytes = b.CreateIntrinsic(id, {}, {parts[k], left});
    found = found ? b.CreateXor(found, bytes) : bytes;
  }
  return found;
}

} // namespace

ByteTable byte_table_for(const LlvmTarget& target, int lanes) {
  constexpr int kQuarter = 64;
  if (target.byte_table == kPermuted && lanes <= kQuarter) return {4, kQuarter, kQuarter};
  // Of fewer lanes, one by one costs less.
  if (target.byte_table == 0 || lanes < kShuffled) return {};
  const int wide = static_cast<int>(std::bit_ceil(static_cast<unsigned>(lanes)));
  return {2 * kHalf / kShuffled, kShuffled, std::min(wide, target.vector_bytes)};
}

Value* part_of(IRBuilderBase& b, const ByteTable& table, std::span<Value* const> bytes, int k) {
  const auto place = static_cast<size_t>(k);
  Value* part = bytes[place];
  if (table.part_bytes != kShuffled) return part;
  if (k % (kHalf / kShuffled) != 0) part = b.CreateXor(part, bytes[place - 1]);
  std::vector<int> repeated(static_cast<size_t>(table.lanes));
  for (size_t i = 0; i < repeated.size(); ++i) repeated[i] = static_cast<int>(i) % kShuffled;
  return b.CreateShuffleVector(part, repeated);
}

Value* look_up_bytes(IRBuilderBase& b, const ByteTable& table, std::span<Value* const> parts, Value* places) {
  const int lanes = lanes_of(places);
  std::vector<Value*> found;
  for (int first = 0; first < lanes; first += table.lanes) {
    Value* some = lanes_from(b, places, first, table.lanes);
    found.push_back(table.part_bytes == kShuffled ? shuffle(b, parts, some) : permute(b, parts, some));
  }
  return lanes_from(b, llvm::concatenateVectors(b, found), 0, lanes);
}

} // namespace lathe::render
