// The first k elements of each row in sorted order. A few elements are found one after another, more of them
// by the digits of their keys. A long row is cut into blocks before. Blocks are ordered by the element of
// each that sorts first. The first k blocks hold the first k elements of the row: an element of any other
// block has k elements before it, one in each of these blocks.
#include "graph/sorting.hpp"

#include <bit>
#include <limits>

namespace lathe {
using namespace graph;

namespace {

constexpr int64_t kFew = 32;          // elements that are found one after another
constexpr int64_t kShortChoice = 512; // a choice by digits takes some 48 comparisons for each element
constexpr int64_t kLongest = std::numeric_limits<int32_t>::max();

int last_axis(const Tensor& t) { return t.rank() - 1; }
Tensor whole(int64_t value) { return Tensor::full({}, value); }

/// How many elements the blocks of a row have, a power of two that makes the fewest elements to look at:
/// those of the k blocks and the first ones of all. 1: the row is not cut.
int64_t block_size(Expr size, int64_t k) {
  if (!size.is_const() || k < 2 || size.value() < 16 * k) return 1;
  int64_t block = 1;
  while (4 * block * block * k <= size.value()) block *= 2;
  return block;
}

int bits_of(int64_t block) { return std::countr_zero(static_cast<uint64_t>(block)); }

/// The largest of each block.
Tensor first_of_blocks(const Tensor& blocks) {
  return drop_axes(reduce_op(Op::Max, blocks, {last_axis(blocks)}), {last_axis(blocks)});
}

/// Of [..., block, element], the elements of the chosen blocks [..., k], a row each.
Tensor elements_of(const Tensor& blocks, const Tensor& chosen) {
  const int64_t block = blocks.shape().back().value();
  Shape shape = chosen.shape();
  shape.push_back(Expr(block));
  const Tensor picked = blocks.gather(-2, broadcast_to(chosen.unsqueeze(-1), shape));
  shape.pop_back();
  shape.back() = shape.back() * Expr(block);
  return picked.contiguous().reshape(shape);
}

/// The k largest of each row of distinct i64, the largest first.
Tensor largest_one_by_one(const Tensor& row, int64_t k) {
  std::vector<Tensor> found;
  for (int64_t n = 0; n < k; ++n) {
    const Tensor rest = n == 0 ? row : where(row < found.back(), row, lowest(DType::I64));
    found.push_back(reduce_op(Op::Max, rest, {last_axis(row)}).contiguous());
  }
  return concat(found, -1);
}

/// Whether the first k of a row are found one after another: a key and a position share an i64.
bool finds_one_by_one(const Tensor& x, int64_t k) {
  const Expr size = x.shape().back();
  return k > 0 && k <= kFew && 2 * k <= size.lo() && size_of(x.dtype()) <= 4 && size.hi() <= kLongest;
}

Tensor find_one_by_one(const Tensor& x, int64_t k, bool descending) {
  // The largest i64 goes first, so keys are reversed. Of equal ones the earlier goes first.
  const Tensor keys = sort_keys(x, !descending).cast(DType::I64);
  Tensor row = ((keys << whole(32)) | (whole(kLongest) - index_along(last_axis(x), x.shape()))).contiguous();
  const auto position = [](const Tensor& t) { return whole(kLongest) - (t & whole(kLongest)); };
  if (const int64_t block = block_size(x.shape().back(), k); block > 1) {
    const Tensor blocks = in_blocks(row, block, lowest(DType::I64));
    const Tensor firsts = largest_one_by_one(first_of_blocks(blocks).contiguous(), k);
    row = elements_of(blocks, (position(firsts) >> whole(bits_of(block))).contiguous());
  }
  return position(largest_one_by_one(row, k));
}

/// The positions of the first k keys of each row, ascending.
Tensor choose(const Tensor& keys, int64_t k) {
  const int64_t block = block_size(keys.shape().back(), k);
  if (block == 1) return choose_by_digits(keys, k).cast(DType::I64);
  const Tensor blocks = in_blocks(keys, block, lowest(keys.dtype()).bitwise_not());
  const Tensor firsts = first_of_blocks(blocks.bitwise_not()).bitwise_not(); // the least keys
  const Tensor of_blocks = choose_by_digits(firsts.contiguous(), k).cast(DType::I64).contiguous();
  // Chosen blocks and chosen elements have ascending positions, so equal keys keep their order.
  const Tensor of_elements =
      choose_by_digits(elements_of(blocks, of_blocks), k).cast(DType::I64).contiguous();
  const Tensor which = of_elements >> whole(bits_of(block));
  return of_blocks.gather(-1, which) * whole(block) + (of_elements & whole(block - 1));
}

/// The positions of the first k elements of each row in sorted order.
Tensor first_of_rows(const Tensor& x, int64_t k, bool descending) {
  if (finds_one_by_one(x, k)) return find_one_by_one(x, k, descending);
  const Expr size = x.shape().back();
  const bool some = size.is_const() && size.value() > kShortChoice && size.value() <= kLongest &&
                    (sorts_by_digits(size) || 2 * k <= size.value());
  if (!some || sorts_by_digits(k)) return part_of(order_of_rows(x, descending), last_axis(x), 0, k);
  const Tensor chosen = choose(sort_keys(x, descending).contiguous(), k).contiguous();
  return chosen.gather(-1, order_of_rows(x.gather(-1, chosen).contiguous(), descending));
}

} // namespace

std::pair<Tensor, Tensor> Tensor::topk(Whole k, Axis axis, Flag largest) const {
  const int which = sorted_axis("topk", *this, axis);
  const Expr size = shape()[which];
  if (k < 0 || k > size.lo())
    fail(ErrorKind::Value, "topk: {} of axis {} of {}, expected 0 to {}", k, which, to_string(shape()),
         size.lo());
  const Tensor rows = transpose(which, -1), first = first_of_rows(rows, k, largest);
  return {rows.gather(-1, first).transpose(which, -1), first.cast(DType::I64).transpose(which, -1)};
}

} // namespace lathe
