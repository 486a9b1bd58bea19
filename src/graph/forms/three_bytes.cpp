#include "graph/forms/three_bytes.hpp"

#include <algorithm>

#include "graph/repeated.hpp"
#include "graph/value_range.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kMostTerms = 256; // of a block: sums of 127 * 255 are then exact as floats
constexpr int64_t kGroup = 4;       // terms that an instruction adds up in a lane
constexpr int64_t kLeastUses = 64;  // of x: with fewer, cutting x into bytes costs more than it saves
constexpr int kDeepest = 16;        // nodes of the integers, one above the other
constexpr int kBytes = 3;

// The largest integer of 24 bits: its bytes are signed, so 0x7F7F7F is the most. Less, so that roundings stay
// below.
constexpr double kLargest = 0x7F7F00;
constexpr double kLeastMagnitude = 0x1p-100; // of a block: its scale is a normal number
constexpr int64_t kExponent = 0x7F800000;    // bits of an f32

bool fits_byte(const NodeRef& node) {
  const auto range = range_of(node);
  return range && range->lo >= 0 && range->hi <= 255;
}

/// The lowest eight bits of integers as u8, computed in u8. Null where that takes more bits.
NodeRef lowest_byte(const NodeRef& node, int depth = 0) {
  if (node->dtype == DType::U8) return node;
  if (!is_integer(node->dtype) || is_narrow(node->dtype) || depth == kDeepest) return {};
  const auto source = [&](size_t k) { return lowest_byte(node->sources[k], depth + 1); };
  switch (node->op) {
  case Op::Const:
  case Op::Iota: return fits_byte(node) ? cast(node, DType::U8) : NodeRef();
  case Op::View: {
    const NodeRef seen = source(0);
    return seen ? view(seen, std::get<View>(node->attr)) : seen;
  }
  case Op::Cast: return is_integer(node->sources[0]->dtype) ? source(0) : NodeRef();
  case Op::Add:
  case Op::Mul:
  case Op::And:
  case Op::Or:
  case Op::Xor: {
    const NodeRef a = source(0), b = a ? source(1) : a;
    return b ? binary(node->op, a, b) : b;
  }
  case Op::Shl:
  case Op::Shr: {
    if (!fits_byte(node->sources[1]) || (node->op == Op::Shr && !fits_byte(node->sources[0]))) return {};
    const NodeRef a = source(0), by = a ? source(1) : a;
    return by ? binary(node->op, a, by) : by;
  }
  default: return {};
  }
}

/// The integers that the floats are cast from; null if the floats are something else.
NodeRef cast_integers(const NodeRef& floats) {
  if (floats->op == Op::Cast) return is_integer(floats->sources[0]->dtype) ? floats->sources[0] : NodeRef();
  if (floats->op != Op::View || std::get<View>(floats->attr).has_mask()) return {};
  const NodeRef seen = cast_integers(floats->sources[0]);
  return seen ? view(seen, std::get<View>(floats->attr)) : seen;
}

/// Whether x is the same for many elements of the product, along axes that are not summed.
bool is_shared(const NodeRef& x, const std::vector<int>& summed) {
  int64_t uses = 1;
  for (int axis = 0; axis < static_cast<int>(x->shape.size()); ++axis) {
    const Expr size = x->shape[static_cast<size_t>(axis)];
    if (std::find(summed.begin(), summed.end(), axis) == summed.end() && size.is_const() &&
        first_along(x, {axis}))
      uses = std::min(kLeastUses, uses * size.value());
  }
  return uses == kLeastUses;
}

NodeRef number(double value, const NodeRef& like) {
  return constant(Scalar::of_float(like->dtype, value), like->shape);
}
NodeRef integer(int64_t value, const Shape& shape) {
  return constant(Scalar::of_int(DType::I32, value), shape);
}
NodeRef repeated(const NodeRef& node, const Shape& shape) {
  return view(node, View::contiguous(node->shape).expand(shape));
}
Shape with_first(int64_t size, Shape shape) {
  shape.insert(shape.begin(), Expr(size));
  return shape;
}
/// The node with a first axis along which it is the same.
NodeRef with_bytes(const NodeRef& node) {
  return repeated(view(node, View::contiguous(with_first(1, node->shape))), with_first(kBytes, node->shape));
}

/// x at the first place of all axes along which it is the same, but for those that are summed.
NodeRef without_repeats(const BlockOfBytes& block) {
  NodeRef x = block.x;
  for (int axis = 0; axis < static_cast<int>(x->shape.size()); ++axis)
    if (std::find(block.axes.begin(), block.axes.end(), axis) == block.axes.end())
      if (NodeRef first = first_along(x, {axis})) x = first;
  return x;
}

/// The scale of each block: the least power of two by which the block's floats are at most kLargest. So
/// floats of few bits, such as whole numbers, are multiples of it. It is infinite if one of them is infinite
/// or NaN.
NodeRef scale_of(const NodeRef& x, const std::vector<int>& axes) {
  const NodeRef largest = reduce(Op::Max, binary(Op::Max, x, unary(Op::Neg, x)), axes);
  // A half, because the largest float has no double.
  const NodeRef half = binary(Op::Mul, binary(Op::Max, largest, number(kLeastMagnitude, largest)),
                              number(0x1p22 / kLargest, largest));
  const NodeRef power = binary(Op::And, bitcast(half, DType::I32), integer(kExponent, half->shape));
  return binary(Op::Mul, bitcast(power, DType::F32), number(0x1p-21, largest));
}

/// The bytes of x / scale, lowest first, along a new first axis. Each byte is signed, so those below it may
/// carry into it.
NodeRef bytes_of(const NodeRef& x, const NodeRef& scale) {
  // Both are powers of two, so the product is exact.
  const NodeRef inverse = binary(Op::Div, number(1, scale), scale);
  const NodeRef quotient = binary(Op::Mul, x, repeated(inverse, x->shape));
  const NodeRef half = where(binary(Op::CmpLt, quotient, number(0, x)), number(-0.5, x), number(0.5, x));
  const NodeRef whole = with_bytes(cast(binary(Op::Add, quotient, half), DType::I32));
  const Shape& shape = whole->shape;
  const NodeRef shift = binary(Op::Mul, iota(0, DType::I32, shape), integer(8, shape));
  const NodeRef below = binary(Op::Add, binary(Op::Shl, integer(1, shape), shift), integer(-1, shape));
  const NodeRef carry = binary(Op::And, integer(0x8080, shape), below);
  return contiguous(cast(binary(Op::Shr, binary(Op::Add, whole, carry), shift), DType::I8));
}

} // namespace

std::optional<BlockOfBytes> read_block_of_bytes(const NodeRef& sum) {
  if (sum->op != Op::Reduce || sum->dtype != DType::F32) return {};
  const auto& [combine, axes] = std::get<ReduceAttr>(sum->attr);
  const NodeRef& product = sum->sources[0];
  if (combine != Op::Add || product->op != Op::Mul || has_no_elements(product->shape)) return {};
  int64_t terms = 1;
  for (const int axis : axes) {
    const Expr size = product->shape[static_cast<size_t>(axis)];
    if (!size.is_const() || (terms *= size.value()) > kMostTerms) return {};
  }
  if (product->shape[static_cast<size_t>(axes.back())].value() % kGroup != 0) return {};
  for (const size_t k : {0, 1}) {
    const NodeRef factor = cast_integers(product->sources[k]);
    const NodeRef& x = product->sources[1 - k];
    if (!factor || !fits_byte(factor) || !is_shared(x, axes)) continue;
    if (NodeRef integers = lowest_byte(factor)) return BlockOfBytes{x, std::move(integers), axes};
  }
  return {};
}

NodeRef three_bytes(const NodeRef& sum) {
  const auto block = read_block_of_bytes(sum);
  if (!block) return {};
  const NodeRef x = without_repeats(*block);
  const NodeRef scale = scale_of(x, block->axes);
  const Shape all = with_first(kBytes, block->x->shape);
  const NodeRef left = cast(repeated(bytes_of(x, scale), all), DType::I32),
                right = cast(with_bytes(block->integers), DType::I32);
  std::vector<int> axes = block->axes;
  for (int& axis : axes) ++axis;
  const NodeRef sums = reduce(Op::Add, binary(Op::Mul, left, right), axes);
  NodeRef total;
  for (int byte = kBytes - 1; byte >= 0; --byte) { // each exact as a float; the highest byte first
    std::vector<Expr> begin(sums->shape.size(), Expr(0)), end = sums->shape;
    begin[0] = byte;
    end[0] = byte + 1;
    const NodeRef one =
        view(view(sums, View::contiguous(sums->shape).shrink(begin, end)), View::contiguous(sum->shape));
    const NodeRef real = cast(one, DType::F32);
    total = total ? binary(Op::Add, binary(Op::Mul, total, number(256, real)), real) : real;
  }
  return binary(Op::Mul, total, repeated(scale, sum->shape));
}

} // namespace lathe::graph
