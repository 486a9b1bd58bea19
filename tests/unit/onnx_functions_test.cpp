// The inverse functions that the ONNX importer composes, against the C library: over a sample of all floats,
// at the edges, and in f64. ONNX's own tests have a few values inside the domains only.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "lathe/lathe.hpp"
#include "onnx/ops/inverse_functions.hpp"

using namespace lathe;

namespace {

struct Case {
  const char* name;
  Tensor (*build)(const Tensor&);
  double (*exact)(double);
};

const Case kCases[] = {
    {"asin", onnx::asin, std::asin},    {"acos", onnx::acos, std::acos},
    {"atan", onnx::atan, std::atan},    {"asinh", onnx::asinh, std::asinh},
    {"acosh", onnx::acosh, std::acosh}, {"atanh", onnx::atanh, std::atanh},
};

/// Every `step`th float by its bits, and those around the edges of the domains.
std::vector<float> sample(uint64_t step) {
  std::vector<float> values{0.f,     -0.f,          1.f,     -1.f,           INFINITY,       -INFINITY,
                            NAN,     0x1p-149f,     0x1p40f, -0x1p40f,       3.402823e38f,   -3.402823e38f,
                            0.9999f, -0.9999f,      1.0001f, 0x1.fffffep-1f, 0x1.000002p+0f, -0x1.fffffep-1f,
                            1e-6f,   0x1p40f * 1.5f};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    const auto pattern = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &pattern, sizeof value);
    values.push_back(value);
  }
  return values;
}

double relative_error(double got, double exact) {
  if (std::isnan(exact) || std::isinf(exact) || exact == 0)
    return got == exact || (std::isnan(got) && std::isnan(exact)) ? 0 : INFINITY;
  return std::fabs(got - exact) / std::max(std::fabs(exact), 0x1p-126);
}

template <class T> void check(const Case& c, const std::vector<T>& values, double bound) {
  const std::vector<T> results = c.build(Tensor::from(values)).template to_vector<T>();
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = relative_error(results[i], c.exact(values[i]));
    if (!(error <= worst)) worst = error, at = values[i];
  }
  MESSAGE(std::string(c.name), ": ", worst, " at ", at);
  CHECK(worst <= bound);
}

} // namespace

TEST_CASE("inverse functions in f32") {
  for (const Case& c : kCases) check(c, sample(65537), 1e-6);
}

TEST_CASE("inverse functions in f64") {
  const std::vector<float> floats = sample(65537 * 16);
  for (const Case& c : kCases) check(c, std::vector<double>(floats.begin(), floats.end()), 1e-14);
}
