#include "core/debug.hpp"

#include <algorithm>
#include <cstdlib>

namespace lathe {

int debug_level() {
  static const int level = [] {
    const char* text = std::getenv("LATHE_DEBUG");
    return text ? static_cast<int>(std::clamp(std::strtol(text, nullptr, 10), 0l, 4l)) : 0;
  }();
  return level;
}

} // namespace lathe
