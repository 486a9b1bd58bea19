// Moves as a suggester writes them down. Each call adds a move and returns the names of the loops and buffers
// that the move makes.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::search {

/// The numbers for the next scratch buffers of each stage of a kernel.
class ScratchNumbers {
public:
  ScratchNumbers() = default; // for a kernel without scratch
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

/// The copy that an accumulation makes, and the loops along its dimensions. It has one dimension for each
/// inner loop that moves the result or is partial, outermost first.
struct Accumulator {
  BufferHandle buffer;
  LoopHandle setting(int dimension) const { return buffer.loop(Part::Setting, dimension); }
  LoopHandle writing(int loop) const {
    return buffer.loop(Part::Writing, loop);
  } // `loop` counts the loops that move the result
  LoopHandle summing(int loop) const { return buffer.loop(Part::Summing, loop); } // counts the partial loops
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
  PackedCopy unpack(StoredHandle result, BufferHandle operand, LoopHandle at, ast::Scope scope);
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
