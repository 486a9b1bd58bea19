// Ranges of what flows through a model, and the u8 that stand for them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lathe/onnx/quantise.hpp"

namespace lathe::onnx {

/// A value stands for (code - zero_point) * scale.
struct ActivationScale {
  float scale = 1;
  uint8_t zero_point = 0;
};

/// Takes in 0, so that 0 is exact.
ActivationScale activation_scale(double low, double high);

/// Counts the values of one tensor over all samples.
class Calibrator {
public:
  explicit Calibrator(Calibration calibration) : counts_values_(calibration == Calibration::Percentile) {}

  void add(std::span<const float> values);
  /// Whether there were values, all of them finite.
  bool is_usable() const { return total_ > 0 && finite_; }
  double low() const { return low_; }
  double high() const { return high_; }
  /// The range in which so many percent of the values lie, at most one bin wider; half of the rest lies below
  /// it, half above. Only where the calibration is Percentile.
  ActivationScale scale(const QuantiseOptions& options) const;

private:
  static constexpr size_t kBins = 8192; // an even number for each sign

  void count(float value);
  void widen(double magnitude);
  double edge(size_t bin) const;
  double lower_quantile(double share) const, upper_quantile(double share) const;

  bool counts_values_, finite_ = true;
  uint64_t total_ = 0;
  double low_ = 0, high_ = 0;
  double limit_ = 0; // the bins reach from -limit to limit; a power of two
  std::vector<uint64_t> bins_;
};

} // namespace lathe::onnx
