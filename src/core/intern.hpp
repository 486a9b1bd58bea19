// Interning: equal immutable nodes are one object, held by counted references.
//
// T derives from Interned<T> and provides:
//   size_t hash_value() const;             structural
//   bool equal(const T&) const;            structural, comparing sources by pointer
//   template <class F> void for_each_source(F&&) // calls F(Ref<T>&) on each source, for iterative destruction
// intern(std::move(node)) returns the existing equal node or makes this one. Thread-safe. Freed when the last Ref goes;
// a chain of any length is freed without recursion.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lathe {

template <class T> class Ref;

template <class T> class Interned {
 public:
  Interned() = default;
  Interned(const Interned&) noexcept {}  // a copy is a new, unregistered object
  Interned& operator=(const Interned&) noexcept { return *this; }

 private:
  friend class Ref<T>;
  template <class U> friend Ref<U> intern(U&& node);
  template <class U> friend struct InternTable;
  mutable std::atomic<size_t> references_{0};
  size_t hash_ = 0;
};

template <class T> class Ref {
 public:
  Ref() = default;
  Ref(const Ref& o) : ptr_(o.ptr_) { if (ptr_) ptr_->references_.fetch_add(1, std::memory_order_relaxed); }
  Ref(Ref&& o) noexcept : ptr_(std::exchange(o.ptr_, nullptr)) {}
  Ref& operator=(Ref o) noexcept { std::swap(ptr_, o.ptr_); return *this; }
  ~Ref() { if (ptr_) release(std::exchange(ptr_, nullptr)); }

  const T* get() const { return ptr_; }
  const T* operator->() const { return ptr_; }
  const T& operator*() const { return *ptr_; }
  explicit operator bool() const { return ptr_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.ptr_ == b.ptr_; }
  friend bool operator!=(const Ref& a, const Ref& b) { return a.ptr_ != b.ptr_; }
  /// Structural hash, the same in every process.
  size_t hash() const { return ptr_ ? ptr_->hash_ : 0; }

 private:
  template <class U> friend Ref<U> intern(U&& node);
  template <class U> friend struct InternTable;
  explicit Ref(const T* adopted) : ptr_(adopted) {}
  static void release(const T* node);
  const T* ptr_ = nullptr;
};

template <class T> struct InternTable {
  static constexpr size_t kShards = 64;
  struct Shard {
    std::mutex mutex;
    std::unordered_multimap<size_t, const T*> nodes;
  };
  Shard shards[kShards];
  // Never destroyed: static Refs may outlive any static table.
  static InternTable& instance() {
    static auto* table = new InternTable;
    return *table;
  }
  Shard& shard(size_t hash) { return shards[(hash >> 7) % kShards]; }
  /// Gives up a reference. If it was the last, takes the node out of the table and returns true. The lock is
  /// held throughout, so that no one finds the node again.
  bool drop(const T* node) {
    Shard& s = shard(node->hash_);
    std::lock_guard lock(s.mutex);
    if (node->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    auto [first, last] = s.nodes.equal_range(node->hash_);
    for (auto it = first; it != last; ++it)
      if (it->second == node) {
        s.nodes.erase(it);
        break;
      }
    return true;
  }
};

/// The node equal to `node`, made if there is none.
template <class U> Ref<U> intern(U&& node) {
  static_assert(!std::is_reference_v<U>, "pass an rvalue");
  const size_t hash = node.hash_value();
  auto& shard = InternTable<U>::instance().shard(hash);
  std::lock_guard lock(shard.mutex);
  auto [first, last] = shard.nodes.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (!it->second->equal(node)) continue;
    it->second->references_.fetch_add(1, std::memory_order_relaxed);
    return Ref<U>(it->second);
  }
  auto* made = new U(std::move(node));
  made->hash_ = hash;
  made->references_.store(1, std::memory_order_relaxed);
  shard.nodes.emplace(hash, made);
  return Ref<U>(static_cast<const U*>(made));
}

template <class T> void Ref<T>::release(const T* node) {
  size_t count = node->references_.load(std::memory_order_relaxed);
  while (count > 1)
    if (node->references_.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) return;
  // This may be the last reference. Sources of a dying node are queued, not released in place: destruction
  // must not recurse. The queue lives in the outermost call, so that a static Ref may go after the thread's
  // own objects have gone.
  thread_local std::vector<const T*>* pending = nullptr;
  if (pending) return pending->push_back(node);
  std::vector<const T*> queue;
  pending = &queue;
  for (const T* n = node;;) {
    if (InternTable<T>::instance().drop(n)) delete n;  // its sources' destructors push onto the queue and return
    if (queue.empty()) break;
    n = queue.back();
    queue.pop_back();
  }
  pending = nullptr;
}

}  // namespace lathe
