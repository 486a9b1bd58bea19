// A map from values of an AST to the loops that they depend on, and how long they take, made to be cleared for each store:
// reading features is what the search spends its time on.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::search {

/// Distinct values of a DAG with the loops they depend on, as a bit per depth, and the cycles from their loads to them. Cleared by
/// a new epoch.
class DependenceMap {
public:
  void clear() {
    ++epoch_;
    count_ = 0;
  }
  struct Slot {
    const ast::Value* value = nullptr;
    uint64_t mask = 0, epoch = 0;
    double depth = 0;
  };
  Slot* find(const ast::Value* v) {
    if (slots_.empty()) return nullptr;
    for (size_t i = slot(v);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].epoch != epoch_) return nullptr;
      if (slots_[i].value == v) return &slots_[i];
    }
  }
  void insert(const ast::Value* v, uint64_t mask, double depth) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    size_t i = slot(v);
    while (slots_[i].epoch == epoch_) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {v, mask, epoch_, depth};
    ++count_;
  }

private:
  size_t slot(const ast::Value* v) const {
    return (reinterpret_cast<uintptr_t>(v) * 0x9E3779B97F4A7C15ull >> 20) & (slots_.size() - 1);
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(std::max<size_t>(64, old.size() * 2), {});
    const size_t count = count_;
    for (const Slot& s : old)
      if (s.epoch == epoch_) insert(s.value, s.mask, s.depth);
    count_ = count;
  }
  std::vector<Slot> slots_;
  size_t count_ = 0;
  uint64_t epoch_ = 1;
};

} // namespace lathe::search
