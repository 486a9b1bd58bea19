// Formats, dtypes and shapes of the oracle.
#include "net/array.hpp"

#include <algorithm>

namespace lathe::net {

Format format_of(DType dtype) {
  switch (dtype) {
  case DType::F16: return {11, -14, 15};
  case DType::BF16: return {8, -126, 127};
  case DType::F32: return {24, -126, 127};
  default: return {53, -1022, 1023};
  }
}

Real largest(DType dtype) {
  const Format f = format_of(dtype);
  return std::ldexp(Real{2} - std::ldexp(Real{1}, 1 - f.digits), f.most);
}

Real half_ulp(DType dtype, Real value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const Format f = format_of(dtype);
  return std::ldexp(Real{1}, std::max(std::ilogb(value), f.least) - f.digits);
}

Real round_to(DType dtype, Real value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const Real ulp = 2 * half_ulp(dtype, value);
  const Real r = std::nearbyint(value / ulp) * ulp;
  return std::fabs(r) > largest(dtype) ? std::copysign(kInfinity, value) : r;
}

Cell rounded(DType dtype, Cell c) {
  if (!c.decided()) return c;
  if (!std::isfinite(c.v)) return c.exact() ? c : undecided();
  const Real size = std::fabs(c.v), most = largest(dtype);
  if (size - c.e > 2 * most) return {std::copysign(kInfinity, c.v), kSignless};
  // A product that overflows may be added to before it is rounded; nothing is said of what lies near the
  // edge.
  if (size + c.e > most) return undecided();
  if (c.exact() && round_to(dtype, c.v) == c.v) return {c.v, c.v == 0 ? kSignless : 0};
  return {c.v, c.e + half_ulp(dtype, size + c.e) + size * 0x1p-62L};
}

Cell loosened(DType dtype, Cell c, Real ulps) {
  if (!c.decided() || !std::isfinite(c.v) || ulps == 0) return c;
  c.e += ulps * 2 * half_ulp(dtype, std::fabs(c.v) + c.e);
  return c;
}

int dtype_bits(DType dtype) { return dtype == DType::Bool ? 1 : 8 * size_of(dtype); }

Cell wrapped(DType dtype, Wide value) {
  const int bits = dtype_bits(dtype);
  const Wide range = Wide{1} << bits;
  Wide r = value % range;
  if (r < 0) r += range;
  if (is_signed(dtype) && r >= range / 2) r -= range;
  return {static_cast<Real>(r), 0};
}

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (is_float(a) && is_float(b)) {
    if (is_half(a) && is_half(b)) return DType::F32;
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_float(a) || is_float(b)) {
    const DType real = is_float(a) ? a : b, whole = is_float(a) ? b : a;
    if (size_of(whole) == 1) return real;
    if (size_of(whole) == 2) return is_half(real) ? DType::F32 : real;
    return DType::F64;
  }
  if (is_signed(a) == is_signed(b)) return size_of(a) > size_of(b) ? a : b;
  const DType s = is_signed(a) ? a : b, u = is_signed(a) ? b : a;
  if (size_of(u) < size_of(s)) return s;
  switch (size_of(u)) {
  case 1: return DType::I16;
  case 2: return DType::I32;
  case 4: return DType::I64;
  default: return DType::F64;
  }
}

DType real_dtype(DType dtype) {
  if (is_float(dtype)) return dtype;
  return size_of(dtype) <= 2 ? DType::F32 : DType::F64;
}

DType sum_dtype(DType dtype) {
  if (is_float(dtype)) return dtype;
  return is_unsigned(dtype) ? DType::U64 : DType::I64;
}

Cell cast_cell(DType to, DType from, Cell c) {
  if (to == from || !c.decided()) return c;
  if (to == DType::Bool) {
    if (std::isnan(c.v)) return truth(true);
    if (!c.exact() && std::fabs(c.v) <= c.e) return undecided();
    return truth(c.v != 0);
  }
  if (is_float(to)) {
    if (is_float(from) && size_of(to) > size_of(from)) return c;
    if (!c.exact()) return rounded(to, c);
    const Real r = round_to(to, c.v);
    return {r, r == 0 ? c.e : 0};
  }
  if (!is_float(from)) return wrapped(to, static_cast<Wide>(c.v));
  if (std::isnan(c.v)) return {0, 0};
  const Real low = std::trunc(c.v - c.e), high = std::trunc(c.v + c.e);
  if (low != high) return undecided();
  const Real least = is_signed(to) ? -std::ldexp(Real{1}, dtype_bits(to) - 1) : 0;
  const Real most = std::ldexp(Real{1}, dtype_bits(to) - (is_signed(to) ? 1 : 0)) - 1;
  return {std::clamp(low, least, most) + Real{0}, 0};
}

Array cast_array(DType to, const Array& a) {
  return mapped(a, to, [&](Cell c) { return cast_cell(to, a.dtype, c); });
}

int64_t count_of(const Sizes& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

Sizes broadcast(const Sizes& a, const Sizes& b) {
  Sizes out(std::max(a.size(), b.size()), 1);
  for (const Sizes* s : {&a, &b})
    for (size_t i = 0; i < s->size(); ++i) {
      int64_t& o = out[out.size() - s->size() + i];
      require((*s)[i] == o || (*s)[i] == 1 || o == 1, "broadcast");
      if (o == 1) o = (*s)[i];
    }
  return out;
}

int axis_of(int64_t axis, size_t rank) {
  const auto r = static_cast<int64_t>(rank);
  require(axis >= -r && axis < r, "axis");
  return static_cast<int>(axis < 0 ? axis + r : axis);
}

int64_t flat_of(const Sizes& shape, const Sizes& index) {
  int64_t k = 0;
  for (size_t i = 0; i < shape.size(); ++i) k = k * shape[i] + index[i];
  return k;
}

Array moved(const Array& a, const Sizes& shape, const std::function<int64_t(const Sizes&)>& from, Cell fill) {
  Array out{a.dtype, shape, {}};
  out.at.reserve(static_cast<size_t>(count_of(shape)));
  for_each_index(shape, [&](const Sizes& index) {
    const int64_t k = from(index);
    out.at.push_back(k < 0 ? fill : a.at[static_cast<size_t>(k)]);
  });
  return out;
}

Array broadcast_array(const Array& a, const Sizes& shape) {
  if (a.shape == shape) return a;
  const size_t extra = shape.size() - a.shape.size();
  Sizes own(a.shape.size());
  return moved(a, shape, [&](const Sizes& index) {
    for (size_t i = 0; i < own.size(); ++i) own[i] = a.shape[i] == 1 ? 0 : index[extra + i];
    return flat_of(a.shape, own);
  });
}

Array mapped(const Array& a, DType dtype, const std::function<Cell(Cell)>& f) {
  Array out{dtype, a.shape, {}};
  out.at.reserve(a.at.size());
  for (Cell c : a.at) out.at.push_back(c.decided() ? f(c) : c);
  return out;
}

} // namespace lathe::net
