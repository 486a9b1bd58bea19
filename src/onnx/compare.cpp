// Values against what they should be, by the rules of ONNX's own test runner.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "onnx/tracer.hpp"

namespace lathe::onnx {
namespace {

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
                       double& worst);

std::string string_difference(const Value& got, const Value& expected) {
  for (size_t k = 0; k < got.texts().size(); ++k)
    if (got.texts()[k] != expected.texts()[k])
      return fmt::format("element {} is '{}', expected '{}'", k, got.texts()[k], expected.texts()[k]);
  return "";
}

/// A map's keys as texts, with their positions.
std::map<std::string, int64_t> positions_of(const Value& keys) {
  std::map<std::string, int64_t> positions;
  for (int64_t k = 0; k < keys.shape()[0].value(); ++k)
    positions[keys.is_strings() ? keys.texts()[static_cast<size_t>(k)]
                                : std::to_string(keys.tensor().index({k}).item<int64_t>())] = k;
  return positions;
}

/// The values in the order of their keys.
Value in_order(const Value& values, const std::map<std::string, int64_t>& positions) {
  std::vector<int64_t> order;
  std::vector<std::string> texts;
  for (const auto& [key, position] : positions) {
    order.push_back(position);
    if (values.is_strings()) texts.push_back(values.texts()[static_cast<size_t>(position)]);
  }
  if (values.is_strings()) return Value::strings(std::move(texts));
  return std::is_sorted(order.begin(), order.end()) ? values
                                                    : Value(values.tensor().take(Tensor::from(order)));
}

std::string map_difference(const Value& got, const Value& expected, std::optional<double> tolerance,
                           double& worst) {
  if (type_text(got) != type_text(expected))
    return fmt::format("is {}, expected {}", type_text(got), type_text(expected));
  if (!tolerance) return "";
  const std::map<std::string, int64_t> keys = positions_of(got.keys()),
                                       wanted = positions_of(expected.keys());
  const auto same_key = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (!std::equal(keys.begin(), keys.end(), wanted.begin(), wanted.end(), same_key)) return "has other keys";
  return difference(in_order(got.values(), keys), in_order(expected.values(), wanted), tolerance, worst);
}

std::string difference(const Value& got, const Value& expected, std::optional<double> tolerance,
                       double& worst) {
  if (got.kind() != expected.kind())
    return fmt::format("is {}, expected {}", type_text(got), type_text(expected));
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
  if (expected.is_map()) return map_difference(got, expected, tolerance, worst);
  if (type_text(got) != type_text(expected))
    return fmt::format("is {}, expected {}", type_text(got), type_text(expected));
  if (!tolerance) return "";
  if (expected.is_strings()) return string_difference(got, expected);
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
