// Values against what they should be, by the rules of ONNX's own test runner.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "onnx/tracer.hpp"

namespace lathe::onnx {
namespace {

std::string type_of(const Value& value) { return to_string(value.dtype()) + to_string(value.shape()); }

/// Whether a number will do; `worst` grows with how far off it is.
bool close(const Scalar& got, const Scalar& expected, double tolerance, double& worst) {
  if (!is_float(expected.dtype())) return got == expected;
  const double g = got.as_float(), e = expected.as_float();
  if (std::isnan(e)) return std::isnan(g);
  if (std::isinf(e) || g == e) return g == e;
  const double off = std::abs(g - e);
  if (!(off <= 1e-7 + tolerance * std::abs(e))) return false;
  worst = std::max(worst, off / std::max(std::abs(e), 1e-7));
  return true;
}

std::string difference(const Value& got, const Value& expected, std::optional<double> tolerance,
                       double& worst) {
  if (got.kind() != expected.kind()) return "is of another kind";
  if (expected.is_none()) return "";
  if (expected.is_sequence()) {
    const size_t count = expected.elements().size();
    if (got.elements().size() != count)
      return fmt::format("has {} elements, expected {}", got.elements().size(), count);
    for (size_t k = 0; k < count; ++k)
      if (auto why = difference(got.elements()[k], expected.elements()[k], tolerance, worst); !why.empty())
        return fmt::format("element {} {}", k, why);
    return "";
  }
  if (type_of(got) != type_of(expected))
    return fmt::format("is {}, expected {}", type_of(got), type_of(expected));
  if (!tolerance) return "";
  const std::vector<Scalar> g = host_elements(got.tensor()), e = host_elements(expected.tensor());
  for (size_t k = 0; k < g.size(); ++k)
    if (!close(g[k], e[k], *tolerance, worst))
      return fmt::format("element {} is {}, expected {}", k, to_string(g[k]), to_string(e[k]));
  return "";
}

} // namespace

Difference compare(const Value& got, const Value& expected, std::optional<double> tolerance) {
  Difference found;
  found.why = difference(got, expected, tolerance, found.worst);
  return found;
}

} // namespace lathe::onnx
