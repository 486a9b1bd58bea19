#include "core/hash.hpp"
#include "search/store/database.hpp"

namespace lathe::search {

uint64_t program_hash(const lower::Program& program) {
  // All stages as one kernel: the structural hash then covers every nest and, by the order of buffers, every
  // connection.
  ast::Kernel whole;
  uint64_t h = hash_text("program");
  // Moves name input buffers, so the same moves serve two programs only if their inputs have the same names.
  for (const auto& input : program.inputs) {
    whole.params.push_back({input.buffer, false});
    h = mix(h, hash_text(input.buffer->name));
    h = mix(h, input.is_constant); // only constants can be packed beforehand
  }
  for (const auto& stage : program.stages) {
    whole.params.push_back({stage.buffer, true});
    whole.body.insert(whole.body.end(), stage.nests.begin(), stage.nests.end());
  }
  for (const auto& recurrence : program.recurrences) h = mix(h, recurrence.node.hash());
  for (const auto& output : program.outputs) h = mix(h, static_cast<uint64_t>(output.stage));
  for (const Expr& var : program.shape_vars) {
    whole.shape_vars.push_back(var);
    h = mix(mix(h, static_cast<uint64_t>(var.lo())), static_cast<uint64_t>(var.hi()));
  }
  return mix(h, ast::structural_hash(whole));
}

} // namespace lathe::search
