#include "search/beam/whole_functions.hpp"

#include <algorithm>

namespace lathe::search {

bool is_piece_of_function(const graph::Node& stage, const graph::Node& user) {
  if (stage.op == Op::Mul && user.op == Op::Exp2) return user.dtype == DType::F32 || user.dtype == DType::F64;
  if (user.dtype != DType::F32) return false;
  return (stage.op == Op::Log2 && user.op == Op::Mul) ||
         ((stage.op == Op::Sin || stage.op == Op::Cos) && user.op == Op::Div);
}

namespace {

/// The stages that are pieces for all their users.
std::vector<int> pieces_of(const lower::Program& program) {
  std::vector<int> pieces;
  for (const lower::Stage& stage : program.stages) {
    const auto is_piece_for = [&](int user) {
      return is_piece_of_function(*stage.node, *program.stages[static_cast<size_t>(user)].node);
    };
    if (!stage.is_output && !stage.users.empty() &&
        std::all_of(stage.users.begin(), stage.users.end(), is_piece_for))
      pieces.push_back(stage.id);
  }
  return pieces;
}

} // namespace

bool splits_function(const Plan& plan) {
  const std::vector<int> pieces = pieces_of(*plan.program);
  return std::any_of(plan.kernels.begin(), plan.kernels.end(), [&](const KernelPlanRef& kernel) {
    return std::any_of(pieces.begin(), pieces.end(), [&](int piece) {
      return std::binary_search(kernel->stages.begin(), kernel->stages.end(), piece);
    });
  });
}

Plan with_whole_functions(const Plan& start, const Target& target) {
  Plan plan = start;
  for (const int piece : pieces_of(*start.program))
    if (Applied inlined = apply(plan, Move{MoveKind::Inline, {StageHandle(piece)}}, target); inlined.plan)
      plan = std::move(*inlined.plan);
  return plan;
}

} // namespace lathe::search
