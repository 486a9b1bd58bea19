// A value with a bound on its rounding error, computed through every op of the table.
#pragma once
#include <cstdint>

#include "core/op.hpp"

namespace lathe::pipeline {

/// A float is `number`, give or take `error`; integers and bool are `whole` (u64 by its bits). An infinite
/// error means that rounding decides the value, which may then be anything. An example is a comparison of
/// numbers that may be equal. The error of a NaN or an infinity is 0 or infinite.
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

/// Returns the bounds of the op's result for all operands within their bounds. `from` is the dtype of the
/// last operand. The result's error includes the op's own rounding. An fma counts as two roundings, which
/// covers devices that fuse and those that don't.
Bounded apply(Op op, DType dtype, DType from, const Bounded& a, const Bounded& b, const Bounded& c);

/// The terms that are combined into one element, in any order.
class Combined {
public:
  /// `start`: the element's value before the first term.
  Combined(Op combine, DType dtype, const Bounded& start);
  void add(const Bounded& term);
  Bounded result() const;

private:
  Op combine_;
  DType dtype_;
  Bounded value_;       // of combines other than float sums
  long double sum_ = 0; // this and the members below: of float sums
  double size_ = 0;     // sum of the terms' sizes
  double error_ = 0;    // sum of the terms' errors
  double terms_ = 0;    // number of terms that are not 0
  bool are_whole_ = true;
};

/// Returns whether `got` is within the bounds. A NaN is right only where one is expected.
bool holds(DType dtype, const Bounded& want, const void* got);

} // namespace lathe::pipeline
