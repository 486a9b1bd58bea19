#include "core/storage.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fmt/core.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "lathe/error.hpp"

namespace lathe {

namespace {

/// bytes; more than any machine's memory. Under the sanitizers, asking the allocator for more would stop the
/// program.
constexpr size_t kMostBytes = size_t{1} << 40;
constexpr size_t kHugePage = size_t{2} << 20;

/// Asks for huge pages if the memory holds at least one. Prefetchers stop at the end of a page, and weights
/// are read from one end to the other.
void use_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes >= kHugePage) madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE); // this may fail
#endif
}

} // namespace

std::shared_ptr<Storage> Storage::allocate(size_t bytes) {
  // aligned_alloc wants a multiple of the alignment. Pages that are never touched cost nothing.
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const size_t rounded = bytes == 0 ? kAlignment : (bytes + alignment - 1) / alignment * alignment;
  void* data = bytes > kMostBytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (!data)
    throw Error(ErrorKind::Limit,
                fmt::format("storage: cannot allocate {} bytes, expected a size that fits in memory", bytes));
  use_huge_pages(data, bytes);
  return std::shared_ptr<Storage>(new Storage(data, bytes, nullptr));
}

std::vector<std::shared_ptr<Storage>> Storage::allocate_together(std::span<const size_t> bytes) {
  std::vector<size_t> starts;
  size_t end = 0;
  for (const size_t size : bytes) {
    starts.push_back(end);
    // A size that can't be had is cut to one that can't be had either, so that the sum does not overflow.
    end += (std::min(size, kMostBytes + 1) + kAlignment - 1) / kAlignment * kAlignment;
  }
  const std::shared_ptr<Storage> all = allocate(end);
  std::vector<std::shared_ptr<Storage>> parts;
  for (size_t k = 0; k < bytes.size(); ++k)
    parts.emplace_back(new Storage(static_cast<char*>(all->data()) + starts[k], bytes[k], all));
  return parts;
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
