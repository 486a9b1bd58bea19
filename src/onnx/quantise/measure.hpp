// Models run on samples, and how far their values are apart.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "onnx/graph.hpp"

namespace lathe::onnx {

/// A program of the model that also returns these values.
Program compile_with_outputs(const Model::Impl& model, const std::vector<std::string>& values,
                             const ImportOptions& options);

/// The difference of two tensors over all samples.
class Distance {
public:
  void add(const Value& got, const Value& expected);
  /// Root mean square of the difference over that of what was expected. Of integers and bools, the share of
  /// elements that differ. Infinite where shapes differ.
  double relative() const;

private:
  template <class T> void add(std::span<const T> got, std::span<const T> expected);

  bool counts_ = false; // elements that differ
  double changed_ = 0, all_ = 0;
};

} // namespace lathe::onnx
