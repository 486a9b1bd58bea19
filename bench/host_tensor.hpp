// HostTensor: plain aligned memory with a dtype and a shape, for inputs, outputs and what peers compute.
#pragma once
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/lathe.hpp"

namespace lathe::bench {

using Sizes = std::vector<int64_t>;

std::string to_string(const Sizes& sizes); // "512x512x512"

class HostTensor {
public:
  HostTensor(DType dtype, Sizes shape);
  HostTensor(const HostTensor& other);
  HostTensor(HostTensor&&) = default;

  DType dtype() const { return dtype_; }
  const Sizes& shape() const { return shape_; }
  int64_t count() const { return count_; }
  size_t bytes() const { return static_cast<size_t>(count_) * size_of(dtype_); }
  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  /// The elements; T must be the dtype's type.
  template <class T> T* as() { return static_cast<T*>(data_.get()); }
  template <class T> const T* as() const { return static_cast<const T*>(data_.get()); }

  double get(int64_t index) const;
  void set(int64_t index, double value);
  /// Fills with bits that no computation leaves behind: NaN for floats, -1 for integers.
  void poison();

private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  DType dtype_;
  Sizes shape_;
  int64_t count_;
  std::unique_ptr<void, Free> data_;
};
using HostTensors = std::map<std::string, HostTensor>;

/// Numbers uniform in [low, high), the same for a seed on every machine.
HostTensor uniform(DType dtype, Sizes shape, uint64_t seed, double low = -1, double high = 1);

/// The largest difference of `got` from `want`, relative to the larger of |want| there and the root mean
/// square of all of `want`; infinity if a NaN or infinity is on one side only, or the sizes differ.
double max_error(const HostTensor& got, const std::vector<double>& want);

} // namespace lathe::bench
