// Inputs to measure kernels on, and whether two results agree.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "compile/shape_values.hpp"

namespace lathe::pipeline {

/// What a kernel can be tried on.
struct TestRange {
  /// Of integers, where they say what is gathered or scattered: its elements. 0: they don't.
  int64_t below = 0;
  /// Floats: a sum that nearly vanishes is lost to rounding, and a quotient by it more so.
  bool positive = false;
};
TestRange test_range(const ast::Kernel& kernel, const ShapeValues& values);

/// Reproducible values for a buffer: floats in [-1, 1), or in (0, 1] if positive, bools, integers in [0, 8)
/// or in [0, below).
std::vector<unsigned char> test_data(const ast::Buffer& buffer, size_t bytes, const TestRange& range);
/// Terms of the longest chain of combines into one element.
double longest_reduction(const ast::Kernel& kernel, const ShapeValues& values);

/// Empty if they agree: integers exactly, floats within what reassociating sums of that many terms may
/// change. Else the first difference in words.
std::string compare_values(DType dtype, const std::vector<unsigned char>& expected,
                           const std::vector<unsigned char>& got, double reduction_length);

} // namespace lathe::pipeline
