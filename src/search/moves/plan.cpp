#include "search/moves/plan.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lathe/error.hpp"
#include "search/moves/draft.hpp"
#include "search/moves/editor.hpp"
#include "search/moves/rewrite_graph.hpp"

namespace lathe::search {

History::~History() {
  // A long history is a long chain in which each element alone owns the next: take it apart from the front.
  while (earlier && earlier.use_count() == 1) {
    auto next = std::move(const_cast<History*>(earlier.get())->earlier);
    earlier = std::move(next);
  }
}

std::vector<Move> Plan::moves() const {
  std::vector<Move> out;
  for (const History* h = history.get(); h; h = h->earlier.get()) out.push_back(h->move);
  std::reverse(out.begin(), out.end());
  return out;
}

Plan initial_plan(std::shared_ptr<const lower::Program> program) {
  Plan plan;
  plan.program = program;
  plan.kernels.reserve(program->stages.size());
  std::vector<bool> has_kernel(program->recurrences.size());
  for (const lower::Stage& stage : program->stages) {
    if (stage.recurrence < 0) {
      plan.kernels.push_back(finish(draft_of_stage(*program, stage.id)));
    } else if (!has_kernel[static_cast<size_t>(stage.recurrence)]) {
      has_kernel[static_cast<size_t>(stage.recurrence)] = true;
      plan.kernels.push_back(kernel_of_recurrence(*program, stage.recurrence));
    }
  }
  for (const lower::Recurrence& recurrence : program->recurrences)
    plan.bodies.push_back(std::make_shared<const Plan>(initial_plan(recurrence.body)));
  return plan;
}

Applied apply(const Plan& plan, const std::vector<Move>& moves, const Target& target) {
  Plan start = plan;
  auto move = moves.begin();
  for (; move != moves.end() && rewrites_graph(move->kind); ++move)
    if (Verdict verdict = rewrite_graph(start, *move); !verdict.empty())
      return {{}, to_string(*move) + ": " + verdict};
  Editor editor(start, target);
  if (Verdict verdict = editor.apply(std::span(move, moves.end())); !verdict.empty()) return {{}, verdict};
  return {editor.take(), {}};
}

Applied apply(const Plan& plan, const Move& move, const Target& target) {
  return apply(plan, std::vector<Move>{move}, target);
}

Plan fuse_where_legal(const Plan& plan, const std::vector<Move>& fusions, const Target& target) {
  Editor editor(plan, target);
  for (const Move& move : fusions) editor.apply(move);
  return editor.take();
}

Plan replay(std::shared_ptr<const lower::Program> program, const std::vector<Move>& moves,
            const Target& target) {
  Applied applied = apply(initial_plan(std::move(program)), moves, target);
  if (!applied.plan) throw Error(ErrorKind::Schedule, applied.reason);
  return std::move(*applied.plan);
}

KernelPlanRef unscheduled(const lower::Program& program, const KernelPlan& scheduled) {
  Draft draft{&program, scheduled.stages, {}, {}, {}, {}, {}};
  for (int s : scheduled.stages) {
    Draft own = draft_of_stage(program, s);
    for (ast::Stmt& stmt : own.body) draft.body.push_back(std::move(stmt));
    draft.handles.add(own.handles);
  }
  const auto has_no_buffer = [&](int stage) {
    const lower::Stage& read = program.stages[static_cast<size_t>(stage)];
    return !read.is_reduction && !read.is_scatter && !read.is_transform && read.nests.size() == 1 &&
           !std::binary_search(scheduled.stages.begin(), scheduled.stages.end(), stage) &&
           !std::binary_search(scheduled.reads.begin(), scheduled.reads.end(), stage);
  };
  if (auto verdict = inline_stages(draft, scheduled.inlined, has_no_buffer); !verdict.empty())
    throw InternalError("an inlined stage can't be inlined: " + verdict);
  std::set<int> written; // ids of buffers
  for (const ast::Param& p : scheduled.kernel.params)
    if (p.written) written.insert(p.buffer->id);
  return finish(std::move(draft),
                [&](int stage) { return written.contains(program.stages[stage].buffer->id); });
}

} // namespace lathe::search
