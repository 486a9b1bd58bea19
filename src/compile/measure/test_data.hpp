// Inputs to measure kernels on.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "compile/front/shape_values.hpp"

namespace lathe::pipeline {

/// The values that a kernel's test data may have.
struct TestRange {
  /// Integers are below this number of elements of the largest buffer that the kernel gathers from or
  /// scatters into. 0: the kernel does neither.
  int64_t below = 0;
  /// Floats are positive: a sum near 0 has a large relative error, and a quotient by such a sum a larger one.
  bool positive = false;
  /// Floats are whole numbers of sizes from 1 to this, some of them negative. Sums of their products are
  /// exact in any order, so that a single wrong term shows among millions. 0: real numbers.
  int64_t whole = 0;
};
/// Returns a range of real numbers, for any kernel.
TestRange test_range(const ast::Kernel& kernel, const ShapeValues& values);
/// Returns the range for checking schedules of a canonical kernel: whole numbers if all sums are then exact.
TestRange checking_range(const ast::Kernel& canonical, const ShapeValues& values);

/// Returns reproducible values for a buffer: floats in [-1, 1), in (0, 1] if positive, or whole, three in
/// four of them positive; bools; integers in [0, 8) or in [0, below).
std::vector<unsigned char> test_data(const ast::Buffer& buffer, size_t bytes, const TestRange& range);
/// Returns the number of terms in the longest chain of combines into one element.
double longest_reduction(const ast::Kernel& kernel, const ShapeValues& values);

} // namespace lathe::pipeline
