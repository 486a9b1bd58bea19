// Inputs to measure kernels on, and whether two results agree.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "compile/shape_values.hpp"

namespace lathe::pipeline {

/// Reproducible values for a buffer: floats in [-1, 1), bools, integers in [0, 8) or, where the kernel
/// gathers or scatters, in [0, gathered).
std::vector<unsigned char> test_data(const ast::Buffer& buffer, size_t bytes, int64_t gathered);
/// Elements of the largest buffer that the kernel indexes by computed values; 0 if there is none.
int64_t largest_gathered(const ast::Kernel& kernel, const ShapeValues& values);
/// Terms of the longest chain of combines into one element.
double longest_reduction(const ast::Kernel& kernel, const ShapeValues& values);

/// Empty if they agree: integers exactly, floats within what reassociating sums of that many terms may
/// change. Else the first difference in words.
std::string compare_values(DType dtype, const std::vector<unsigned char>& expected,
                           const std::vector<unsigned char>& got, double reduction_length);

} // namespace lathe::pipeline
