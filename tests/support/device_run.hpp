// Runs a program of named tensors on one device, on memory of the test's own.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "support/devices.hpp"

namespace lathe::test {

/// The devices that are here, or the one that LATHE_TEST_DEVICE names.
inline std::vector<std::string> tested_devices() {
  if (const char* one = std::getenv("LATHE_TEST_DEVICE")) return {one};
  return present_devices();
}

/// Elements of any dtype, by their memory.
struct Elements {
  DType dtype = DType::F32;
  std::vector<unsigned char> bytes;

  Elements() = default;
  Elements(DType d, size_t count) : dtype(d), bytes(count * size_of(d)) {}
  size_t size() const { return bytes.size() / size_of(dtype); }
  const void* at(size_t i) const { return bytes.data() + i * size_of(dtype); }
  void* at(size_t i) { return bytes.data() + i * size_of(dtype); }
  void put(size_t i, const Scalar& value) { value.to_memory(at(i)); }
  Scalar get(size_t i) const { return Scalar::from_memory(dtype, at(i)); }
  /// What the element is, to the bit: every value of every dtype is a long double of 64 digits.
  long double exact(size_t i) const {
    const Scalar s = get(i);
    if (is_float(dtype)) return s.as_float();
    return dtype == DType::U64 ? static_cast<long double>(s.bits()) : static_cast<long double>(s.as_int());
  }
};

using Memory = std::map<std::string, Elements>;

/// The outputs of `program` on `device`; inputs of one size.
inline Memory run_on(const std::string& device, const NamedTensors& program, const Memory& in) {
  const Executable run = compile(program, on(device, 1));
  Memory out;
  std::map<std::string, const void*> inputs;
  std::map<std::string, void*> outputs;
  for (const auto& [name, values] : in) inputs[name] = values.bytes.data();
  for (const auto& [name, tensor] : program) {
    out[name] = Elements(tensor.dtype(), static_cast<size_t>(num_elements(tensor.shape()).value()));
    outputs[name] = out[name].bytes.data();
  }
  run.run(inputs, outputs);
  return out;
}

/// `v` as the float dtype, rounded once to nearest even: by long double, which holds it exactly.
inline long double rounded_to(DType dtype, long double v) {
  const int digits = dtype == DType::F16 ? 11 : dtype == DType::BF16 ? 8 : dtype == DType::F32 ? 24 : 53;
  const int most = dtype == DType::F16 ? 15 : dtype == DType::F64 ? 1023 : 127;
  if (v == 0 || !std::isfinite(v)) return v;
  const int unit = std::max(std::ilogb(v), 1 - most) - (digits - 1);
  const long double result = std::ldexp(std::nearbyint(std::ldexp(v, -unit)), unit);
  return std::fabs(result) >= std::ldexp(1.0L, most + 1) ? std::copysign(HUGE_VALL, v) : result;
}

/// The same number: zeros by their sign, a NaN equal to any.
inline bool identical(long double a, long double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

} // namespace lathe::test
