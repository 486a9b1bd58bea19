// Each element gets an integer, its key; keys have the order of the elements. A row is sorted by the keys'
// digits of two bits, the lowest first. A pass moves each element behind the elements of lower digits and
// behind the earlier ones of its own digit, so that the order of earlier passes stays. A pass is one scan,
// which counts three digits at once, and two scatters. The chosen elements of a row are those whose keys are
// not above a threshold. The digits of the threshold are found from the highest on, each by one count of the
// row.
#include "graph/sorting.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kShortRow = 4096; // n^2 comparisons are as fast: docs/decisions/sorting-by-digits.md
constexpr int kCounterBits = 21;    // three counters in an i64
constexpr int64_t kMostCounted = int64_t{1} << kCounterBits; // elements of a row whose digits have two bits
constexpr int64_t kLongestRow = (int64_t{1} << 31) - 1;

DType unsigned_dtype(DType dtype) {
  switch (size_of(dtype)) {
  case 1: return DType::U8;
  case 2: return DType::U16;
  case 4: return DType::U32;
  default: return DType::U64;
  }
}
DType signed_dtype(DType dtype) {
  switch (size_of(dtype)) {
  case 1: return DType::I8;
  case 2: return DType::I16;
  case 4: return DType::I32;
  default: return DType::I64;
  }
}
int bits_of(const Tensor& keys) { return 8 * size_of(keys.dtype()); }
Tensor number_like(const Tensor& t, int64_t value) {
  return Tensor::full({}, Scalar::of_int(t.dtype(), value));
}
Tensor sign_bit(DType dtype) {
  return Tensor::full({},
                      Scalar::of_int(dtype, static_cast<int64_t>(uint64_t{1} << (8 * size_of(dtype) - 1))));
}

/// The keys as unsigned numbers of the same order, whose digits say it.
Tensor digits_of(const Tensor& x, bool descending) {
  const Tensor keys = sort_keys(x, descending);
  return (keys ^ sign_bit(keys.dtype())).bitcast(unsigned_dtype(keys.dtype()));
}

int last_axis(const Tensor& t) { return t.rank() - 1; }
Tensor last_of_rows(const Tensor& t) {
  const Expr size = t.shape().back();
  return part_of(t, last_axis(t), size - 1, size);
}

/// Where a pass puts each element of its row: behind the elements of lower digits, and the earlier ones of
/// its own. Digits of two bits, whose counts share an i64; the count of the last digit is what is left.
Tensor places_by_two_bits(const Tensor& digit) {
  const auto whole = [](int64_t value) { return Tensor::full({}, value); };
  const auto is = [&](int64_t value) { return digit == number_like(digit, value); };
  const Tensor one = where(is(0), whole(1),
                           where(is(1), whole(int64_t{1} << kCounterBits),
                                 where(is(2), whole(int64_t{1} << 2 * kCounterBits), whole(0))));
  const Tensor counts = running(Op::Add, one, last_axis(one)).contiguous(), totals = last_of_rows(counts);
  const auto counter = [&](const Tensor& packed, int64_t which) {
    return (packed >> whole(which * kCounterBits)) & whole(kMostCounted - 1);
  };
  const Tensor c0 = counter(counts, 0), c1 = counter(counts, 1), c2 = counter(counts, 2);
  const Tensor before1 = counter(totals, 0), before2 = before1 + counter(totals, 1),
               before3 = before2 + counter(totals, 2);
  const Tensor earlier3 = index_along(last_axis(digit), digit.shape()) - c0 - c1 - c2;
  const Tensor upper = where(is(2), before2 + c2 - whole(1), before3 + earlier3);
  return where(is(0), c0 - whole(1), where(is(1), before1 + c1 - whole(1), upper)).cast(DType::I32);
}

/// The same for digits of one bit.
Tensor places_by_one_bit(const Tensor& digit) {
  const Tensor is_zero = digit == number_like(digit, 0);
  const Tensor zeros = running(Op::Add, is_zero.cast(DType::I32), last_axis(digit)).contiguous();
  const Tensor i = index_along(last_axis(digit), digit.shape(), DType::I32);
  return where(is_zero, zeros - number_like(zeros, 1), last_of_rows(zeros) + i - zeros);
}

/// Each row's values at their places.
Tensor put(const Tensor& values, const Tensor& places) {
  return Tensor::zeros(values.shape(), values.dtype()).scatter(-1, places, values);
}

} // namespace

Tensor sort_keys(const Tensor& x, bool descending) {
  const DType key = signed_dtype(x.dtype());
  Tensor keys = x;
  if (is_float(x.dtype())) {
    const Tensor zero = number(0, x.dtype());
    const Tensor bits = where(x == zero, zero, x).bitcast(key); // -0 equals 0
    // Of negative numbers, larger bits are less.
    keys = where(bits < number_like(bits, 0), bits.bitwise_not() ^ sign_bit(key), bits);
    keys = where(x.isnan(), sign_bit(key).bitwise_not(), keys);
  } else if (x.dtype() == DType::Bool) {
    keys = x.cast(key);
  } else if (is_unsigned(x.dtype())) {
    keys = x.bitcast(key) ^ sign_bit(key);
  }
  return descending ? keys.bitwise_not() : keys;
}

bool sorts_by_digits(Expr size) {
  return size.is_const() && size.value() > kShortRow && size.value() <= kLongestRow;
}

Tensor order_by_digits(const Tensor& x, bool descending) {
  Tensor keys = digits_of(x, descending).contiguous(),
         order = index_along(last_axis(x), x.shape(), DType::I32);
  const int bits = x.shape().back().value() < kMostCounted ? 2 : 1;
  const int digits = bits_of(keys) / bits;
  for (int k = 0; k < digits; ++k) {
    const Tensor digit = keys & number_like(keys, (int64_t{1} << bits) - 1);
    const Tensor places = (bits == 2 ? places_by_two_bits(digit) : places_by_one_bit(digit)).contiguous();
    order = put(order, places);
    if (k + 1 < digits) keys = put(keys >> number_like(keys, bits), places);
  }
  return order;
}

Tensor choose_by_digits(const Tensor& keys, int64_t k) {
  // The smallest k keys are those of which fewer than k are below. Compared as signed integers, which more
  // machines compare in vectors.
  const DType digits = unsigned_dtype(keys.dtype());
  const int row = last_axis(keys), bits = bits_of(keys);
  const auto as_key = [&](const Tensor& t) { return t.bitcast(keys.dtype()) ^ sign_bit(keys.dtype()); };
  const Tensor rows = keys.unsqueeze(-2);        // [..., 1, n]
  const auto fewer = [&](const Tensor& bounds) { // [..., bound, 1]: whether fewer than k are below
    const Tensor below = (rows < as_key(bounds)).cast(DType::I32);
    return reduce_op(Op::Add, below, {row + 1}) < Tensor::full({}, static_cast<int32_t>(k));
  };
  Shape one_each = keys.shape();
  one_each.back() = 1;
  one_each.push_back(Expr(1));
  // The largest bound with fewer than k keys below it is the k-th smallest key.
  Tensor bound = Tensor::zeros(one_each, digits), step;
  for (int low = bits - 2; low >= 0; low -= 2) {
    step = low == bits - 2 ? broadcast_to(number_like(bound, int64_t{1} << low), one_each).contiguous()
                           : (step >> number_like(step, 2)).contiguous();
    Shape three = one_each;
    three[static_cast<size_t>(row)] = 3;
    const Tensor bounds = bound + step * (index_along(row, three, digits) + number_like(bound, 1));
    const Tensor steps = reduce_op(Op::Add, fewer(bounds).cast(digits), {row});
    bound = (bound + step * steps).contiguous();
  }
  const Tensor threshold = as_key(drop_axes(bound, {row + 1})); // [..., 1]
  const Tensor below = keys < threshold, equal = keys == threshold;
  const Tensor room =
      Tensor::full({}, static_cast<int32_t>(k)) - reduce_op(Op::Add, below.cast(DType::I32), {row});
  const Tensor nth_equal = running(Op::Add, equal.cast(DType::I32), row);
  const Tensor chosen = logical_or(below, logical_and(equal, nth_equal <= room)).contiguous();
  const Tensor places = running(Op::Add, chosen.cast(DType::I32), row) - Tensor::full({}, int32_t{1});
  Shape result = keys.shape();
  result.back() = k;
  const Tensor nowhere = Tensor::full({}, static_cast<int32_t>(k));
  return Tensor::zeros(result, DType::I32)
      .scatter(-1, where(chosen, places, nowhere).contiguous(), index_along(row, keys.shape(), DType::I32));
}

} // namespace lathe::graph
