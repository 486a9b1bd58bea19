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

/// How far the means of two tensors' channels, along axis 1, are apart over all samples.
class ChannelShift {
public:
  void add(const Value& got, const Value& expected);
  /// The mean of what was expected less that of what was got, of each channel; empty where there are fewer
  /// than 16 elements a channel, of which a mean would say little.
  std::vector<double> means() const;
  /// The part of the relative error `error` that is left once the means are equal.
  double error_left(double error) const;

private:
  std::vector<double> sums_;
  double elements_ = 0, all_ = 0; // of a channel; squares of what was expected
};

} // namespace lathe::onnx
