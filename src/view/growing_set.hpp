// A set of immortal objects that many threads read without a lock. T has a member `hash`.
//
// Readers probe an array of atomic pointers; only an insertion locks its shard. An array that has been
// outgrown stays, since a reader may still be in it, and is reachable from its successor.
#pragma once
#include <atomic>
#include <cstddef>
#include <mutex>

namespace lathe {

template <class T> class GrowingSet {
public:
  GrowingSet() {
    for (Shard& s : shards_) s.slots.store(new Slots(64, nullptr), std::memory_order_release);
  }

  template <class Equal> const T* find(size_t hash, Equal&& equal) const {
    return probe(*shard(hash).slots.load(std::memory_order_acquire), hash, equal);
  }

  /// The element that is `equal`, else what `make` returns. `make` runs under a lock and must not use a set.
  template <class Equal, class Make> const T* find_or_make(size_t hash, Equal&& equal, Make&& make) {
    if (const T* found = find(hash, equal)) return found;
    Shard& s = shard(hash);
    std::lock_guard lock(s.mutex);
    if (const T* found = probe(*s.slots.load(std::memory_order_relaxed), hash, equal)) return found;
    const T* made = make();
    if (2 * (s.count + 1) > s.slots.load(std::memory_order_relaxed)->size) grow(s);
    s.count++;
    place(*s.slots.load(std::memory_order_relaxed), made);
    return made;
  }

private:
  struct Slots {
    Slots(size_t n, const Slots* old) : size(n), table(new std::atomic<const T*>[n] {}), previous(old) {}
    size_t size;
    std::atomic<const T*>* table;
    const Slots* previous;
  };
  struct Shard {
    std::mutex mutex;
    std::atomic<Slots*> slots;
    size_t count = 0;
  };
  static constexpr size_t kShards = 32;

  Shard& shard(size_t hash) { return shards_[hash % kShards]; }
  const Shard& shard(size_t hash) const { return shards_[hash % kShards]; }

  template <class Equal> static const T* probe(const Slots& slots, size_t hash, Equal&& equal) {
    for (size_t i = hash / kShards;; i++) {
      const T* t = slots.table[i & (slots.size - 1)].load(std::memory_order_acquire);
      if (!t) return nullptr;
      if (t->hash == hash && equal(*t)) return t;
    }
  }
  static void place(Slots& slots, const T* t) {
    size_t i = t->hash / kShards;
    while (slots.table[i & (slots.size - 1)].load(std::memory_order_relaxed)) i++;
    slots.table[i & (slots.size - 1)].store(t, std::memory_order_release);
  }
  static void grow(Shard& s) {
    Slots* old = s.slots.load(std::memory_order_relaxed);
    auto* more = new Slots(old->size * 2, old);
    for (size_t i = 0; i < old->size; i++)
      if (const T* t = old->table[i].load(std::memory_order_relaxed)) place(*more, t);
    s.slots.store(more, std::memory_order_release);
  }

  Shard shards_[kShards];
};

} // namespace lathe
