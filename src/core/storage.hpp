// Storage: host memory with a size in bytes, aligned for any vector, shared by tensors and buffers.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lathe {

class Storage {
 public:
  static constexpr size_t kAlignment = 128;
  /// Allocates memory without initialising it. Throws Error(Limit) naming the size if it can't be had.
  static std::shared_ptr<Storage> allocate(size_t bytes);
  /// Allocates several side by side, so that together they fill large pages. The memory is freed with the
  /// last of them.
  static std::vector<std::shared_ptr<Storage>> allocate_together(std::span<const size_t> bytes);
  /// A storage over memory of someone else that is only read, such as a mapped file's. If the memory is not
  /// aligned, the storage is a copy; else it keeps `memory` as long as it lives.
  static std::shared_ptr<Storage> share(std::shared_ptr<const void> memory, size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  void* data() { return data_; }
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool is_shared() const { return shared_ != nullptr; }  // the memory belongs to something else

 private:
  Storage(void* data, size_t bytes, std::shared_ptr<const void> shared)
      : data_(data), bytes_(bytes), shared_(std::move(shared)) {}
  void* data_;
  size_t bytes_;
  std::shared_ptr<const void> shared_;  // keeps memory that the storage does not own
};
using StorageRef = std::shared_ptr<Storage>;

}  // namespace lathe
