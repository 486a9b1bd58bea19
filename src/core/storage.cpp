#include "core/storage.hpp"

#include <cstdlib>

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
  return std::shared_ptr<Storage>(new Storage(data, bytes));
}

Storage::~Storage() { std::free(data_); }

} // namespace lathe
