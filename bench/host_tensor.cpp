#include "host_tensor.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace lathe::bench {

std::string to_string(const Sizes& sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

HostTensor::HostTensor(DType dtype, Sizes shape) : dtype_(dtype), shape_(std::move(shape)), count_(1) {
  for (int64_t size : shape_) count_ *= size;
  size_t rounded = (bytes() + 127) / 128 * 128;
  data_.reset(std::aligned_alloc(128, rounded ? rounded : 128));
  if (!data_)
    throw Error(ErrorKind::Limit, "no memory for " + std::to_string(bytes()) + " bytes");
}

HostTensor::HostTensor(const HostTensor& other) : HostTensor(other.dtype_, other.shape_) {
  std::memcpy(data(), other.data(), bytes());
}

double HostTensor::get(int64_t index) const {
  if (dtype_ == DType::F32) return as<float>()[index];
  return Scalar::from_memory(dtype_, as<char>() + index * size_of(dtype_)).as_float();
}

void HostTensor::set(int64_t index, double value) {
  if (dtype_ == DType::F32)
    as<float>()[index] = static_cast<float>(value);
  else
    Scalar::of_float(dtype_, value).to_memory(as<char>() + index * size_of(dtype_));
}

void HostTensor::poison() { std::memset(data(), 0xff, bytes()); }

HostTensor uniform(DType dtype, Sizes shape, uint64_t seed, double low, double high) {
  HostTensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    uint64_t z = (seed << 40) + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u; // splitmix64 of a counter
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    tensor.set(i, low + (high - low) * static_cast<double>(z >> 11) * 0x1p-53);
  }
  return tensor;
}

double max_error(const HostTensor& got, const std::vector<double>& want) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (static_cast<size_t>(got.count()) != want.size()) return infinity;
  double squares = 0, worst = 0;
  for (double w : want)
    if (std::isfinite(w)) squares += w * w;
  double scale = std::sqrt(squares / static_cast<double>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    double g = got.get(static_cast<int64_t>(i)), w = want[i];
    if (!std::isfinite(g)) w = Scalar::of_float(got.dtype(), w).as_float(); // numbers too large for the dtype are infinite
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (!std::isfinite(g) || !std::isfinite(w)) return infinity;
    worst = std::max(worst, std::abs(g - w) / std::max(std::abs(w), scale));
  }
  return worst;
}

} // namespace lathe::bench
