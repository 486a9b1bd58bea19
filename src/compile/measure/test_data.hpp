// Inputs to measure kernels on.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "compile/front/shape_values.hpp"

namespace lathe::pipeline {

/// What a kernel can be tried on.
struct TestRange {
  /// Of integers, where they say what is gathered or scattered: its elements. 0: they don't.
  int64_t below = 0;
  /// Floats: a sum that nearly vanishes is lost to rounding, and a quotient by it more so.
  bool positive = false;
  /// Floats are whole numbers from 1 to this, some of them negative: sums of their products are exact in any
  /// order, so that a single term too many shows among millions. 0: real numbers.
  int64_t whole = 0;
};
/// Real numbers, for any kernel.
TestRange test_range(const ast::Kernel& kernel, const ShapeValues& values);
/// For checking what a canonical kernel's schedules compute.
TestRange checking_range(const ast::Kernel& canonical, const ShapeValues& values);

/// Reproducible values for a buffer: floats in [-1, 1), in (0, 1] if positive, or whole, three in four of
/// them positive; bools, integers in [0, 8) or in [0, below).
std::vector<unsigned char> test_data(const ast::Buffer& buffer, size_t bytes, const TestRange& range);
/// Terms of the longest chain of combines into one element.
double longest_reduction(const ast::Kernel& kernel, const ShapeValues& values);

} // namespace lathe::pipeline
