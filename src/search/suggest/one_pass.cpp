// Proposes to compute in one pass what is read together: a stage element by element in the loops of its
// reader, where it must be stored all the same, and stages that read the same data in the same loops.
#include <algorithm>

#include <fmt/format.h>

#include "search/suggest/readers.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// The extents of the loops of a kernel that is one nest around plain stores; empty for other kernels.
std::vector<Expr> loops_of(const KernelPlan& kernel) {
  std::vector<Expr> extents;
  const ast::Block* body = &kernel.kernel.body;
  while (body->size() == 1 && std::holds_alternative<ast::For>((*body)[0].node)) {
    const auto& loop = std::get<ast::For>((*body)[0].node);
    if (loop.kind != ast::LoopKind::Serial) return {};
    extents.push_back(loop.extent);
    body = &loop.body;
  }
  const bool plain = std::all_of(body->begin(), body->end(), [](const ast::Stmt& stmt) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    return store && !store->combine && !store->scatter;
  });
  return plain ? extents : std::vector<Expr>();
}

/// Buffers that leave the first cache before a second pass reads them again.
bool is_long(const SuggestContext& c, const ast::Buffer& buffer) {
  return estimate(num_elements(buffer.shape)) * size_of(buffer.dtype) >
         static_cast<double>(c.machine.levels.at(0).bytes);
}

bool reads_same(const SuggestContext& c, const KernelPlan& other) {
  const auto& ours = c.kernel.kernel.params;
  return std::any_of(ours.begin(), ours.end(), [&](const ast::Param& p) {
    const auto& theirs = other.kernel.params;
    return !p.written && is_long(c, *p.buffer) &&
           std::any_of(theirs.begin(), theirs.end(),
                       [&](const ast::Param& q) { return !q.written && q.buffer->id == p.buffer->id; });
  });
}

/// The stage comes into the loops of the kernel. It is the only one of its own kernel.
Proposal into_loops(const SuggestContext& c, int stage, const std::string& why) {
  const StageHandle made(stage), host(c.kernel.stages.back());
  return {{{MoveKind::FuseAt, {made, Place(host), ast::Scope::Packed}}, {MoveKind::StoreWith, {made, host}}},
          why};
}

} // namespace

std::vector<Proposal> suggest_one_pass(const SuggestContext& c) {
  constexpr int kNeighbours = 8; // kernels before this one that are looked at
  std::vector<Proposal> proposals;
  const std::vector<Expr> loops = loops_of(c.kernel);
  if (loops.empty()) return proposals;
  const auto fits = [&](const KernelPlan& other) {
    return &other != &c.kernel && other.stages.size() == 1 && other.recurrence < 0 &&
           loops_of(other) == loops;
  };
  for (const int stage : c.kernel.reads) {
    const lower::Stage& info = c.plan.program->stages[static_cast<size_t>(stage)];
    const Readers readers = readers_of(c.plan, stage);
    if (!readers.owner || (!info.is_output && readers.kernels.size() == 1)) continue;
    if (is_long(c, *info.buffer) && fits(*readers.owner))
      proposals.push_back(into_loops(c, stage, fmt::format("store {} where it is read", info.buffer->name)));
  }
  const auto& kernels = c.plan.kernels;
  const auto here = std::find_if(kernels.begin(), kernels.end(),
                                 [&](const KernelPlanRef& k) { return k.get() == &c.kernel; });
  auto other = here;
  for (int i = 0; i < kNeighbours && other != kernels.begin(); ++i) {
    const KernelPlan& before = **--other;
    if (!fits(before) || !reads_same(c, before)) continue;
    if (std::binary_search(c.kernel.reads.begin(), c.kernel.reads.end(), before.stages[0]))
      continue; // proposed already
    proposals.push_back(into_loops(c, before.stages[0], "read the same data in one pass"));
  }
  return proposals;
}

} // namespace lathe::search
