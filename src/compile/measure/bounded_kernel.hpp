// Computes single elements of a canonical kernel's outputs, with the bounds of a right result. This code
// shares nothing with renderers, devices or moves. It computes no more than the chosen elements need.
#pragma once
#include <memory>
#include <stdexcept>
#include <vector>

#include "ast/ast.hpp"
#include "compile/measure/bounded.hpp"

namespace lathe::pipeline {

/// Thrown if one element takes too much work.
struct TooMuchWork : std::runtime_error {
  TooMuchWork() : std::runtime_error("an element of the kernel takes too many steps to compute") {}
};

class BoundedKernel {
public:
  /// `inputs`: by parameter, the memory of those that are read; null for written ones. This memory and the
  /// kernel must outlive the object.
  BoundedKernel(const ast::Kernel& canonical, std::vector<const void*> inputs,
                const std::vector<int64_t>& shape_values);
  ~BoundedKernel();

  int64_t elements(size_t parameter) const;
  /// Returns an element of a written parameter. Remembers the sums that it needs. Throws TooMuchWork beyond
  /// `steps` innermost iterations; remembered sums take none.
  Bounded element(size_t parameter, int64_t index, int64_t steps);

private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

} // namespace lathe::pipeline
