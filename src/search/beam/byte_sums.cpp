#include "search/beam/byte_sums.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include <fmt/format.h>

#include "graph/forms/three_bytes.hpp"
#include "search/beam/forms.hpp"
#include "search/beam/pieces.hpp"
#include "search/beam/unused_name.hpp"

namespace lathe::search {
namespace {

using graph::NodeRef;

/// Whether the target multiplies signed bytes by unsigned ones in whole vectors. C's vectors have at most 16
/// lanes: an operand unpacked in such parts waits till all of them are stored.
bool has_products_of_bytes(const Target& target) {
  return target.device == "cpu" &&
         std::any_of(target.instructions.begin(), target.instructions.end(), [](Instruction i) {
           const InstructionInfo& row = info(i);
           return row.is_tensor() && !row.is_tile() && row.pack == 4 && row.a == DType::I8 &&
                  row.b == DType::U8;
         });
}

/// The sums of blocks that a sum over blocks reads, through elementwise ops and views.
std::vector<NodeRef> blocks_of(const NodeRef& total) {
  std::vector<NodeRef> found, left = total->sources;
  std::unordered_set<const graph::Node*> seen;
  while (!left.empty()) {
    const NodeRef node = std::move(left.back());
    left.pop_back();
    if (!seen.insert(node.get()).second) continue;
    if (graph::read_block_of_bytes(node))
      found.push_back(node);
    else if (node->op == Op::View || is_elementwise(node->op))
      left.insert(left.end(), node->sources.begin(), node->sources.end());
  }
  return found;
}

/// What a view shows.
NodeRef seen_by(NodeRef node) {
  while (node->op == Op::View) node = node->sources[0];
  return node;
}

/// A graph that computes the total alone: what the blocks multiply their integers by is an input.
NodeRef alone(const NodeRef& total, const std::vector<NodeRef>& blocks) {
  std::unordered_set<const graph::Node*> cut;
  for (const NodeRef& block : blocks)
    if (const NodeRef x = seen_by(graph::read_block_of_bytes(block)->x); x->op != Op::Const)
      cut.insert(x.get());
  const auto is_cut = [&](const NodeRef& node) { return cut.contains(node.get()); };
  const std::string prefix = unused_prefix("operand", graph::topological_order({total}));
  int count = 0;
  return graph::rebuild(
      {total},
      [&](const NodeRef& original, NodeRef rebuilt) {
        return is_cut(original)
                   ? graph::input(fmt::format("{}{}", prefix, count++), original->dtype, original->shape)
                   : rebuilt;
      },
      is_cut)[0];
}

/// A move on all sums of blocks in the program whose total is among those accepted.
std::optional<Move> move_on(const lower::Program& program,
                            const std::function<bool(const NodeRef&)>& accepts) {
  std::map<const graph::Node*, int> stages;
  for (const lower::Stage& stage : program.stages) stages.emplace(stage.node.get(), stage.id);
  Move move{MoveKind::ThreeBytes, {}};
  for (const lower::Stage& stage : program.stages) {
    if (stage.node->op != Op::Reduce || !accepts(stage.node)) continue;
    for (const NodeRef& block : blocks_of(stage.node)) {
      const auto found = stages.find(block.get());
      if (found == stages.end()) continue;
      const Argument argument = StageHandle(found->second);
      if (std::find(move.arguments.begin(), move.arguments.end(), argument) == move.arguments.end())
        move.arguments.push_back(argument);
    }
  }
  return move.arguments.empty() ? std::nullopt : std::optional(move);
}

/// Whether the model predicts less time with products of bytes.
bool pays(const NodeRef& total, const lower::Program& program, CostModel& model,
          const SearchOptions& options) {
  const Plan floats =
      initial_plan(std::make_shared<const lower::Program>(lower::lower({{"y", total}}, program.evaluate)));
  const auto move = move_on(*floats.program, [](const NodeRef&) { return true; });
  if (!move) return false;
  Applied bytes = apply(floats, *move, model.target());
  if (!bytes.plan) return false;
  return search(*bytes.plan, model, options).predicted_seconds <
         kWorthwhileForm * search(floats, model, options).predicted_seconds;
}

} // namespace

Plan with_byte_sums(Plan plan, CostModel& model, const SearchOptions& options) {
  if (!has_products_of_bytes(model.target())) return plan;
  std::map<std::string, NodeRef> distinct;              // by signature
  std::map<const graph::Node*, std::string> signatures; // of the program's totals
  for (const lower::Stage& stage : plan.program->stages) {
    if (stage.node->op != Op::Reduce) continue;
    const std::vector<NodeRef> blocks = blocks_of(stage.node);
    if (blocks.empty()) continue;
    const NodeRef by_itself = alone(stage.node, blocks);
    distinct.emplace(signatures[stage.node.get()] = signature_of(by_itself), by_itself);
  }
  if (distinct.empty()) return plan;
  const SearchOptions quick = by_model_alone(options);
  const std::vector<std::pair<std::string, NodeRef>> each(distinct.begin(), distinct.end());
  std::vector<char> paying(each.size());
  search_pieces(each.size(), quick, [&](size_t k, SearchTrace* trace) {
    SearchOptions own = quick;
    own.trace = trace;
    paying[k] = pays(each[k].second, *plan.program, model, own);
  });
  const auto move = move_on(*plan.program, [&](const NodeRef& node) {
    const auto found = signatures.find(node.get());
    if (found == signatures.end()) return false;
    const auto at =
        std::find_if(each.begin(), each.end(), [&](const auto& e) { return e.first == found->second; });
    return paying[static_cast<size_t>(at - each.begin())] != 0;
  });
  if (!move) return plan;
  Applied applied = apply(plan, *move, model.target());
  return applied.plan ? std::move(*applied.plan) : plan;
}

} // namespace lathe::search
