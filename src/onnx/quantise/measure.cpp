#include "onnx/quantise/measure.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/detail/access.hpp"

namespace lathe::onnx {

Program compile_with_outputs(const Model::Impl& model, const std::vector<std::string>& values,
                             const ImportOptions& options) {
  auto asked = std::make_shared<Model::Impl>(model);
  std::vector<Port>& outputs = asked->graph.outputs;
  for (const std::string& name : values)
    if (std::none_of(outputs.begin(), outputs.end(), [&](const Port& port) { return port.name == name; }))
      outputs.push_back({.name = name, .text = "f32"});
  return detail::Access::make<Model>(asked).compile(options);
}

void Distance::add(const Value& got, const Value& expected) {
  if (got.shape() != expected.shape() || got.dtype() != expected.dtype()) {
    changed_ = std::numeric_limits<double>::infinity();
    return;
  }
  counts_ = !is_float(expected.dtype());
  if (expected.dtype() == DType::F32) {
    const Tensor a = got.tensor(), b = expected.tensor();
    add(a.data<float>(), b.data<float>());
    return;
  }
  const auto made = got.tensor().cast(DType::F64).to_vector<double>(),
             meant = expected.tensor().cast(DType::F64).to_vector<double>();
  add(std::span<const double>(made), std::span<const double>(meant));
}

template <class T> void Distance::add(std::span<const T> got, std::span<const T> expected) {
  for (size_t k = 0; k < expected.size(); ++k) {
    const double made = got[k], meant = expected[k];
    if (counts_) {
      changed_ += made != meant, all_ += 1;
      continue;
    }
    if (std::isfinite(meant)) all_ += meant * meant;
    const bool same = made == meant || (std::isnan(made) && std::isnan(meant)); // infinities, too
    if (!same) changed_ += (made - meant) * (made - meant);
  }
}

void ChannelShift::add(const Value& got, const Value& expected) {
  if (expected.rank() < 2 || got.shape() != expected.shape() || expected.is_empty()) return;
  const auto channels = static_cast<size_t>(expected.shape()[1].value());
  sums_.resize(channels);
  const Tensor a = got.tensor(), b = expected.tensor();
  const auto made = a.data<float>(), meant = b.data<float>();
  const size_t run = meant.size() / (static_cast<size_t>(expected.shape()[0].value()) * channels);
  for (size_t k = 0; k < meant.size(); ++k) {
    sums_[k / run % channels] += static_cast<double>(meant[k]) - made[k];
    all_ += static_cast<double>(meant[k]) * meant[k];
  }
  elements_ += static_cast<double>(meant.size() / channels);
}

std::vector<double> ChannelShift::means() const {
  constexpr double kLeast = 16;
  if (elements_ < kLeast) return {};
  std::vector<double> means;
  for (const double sum : sums_) means.push_back(sum / elements_);
  const bool finite =
      std::all_of(means.begin(), means.end(), [](double mean) { return std::isfinite(mean); });
  return finite ? means : std::vector<double>();
}

double ChannelShift::error_left(double error) const {
  double shifted = 0;
  for (const double sum : sums_) shifted += sum * sum / elements_;
  // A mean of n elements is itself off by a part of n in what they scatter.
  const double left = std::max(error * error * all_ - shifted, 0.0) * elements_ / (elements_ - 1);
  return all_ == 0 ? error : std::sqrt(left / all_);
}

double Distance::relative() const {
  if (changed_ == 0) return 0;
  if (all_ == 0) return std::numeric_limits<double>::infinity();
  return counts_ ? changed_ / all_ : std::sqrt(changed_ / all_);
}

} // namespace lathe::onnx
