// Values one after the other in one piece of memory: records that a hot loop leaves, to be read later in the
// same process. Writing one costs a copy, and no allocation once the log has grown.
//
//   ByteLog log;                        ByteReader reader(log.bytes());
//   log.put(seconds);                   while (!reader.done()) {
//   log.put_text("a reason");             const auto seconds = reader.take<double>();
//                                         const std::string_view reason = reader.text();
//                                       }
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lathe {

class ByteLog {
public:
  template <class T> void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(room(sizeof value), &value, sizeof value);
  }
  /// All of them, without their number.
  template <class T> void put_all(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  void put_text(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    put_bytes(text);
  }
  void append(const ByteLog& other) { put_bytes(other.bytes()); }
  void clear() { size_ = 0; }
  bool empty() const { return size_ == 0; }
  std::string_view bytes() const { return {memory_.get(), size_}; }

  size_t size() const { return size_; }
  /// So many more bytes, not yet written; resize() then cuts off what stays so.
  char* reserve(size_t bytes) { return room(bytes); }
  void resize(size_t smaller) { size_ = smaller; }
  /// Replaces what put() put when the log had `at` bytes.
  template <class T> void put_at(size_t at, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(memory_.get() + at, &value, sizeof value);
  }

private:
  /// So many more bytes, not yet written.
  char* room(size_t bytes) {
    if (capacity_ - size_ < bytes) grow(bytes);
    size_ += bytes;
    return memory_.get() + size_ - bytes;
  }
  void grow(size_t bytes) {
    capacity_ = std::max(2 * capacity_, size_ + bytes + kLeast);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    if (size_ > 0) std::memcpy(larger.get(), memory_.get(), size_);
    memory_ = std::move(larger);
  }
  void put_bytes(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
  }

  static constexpr size_t kLeast = 256; // bytes of a log that holds something
  std::unique_ptr<char[]> memory_;      // of which the first size_ bytes are in use
  size_t size_ = 0, capacity_ = 0;
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
  std::string_view text() { return bytes(take<uint32_t>()); }
  std::string_view bytes(size_t size) {
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }

private:
  std::string_view left_;
};

} // namespace lathe
