#include "onnx/ops/ml/tree_slots.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::onnx {
namespace {

constexpr int64_t kMaxSteps = 4096;

class SlotMaker {
public:
  SlotMaker(Call& call, const Forest& forest)
      : call_(call), forest_(forest), placed_(forest.nodes.size(), -1) {}

  Slots make(const std::vector<int64_t>& roots) {
    for (int64_t root : roots) {
      slots_.roots.push_back(static_cast<int64_t>(slots_.node.size()));
      place(root);
      // Breadth first, so that the slots that most rows pass lie together.
      for (; next_ < slots_.node.size(); ++next_) place_below(next_);
    }
    measure_ways();
    return std::move(slots_);
  }

private:
  void place(int64_t node) {
    const auto slot = static_cast<uint32_t>(slots_.node.size());
    if (slot >= kMaxTable)
      call_.fail(ErrorKind::Limit, fmt::format("expected at most {} nodes", kMaxTable / 2));
    const bool shared = node != kNoTree && placed_[node] >= 0;
    if (node != kNoTree && !shared) placed_[node] = slot;
    slots_.node.push_back(shared ? kNoTree : node);
    slots_.child.push_back(shared ? static_cast<uint32_t>(placed_[node]) : slot);
    slots_.forwards.push_back(shared);
  }

  void place_below(size_t slot) {
    const int64_t node = slots_.node[slot];
    if (node == kNoTree || forest_.nodes[node].branch == Branch::Leaf) return;
    slots_.child[slot] = static_cast<uint32_t>(slots_.node.size());
    place(forest_.nodes[node].fails);
    place(forest_.nodes[node].holds);
  }

  // Of each slot the longest way from it, by an explicit stack: a tree may be as deep as it has nodes.
  void measure_ways() {
    constexpr int64_t kUnknown = -1, kOpen = -2;
    std::vector<int64_t> ways(slots_.node.size(), kUnknown);
    std::vector<size_t> open;
    for (int64_t root : slots_.roots) {
      open.push_back(root);
      while (!open.empty()) {
        const size_t slot = open.back();
        int64_t longest = slots_.is_leaf(slot) ? 0 : 1;
        bool known = true;
        for (size_t k = 0; !slots_.is_leaf(slot) && k < (slots_.forwards[slot] ? 1u : 2u); ++k) {
          const size_t below = slots_.child[slot] + k;
          if (ways[below] == kOpen) call_.fail(ErrorKind::Value, "nodes go in a circle, expected trees");
          if (ways[below] == kUnknown) open.push_back(below);
          known &= ways[below] >= 0;
          longest = std::max(longest, ways[below] + 1);
        }
        ways[slot] = known ? longest : kOpen;
        if (known) open.pop_back();
      }
      slots_.steps.push_back(ways[root]);
      if (ways[root] > kMaxSteps)
        call_.fail(ErrorKind::Limit,
                   fmt::format("a tree of {} levels, expected at most {}", ways[root], kMaxSteps));
    }
  }

  Call& call_;
  const Forest& forest_;
  std::vector<int64_t> placed_;
  Slots slots_;
  size_t next_ = 0;
};

} // namespace

Slots make_slots(Call& call, const Forest& forest, const std::vector<int64_t>& roots) {
  return SlotMaker(call, forest).make(roots);
}

} // namespace lathe::onnx
