// Moves by name of what they do, for the suggesters.
#pragma once
#include "search/moves/move.hpp"

namespace lathe::search {

inline Move move_winograd(std::vector<std::string> stages, int tile) {
  return {MoveKind::Winograd, std::move(stages), {tile}};
}
inline Move move_strassen(std::vector<std::string> stages, int levels) {
  return {MoveKind::Strassen, std::move(stages), {levels}};
}
inline Move move_innermost(std::vector<std::string> stages, int axis) {
  return {MoveKind::Innermost, std::move(stages), {axis}};
}
inline Move move_inline(std::string stage) { return {MoveKind::Inline, {std::move(stage)}, {}}; }
inline Move move_fuse_at(std::string stage, std::string loop, std::string scope) {
  return {MoveKind::FuseAt, {std::move(stage), std::move(loop), std::move(scope)}, {}};
}
inline Move move_split(std::string loop, int64_t factor) {
  return {MoveKind::Split, {std::move(loop)}, {factor}};
}
inline Move move_reorder(std::vector<std::string> loops) { return {MoveKind::Reorder, std::move(loops), {}}; }
inline Move move_unroll(std::string loop) { return {MoveKind::Unroll, {std::move(loop)}, {}}; }
inline Move move_vectorise(std::string loop) { return {MoveKind::Vectorise, {std::move(loop)}, {}}; }
inline Move move_parallelise(std::string loop) { return {MoveKind::Parallelise, {std::move(loop)}, {}}; }
inline Move move_pack(std::string stage, std::string buffer, std::string loop, std::string scope) {
  return {MoveKind::Pack, {std::move(stage), std::move(buffer), std::move(loop), std::move(scope)}, {}};
}
inline Move move_prepack(std::string stage, std::string constant) {
  return {MoveKind::Prepack, {std::move(stage), std::move(constant)}, {}};
}
inline Move move_bind(std::string loop, std::string level, int axis) {
  return {MoveKind::Bind, {std::move(loop), std::move(level)}, {axis}};
}
inline Move move_accumulate(std::string stage, std::string loop, std::vector<std::string> partial = {}) {
  Move m{MoveKind::Accumulate, {std::move(stage), std::move(loop)}, {}};
  for (auto& p : partial) m.names.push_back(std::move(p));
  return m;
}
inline Move move_store_first(std::string stage, std::string loop) {
  return {MoveKind::StoreFirst, {std::move(stage), std::move(loop)}, {}};
}
inline Move move_prefetch_tile(std::string stage, std::string buffer, std::string ahead, std::string spread,
                               std::string at, int64_t streams) {
  return {MoveKind::PrefetchTile,
          {std::move(stage), std::move(buffer), std::move(ahead), std::move(spread), std::move(at)},
          {streams}};
}
inline Move move_stream(std::string stage) { return {MoveKind::Stream, {std::move(stage)}, {}}; }
inline Move move_merge(std::string stage, std::string consumer) {
  return {MoveKind::Merge, {std::move(stage), std::move(consumer)}, {}};
}
inline Move move_carry(std::string stage, std::string loop) {
  return {MoveKind::Carry, {std::move(stage), std::move(loop)}, {}};
}
inline Move move_join(std::string stage, int axis) { return {MoveKind::Join, {std::move(stage)}, {axis}}; }
inline Move move_border(std::string stage) { return {MoveKind::Border, {std::move(stage)}, {}}; }
inline Move move_prefetch(std::string stage, std::string buffer, std::string loop, int64_t distance) {
  return {MoveKind::Prefetch, {std::move(stage), std::move(buffer), std::move(loop)}, {distance}};
}

} // namespace lathe::search
