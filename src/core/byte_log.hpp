// Values one after the other in one piece of memory: records that a hot loop leaves, to be read later in the
// same process. Writing one costs a copy, and no allocation once the log has grown.
//
//   ByteLog log;                        ByteReader reader(log.bytes());
//   log.put(seconds);                   while (!reader.done()) {
//   log.put_text("a reason");             const auto seconds = reader.take<double>();
//                                         const std::string_view reason = reader.text();
//                                       }
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lathe {

class ByteLog {
public:
  template <class T> void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// All of them, without their number.
  template <class T> void put_all(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void put_text(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  void append(const ByteLog& other) { bytes_.append(other.bytes_); }
  void clear() { bytes_.clear(); }
  bool empty() const { return bytes_.empty(); }
  std::string_view bytes() const { return bytes_; }

private:
  std::string bytes_;
};

/// Takes the values in the order and with the types in which they were put. The bytes outlive it.
class ByteReader {
public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}
  bool done() const { return left_.empty(); }
  std::string_view left() const { return left_; }
  template <class T> T take() {
    T value;
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view text() {
    const auto size = take<uint32_t>();
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }

private:
  std::string_view left_;
};

} // namespace lathe
