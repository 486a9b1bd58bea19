#include "lathe/onnx/utf8.hpp"

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::onnx {
namespace {

constexpr char32_t kLast = 0x10FFFF;

bool is_surrogate(char32_t character) { return character >= 0xD800 && character < 0xE000; }

/// Of a character whose first byte this is, the bytes that follow it; -1 if none begins so.
int following(unsigned char first) {
  return first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : -1;
}

} // namespace

std::u32string characters(std::string_view utf8) {
  std::u32string out;
  for (size_t at = 0; at < utf8.size();) {
    const auto first = static_cast<unsigned char>(utf8[at++]);
    const int more = following(first);
    char32_t character = more > 0 ? first & (0x3F >> more) : first;
    bool valid = more >= 0;
    for (int k = 0; valid && k < more; ++k) {
      const unsigned char next = at < utf8.size() ? static_cast<unsigned char>(utf8[at++]) : 0;
      valid = next >> 6 == 2;
      character = character << 6 | (next & 0x3F);
    }
    constexpr char32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (!valid || character < least[more] || character > kLast || is_surrogate(character))
      throw Error(ErrorKind::Value, "'" + std::string(utf8) + "' is no UTF-8, expected it");
    out += character;
  }
  return out;
}

std::string utf8(std::u32string_view characters) {
  std::string out;
  for (const char32_t character : characters) {
    if (character > kLast || is_surrogate(character))
      throw Error(ErrorKind::Value, fmt::format("{:#x} is no character of Unicode, expected one",
                                                static_cast<uint32_t>(character)));
    const int more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    constexpr unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(first[more] | character >> (6 * more));
    for (int k = more; k-- > 0;) out += static_cast<char>(0x80 | (character >> (6 * k) & 0x3F));
  }
  return out;
}

} // namespace lathe::onnx
