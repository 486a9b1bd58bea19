// Proposes to compute elementwise stages where they are used: all that cost little to compute again in one
// macro-move, and each by itself.
#include <algorithm>

#include "core/hash.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/op_cost.hpp"
#include "search/moves/draft.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// A place where a stage's value would be computed. Places with equal signatures share one computation.
struct InlinePlace {
  uint64_t signature;
  double executions;
};
constexpr size_t kMostPlaces = 16;       // copies of a stage that are counted
constexpr size_t kMostInOneKernel = 192; // values that one store may compute
constexpr double kDivision = 4;          // instructions that take as long as a division
constexpr int64_t kShortLoop = 8;        // iterations; such a loop can be unrolled, and its conditions go
constexpr double kFewOfIndices = 8;      // instructions of a value of indices alone: unrolled, a constant
constexpr double kFewOfBytes = 4;        // the same of a value of 8 bits: a vector has four times as many
constexpr double kFewConversions = 8;    // of an element; to store what it is in f32 costs about as much
constexpr double kFewInAll = 64;         // instructions of all executions: they take less than a launch

struct Use {
  int stage;
  uint64_t index; // hash of the index and guards of the load
  bool pointwise; // reads the element that the user computes
  double share;   // of the iterations of short loops in which the load happens
};

struct StageInfo {
  bool inlinable = false;
  bool inlined = false;     // already
  bool widens = false;      // is a wider form of another value
  bool converts = false;    // the same, which no instruction of the target multiplies as it is
  bool of_indices = true;   // computed from indices alone
  bool of_bytes = false;    // a value of 8 bits: a number or a bool
  bool is_byte = false;     // a number of 8 bits
  bool of_constants = true; // computed from constants alone, such as weights that are unpacked
  double elements = 1, executions = 1, instructions = 0;
  std::vector<Use> uses; // the loads of its nests
};

double size_of_shape(const Shape& shape) {
  double n = 1;
  for (const Expr& e : shape) n *= std::max(1.0, estimate(e));
  return n;
}

/// Whether the value is a wider form of what is loaded: loads with their cast are fewer bytes, and
/// instructions on tensors take the narrow form.
bool widens(const ast::Value& v) {
  return v.op == Op::Cast && v.sources[0]->op == Op::Load && size_of(v.sources[0]->dtype) < size_of(v.dtype);
}

/// Whether arithmetic converts each element first: a half, or a bool or a number of 8 bits that becomes a
/// float.
bool converts(const ast::Value& v, const Target& target) {
  if (!widens(v)) return false;
  const DType from = v.sources[0]->dtype;
  if (!is_half(from) && !(size_of(from) == 1 && is_float(v.dtype))) return false;
  return std::none_of(target.instructions.begin(), target.instructions.end(), [&](Instruction instruction) {
    return info(instruction).a == from && info(instruction).c == v.dtype;
  });
}

/// Of the iterations of the loop, if it is short, the share in which the guards may hold. A part of a stack
/// is read in one of them.
double share_of(const std::vector<Expr>& guards, const ast::For& loop) {
  if (!loop.extent.is_const() || loop.extent.value() > kShortLoop || loop.extent.value() < 1) return 1;
  int64_t held = 0;
  for (int64_t i = 0; i < loop.extent.value(); ++i)
    held += std::none_of(guards.begin(), guards.end(),
                         [&](Expr guard) { return substitute(guard, {{loop.var, Expr(i)}}).is_const(0); });
  return static_cast<double>(held) / static_cast<double>(loop.extent.value());
}

bool is_constant(const lower::Program& program, const ast::Buffer& buffer) {
  return std::any_of(program.inputs.begin(), program.inputs.end(), [&](const lower::InputBuffer& input) {
    return input.is_constant && input.buffer->id == buffer.id;
  });
}

StageInfo read_stage(const lower::Program& program, const lower::Stage& stage, const Target& target) {
  StageInfo info;
  info.elements = size_of_shape(stage.node->shape);
  info.inlinable = !stage.is_reduction && !stage.is_scatter && !stage.is_transform && stage.nests.size() == 1;
  ast::visit(stage.nests, [&](const ast::Stmt& stmt, const auto& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store) return;
    double executions = 1;
    for (const ast::For* l : loops) executions *= std::max(1.0, estimate(l->extent));
    info.executions = std::max(info.executions, executions);
    info.widens = widens(*store->value);
    info.converts = converts(*store->value, target);
    info.of_bytes = size_of(store->value->dtype) == 1;
    info.is_byte = info.of_bytes && is_integer(store->value->dtype);
    const auto see = [&](const ast::ValueRef& v) {
      const OpCost cost = op_cost(v->op, v->dtype);
      info.instructions += cost.instructions + kDivision * cost.divisions + 16 * cost.per_lane;
      const auto* attr = std::get_if<ast::LoadAttr>(&v->attr);
      if (!attr) return;
      Use use{stage_of(program, *attr->buffer), hash_text("use"), v->op == Op::Load && attr->guards.empty(),
              1};
      for (const ast::For* l : loops) use.share *= share_of(attr->guards, *l);
      info.of_indices &= use.stage >= 0 && v->op == Op::Load;
      info.of_constants &= v->op == Op::Load && (use.stage >= 0 || is_constant(program, *attr->buffer));
      if (use.stage < 0) return;
      for (size_t d = 0; d < attr->index.size(); ++d) {
        use.index = mix(use.index, attr->index[d].hash());
        use.pointwise &= d < store->index.size() && attr->index[d] == store->index[d];
      }
      use.pointwise &= attr->index.size() == store->index.size() && !store->combine && !store->scatter;
      for (const Expr& g : attr->guards) use.index = mix(use.index, g.hash());
      if (v->op == Op::Gather) use.stage = -2 - use.stage; // read at a computed index: must stay a buffer
      info.uses.push_back(use);
    };
    ast::visit(store->value, see);
    if (store->scatter) ast::visit(store->scatter, see);
  });
  return info;
}

/// Whether to compute the stage again costs next to nothing.
bool is_cheap(const StageInfo& s) {
  return s.instructions <= (s.of_indices ? kFewOfIndices : s.of_bytes ? kFewOfBytes : 1);
}

struct Limits {
  const char* why;
  double ratio;       // executions per element
  double cheap_ratio; // the same, for cheap stages
  bool epilogues;     // also inline epilogues that their reader shifts or pads: no tile fits these
  bool constants;     // also all that is computed from constants: tiles share it
};

bool ends_reduction(const lower::Program& program, const StageInfo& stage) {
  return std::any_of(stage.uses.begin(), stage.uses.end(), [&](const Use& u) {
    return u.stage >= 0 && u.pointwise && program.stages[u.stage].is_reduction;
  });
}

Proposal inline_all(const lower::Program& program, const std::vector<StageInfo>& stages,
                    const Limits& limits) {
  const size_t n = stages.size();
  std::vector<std::vector<InlinePlace>> places(n); // by stage: where its value is computed in the end
  std::vector<char> gathered(n, 0), shifted(n, 0);
  std::vector<size_t> grown(n, 1);
  for (const StageInfo& s : stages)
    for (const Use& u : s.uses)
      if (u.stage < -1) gathered[-2 - u.stage] = 1;
  Proposal proposal{{}, limits.why};
  // Users before producers: when a stage's turn comes, every place that reads it is known.
  for (size_t i = n; i-- > 0;) {
    const StageInfo& s = stages[i];
    bool inlined = s.inlinable && !s.inlined && !program.stages[i].is_output && !gathered[i] &&
                   !places[i].empty() && places[i].size() < kMostPlaces;
    if (inlined) {
      double executions = 0;
      for (const InlinePlace& p : places[i]) executions += p.executions;
      const double ratio = executions / s.elements;
      const bool loads_wider = s.widens && (!s.converts || s.of_constants || ratio <= kFewConversions);
      // Bytes are what instructions on tensors take, and few to load.
      const bool stays_narrow = s.is_byte && !s.of_constants && ratio > kFewConversions;
      inlined = loads_wider || (limits.constants && s.of_constants) ||
                executions * std::max(1.0, s.instructions) <= kFewInAll ||
                (!stays_narrow && ratio <= (is_cheap(s) ? limits.cheap_ratio : limits.ratio));
    }
    if (inlined && !limits.epilogues && ends_reduction(program, stages[i]) && shifted[i]) inlined = false;
    if (inlined && grown[i] + places[i].size() > kMostInOneKernel) inlined = false;
    if (inlined) proposal.moves.push_back({MoveKind::Inline, {StageHandle(static_cast<int>(i))}});
    inlined |= s.inlined;
    if (!inlined) {
      places[i] = {{mix(hash_text("root"), i), s.executions}};
      grown[i] = 1;
    }
    for (const Use& u : s.uses) {
      if (u.stage < 0) continue;
      shifted[u.stage] |= !u.pointwise || (inlined && shifted[i]);
      auto& target = places[u.stage];
      for (const InlinePlace& p : places[i]) {
        if (target.size() >= kMostPlaces) break;
        const InlinePlace place{inlined && u.pointwise ? p.signature : mix(p.signature, u.index),
                                p.executions * u.share};
        if (std::none_of(target.begin(), target.end(),
                         [&](const InlinePlace& t) { return t.signature == place.signature; }))
          target.push_back(place);
      }
      grown[u.stage] = std::max(grown[u.stage], grown[i] + 1);
    }
  }
  return proposal;
}

} // namespace

std::vector<Proposal> suggest_inline(const SuggestContext& c) {
  const lower::Program& program = *c.plan.program;
  std::vector<Proposal> proposals;
  if (c.at_start && &c.kernel == c.plan.kernels.front().get()) {
    std::vector<StageInfo> stages;
    for (const auto& stage : program.stages) {
      StageInfo& info = stages.emplace_back(read_stage(program, stage, c.target));
      info.inlined = true;
      for (const Use& use : info.uses) {
        info.of_indices &= use.stage >= 0 && stages[use.stage].of_indices;
        info.of_constants &= use.stage >= -1 && (use.stage < 0 || stages[use.stage].of_constants);
      }
    }
    for (const KernelPlanRef& kernel : c.plan.kernels)
      for (const int stage : kernel->stages) stages[static_cast<size_t>(stage)].inlined = false;
    for (const Limits& limits :
         {Limits{"compute where used what is used once", 1.01, 1.01, false, false},
          Limits{"compute where used what is used twice or costs little", 2.01, 2.01, false, false},
          Limits{"compute everything where used", 4.01, 1e9, true, false},
          Limits{"compute everything where used, and unpack constants there", 4.01, 1e9, true, true}}) {
      Proposal p = inline_all(program, stages, limits);
      const bool known = std::any_of(proposals.begin(), proposals.end(),
                                     [&](const Proposal& q) { return q.moves == p.moves; });
      if (!p.moves.empty() && !known) proposals.push_back(std::move(p));
    }
  }
  if (c.kernel.stages.size() != 1) return proposals;
  const lower::Stage& stage = program.stages[c.kernel.stages[0]];
  if (!stage.is_reduction && !stage.is_scatter && !stage.is_transform && !stage.users.empty() &&
      !(c.keep_outputs && stage.is_output))
    proposals.push_back({{{MoveKind::Inline, {StageHandle(stage.id)}}},
                         "compute " + stage.buffer->name + " where it is used"});
  return proposals;
}

} // namespace lathe::search
