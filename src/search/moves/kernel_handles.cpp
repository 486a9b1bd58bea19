#include "search/moves/kernel_handles.hpp"

#include "search/moves/ids.hpp"

namespace lathe::search {

int stage_of(const lower::Program& program, const ast::Buffer& buffer) {
  if (const auto scratch = ids::stage_of_scratch(buffer.id)) return *scratch;
  return program.stage_of_buffer.at(static_cast<size_t>(buffer.id));
}

BufferHandle handle_of(const lower::Program& program, const KernelHandles& handles,
                       const ast::Buffer& buffer) {
  if (ids::stage_of_scratch(buffer.id)) return handles.scratch(buffer.id);
  const int stage = stage_of(program, buffer);
  return stage < 0 ? BufferHandle::of_input(buffer.name) : BufferHandle::of_stage(stage);
}

int id_of(const lower::Program& program, const KernelHandles& handles, BufferHandle buffer) {
  if (buffer.is_input()) {
    for (const lower::InputBuffer& input : program.inputs)
      if (input.buffer->name == buffer.name()) return input.buffer->id;
    return -1;
  }
  if (!buffer.is_stage()) return handles.id_of_scratch(buffer);
  const auto stage = static_cast<size_t>(buffer.stage());
  return stage < program.stages.size() ? program.stages[stage].buffer->id : -1;
}

} // namespace lathe::search
