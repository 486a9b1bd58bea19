// Reads the reductions of a kernel as problems for the tiler.
#include <algorithm>

#include "ast/tensor.hpp"
#include "search/moves/draft.hpp"
#include "search/suggest/suggest.hpp"
#include "search/suggest/tile.hpp"

namespace lathe::search {
namespace {

bool read_tile_problem(const Features& f, const Leaf& update, const lower::Program& program,
                       const KernelPlan& kernel, const Target& target, TileProblem& out) {
  if (!update.combine || update.random) return false;
  out = {};
  out.result = update.result;
  out.lanes = lanes_of(f, update, target);
  out.numbers = ScratchNumbers(kernel);
  out.whole = update.own == 0;
  const AccessInfo& store = f.accesses[update.store];
  if (const auto* sum = std::get_if<ast::Store>(&f.loops[store.loop].loop->body[0].node)) {
    const auto factors = ast::factors_of(*sum);
    out.adds_products = factors && factors->first->op == Op::Load && factors->second->op == Op::Load;
    out.sum = sum->buffer->dtype;
  }
  std::vector<int> out_loops, reduce_loops;
  for (size_t i = update.own; i < update.loops.size(); ++i) {
    const int l = update.loops[i];
    if (!is_serial(f, l)) return false;
    const double stride = f.stride(store, l);
    (stride != 0 ? out_loops : reduce_loops).push_back(l);
    (stride != 0 ? out.out : out.reduce)
        .push_back({kernel.handles.loop(*f.loops[l].loop),
                    {},
                    longest(f, l),
                    std::max(1.0, f.loops[l].extent),
                    stride,
                    {},
                    0,
                    f.loops[l].loop->extent.is_const()});
  }
  if (out.out.empty() || out.reduce.empty()) return false;
  for (int a = update.first; a < update.store; ++a) {
    const AccessInfo& access = f.accesses[a];
    const BufferHandle name = handle_of(program, kernel.handles, *f.buffers[access.buffer].buffer);
    TileProblem::Operand operand{name,
                                 !access.random,
                                 find_constant(program, name) != nullptr,
                                 f.buffers[access.buffer].element_bytes,
                                 {},
                                 {},
                                 f.buffers[access.buffer].buffer->dtype};
    for (int l : out_loops) operand.out_strides.push_back(f.stride(access, l));
    for (int l : reduce_loops) operand.reduce_strides.push_back(f.stride(access, l));
    // A buffer that is read at two places has no single copy.
    for (auto& other : out.operands)
      if (other.buffer == operand.buffer) other.packable = operand.packable = false;
    out.operands.push_back(std::move(operand));
  }
  return true;
}

} // namespace

std::vector<TileProblem> read_tile_problems(const Features& f, const lower::Program& program,
                                            const KernelPlan& kernel, const Target& target) {
  std::vector<TileProblem> problems;
  TileProblem problem;
  for (const Leaf& leaf : leaves_of(program, kernel, f))
    if (read_tile_problem(f, leaf, program, kernel, target, problem)) problems.push_back(std::move(problem));
  return problems;
}

} // namespace lathe::search
