// Axes that nothing in a kernel tells apart: two of them are one.
#pragma once
#include <vector>

#include "search/moves/draft.hpp"

namespace lathe::search {

/// In `body` the axis of the buffer and the one after it become one, with the loops that walk along them and
/// with the axes of all other buffers that are read or written along these loops. Illegal where they are told
/// apart; the body is then as it was.
Verdict join_axes(ast::Block& body, int buffer, size_t axis);

/// Joins axes of the buffer until it has this shape, which another kernel's joins have given it.
Verdict join_into(ast::Block& body, int buffer, const Shape& shape);

/// As which the loads in `body` see the buffer: its axes may have been joined.
ast::BufferRef seen_in(const ast::Block& body, const ast::BufferRef& buffer);

/// Stages that come into one kernel must see the buffers that they share alike; then these are the same
/// again.
Verdict see_alike(ast::Block& body);

/// Axes `axis` and `axis` + 1 of a stage, to be joined.
struct JoinedAxes {
  StageHandle stage;
  int64_t axis;
  Move move() const { return {MoveKind::Join, {stage, axis}}; }
};

std::vector<Move> moves_of(const std::vector<JoinedAxes>& joins);

/// All joins that the kernel allows.
std::vector<JoinedAxes> joins_of(const lower::Program& program, const KernelPlan& kernel);
/// The joins of a kernel along axes of a stage that it reads and that another one computes, as far as both
/// allow them.
std::vector<JoinedAxes> joins_between(const lower::Program& program, const KernelPlan& producer, int stage,
                                      const KernelPlan& reader);

} // namespace lathe::search
