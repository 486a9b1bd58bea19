// Elements of what a canonical kernel computes, each by itself, with the bounds of a right result. It shares
// nothing with renderers, devices or moves, and asks for no more than the chosen elements need.
#pragma once
#include <memory>
#include <stdexcept>
#include <vector>

#include "ast/ast.hpp"
#include "compile/measure/bounded.hpp"

namespace lathe::pipeline {

/// One element takes more work than can be waited for.
struct TooMuchWork : std::runtime_error {
  TooMuchWork() : std::runtime_error("an element of the kernel takes too many steps to compute") {}
};

class BoundedKernel {
public:
  /// `inputs`: the memory of the parameters that are read, in the place of each; null for written ones. It
  /// and the kernel must outlive this.
  BoundedKernel(const ast::Kernel& canonical, std::vector<const void*> inputs,
                const std::vector<int64_t>& shape_values);
  ~BoundedKernel();

  int64_t elements(size_t parameter) const;
  /// Of a written parameter. Sums on the way are remembered. TooMuchWork beyond `steps` (innermost
  /// iterations) that were not known before.
  Bounded element(size_t parameter, int64_t index, int64_t steps);

private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

} // namespace lathe::pipeline
