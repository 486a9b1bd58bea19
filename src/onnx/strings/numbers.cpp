// Numbers as text and back.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "onnx/strings/host_op.hpp"
#include "onnx/tracer.hpp"

namespace lathe::onnx {
namespace {

/// The shortest that reads back as the number, as ONNX's own tests have it; `fixed`: all digits before the
/// point and six behind it.
std::string text_of(const Scalar& number, bool fixed) {
  if (number.dtype() == DType::Bool) return number.as_int() ? "1" : "0";
  if (!is_float(number.dtype())) return to_string(number);
  const double value = number.as_float();
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  return fixed ? fmt::format("{:.6f}", value) : to_string(number);
}

[[noreturn]] void fail_number(const std::string& text, const std::string& what) {
  throw Error(ErrorKind::Value, fmt::format("'{}' cast to a number, expected {}", text, what));
}

/// Without the white space around it, and without a plus.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  text = text.substr(begin, text.find_last_not_of(space) + 1 - begin);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

/// The number that all of the digits say; nothing if they say none, or one that T can't hold.
template <class T> std::optional<T> parsed(std::string_view digits) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

Scalar float_in(const std::string& text, DType dtype) {
  const std::string_view digits = trimmed(text);
  const bool plain = digits.find('(') == std::string_view::npos; // not nan(1)
  if (dtype != DType::F64)
    if (const auto value = parsed<float>(digits); value && plain) return Scalar::of_float(dtype, *value);
  // What f32 can't hold becomes infinite or 0, as it does in a cast from f64.
  if (const auto value = parsed<double>(digits); value && plain) return Scalar::of_float(dtype, *value);
  fail_number(text, "digits of one that f64 holds");
}

Scalar integer_in(const std::string& text, DType dtype) {
  const std::string_view digits = trimmed(text);
  if (dtype == DType::U64) {
    if (const auto value = parsed<uint64_t>(digits))
      return Scalar::of_int(dtype, static_cast<int64_t>(*value));
  } else if (const auto value = parsed<int64_t>(digits)) {
    if (dtype == DType::Bool) return Scalar::of_int(dtype, *value != 0);
    const Scalar made = Scalar::of_int(dtype, *value);
    if (made.as_int() == *value) return made;
  }
  fail_number(text, fmt::format("a whole number that {} holds", to_string(dtype)));
}

} // namespace

std::vector<Value> host_text_of_numbers(const HostOp& op, const HostInputs& inputs) {
  const bool fixed = op.integers.at(0) != 0;
  std::vector<std::string> texts;
  for (const Scalar& number : host_elements(inputs.at(0).tensor())) texts.push_back(text_of(number, fixed));
  return {Value::strings(std::move(texts), inputs[0].shape())};
}

std::vector<Value> host_numbers_of_text(const HostOp& op, const HostInputs& inputs) {
  const DType dtype = parse_dtype(op.texts.at(0));
  const std::vector<std::string>& texts = inputs.at(0).texts();
  if (texts.empty()) return {Tensor::zeros(inputs[0].shape(), dtype)};
  const auto width = static_cast<size_t>(size_of(dtype));
  std::vector<unsigned char> bytes(texts.size() * width);
  for (size_t k = 0; k < texts.size(); ++k) {
    const Scalar number = is_float(dtype) ? float_in(texts[k], dtype) : integer_in(texts[k], dtype);
    number.to_memory(bytes.data() + k * width);
  }
  return {Tensor::from_memory(bytes.data(), texts.size(), dtype, inputs[0].shape())};
}

} // namespace lathe::onnx
