// A file's bytes as memory, for reading.
#pragma once
#include <optional>
#include <string>
#include <utility>

namespace lathe::onnx {

class MappedFile {
public:
  /// Nothing unless the path is a regular file that can be read.
  static std::optional<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const char* data() const { return static_cast<const char*>(data_); }
  size_t size() const { return size_; }

private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}
  void* data_;
  size_t size_;
};

} // namespace lathe::onnx
