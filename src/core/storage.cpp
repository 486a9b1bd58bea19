#include "core/storage.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fmt/core.h>

#include "lathe/error.hpp"

namespace lathe {

namespace {

/// Beyond any machine's memory; asking the allocator for more would stop a program under the sanitizers.
constexpr size_t kMostBytes = size_t{1} << 40;

} // namespace

std::shared_ptr<Storage> Storage::allocate(size_t bytes) {
  const size_t rounded = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = bytes > kMostBytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (!data)
    throw Error(ErrorKind::Limit,
                fmt::format("storage: cannot allocate {} bytes, expected a size that fits in memory", bytes));
  return std::shared_ptr<Storage>(new Storage(data, bytes, nullptr));
}

std::shared_ptr<Storage> Storage::share(std::shared_ptr<const void> memory, size_t bytes) {
  const void* data = memory.get();
  if (reinterpret_cast<uintptr_t>(data) % kAlignment == 0)
    return std::shared_ptr<Storage>(new Storage(const_cast<void*>(data), bytes, std::move(memory)));
  std::shared_ptr<Storage> copy = allocate(bytes);
  std::memcpy(copy->data(), data, bytes);
  return copy;
}

Storage::~Storage() {
  if (!shared_) std::free(data_);
}

} // namespace lathe
