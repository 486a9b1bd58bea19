// A map from addresses, for passes over a DAG that look up every node several times: one block of memory, no
// node of its own per entry. It only grows, and does not own what the addresses point to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lathe {

template <class K, class V> class PointerMap {
public:
  /// The key's value, or null if the key is not there. The pointer is valid until the next insertion.
  const V* find(const K* key) const {
    if (count_ == 0) return nullptr;
    const Slot& slot = slots_[place(key)];
    return slot.key ? &slot.value : nullptr;
  }
  bool contains(const K* key) const { return find(key) != nullptr; }
  void set(const K* key, V value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(key)];
    count_ += slot.key == nullptr;
    slot = {key, std::move(value)};
  }
  void clear() {
    if (count_ == 0) return;
    for (Slot& slot : slots_) slot = {};
    count_ = 0;
  }

private:
  struct Slot {
    const K* key = nullptr;
    V value{};
  };
  static constexpr size_t kLeast = 32;

  /// The slot that holds the key, or the empty slot where it belongs.
  size_t place(const K* key) const {
    const uint64_t spread = reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull;
    size_t i = spread >> shift_;
    while (slots_[i].key && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? kLeast : 2 * slots_.size());
    old.swap(slots_);
    shift_ = 64;
    for (size_t n = slots_.size(); n > 1; n /= 2) --shift_;
    for (Slot& slot : old)
      if (slot.key) slots_[place(slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_; // their number is a power of two
  size_t count_ = 0;
  int shift_ = 64; // low bits of a spread address that its slot ignores
};

} // namespace lathe
