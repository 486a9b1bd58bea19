#include "search/moves/draw.hpp"

#include <algorithm>

#include "lathe/error.hpp"

namespace lathe::search {

Draw::Draw(const Plan& plan, const Target& target, std::mt19937_64& random)
    : target_(target), random_(random) {
  for (const KernelPlanRef& kernel : plan.kernels) {
    collect(kernel->handles, kernel->kernel.body, {});
    for (const int s : kernel->stages) stages_.emplace_back(s);
    for (const ast::Param& param : kernel->kernel.params)
      buffers_.push_back(handle_of(*plan.program, kernel->handles, *param.buffer));
  }
  if (loops_.empty()) loops_.push_back(axis_loop(0, 0));
}

void Draw::collect(const KernelHandles& handles, const ast::Block& block,
                   const std::vector<LoopHandle>& nest) {
  for (const ast::Stmt& stmt : block) {
    if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      if (const BufferHandle buffer = handles.scratch(alloc->buffer->id)) scratch_.push_back(buffer);
      collect(handles, alloc->body, {});
    } else if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      std::vector<LoopHandle> longer = block.size() == 1 ? nest : std::vector<LoopHandle>{};
      if (const LoopHandle handle = handles.loop(*loop)) {
        loops_.push_back(handle);
        longer.push_back(handle);
        if (longer.size() > 1) nests_.push_back(longer);
      }
      collect(handles, loop->body, longer);
    }
  }
}

std::vector<LoopHandle> Draw::nest() { return nests_.empty() ? std::vector<LoopHandle>{} : pick(nests_); }

StoredHandle Draw::stored() { return !scratch_.empty() && below(8) == 0 ? pick(scratch_) : stage().buffer(); }

Move Draw::one_of(bool rewrites) {
  const auto is_drawn = [&](const MoveRow& row) {
    return rewrites_graph(row.kind) == rewrites && (target_.groups || row.kind != MoveKind::Bind);
  };
  size_t sum = 0;
  for (const MoveRow& row : move_table())
    if (is_drawn(row)) sum += static_cast<size_t>(row.drawn.weight);
  size_t at = below(sum);
  for (const MoveRow& row : move_table()) {
    if (!is_drawn(row)) continue;
    if (at < static_cast<size_t>(row.drawn.weight)) return draw(row);
    at -= static_cast<size_t>(row.drawn.weight);
  }
  throw InternalError("no move was drawn");
}

Move Draw::draw(const MoveRow& row) {
  if (row.drawn.draw) return row.drawn.draw(*this);
  Move move{row.kind, {}};
  for (const Parameter& parameter : row.parameters) {
    const size_t first = rewrites_graph(row.kind) ? 1 : 0; // least length of a list
    const size_t count = !parameter.is_list ? 1 : first + (below(2) == 0 ? 1 : 0);
    for (size_t k = 0; k < count; ++k) move.arguments.push_back(argument(parameter.alternative, row));
  }
  return move;
}

Argument Draw::argument(size_t alternative, const MoveRow& row) {
  // Packed is drawn twice as often as each other scope.
  static constexpr ast::Scope kScopes[] = {ast::Scope::Packed, ast::Scope::Packed, ast::Scope::Register,
                                           ast::Scope::Local};
  switch (alternative) {
  case alternative_of<int64_t>(): return row.drawn.numbers[below(row.drawn.numbers.size())];
  case alternative_of<StageHandle>(): return stage();
  case alternative_of<LoopHandle>(): return loop();
  case alternative_of<BufferHandle>(): return buffer();
  case alternative_of<StoredHandle>(): return stored();
  case alternative_of<Place>():
    return below(6) == 0 ? Place() : below(16) == 0 ? Place(stage()) : Place(loop());
  case alternative_of<ast::Scope>(): return kScopes[below(std::size(kScopes))];
  case alternative_of<Level>(): return below(2) == 0 ? Level::Group : Level::Local;
  default: throw InternalError("an argument that is not drawn");
  }
}

Move draw_order(Draw& draw) {
  std::vector<LoopHandle> nest = draw.nest();
  if (nest.empty()) return {MoveKind::Unroll, {draw.loop()}};
  draw.shuffle(nest);
  return {MoveKind::Reorder, {nest.begin(), nest.end()}};
}

Move draw_tensor(Draw& draw) {
  std::vector<LoopHandle> nest = draw.nest();
  const size_t loops = draw.below(2) == 0 ? 2 : 4;
  if (nest.size() > loops) nest.erase(nest.begin(), nest.end() - static_cast<std::ptrdiff_t>(loops));
  Move move{MoveKind::Tensorise, {draw.stored()}};
  move.arguments.insert(move.arguments.end(), nest.begin(), nest.end());
  return move;
}

Move draw_copy(Draw& draw) { return {MoveKind::Widen, {draw.copy()}}; }

Move draw_tile_hint(Draw& draw) {
  const std::vector<LoopHandle> nest = draw.nest();
  if (nest.empty()) return {MoveKind::Unroll, {draw.loop()}};
  std::vector<size_t> at{draw.below(nest.size()), draw.below(nest.size()), draw.below(nest.size())};
  std::sort(at.begin(), at.end());
  return {MoveKind::PrefetchTile,
          {draw.stored(), draw.buffer(), nest[at[0]], nest[at[1]], nest[at[2]], int64_t{1} << draw.below(3)}};
}

} // namespace lathe::search
