#include "cli/duration.hpp"

#include <fmt/format.h>

#include <charconv>

#include "lathe/error.hpp"

namespace lathe::cli {

std::string duration(double seconds) {
  const char* unit = "s";
  if (seconds < 1e-3)
    seconds *= 1e6, unit = "us";
  else if (seconds < 1)
    seconds *= 1e3, unit = "ms";
  return fmt::format("{:.{}f} {}", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0, unit);
}

double parse_seconds(const std::string& option, const std::string& text) {
  double value = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(stop, text.data() + text.size());
  double scale = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "m" ? 60 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || value * scale > 86400)
    throw Error(ErrorKind::Value, option + " " + text + " is no duration, expected such as 30s, 500ms or 2m");
  return value * scale;
}

} // namespace lathe::cli
