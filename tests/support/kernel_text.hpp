// Kernels written as text, with places to fill in.
#pragma once
#include <string>

#include <doctest/doctest.h>

namespace lathe::test {

/// Every `from`, of which there is at least one.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  for (; at != std::string::npos; at = text.find(from, at + to.size()))
    text.erase(at, from.size()).insert(at, to);
  return text;
}

} // namespace lathe::test
