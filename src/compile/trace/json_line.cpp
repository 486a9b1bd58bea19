#include "compile/trace/json_line.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "search/moves/move_text.hpp"

namespace lathe::tracing {
namespace {

// No early end, and bytes alone: the compiler looks at many characters at once.
bool is_plain(std::string_view text) {
  uint8_t special = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    special |= static_cast<uint8_t>(static_cast<uint8_t>(byte - ' ') > '~' - ' ');
    special |= static_cast<uint8_t>(byte == '"') | static_cast<uint8_t>(byte == '\\');
  }
  return special == 0;
}

} // namespace

/// Makes a JSON string of the bytes since `begin`, where a quotation mark stands before them.
void JsonLine::escape_from(size_t begin) {
  if (const std::string_view any = std::string_view(text_).substr(begin); !is_plain(any)) {
    const std::string escaped =
        nlohmann::json(any).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text_.replace(begin - 1, std::string::npos, escaped);
  } else {
    text_.push_back('"');
  }
}

JsonLine& JsonLine::seconds(double value) {
  separate();
  if (!(value > 0) || !std::isfinite(value)) {
    text_.push_back('0');
    return *this;
  }
  // Times of kernels lie between a nanosecond and an hour.
  static constexpr double kTens[] = {1e0, 1e1, 1e2, 1e3,  1e4,  1e5,  1e6,
                                     1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13};
  int exponent = static_cast<int>(std::floor(std::log10(value)));
  const int shift = 4 - exponent;
  if (shift < 0 || shift >= static_cast<int>(std::size(kTens))) {
    char digits[32];
    text_.append(digits,
                 std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 5).ptr);
    return *this;
  }
  auto five = static_cast<int64_t>(value * kTens[shift] + 0.5);
  exponent -= 4;
  while (five % 10 == 0) five /= 10, ++exponent;
  append_number(five);
  if (exponent != 0) {
    text_.push_back('e');
    append_number(exponent);
  }
  return *this;
}

JsonLine& JsonLine::microseconds(double seconds) {
  separate();
  const auto all = static_cast<int64_t>(std::llround(seconds * 1e6));
  append_number(all / 1'000'000);
  char digits[8] = ".000000";
  int at = 6;
  for (int64_t rest = all % 1'000'000; rest > 0; rest /= 10)
    digits[at--] = static_cast<char>('0' + rest % 10);
  text_.append(digits, 7);
  return *this;
}

JsonLine& JsonLine::hash(uint64_t value) {
  separate();
  char text[18];
  text[0] = text[17] = '"';
  for (int digit = 16; digit > 0; --digit, value >>= 4) text[digit] = "0123456789abcdef"[value & 15];
  text_.append(text, sizeof text);
  return *this;
}

JsonLine& JsonLine::string(std::string_view any) {
  separate();
  text_.push_back('"');
  const size_t begin = text_.size();
  text_.append(any);
  escape_from(begin);
  return *this;
}

JsonLine& JsonLine::move(const search::Move& move) {
  separate();
  text_.push_back('"');
  const size_t begin = text_.size();
  search::append(text_, move);
  escape_from(begin);
  return *this;
}

} // namespace lathe::tracing
