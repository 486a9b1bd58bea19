#include "ast/buffer.hpp"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/hash.hpp"

namespace lathe::ast {
namespace {

uint64_t hash_of(const Buffer& b) {
  uint64_t h = mix(hash_text(b.name), static_cast<uint64_t>(b.id));
  h = mix(h, static_cast<uint64_t>(b.dtype));
  h = mix(h, static_cast<uint64_t>(b.scope));
  for (const Expr& e : b.shape) h = mix(h, e.hash());
  return h;
}

bool equal(const Buffer& a, const Buffer& b) {
  return a.id == b.id && a.dtype == b.dtype && a.scope == b.scope && a.name == b.name && a.shape == b.shape;
}

struct Table {
  struct Entry {
    const Buffer* buffer;
    std::weak_ptr<const Buffer> reference;
  };
  std::mutex mutex;
  std::unordered_multimap<uint64_t, Entry> buffers;

  // Never destroyed: a static reference may outlive any static table.
  static Table& instance() {
    static auto* table = new Table;
    return *table;
  }

  void drop(uint64_t hash, const Buffer* buffer) {
    const std::lock_guard lock(mutex);
    const auto [first, last] = buffers.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second.buffer == buffer) {
        buffers.erase(it);
        return;
      }
  }
};

} // namespace

BufferRef make_buffer(Buffer buffer) {
  const uint64_t hash = hash_of(buffer);
  Table& table = Table::instance();
  const std::lock_guard lock(table.mutex);
  const auto [first, last] = table.buffers.equal_range(hash);
  // A buffer in the table is not deleted yet, but its last reference may be gone. lock() then returns null.
  for (auto it = first; it != last; ++it) {
    if (!equal(*it->second.buffer, buffer)) continue;
    if (BufferRef known = it->second.reference.lock()) return known;
  }
  auto* made = new Buffer(std::move(buffer));
  const BufferRef reference(made, [hash](const Buffer* b) {
    Table::instance().drop(hash, b);
    delete b;
  });
  table.buffers.emplace(hash, Table::Entry{made, reference});
  return reference;
}

} // namespace lathe::ast
