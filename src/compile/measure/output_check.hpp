// Whether a kernel's outputs are right: a sample of them by BoundedKernel, which is independent of all code
// that makes kernels, the rest against a compiled kernel that has passed the sample.
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
  /// `inputs`: the memory of the parameters that are read, in the place of each; null for written ones. It
  /// must outlive this.
  OutputCheck(ast::Kernel canonical, const std::vector<const void*>& inputs,
              const std::vector<int64_t>& shape_values);

  /// Computes elements of all outputs till `seconds` have passed, if there are so many, and a few in any
  /// case.
  void sample(double seconds);
  int64_t sampled(size_t output) const;

  /// What a compiled kernel made of an output, for the elements outside of the sample. Empty, or why the
  /// sample says that it is wrong: then it is not used.
  std::string trust(size_t parameter, std::vector<unsigned char> made);

  /// Empty if it is right; else the first element that is not, in words.
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
