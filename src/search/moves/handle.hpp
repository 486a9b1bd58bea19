// Handles: the names of a plan's stages, loops and buffers inside the search. A handle is one pointer to an
// interned name, so equal names are equal pointers and a copy is free. Names live until the process ends.
//
//   stage     t5           the stage of that number, and its buffer
//   buffer    x            an input, by its name in the lowered program
//             t5.a0        an accumulator;  t5.p1  a packed copy of an operand;  t5.k0  a constant's copy
//   loop      t5.i1        as lowered: along axis 1 of the result;  t5.r2  a reducing loop;  t5.z1  of the
//   initialising nest
//             t5.i1.o      the outer loop of a split, t5.i1.i the inner one
//             t5.a0.z0     along dimension 0 of a copy: where it is set, t5.a0.w0 written back, ...
//
// Only parse_loop(), parse_buffer(), parse_stage() and name() read and make the text of names.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::search {

/// What a part of a name stands for. `kParts` in handle.cpp spells each.
enum class Part : uint8_t {
  Stage,       // root of a name: t5
  Input,       // root of a name: x
  Axis,        // i1   a loop along an axis of a stage's result, as lowered
  Reducing,    // r1   a reducing loop, as lowered
  Setting,     // z1   a loop of the nest that sets a result or an accumulator to the identity
  Outer,       // o    of a split
  Inner,       // i    of a split
  Accumulator, // a0   a buffer: partial results in registers
  Packed,      // p0   a buffer: a copy of an operand
  Constant,    // k0   a buffer: a copy of a constant, made before the first run
  Filling,     // c0   a loop that fills a packed copy
  Writing,     // w0   a loop that writes an accumulator back
  Summing,     // q0   a loop over partial results while they are written back
  Clearing, // f0   a loop that sets the result before partial results are added; the condition of a prefetch
  Border,   // b0   a slab of a border; its loops are parts of it
  Storing,  // s0   a loop of the plain store of a reduction's first iteration
  First,    // first   the condition around that store
  Later,    // later   the condition around the combines of the other iterations
};

struct HandleNode;

class Handle {
public:
  Handle() = default; // empty: names nothing
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(Handle a, Handle b) { return a.node_ == b.node_; }

  const std::string& name() const;
  Part part() const;     // the last part of the name
  int stage() const;     // to which the named thing belongs; -1: it is an input's, or the handle is empty
  uint64_t hash() const; // of the name: the same in every process
  /// The same name with `root` in place of its own root, which is a stage or an input.
  Handle with_root(Handle root) const;

protected:
  friend struct HandleNode;
  friend class BufferHandle;
  friend class LoopHandle;
  friend Handle parse_handle(std::string_view text);
  explicit Handle(const HandleNode* node) : node_(node) {}
  Handle child(Part part, int number = -1) const;
  const HandleNode* node_ = nullptr;
};

class LoopHandle : public Handle {
public:
  LoopHandle() = default;
  explicit LoopHandle(Handle handle) : Handle(handle) {}
  /// The two loops that a split of this loop makes.
  LoopHandle outer() const { return LoopHandle(child(Part::Outer)); }
  LoopHandle inner() const { return LoopHandle(child(Part::Inner)); }
  /// For a loop along an axis of a result, or a part of such a loop: the same loop in the nest that sets the
  /// result to the identity.
  LoopHandle setting() const;
  /// The same loop of slab `number` of its stage's border.
  LoopHandle in_border(int number) const;
  /// Whether it is `whole`, or splits of `whole` made it.
  bool is_part_of(LoopHandle whole) const;
};

class BufferHandle : public Handle {
public:
  BufferHandle() = default;
  explicit BufferHandle(Handle handle) : Handle(handle) {}
  static BufferHandle of_stage(int stage);
  static BufferHandle of_input(std::string_view name);
  bool is_stage() const { return node_ && part() == Part::Stage; }
  bool is_input() const { return node_ && part() == Part::Input; }
  BufferHandle copy(Part kind, int number) const { return BufferHandle(child(kind, number)); }
  LoopHandle loop(Part kind, int number = -1) const { return LoopHandle(child(kind, number)); }
};

/// A stage as the argument of a move: text "t5".
struct StageHandle {
  int index = -1;
  StageHandle() = default;
  explicit StageHandle(int stage) : index(stage) {}
  BufferHandle buffer() const { return BufferHandle::of_stage(index); }
  friend bool operator==(StageHandle, StageHandle) = default;
};

/// The loop along an axis of a stage's result, as lowered.
inline LoopHandle axis_loop(int stage, int axis) {
  return BufferHandle::of_stage(stage).loop(Part::Axis, axis);
}

/// The loop, buffer or stage of this name; nothing if the text is not such a name.
std::optional<LoopHandle> parse_loop(std::string_view text);
std::optional<BufferHandle> parse_buffer(std::string_view text);
std::optional<StageHandle> parse_stage(std::string_view text);

} // namespace lathe::search
