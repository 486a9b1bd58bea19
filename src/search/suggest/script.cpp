#include "search/suggest/script.hpp"

#include <algorithm>

#include "search/moves/ids.hpp"

namespace lathe::search {

ScratchNumbers::ScratchNumbers(const KernelPlan& kernel) {
  ast::visit(kernel.kernel.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
    const auto stage = alloc ? ids::stage_of_scratch(alloc->buffer->id) : std::nullopt;
    if (!stage) return;
    int& next = scratch_[*stage];
    next = std::max(next, alloc->buffer->id - ids::first_scratch(*stage) + 1);
  });
  for (const ast::Kernel& copy : kernel.constants) {
    const int id = copy.params[1].buffer->id, stage = *ids::stage_of_scratch(id);
    constants_[stage] = std::max(constants_[stage], id - ids::first_copy(stage) + 1);
  }
}

Accumulator Script::accumulate(StoredHandle result, LoopHandle around,
                               const std::vector<LoopHandle>& partial) {
  Move move{MoveKind::Accumulate, {result, around}};
  move.arguments.insert(move.arguments.end(), partial.begin(), partial.end());
  moves_.push_back(std::move(move));
  return {result.copy(Part::Accumulator, numbers_.take_scratch(result.stage()))};
}

PackedCopy Script::pack(StoredHandle result, BufferHandle operand, LoopHandle at, ast::Scope scope) {
  add(MoveKind::Pack, result, operand, at, scope);
  return {result.copy(Part::Packed, numbers_.take_scratch(result.stage()))};
}

PackedCopy Script::unpack(StoredHandle result, BufferHandle operand, LoopHandle at, ast::Scope scope) {
  add(MoveKind::Unpack, result, operand, at, scope);
  return {result.copy(Part::Packed, numbers_.take_scratch(result.stage()))};
}

BufferHandle Script::prepack(StageHandle stage, BufferHandle constant) {
  add(MoveKind::Prepack, stage, constant);
  return stage.buffer().copy(Part::Constant, numbers_.take_constant(stage.index));
}

} // namespace lathe::search
