// Durations as people read them.
#pragma once
#include <string>

namespace lathe::pipeline {

/// Three significant digits with a unit, such as "1.24 ms"; "-" for what is not known.
std::string duration(double seconds);

} // namespace lathe::pipeline
