// Protobuf's wire format as a tree of fields, without a schema: to change files in ways that keep lengths
// right.
//
//   std::optional<wire::Message> tree = wire::parse(bytes);
//   wire::print(*tree) == bytes   // but for varints that are longer than they have to be
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::test::wire {

struct Field;
using Message = std::vector<Field>;

struct Field {
  uint64_t key =
      0; ///< the field's number times 8, plus how it is stored: 0 varint, 1 8 bytes, 2 length, 5 4 bytes
  uint64_t value = 0; ///< of a varint
  std::string bytes;  ///< of the others; of a length what can't be read as a message
  Message message;    ///< else this
  bool is_varint() const { return (key & 7) == 0; }
  bool has_length() const { return (key & 7) == 2; }
};

inline bool take_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

inline std::optional<Message> parse(std::string_view in, int depth = 0) {
  Message message;
  if (depth > 16) return {};
  while (!in.empty()) {
    Field field;
    if (!take_varint(in, field.key) || field.key < 8) return {};
    if (field.is_varint()) {
      if (!take_varint(in, field.value)) return {};
    } else {
      uint64_t size = (field.key & 7) == 1 ? 8 : 4;
      if (field.has_length() ? !take_varint(in, size) : (field.key & 7) != 1 && (field.key & 7) != 5)
        return {};
      if (size > in.size()) return {};
      const std::string_view inside = in.substr(0, size);
      in.remove_prefix(size);
      std::optional<Message> nested;
      if (field.has_length() && size > 0) nested = parse(inside, depth + 1);
      if (nested)
        field.message = std::move(*nested);
      else
        field.bytes = inside;
    }
    message.push_back(std::move(field));
  }
  return message;
}

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

inline std::string print(const Message& message) {
  std::string out;
  for (const Field& field : message) {
    put_varint(out, field.key);
    const std::string inside = field.message.empty() ? field.bytes : print(field.message);
    if (field.is_varint()) put_varint(out, field.value);
    if (field.has_length()) put_varint(out, inside.size());
    out += inside;
  }
  return out;
}

} // namespace lathe::test::wire
