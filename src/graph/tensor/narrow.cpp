// Tensors of narrow dtypes: their memory, their codes, and casts composed of integer ops.
#include "graph/narrow.hpp"

#include <bit>

#include "core/narrow.hpp"

namespace lathe::graph {
namespace {

int per_byte(DType narrow) { return 8 / bits_of(narrow); }

Tensor as_bits(const Tensor& x) { return wrap(bitcast(node_of(x), DType::I32)); }
Tensor as_float(const Tensor& bits) { return wrap(bitcast(node_of(bits), DType::F32)); }
Tensor like(const Tensor& x, int64_t value) { return Tensor::full({}, Scalar::of_int(x.dtype(), value)); }
Tensor masked(const Tensor& x, int64_t mask) { return x & like(x, mask); }
Tensor raised(const Tensor& x, int64_t by) { return x << like(x, by); }
Tensor lowered(const Tensor& x, int64_t by) { return x >> like(x, by); }
Tensor power_of_two(int exponent) {
  return Tensor::full({}, Scalar::of_float(DType::F32, std::ldexp(1.0, exponent)));
}

constexpr int kMantissa = 23, kBias = 127, kInfinityBits = 0x7F800000, kMagnitude = 0x7FFFFFFF; // of f32

// ---- from codes ----

/// The f32 number of each code; all arithmetic is on the bits of f32, in i32.
Tensor decoded(const NarrowFloat& f, const Tensor& codes) {
  const Tensor code = codes.cast(DType::I32), magnitude = masked(code, f.sign() - 1);
  const int shift = kMantissa - f.mantissa_bits;
  const Tensor normal = raised(magnitude, shift) + like(code, int64_t{kBias - f.bias} << kMantissa);
  // Below the smallest exponent a code counts multiples of the last place.
  const Tensor small = magnitude.cast(DType::F32) * power_of_two(1 - f.bias - f.mantissa_bits);
  Tensor bits = where(magnitude < like(code, 1 << f.mantissa_bits), as_bits(small), normal);
  if (f.specials == NarrowFloat::Specials::Ieee)
    bits = where(like(code, f.largest()) < magnitude, raised(magnitude, shift) | like(code, kInfinityBits),
                 bits);
  if (f.specials == NarrowFloat::Specials::LastIsNan)
    bits = where(magnitude == like(code, f.nan()), like(code, kMagnitude), bits);
  if (f.specials == NarrowFloat::Specials::MinusZeroIsNan)
    bits = where(code == like(code, f.nan()), like(code, kMagnitude), bits);
  return as_float(bits | raised(masked(code, f.sign()), 32 - f.bits()));
}

Tensor decoded_scale(const Tensor& codes) {
  const Tensor code = codes.cast(DType::I32);
  // Code 0 is 2^-127, which f32 holds without an implicit one.
  const Tensor bits = where(code == like(code, 0), like(code, 1 << (kMantissa - 1)), raised(code, kMantissa));
  return as_float(where(code == like(code, kScaleNan), like(code, kMagnitude), bits));
}

/// The numbers of narrow integers as I8 or U8.
Tensor integers(DType narrow, const Tensor& codes) {
  if (is_unsigned(narrow)) return codes;
  const int64_t sign = int64_t{1} << (bits_of(narrow) - 1);
  const Tensor moved = (codes ^ like(codes, sign)).bitcast(DType::I8);
  return moved - like(moved, sign);
}

Tensor read(const Tensor& x) {
  if (is_integer(x.dtype())) return integers(x.dtype(), codes_of(x));
  if (x.dtype() == DType::F8E8M0) return decoded_scale(codes_of(x));
  return decoded(narrow_float(x.dtype()), codes_of(x));
}

// ---- to codes ----

/// x as f32; if no f32 equals x, the one of its two neighbours whose significand is odd. Rounding that to
/// fewer bits gives the same as rounding x itself.
Tensor to_odd(const Tensor& x) {
  const Tensor near = x.cast(DType::F32), back = near.cast(DType::F64), bits = as_bits(near);
  const Tensor zero = Tensor::zeros({}, DType::F64), limit = number(0x1p128, DType::F64);
  const Tensor too_far = where(x < zero, back < x, x < back);
  const Tensor holds = (-limit < x) & (x < limit); // not NaN or beyond all f32: these stay
  const Tensor kept = (back == x) | holds.logical_not() | (masked(bits, 1) == like(bits, 1));
  return as_float(where(kept, bits, bits + where(too_far, like(bits, -1), like(bits, 1))));
}

/// As f64, where a bit below the last of f64's stands for all those that are lost.
Tensor to_odd_f64(const Tensor& x) {
  constexpr int64_t kLow = 0xFFF; // f64 holds numbers of 64 bits with these 0
  const Tensor high = masked(x, ~kLow), low = masked(x, kLow);
  const Tensor odd = where(low == like(x, 0), high, high | like(x, (kLow + 1) / 2));
  const Tensor limit = like(x, int64_t{1} << 53);
  Tensor fits = x < limit;
  if (is_signed(x.dtype())) fits = fits & (like(x, -(int64_t{1} << 53)) < x);
  return where(fits, x, odd).cast(DType::F64);
}

/// x as an f32 that rounds to a narrow float as x does.
Tensor as_f32(const Tensor& x) {
  switch (x.dtype()) {
  case DType::F64: return to_odd(x);
  case DType::I32:
  case DType::U32: return to_odd(x.cast(DType::F64));
  case DType::I64:
  case DType::U64: return to_odd(to_odd_f64(x));
  default: return x.cast(DType::F32); // exact
  }
}

Tensor encoded(const NarrowFloat& f, const Tensor& x, bool saturates) {
  const Tensor bits = as_bits(x), magnitude = masked(bits, kMagnitude);
  const int shift = kMantissa - f.mantissa_bits;
  // Half of the last place, less one where the kept bits are even, carries into them where x is nearer to the
  // next.
  const Tensor rounded =
      magnitude + like(bits, (1 << (shift - 1)) - 1) + masked(lowered(magnitude, shift), 1);
  const Tensor normal = lowered(rounded, shift) - like(bits, int64_t{kBias - f.bias} << f.mantissa_bits);
  // Beside this number the last place of f32 is that of the smallest codes, so that the sum rounds x to it.
  const int beside = kMantissa + 1 - f.bias - f.mantissa_bits;
  const Tensor small =
      as_bits(as_float(magnitude) + power_of_two(beside)) - like(bits, int64_t{beside + kBias} << kMantissa);
  Tensor code = where(magnitude < like(bits, int64_t{kBias + 1 - f.bias} << kMantissa), small, normal);
  const bool clamps = saturates || f.specials == NarrowFloat::Specials::None;
  code = where(like(bits, f.largest()) < code, like(bits, clamps ? f.largest() : f.beyond()), code);
  const Tensor is_nan = like(bits, kInfinityBits) < magnitude;
  if (f.specials != NarrowFloat::Specials::None) code = where(is_nan, like(bits, f.nan()), code);
  Tensor with_sign = code | masked(lowered(bits, 32 - f.bits()), f.sign());
  if (f.specials == NarrowFloat::Specials::None) with_sign = where(is_nan, like(bits, 0), with_sign);
  if (f.specials == NarrowFloat::Specials::MinusZeroIsNan)
    with_sign = where(code == like(bits, 0), code, with_sign);
  return with_sign.cast(DType::U8);
}

Tensor encoded_scale(const Tensor& x, NarrowCast how) {
  using Rounding = NarrowCast::Rounding;
  constexpr int kHalf = 1 << (kMantissa - 1), kOne = 1 << kMantissa; // bits of 2^-127 and of 2^-126
  const Tensor bits = as_bits(x), magnitude = masked(bits, kMagnitude);
  const int carry = how.rounding == Rounding::Up ? kOne - 1 : how.rounding == Rounding::Nearest ? kHalf : 0;
  Tensor code = lowered(magnitude + like(bits, carry), kMantissa);
  // Below 2^-126 the bits of f32 are a multiple of 2^-149 and no longer an exponent and a fraction.
  const int last = how.rounding == Rounding::Up        ? kHalf
                   : how.rounding == Rounding::Nearest ? kHalf + kHalf / 2 - 1
                                                       : kOne - 1;
  const int first = how.rounding == Rounding::Up        ? kHalf / 2 + 1
                    : how.rounding == Rounding::Nearest ? kHalf - kHalf / 4
                                                        : kHalf;
  const Tensor tiny = where(like(bits, last) < magnitude, like(bits, 1), like(bits, 0));
  code = where(magnitude < like(bits, kOne), tiny, code);
  const Tensor nan = like(bits, kScaleNan), most = how.saturates ? like(bits, kScaleNan - 1) : nan;
  code = where(like(bits, kScaleNan - 1) < code, most, code);
  if (!how.saturates) code = where(magnitude < like(bits, first), nan, code);
  const Tensor negative = (bits < like(bits, 0)) & (like(bits, 0) < magnitude);
  return where(negative | (like(bits, kInfinityBits) < magnitude), nan, code).cast(DType::U8);
}

Tensor codes_from(const Tensor& x, DType to, NarrowCast how) {
  if (is_integer(to)) {
    const Tensor whole = is_float(x.dtype()) ? x.cast(DType::I32) : x;
    return masked(whole.dtype() == DType::I8 ? whole.bitcast(DType::U8) : whole.cast(DType::U8),
                  (1 << bits_of(to)) - 1);
  }
  if (to == DType::F8E8M0) return encoded_scale(as_f32(x), how);
  return encoded(narrow_float(to), as_f32(x), how.saturates);
}

} // namespace

// ---- memory ----

Shape packed_shape(DType narrow, const Shape& shape) {
  const int per = per_byte(narrow);
  if (per == 1) return shape;
  if (shape.empty() || !mod(shape.back(), per).is_const(0)) return {ceildiv(num_elements(shape), per)};
  Shape bytes = shape;
  bytes.back() = floordiv(shape.back(), per);
  return bytes;
}

Tensor packed(DType narrow, const Tensor& codes) {
  const int per = per_byte(narrow), bits = bits_of(narrow);
  if (per == 1) return codes;
  const Shape bytes = packed_shape(narrow, codes.shape());
  Shape apart = bytes;
  apart.push_back(per);
  Tensor x = codes;
  if (const Expr room = num_elements(bytes) * per, count = num_elements(codes.shape()); room != count)
    x = pad_zero(view_op(x, View::contiguous({count})), {Expr(0)}, {room - count});
  x = view_op(x, View::contiguous(apart));
  const int last = static_cast<int>(bytes.size());
  const auto part = [&](int k) { return drop_axes(part_of(x, last, k, k + 1), {last}); };
  Tensor all = part(0);
  for (int k = 1; k < per; ++k) all = all | raised(part(k), k * bits);
  return all;
}

Tensor unpacked(DType narrow, const Tensor& bytes, const Shape& shape) {
  const int per = per_byte(narrow), bits = bits_of(narrow);
  if (per == 1) return bytes;
  Shape apart = bytes.shape();
  apart.push_back(1);
  const Tensor byte = view_op(bytes, View::contiguous(apart));
  apart.back() = per;
  const int last = bytes.rank();
  const Tensor place = index_along(last, apart, DType::I32);
  // Shifts by constants: vectors of bytes have none by a number for each lane.
  Tensor codes = lowered(byte, 8 - bits);
  for (int k = per - 1; k-- > 0;)
    codes = where(place == like(place, k), masked(lowered(byte, k * bits), (1 << bits) - 1), codes);
  const Expr room = num_elements(apart), count = num_elements(shape);
  if (room != count) codes = shrink_to(view_op(codes, View::contiguous({room})), {Expr(0)}, {count});
  return view_op(codes, View::contiguous(shape));
}

// ---- tensors ----

Tensor codes_of(const Tensor& narrow) { return wrap(detail::impl(narrow)->codes()); }

Tensor of_codes(DType narrow, const Tensor& codes) {
  const NodeRef node = node_of(codes);
  return detail::Access::make<Tensor>(
      std::make_shared<Tensor::Impl>(narrow, codes.shape(), per_byte(narrow) == 1 ? node : NodeRef{}, node));
}

Tensor on_codes(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  return is_narrow(x.dtype()) ? of_codes(x.dtype(), f(codes_of(x))) : f(x);
}

NodeRef held_node(const Tensor& t) { return detail::impl(t)->node(); }

std::optional<Declared> declared_of(const Tensor& t) {
  if (!is_narrow(t.dtype())) return {};
  return Declared{t.dtype(), t.shape()};
}

Tensor of_held(NodeRef node, const std::optional<Declared>& declared) {
  if (!declared) return wrap(std::move(node));
  const NodeRef codes = node_of(unpacked(declared->dtype, wrap(node), declared->shape));
  return detail::Access::make<Tensor>(
      std::make_shared<Tensor::Impl>(declared->dtype, declared->shape, std::move(node), codes));
}

Tensor of_data(StorageRef data, DType dtype, const Shape& shape) {
  if (!is_narrow(dtype)) return wrap(realised(std::move(data), dtype, shape));
  return of_held(realised(std::move(data), DType::U8, packed_shape(dtype, shape)), Declared{dtype, shape});
}

// ---- casts ----

DType read_as(DType narrow) {
  return is_float(narrow) ? DType::F32 : is_signed(narrow) ? DType::I8 : DType::U8;
}

Tensor narrow_cast(const Tensor& x, DType to, NarrowCast how) {
  const Tensor number = is_narrow(x.dtype()) ? read(x) : x;
  return is_narrow(to) ? of_codes(to, codes_from(number, to, how)) : number.cast(to);
}

} // namespace lathe::graph
