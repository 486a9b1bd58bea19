// A set of objects that live as long as the set, and that many threads read without a lock. T has a member
// `hash` and needs no destructor.
//
// Readers probe an array of atomic pointers; only an insertion locks its shard. An array that has been
// outgrown stays, since a reader may still be in it.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <type_traits>

namespace lathe {

template <class T> class GrowingSet {
  static_assert(std::is_trivially_destructible_v<T>);

public:
  /// Objects and their parts are made in one block of memory.
  using Arena = std::pmr::monotonic_buffer_resource;

  /// `shards`: a power of two, how many threads may insert at a time.
  explicit GrowingSet(size_t shards) : shard_mask_(shards - 1), shards_(new Shard[shards]) {
    while ((size_t{1} << shard_bits_) < shards) ++shard_bits_;
  }

  template <class Equal> const T* find(size_t hash, Equal&& equal) const {
    return probe(*shard(hash).slots.load(std::memory_order_acquire), hash, equal);
  }

  /// The element for which `equal` holds; if there is none, adds the one that `make` makes in the arena.
  /// `make` runs under a lock and must not use a set.
  template <class Equal, class Make> const T* find_or_make(size_t hash, Equal&& equal, Make&& make) {
    const T* found = find(hash, equal);
    return found ? found : insert(hash, equal, make);
  }
  /// As find_or_make, for callers whose find() has just found nothing.
  template <class Equal, class Make> const T* insert(size_t hash, Equal&& equal, Make&& make) {
    Shard& s = shard(hash);
    std::lock_guard lock(s.mutex);
    if (const T* found = probe(*s.newest, hash, equal)) return found;
    const T* made = make(s.arena);
    if (2 * (s.count + 1) > s.newest->size) grow(s);
    s.count++;
    place(*s.newest, made);
    return made;
  }

  size_t size() const {
    size_t count = 0;
    for (size_t k = 0; k <= shard_mask_; ++k) {
      const std::lock_guard lock(shards_[k].mutex);
      count += shards_[k].count;
    }
    return count;
  }

private:
  struct Slots {
    Slots(size_t n, std::unique_ptr<Slots> old)
        : size(n), table(new std::atomic<const T*>[n] {}), previous(std::move(old)) {}
    size_t size;
    std::unique_ptr<std::atomic<const T*>[]> table;
    std::unique_ptr<Slots> previous;
  };
  struct Shard {
    Shard() : newest(new Slots(64, nullptr)) { slots.store(newest.get(), std::memory_order_release); }
    std::mutex mutex;
    std::atomic<const Slots*> slots;
    std::unique_ptr<Slots> newest; // what `slots` points to
    size_t count = 0;
    Arena arena;
  };

  Shard& shard(size_t hash) { return shards_[hash & shard_mask_]; }
  const Shard& shard(size_t hash) const { return shards_[hash & shard_mask_]; }

  template <class Equal> const T* probe(const Slots& slots, size_t hash, Equal&& equal) const {
    for (size_t i = hash >> shard_bits_;; i++) {
      const T* t = slots.table[i & (slots.size - 1)].load(std::memory_order_acquire);
      if (!t) return nullptr;
      if (t->hash == hash && equal(*t)) return t;
    }
  }
  void place(Slots& slots, const T* t) {
    size_t i = t->hash >> shard_bits_;
    while (slots.table[i & (slots.size - 1)].load(std::memory_order_relaxed)) i++;
    slots.table[i & (slots.size - 1)].store(t, std::memory_order_release);
  }
  void grow(Shard& s) {
    const Slots& old = *s.newest;
    auto more = std::make_unique<Slots>(old.size * 2, nullptr);
    for (size_t i = 0; i < old.size; i++)
      if (const T* t = old.table[i].load(std::memory_order_relaxed)) place(*more, t);
    more->previous = std::move(s.newest);
    s.newest = std::move(more);
    s.slots.store(s.newest.get(), std::memory_order_release);
  }

  size_t shard_mask_, shard_bits_ = 0;
  std::unique_ptr<Shard[]> shards_;
};

} // namespace lathe
