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
#include <mutex>
#include <type_traits>
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
  template <class U> friend class InternTable;
  mutable std::atomic<size_t> references_{0};
  size_t hash_ = 0;
  mutable const T* next_ = nullptr;  // in the table; under the lock of the shard
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
  template <class U> friend class InternTable;
  explicit Ref(const T* adopted) : ptr_(adopted) {}
  static void release(const T* node);
  const T* ptr_ = nullptr;
};

/// All nodes of a type. The nodes of a bucket are a list through the nodes themselves: no memory but theirs.
template <class T> class InternTable {
 public:
  // Never destroyed: static Refs may outlive any static table.
  static InternTable& instance() {
    static auto* table = new InternTable;
    return *table;
  }

  /// The node equal to `node`, with one more reference; made if there is none.
  const T* find_or_make(T&& node) {
    const size_t hash = node.hash_value();
    Shard& s = shard(hash);
    std::lock_guard lock(s.mutex);
    for (const T* n = s.bucket(hash); n; n = n->next_) {
      if (n->hash_ != hash || !n->equal(node)) continue;
      n->references_.fetch_add(1, std::memory_order_relaxed);
      return n;
    }
    if (s.count == s.buckets.size()) s.grow();
    auto* made = new T(std::move(node));
    made->hash_ = hash;
    made->references_.store(1, std::memory_order_relaxed);
    s.add(made);
    ++s.count;
    return made;
  }

  /// Gives up a reference. If it was the last, takes the node out of the table and returns true. The lock is
  /// held throughout, so that no one finds the node again.
  bool drop(const T* node) {
    Shard& s = shard(node->hash_);
    std::lock_guard lock(s.mutex);
    if (node->references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    const T** link = &s.bucket(node->hash_);
    while (*link != node) link = &(*link)->next_;
    *link = node->next_;
    --s.count;
    return true;
  }

  size_t size() {
    size_t count = 0;
    for (Shard& s : shards_) {
      std::lock_guard lock(s.mutex);
      count += s.count;
    }
    return count;
  }

 private:
  static constexpr size_t kShards = 64, kFirstBuckets = 64;  // powers of two

  struct Shard {
    std::mutex mutex;
    size_t count = 0;
    std::vector<const T*> buckets = std::vector<const T*>(kFirstBuckets);

    const T*& bucket(size_t hash) { return buckets[hash & (buckets.size() - 1)]; }
    void add(const T* node) { node->next_ = std::exchange(bucket(node->hash_), node); }
    void grow() {
      std::vector<const T*> old(2 * buckets.size());
      old.swap(buckets);
      for (const T* first : old)
        for (const T* node = first; node;) add(std::exchange(node, node->next_));
    }
  };

  // The shards take bits that the buckets of a table of that size do not.
  Shard& shard(size_t hash) { return shards_[(hash >> 40) % kShards]; }

  Shard shards_[kShards];
};

/// The node equal to `node`, made if there is none.
template <class U> Ref<U> intern(U&& node) {
  static_assert(!std::is_reference_v<U>, "pass an rvalue");
  return Ref<U>(InternTable<U>::instance().find_or_make(std::move(node)));
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
