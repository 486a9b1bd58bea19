// Damaged copies of a file's bytes.
#pragma once
#include <algorithm>
#include <random>
#include <string>

namespace lathe::test {

/// One way in which a file gets damaged: bits, bytes or runs are changed, or a part is lost, doubled or
/// moved.
inline void damage(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](size_t n) { return n == 0 ? size_t{0} : static_cast<size_t>(random() % n); };
  const size_t at = below(bytes.size()), length = std::min(bytes.size() - at, 1 + below(below(64) + 1));
  if (bytes.empty()) {
    bytes.push_back(static_cast<char>(random()));
    return;
  }
  switch (random() % 9) {
  case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
  case 1: bytes[at] = static_cast<char>(random()); break;
  case 2: std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, '\0'); break;
  case 3: std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, '\xff'); break;
  case 4: bytes.resize(at); break;
  case 5: bytes.erase(at, length); break;
  case 6: bytes.insert(below(bytes.size()), bytes.substr(at, length)); break;
  case 7: bytes.insert(at, std::string(length, static_cast<char>(random()))); break;
  default: {
    const std::string moved = bytes.substr(at, length);
    bytes.erase(at, length);
    bytes.insert(below(bytes.size() + 1), moved);
  }
  }
}

/// Other bytes than these: one to four kinds of damage.
inline std::string damaged(const std::string& bytes, std::mt19937_64& random) {
  std::string out = bytes;
  while (out == bytes)
    for (size_t times = 1 + random() % 4; times > 0; --times) damage(out, random);
  return out;
}

} // namespace lathe::test
