#include "onnx/quantise/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe::onnx {

ActivationScale activation_scale(double low, double high) {
  low = std::min(low, 0.0), high = std::max(high, 0.0);
  if (low == high) return {}; // of zeros any scale will do
  const double least = std::numeric_limits<float>::min();
  const auto scale = static_cast<float>(std::max((high - low) / 255, least));
  return {scale, static_cast<uint8_t>(std::clamp(std::nearbyint(-low / scale), 0.0, 255.0))};
}

void Calibrator::add(std::span<const float> values) {
  for (const float value : values) {
    finite_ = finite_ && std::isfinite(value);
    if (!finite_) return;
    low_ = total_ == 0 ? value : std::min<double>(low_, value);
    high_ = total_ == 0 ? value : std::max<double>(high_, value);
    ++total_;
    if (counts_values_) count(value);
  }
}

void Calibrator::count(float value) {
  if (bins_.empty()) bins_.resize(kBins);
  if (std::abs(value) >= limit_) widen(std::abs(value));
  const double place = limit_ > 0 ? (value / limit_ + 1) * (kBins / 2) : kBins / 2;
  ++bins_[std::min(static_cast<size_t>(place), kBins - 1)];
}

/// Doubles what the bins reach, two of them becoming one, until it is more than `magnitude`. As long as all
/// values are 0 the bins have no width.
void Calibrator::widen(double magnitude) {
  if (magnitude == 0) return;
  if (limit_ == 0) {
    limit_ = std::exp2(std::floor(std::log2(magnitude)) + 1);
    return;
  }
  for (; limit_ <= magnitude; limit_ *= 2) {
    std::vector<uint64_t> wider(kBins);
    for (size_t k = 0; k < kBins; ++k) wider[kBins / 4 + k / 2] += bins_[k];
    bins_ = std::move(wider);
  }
}

double Calibrator::edge(size_t bin) const { return limit_ * (static_cast<double>(bin) / (kBins / 2) - 1); }

/// The highest edge of a bin below which at most this share of the values lies.
double Calibrator::lower_quantile(double share) const {
  double below = 0;
  for (size_t k = 0; k < kBins; ++k) {
    below += static_cast<double>(bins_[k]);
    if (below > share * static_cast<double>(total_)) return std::clamp(edge(k), low_, high_);
  }
  return high_;
}

double Calibrator::upper_quantile(double share) const {
  double above = 0;
  for (size_t k = kBins; k-- > 0;) {
    above += static_cast<double>(bins_[k]);
    if (above > share * static_cast<double>(total_)) return std::clamp(edge(k + 1), low_, high_);
  }
  return low_;
}

ActivationScale Calibrator::scale(const QuantiseOptions& options) const {
  if (options.calibration == Calibration::Range) return activation_scale(low_, high_);
  const double outside = (100 - options.percentile) / 200;
  return activation_scale(lower_quantile(outside), upper_quantile(outside));
}

} // namespace lathe::onnx
