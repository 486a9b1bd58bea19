// Moves as a suggester writes them down: each call adds one, and says what the loops and buffers that it
// makes are called.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::search {

/// The numbers that the next scratch buffers of a kernel's stages get.
class ScratchNumbers {
public:
  ScratchNumbers() = default; // of a kernel that has none
  explicit ScratchNumbers(const KernelPlan& kernel);
  int take_scratch(int stage) { return scratch_[stage]++; }
  int take_constant(int stage) { return constants_[stage]++; }

private:
  std::map<int, int> scratch_, constants_; // by stage
};

/// The two loops that a split makes.
struct Halves {
  LoopHandle outer, inner;
};

/// The copy that an accumulation makes, and the loops along its dimensions: they are those of the loops
/// inside that move the result or are partial, outermost first.
struct Accumulator {
  BufferHandle buffer;
  LoopHandle setting(int dimension) const { return buffer.loop(Part::Setting, dimension); }
  LoopHandle writing(int loop) const {
    return buffer.loop(Part::Writing, loop);
  } // of those that move the result
  LoopHandle summing(int loop) const { return buffer.loop(Part::Summing, loop); } // of the partial ones
};

/// The copy of an operand that packing makes, and the loops that fill it.
struct PackedCopy {
  BufferHandle buffer;
  LoopHandle filling(int dimension) const { return buffer.loop(Part::Filling, dimension); }
};

class Script {
public:
  explicit Script(ScratchNumbers numbers) : numbers_(std::move(numbers)) {}
  explicit Script(const KernelPlan& kernel) : numbers_(kernel) {}

  Halves split(LoopHandle loop, int64_t factor) {
    add(MoveKind::Split, loop, factor);
    return {loop.outer(), loop.inner()};
  }
  void reorder(const std::vector<LoopHandle>& loops) {
    moves_.push_back({MoveKind::Reorder, {loops.begin(), loops.end()}});
  }
  void unroll(LoopHandle loop) { add(MoveKind::Unroll, loop); }
  void vectorise(LoopHandle loop) { add(MoveKind::Vectorise, loop); }
  Accumulator accumulate(StoredHandle result, LoopHandle around, const std::vector<LoopHandle>& partial = {});
  PackedCopy pack(StoredHandle result, BufferHandle operand, LoopHandle at, ast::Scope scope);
  BufferHandle prepack(StageHandle stage, BufferHandle constant);
  template <class... A> void add(MoveKind kind, A... arguments) {
    moves_.push_back({kind, {Argument(arguments)...}});
  }
  void add(const std::vector<Move>& moves) { moves_.insert(moves_.end(), moves.begin(), moves.end()); }

  bool empty() const { return moves_.empty(); }
  const std::vector<Move>& moves() const { return moves_; }
  std::vector<Move> take() { return std::move(moves_); }

private:
  std::vector<Move> moves_;
  ScratchNumbers numbers_;
};

} // namespace lathe::search
