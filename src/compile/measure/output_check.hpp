// Decides whether a kernel's outputs are right. BoundedKernel, which is independent of all code that makes
// kernels, computes a sample. The other elements are compared with a compiled kernel that passes the sample.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "compile/measure/bounded_kernel.hpp"

namespace lathe::pipeline {

class OutputCheck {
public:
  /// `inputs`: by parameter, the memory of those that are read; null for written ones. This memory must
  /// outlive the object.
  OutputCheck(ast::Kernel canonical, const std::vector<const void*>& inputs,
              const std::vector<int64_t>& shape_values);

  /// Adds elements of all outputs to the sample until `seconds` have passed or the sample is complete. A few
  /// are computed in any case.
  void sample(double seconds);
  int64_t sampled(size_t output) const;

  /// Takes the output of a compiled kernel as the trusted result, for elements outside of the sample. Returns
  /// an empty text, or why `made` is wrong by the sample; a wrong one is not used.
  std::string trust(size_t parameter, std::vector<unsigned char> made);

  /// Returns an empty text if `got` is right; else the first wrong element, in words.
  std::string wrong(size_t parameter, const std::vector<unsigned char>& got);

private:
  struct Output {
    size_t parameter;
    DType dtype;
    int64_t elements;
    std::vector<int64_t> shape;
    std::vector<std::pair<int64_t, Bounded>> sample;
    double typical_error = 0, largest_error = 0; // of the sample
    std::vector<unsigned char> trusted;          // empty: none
  };
  Output& output_of(size_t parameter);
  std::vector<int64_t> places(const Output& output) const;
  std::string wrong_outside(Output& output, const std::vector<unsigned char>& got);
  std::string differs_much(const Output& output, const std::vector<unsigned char>& got, size_t from) const;

  ast::Kernel canonical_; // the bounds refer to it
  BoundedKernel bounds_;
  std::vector<Output> outputs_;
  double longest_ = 1;   // terms of the longest sum
  bool gave_up_ = false; // elements take too long
};

} // namespace lathe::pipeline
