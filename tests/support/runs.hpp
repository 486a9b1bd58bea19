// How often a test of reliability repeats what it does.
#pragma once
#include <cstdlib>

namespace lathe::test {

/// $LATHE_RUNS, or `otherwise` where it is not set.
inline int runs(int otherwise) {
  const char* text = std::getenv("LATHE_RUNS");
  return text ? std::atoi(text) : otherwise;
}

} // namespace lathe::test
