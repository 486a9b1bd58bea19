// Durations on the command line.
#pragma once
#include <string>

namespace lathe::cli {

/// Three significant digits with a unit: "1.24 ms", "890 us".
std::string duration(double seconds);
/// Seconds of a text such as 30s, 500ms or 2m. Error(Value) that names the option.
double parse_seconds(const std::string& option, const std::string& text);

} // namespace lathe::cli
