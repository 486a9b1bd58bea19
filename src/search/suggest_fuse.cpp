// A producer's nests under a loop of its consumer: one at a time at every loop, and whole chains of row-wise
// stages at once.
#include <algorithm>
#include <set>

#include "search/readers.hpp"
#include "search/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kRegisterElements = 64;
constexpr double kBlockElements =
    16384; // of one stage in a block of rows: they are to stay in the second cache

/// Elements of the buffer that one iteration of the loop reads.
double needed_in(const Features& f, const AccessInfo& access, int loop) {
  return f.steps(access, [&](int l) { return l > loop && f.stride(access, l) != 0; });
}

/// The transforms whose values only the stage reads. With them it may be worth computing under a loop where
/// by itself it is not: Winograd's products between what is transformed for them and their own transform.
std::vector<std::string> transformed_for(const SuggestContext& c, const KernelPlan& owner) {
  std::vector<std::string> names;
  for (int read : owner.reads) {
    const lower::Stage& info = c.plan.program->stages[read];
    const Readers readers = readers_of(c.plan, read);
    if (info.is_transform && !info.is_output && readers.owner && readers.kernels.size() == 1)
      names.push_back(info.buffer->name);
  }
  return names;
}

void at_each_loop(const SuggestContext& c, int stage, const KernelPlan& owner, std::vector<Proposal>& out) {
  const Features& f = c.features;
  const std::string& name = c.plan.program->stages[stage].buffer->name;
  const int id = c.plan.program->stages[stage].buffer->id;
  const std::vector<int> reads = accesses_to(f, id);
  std::vector<std::string> before;
  if (c.plan.program->stages[c.kernel.stages.back()].is_transform) before = transformed_for(c, owner);
  for (const int l : loops_around(f, reads)) {
    const double elements = needed_in(f, f.accesses[reads[0]], l);
    Proposal alone{
        {move_fuse_at(name, loop_name(f, l), elements <= kRegisterElements ? "register" : "packed")},
        "compute " + name + " as " + loop_name(f, l) + " needs it"};
    for (const std::string& transform : before) {
      Proposal with = alone;
      with.moves.push_back(move_fuse_at(transform, loop_name(f, l), "packed"));
      with.why += ", and " + transform + " for it";
      out.push_back(std::move(with));
    }
    if (!before.empty() && !c.thorough) continue; // no time for both
    out.push_back(std::move(alone));
  }
}

/// Every stage upstream whose leading axes are the consumer's outer loops goes under the innermost of those;
/// or, with a `block`, under a loop over so many of its iterations: products then keep rows to tile.
void row_chain(const SuggestContext& c, size_t depth, int64_t block, std::vector<Proposal>& out) {
  const Features& f = c.features;
  const lower::Program& program = *c.plan.program;
  const std::vector<Leaf> leaves = leaves_of(f);
  if (leaves.empty() || leaves.back().loops.size() <= depth) return;
  const int at = leaves.back().loops[depth];
  if (!is_serial(f, at) || (block > 1 && longest(f, at) <= block)) return;
  std::string under = loop_name(f, at);
  std::vector<double> outer;
  for (size_t d = 0; d <= depth; ++d) outer.push_back(f.loops[leaves.back().loops[d]].extent);
  std::set<const KernelPlan*> merged{&c.kernel};
  std::set<int, std::greater<>> open(c.kernel.reads.begin(), c.kernel.reads.end());
  Proposal chain{{}, "rows of " + under + " in one pass"};
  if (block > 1) {
    chain = {{move_split(under, block)},
             "blocks of " + std::to_string(block) + " rows of " + under + " in one pass"};
    under += ".o";
  }
  const size_t before = chain.moves.size();
  bool has_product = false;
  std::vector<Move> merges; // what is kept and read again is computed where it is read first
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
    double rest = 1;
    for (const Expr& e : info.buffer->shape) {
      if (e.is_const(1)) continue;
      if (axes.size() < outer.size())
        axes.push_back(estimate(e));
      else
        rest *= estimate(e);
    }
    if (axes != outer) continue;
    if (block > 1 && rest * static_cast<double>(block) > kBlockElements) return;
    merged.insert(readers.owner.get());
    has_product |= info.is_reduction && rest > 1;
    const bool small = block == 1 && rest <= kRegisterElements;
    chain.moves.push_back(move_fuse_at(info.buffer->name, under, small ? "register" : "packed"));
    if (block == 1 && readers.kernels.size() > 1 && rest > 1 && !info.is_reduction) {
      const KernelPlanRef& first = *std::min_element(
          readers.kernels.begin(), readers.kernels.end(),
          [](const KernelPlanRef& a, const KernelPlanRef& b) { return a->stages[0] < b->stages[0]; });
      merges.push_back(move_merge(info.buffer->name, program.stages[first->stages[0]].buffer->name));
    }
    for (int s : readers.owner->reads) open.insert(s);
  }
  if (block > 1 && !has_product) return;
  if (chain.moves.size() > before + 1) out.push_back(chain);
  if (merges.empty()) return;
  chain.moves.insert(chain.moves.end(), merges.begin(), merges.end());
  chain.why += ", sums with what they add up";
  out.push_back(std::move(chain));
}

} // namespace

std::vector<Proposal> suggest_fuse(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  for (size_t depth = 0; depth < 3; ++depth) {
    row_chain(c, depth, 1, proposals);
    if (c.thorough) // a quick search has no time for chains of products
      for (const int64_t block : {8, 16, 32, 64}) row_chain(c, depth, block, proposals);
  }
  for (int stage : c.kernel.reads) {
    const lower::Stage& info = c.plan.program->stages[stage];
    const Readers readers = readers_of(c.plan, stage);
    if (info.is_output || info.is_scatter || readers.kernels.size() != 1 || !readers.owner) continue;
    at_each_loop(c, stage, *readers.owner, proposals);
  }
  return proposals;
}

} // namespace lathe::search
