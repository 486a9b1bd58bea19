// Random moves: what the walks of the tests try on a plan. Most are not legal; the table says how each is
// drawn.
#pragma once
#include <random>

#include "search/moves/plan.hpp"
#include "search/moves/table.hpp"

namespace lathe::search {

class Draw {
public:
  Draw(const Plan& plan, const Target& target, std::mt19937_64& random);
  /// A random move that rewrites the graph, or one that does not.
  Move rewrite() { return one_of(true); }
  Move other() { return one_of(false); }

  LoopHandle loop() { return pick(loops_); }
  StageHandle stage() { return pick(stages_); }
  size_t below(size_t n) { return random_() % n; }
  /// Loops of one perfect nest, outermost first; nothing if no nest has two.
  std::vector<LoopHandle> nest();
  BufferHandle buffer() { return pick(buffers_); }
  /// Scratch or a parameter.
  BufferHandle copy() { return !scratch_.empty() && below(2) == 0 ? pick(scratch_) : buffer(); }
  StoredHandle stored();
  template <class T> void shuffle(std::vector<T>& list) { std::shuffle(list.begin(), list.end(), random_); }

private:
  Move one_of(bool rewrites);
  Move draw(const MoveRow& row);
  Argument argument(size_t alternative, const MoveRow& row);
  void collect(const KernelHandles& handles, const ast::Block& block, const std::vector<LoopHandle>& nest);
  template <class T> const T& pick(const std::vector<T>& from) { return from[below(from.size())]; }

  const Target& target_;
  std::mt19937_64& random_;
  std::vector<LoopHandle> loops_;
  std::vector<std::vector<LoopHandle>> nests_;
  std::vector<StageHandle> stages_;
  std::vector<BufferHandle> buffers_, scratch_;
};

/// A `reorder` of the loops of one nest in a random order.
Move draw_order(Draw& draw);
/// A `tensorise` of the innermost loops of one nest.
Move draw_tensor(Draw& draw);
/// A `widen` of scratch, or of what may be a constant's copy.
Move draw_copy(Draw& draw);
/// A `prefetch_tile` whose three loops lie in one nest, from outside inwards.
Move draw_tile_hint(Draw& draw);

} // namespace lathe::search
