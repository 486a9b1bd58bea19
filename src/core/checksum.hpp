// A checksum that detects damaged bytes; the same in every process.
#pragma once
#include <cstring>
#include <string_view>

#include "core/hash.hpp"

namespace lathe {

inline uint64_t checksum(std::string_view bytes) {
  uint64_t sum = bytes.size();
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    sum = mix(sum, word);
  }
  return mix(sum, hash_text(bytes.substr(i)));
}

} // namespace lathe
