// A value and how far rounding may put it from there, through every op of the table.
#pragma once
#include <cstdint>

#include "core/op.hpp"

namespace lathe::pipeline {

/// A float is `number`, give or take `error`; integers and bool are `whole` (u64 by its bits). An infinite
/// error says that rounding decides: nothing can be said of the value (a comparison of what may be equal,
/// say). NaN and infinities are exact.
struct Bounded {
  union {
    double number = 0;
    int64_t whole;
  };
  double error = 0;

  static Bounded of(double number, double error = 0);
  static Bounded of_whole(int64_t whole, bool decided = true);
  bool is_exact() const { return error == 0; }
  bool is_decided() const;
};

Bounded bounded(const Scalar& scalar);
Bounded read_bounded(DType dtype, const void* element);

/// The op on values whose exact operands lie within the bounds; `from` is the dtype of the last operand. The
/// result's bound covers what the op itself rounds, once, and so also that an fma leaves a rounding out.
Bounded apply(Op op, DType dtype, DType from, const Bounded& a, const Bounded& b, const Bounded& c);

/// What is combined into one element, in any order.
class Combined {
public:
  /// Starts from what the element holds.
  Combined(Op combine, DType dtype, const Bounded& start);
  void add(const Bounded& term);
  Bounded result() const;

private:
  Op combine_;
  DType dtype_;
  Bounded value_;       // of other combines than float sums
  long double sum_ = 0; // from here on of float sums
  double size_ = 0;     // of the terms
  double error_ = 0;    // that the terms bring
  double terms_ = 0;    // that are not 0
  bool are_whole_ = true;
};

/// Whether `got` is within the bounds. A NaN is only right where one is expected.
bool holds(DType dtype, const Bounded& want, const void* got);

} // namespace lathe::pipeline
