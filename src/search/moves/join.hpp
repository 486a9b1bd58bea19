// Joining two neighbouring axes into one, if nothing in a kernel tells them apart.
#pragma once
#include <vector>

#include "search/moves/draft.hpp"

namespace lathe::search {

/// Joins the axis of the buffer and the one after it in `body`, with the loops that walk along them. The axes
/// of all other buffers that are read or written along these loops are joined, too. Not legal if an access
/// tells two such axes apart; the body then stays as it was.
Verdict join_axes(ast::Block& body, int buffer, size_t axis);

/// Joins axes of the buffer until it has this shape, which another kernel's joins have given it.
Verdict join_into(ast::Block& body, int buffer, const Shape& shape);

/// The buffer as the loads in `body` see it: its axes may have been joined there.
ast::BufferRef seen_in(const ast::Block& body, const ast::BufferRef& buffer);

/// Checks that all accesses to a buffer in `body` see it with the same shape, and makes them refer to the
/// same ast::Buffer. Stages that come into one kernel need this of the buffers that they share.
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
/// The joins of `reader` along the axes of a stage that it reads and that `producer` computes, as far as both
/// kernels allow them.
std::vector<JoinedAxes> joins_between(const lower::Program& program, const KernelPlan& producer, int stage,
                                      const KernelPlan& reader);

} // namespace lathe::search
