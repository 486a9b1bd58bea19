// Proposes to compute producers under a loop of their consumer: one producer at every loop, and whole chains
// of row-wise stages at once.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "search/suggest/readers.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kRegisterElements = 64; // a larger buffer is not kept in registers
constexpr double kBlockElements = 16384; // of a stage in a block of rows; more leave the second-level cache

/// Elements of the buffer that one iteration of the loop reads.
double needed_in(const Features& f, const AccessInfo& access, int loop) {
  return f.steps(access, [&](int l) { return l > loop && f.stride(access, l) != 0; });
}

Move fuse_under(StageHandle stage, LoopHandle loop, ast::Scope scope) {
  return {MoveKind::FuseAt, {stage, Place(loop), scope}};
}

/// The transforms whose values only `owner` reads. To compute a stage under a loop may pay only together with
/// them: transforms make the operands of Winograd's products, and another transform reads the results.
std::vector<StageHandle> transformed_for(const SuggestContext& c, const KernelPlan& owner) {
  std::vector<StageHandle> transforms;
  for (int read : owner.reads) {
    const lower::Stage& info = c.plan.program->stages[read];
    const Readers readers = readers_of(c.plan, read);
    if (info.is_transform && !info.is_output && readers.owner && readers.kernels.size() == 1)
      transforms.emplace_back(read);
  }
  return transforms;
}

void at_each_loop(const SuggestContext& c, int stage, const KernelPlan& owner, std::vector<Proposal>& out) {
  const Features& f = c.features;
  const std::string& name = c.plan.program->stages[stage].buffer->name;
  const int id = c.plan.program->stages[stage].buffer->id;
  const std::vector<int> reads = accesses_to(f, id);
  std::vector<StageHandle> before;
  if (c.plan.program->stages[c.kernel.stages.back()].is_transform) before = transformed_for(c, owner);
  for (const int l : loops_around(f, reads)) {
    const double elements = needed_in(f, f.accesses[reads[0]], l);
    const ast::Scope scope = elements <= kRegisterElements ? ast::Scope::Register : ast::Scope::Packed;
    Proposal alone{{fuse_under(StageHandle(stage), c.loop(l), scope)},
                   fmt::format("compute {} as {} needs it", name, c.loop(l).name())};
    for (const StageHandle transform : before) {
      Proposal with = alone;
      with.moves.push_back(fuse_under(transform, c.loop(l), ast::Scope::Packed));
      with.why += ", and " + transform.buffer().name() + " for it";
      out.push_back(std::move(with));
    }
    if (!before.empty() && !c.thorough) continue; // a quick search has no time for both
    out.push_back(std::move(alone));
  }
}

/// Whether each element along the axis is a running sum up to its position. A guard then keeps reads from
/// starting before the first element.
bool sums_up_past(const lower::Stage& stage, size_t axis) {
  bool found = false;
  ast::visit(stage.nests, [&](const ast::Stmt& stmt, const auto& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store || store->combine != Op::Add || axis >= store->index.size()) return;
    const auto* attr = std::get_if<ast::LoadAttr>(&store->value->attr);
    if (!attr) return;
    for (const Expr place : attr->index)
      for (const ast::For* loop : loops)
        found |=
            loop->var != store->index[axis] && depends_on(place, loop->var) &&
            depends_on(place, store->index[axis]) &&
            std::find(attr->guards.begin(), attr->guards.end(), le(Expr(0), place)) != attr->guards.end();
  });
  return found;
}

/// The loop under which rows are computed, one by one or in blocks, and the moves that make that loop.
struct Rows {
  std::vector<Move> moves;
  LoopHandle under;
  std::vector<double> outer; // iterations of the loops around and, last, of `under`; in rows, not in blocks
  int64_t block = 1;
};

/// Proposes to compute under rows.under every stage upstream whose leading axes are the consumer's outer
/// loops. With a block, an iteration computes several rows, so that products keep rows to tile.
void chain_under(const SuggestContext& c, Rows rows, std::vector<Proposal>& out) {
  const lower::Program& program = *c.plan.program;
  const size_t before = rows.moves.size();
  const std::string blocks = rows.block > 1 ? "blocks of " + std::to_string(rows.block) + " " : "";
  Proposal chain{std::move(rows.moves), blocks + "rows of " + rows.under.name() + " in one pass"};
  std::set<const KernelPlan*> merged{&c.kernel};
  std::set<int, std::greater<>> open(c.kernel.reads.begin(), c.kernel.reads.end());
  bool has_product = false;
  std::vector<Move> merges; // values that are read again are computed where they are read first
  while (!open.empty()) {
    const int stage = *open.begin();
    open.erase(open.begin());
    const lower::Stage& info = program.stages[stage];
    const Readers readers = readers_of(c.plan, stage);
    if (!readers.owner || merged.contains(readers.owner.get()) || info.is_output || info.is_scatter) continue;
    if (readers.owner->stages.size() != 1) continue;
    if (!std::all_of(readers.kernels.begin(), readers.kernels.end(),
                     [&](const KernelPlanRef& k) { return merged.contains(k.get()); }))
      continue;
    // Axes of size 1 have no loop.
    std::vector<double> axes;
    size_t last = 0;
    double rest = 1;
    for (size_t d = 0; d < info.buffer->shape.size(); ++d) {
      const Expr e = info.buffer->shape[d];
      if (e.is_const(1)) continue;
      if (axes.size() < rows.outer.size()) {
        axes.push_back(estimate(e));
        last = d;
      } else {
        rest *= estimate(e);
      }
    }
    if (axes != rows.outer) continue;
    if (rows.block > 1 && rest * static_cast<double>(rows.block) > kBlockElements) return;
    merged.insert(readers.owner.get());
    has_product |= info.is_reduction && rest > 1;
    const bool small = rows.block == 1 && rest <= kRegisterElements;
    chain.moves.push_back(
        fuse_under(StageHandle(stage), rows.under, small ? ast::Scope::Register : ast::Scope::Packed));
    if (rows.block == 1 && info.is_reduction && sums_up_past(info, last))
      chain.moves.push_back({MoveKind::Carry, {StageHandle(stage), rows.under}});
    if (rows.block == 1 && readers.kernels.size() > 1 && rest > 1 && !info.is_reduction) {
      const KernelPlanRef& first = *std::min_element(
          readers.kernels.begin(), readers.kernels.end(),
          [](const KernelPlanRef& a, const KernelPlanRef& b) { return a->stages[0] < b->stages[0]; });
      merges.push_back({MoveKind::Merge, {StageHandle(stage), StageHandle(first->stages[0])}});
    }
    for (int s : readers.owner->reads) open.insert(s);
  }
  if (rows.block > 1 && !has_product) return;
  if (chain.moves.size() > before + 1) out.push_back(chain);
  if (merges.empty()) return;
  chain.moves.insert(chain.moves.end(), merges.begin(), merges.end());
  chain.why += ", sums with what they add up";
  out.push_back(std::move(chain));
}

void rows_of_consumer(const SuggestContext& c, size_t depth, int64_t block, std::vector<Proposal>& out) {
  const Features& f = c.features;
  const std::vector<Leaf> leaves = c.leaves();
  if (leaves.empty() || leaves.back().loops.size() <= depth) return;
  const int at = leaves.back().loops[depth];
  if (!is_serial(f, at) || (block > 1 && longest(f, at) <= block)) return;
  Rows rows{{}, c.loop(at), {}, block};
  for (size_t d = 0; d <= depth; ++d) rows.outer.push_back(f.loops[leaves.back().loops[d]].extent);
  if (block > 1) {
    Script script(c.kernel);
    rows.under = script.split(rows.under, block).outer;
    rows.moves = script.take();
  }
  chain_under(c, std::move(rows), out);
}

/// The divisor of the variable in an index such as var // 16 or var // 16 % 256; 0 for other indices.
int64_t divisor(Expr index, Expr var) {
  if (index.kind() == ExprKind::Mod) index = index.lhs();
  if (index.kind() != ExprKind::FloorDiv || !index.rhs().is_const()) return 0;
  const Expr divided = index.lhs().kind() == ExprKind::Mod ? index.lhs().lhs() : index.lhs();
  return divided == var ? index.rhs().value() : 0;
}

/// Proposes rows where one loop of the consumer runs along several axes of its running sums. The loop is
/// split like these axes, and the rows lie under the loop of the axis that is summed.
void rows_of_running_sums(const SuggestContext& c, std::vector<Proposal>& out) {
  const lower::Program& program = *c.plan.program;
  std::set<int> seen;
  ast::visit(c.kernel.kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store) return;
    ast::visit(store->value, [&](const ast::ValueRef& value) {
      const auto* attr = std::get_if<ast::LoadAttr>(&value->attr);
      const int stage = attr ? stage_of(program, *attr->buffer) : -1;
      if (stage < 0 || !program.stages[stage].is_reduction || !seen.insert(stage).second) return;
      Rows rows;
      Script script(c.kernel);
      LoopHandle rest; // the inner part of the loop, which is split next
      double length = 0;
      for (size_t d = 0; d < attr->index.size(); ++d) {
        if (attr->index[d].is_const()) continue;
        const auto loop = std::find_if(loops.begin(), loops.end(), [&](const ast::For* f) {
          return depends_on(attr->index[d], f->var) && f->kind == ast::LoopKind::Serial;
        });
        if (loop == loops.end()) return;
        const Expr var = (*loop)->var;
        if (attr->index[d] == var) {
          rows.outer.push_back(estimate((*loop)->extent));
          continue;
        }
        const int64_t by = divisor(attr->index[d], var);
        if (!rest) length = estimate((*loop)->extent);
        if (by < 2 || static_cast<double>(by) >= length) return;
        const Halves halves = script.split(rest ? rest : c.kernel.handles.loop(**loop), by);
        rows.moves = script.moves();
        rows.under = halves.outer;
        rows.outer.push_back(std::ceil(length / static_cast<double>(by)));
        rest = halves.inner;
        length = static_cast<double>(by);
        if (sums_up_past(program.stages[stage], d)) chain_under(c, rows, out);
      }
    });
  });
}

} // namespace

std::vector<Proposal> suggest_fuse(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  for (size_t depth = 0; depth < 3; ++depth) {
    rows_of_consumer(c, depth, 1, proposals);
    if (c.thorough) // a quick search has no time for chains of products
      for (const int64_t block : {8, 16, 32, 64}) rows_of_consumer(c, depth, block, proposals);
  }
  rows_of_running_sums(c, proposals);
  for (int stage : c.kernel.reads) {
    const lower::Stage& info = c.plan.program->stages[stage];
    const Readers readers = readers_of(c.plan, stage);
    if (info.is_output || info.is_scatter || readers.kernels.size() != 1 || !readers.owner) continue;
    at_each_loop(c, stage, *readers.owner, proposals);
  }
  return proposals;
}

} // namespace lathe::search
