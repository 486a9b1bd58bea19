// Structural hashing that is the same in every process, so that hashes can name things on disk.
#pragma once
#include <cstdint>
#include <string_view>

namespace lathe {

constexpr uint64_t mix(uint64_t h, uint64_t v) {
  v *= 0x9E3779B97F4A7C15ull;
  v ^= v >> 32;
  h = (h ^ v) * 0xD6E8FEB86659FD93ull;
  return h ^ (h >> 29);
}
constexpr uint64_t hash_text(std::string_view s) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return mix(h, s.size());
}

}  // namespace lathe
