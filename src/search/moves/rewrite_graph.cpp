// Moves that rewrite the graph: the program is lowered anew, so they come before all others.
#include <set>

#include <fmt/format.h>

#include "graph/folding/constants.hpp"
#include "graph/forms/storage_order.hpp"
#include "graph/forms/strassen.hpp"
#include "graph/forms/three_bytes.hpp"
#include "graph/forms/winograd.hpp"
#include "search/moves/rewrite_graph.hpp"
#include "search/moves/table.hpp"

namespace lathe::search {

/// How a move makes each node anew; see graph::rebuild.
using Replace = std::function<graph::NodeRef(const graph::NodeRef& original, graph::NodeRef rebuilt)>;

struct Rewriting {
  const lower::Program& program;
  Replace replace;
};

namespace {

std::vector<graph::NodeRef> outputs_of(const lower::Program& program) {
  std::vector<graph::NodeRef> outputs;
  for (const lower::OutputBuffer& output : program.outputs) outputs.push_back(output.node);
  return outputs;
}

/// Calls f on the nodes of the stages, until f returns why the move is not legal for one of them.
Verdict for_each_node(const Rewriting& graph, const std::vector<StageHandle>& stages,
                      const std::function<Verdict(const graph::NodeRef&)>& f) {
  if (stages.empty()) return "it names no stage";
  for (const StageHandle stage : stages) {
    if (stage.index < 0 || stage.index >= static_cast<int>(graph.program.stages.size()))
      return fmt::format("there is no stage {}", stage.buffer().name());
    if (auto verdict = f(graph.program.stages[static_cast<size_t>(stage.index)].node); !verdict.empty())
      return verdict;
  }
  return {};
}

using NodeCheck = std::function<Verdict(const graph::NodeRef&)>;

/// Gives the nodes of the stages another form, if `why_not` has no reason against any of them.
Verdict reform(Rewriting& graph, const std::vector<StageHandle>& stages, const NodeCheck& why_not,
               std::function<graph::NodeRef(const graph::NodeRef&)> form) {
  std::set<const graph::Node*> sums;
  const Verdict verdict = for_each_node(graph, stages, [&](const graph::NodeRef& node) {
    sums.insert(node.get());
    return why_not(node);
  });
  graph.replace = [sums = std::move(sums), form = std::move(form)](const graph::NodeRef& original,
                                                                   graph::NodeRef rebuilt) {
    return sums.contains(original.get()) ? form(rebuilt) : rebuilt;
  };
  return verdict;
}

} // namespace

Verdict winograd(Rewriting& graph, const std::vector<StageHandle>& stages, int64_t tile) {
  if (tile != 2 && tile != 4) return "tiles are of 2 or 4";
  return reform(
      graph, stages,
      [](const graph::NodeRef& node) -> Verdict {
        return graph::read_convolution(node) ? "" : "no 3 x 3 convolution of stride 1";
      },
      [=](const graph::NodeRef& sum) { return graph::winograd(sum, static_cast<int>(tile)); });
}

Verdict strassen(Rewriting& graph, const std::vector<StageHandle>& stages, int64_t levels) {
  if (levels != 1 && levels != 2) return "one level of blocks or two";
  const auto why_not = [&](const graph::NodeRef& node) -> Verdict {
    const auto product = graph::read_product(node);
    if (!product) return "no product of two matrices";
    if (graph::can_halve(*product, static_cast<int>(levels))) return {};
    return fmt::format("{} rows, {} columns and {} terms are not multiples of {}", product->rows,
                       product->columns, product->terms, 1 << levels);
  };
  return reform(graph, stages, why_not,
                [=](const graph::NodeRef& sum) { return graph::strassen(sum, static_cast<int>(levels)); });
}

Verdict three_bytes(Rewriting& graph, const std::vector<StageHandle>& stages) {
  const auto why_not = [](const graph::NodeRef& node) -> Verdict {
    return graph::read_block_of_bytes(node) ? "" : "no sum over a block of floats times integers of 0 to 255";
  };
  return reform(graph, stages, why_not, graph::three_bytes);
}

Verdict innermost(Rewriting& graph, const std::vector<StageHandle>& stages, int64_t axis) {
  const graph::Families families(outputs_of(graph.program));
  graph::StorageOrders orders;
  const Verdict verdict = for_each_node(graph, stages, [&](const graph::NodeRef& node) -> Verdict {
    if (axis >= static_cast<int64_t>(node->shape.size())) return fmt::format("there is no axis {}", axis);
    if (graph::is_innermost(node, static_cast<int>(axis))) return fmt::format("axis {} is innermost", axis);
    if (orders.contains(node.get())) return {};
    graph::StorageOrders family = families.around(node, static_cast<int>(axis));
    if (family.empty()) return "its order is fixed";
    orders.merge(family);
    return {};
  });
  graph.replace = [orders = std::move(orders)](const graph::NodeRef& original, graph::NodeRef rebuilt) {
    const auto order = orders.find(original.get());
    return order == orders.end() ? rebuilt : graph::stored_in_order(rebuilt, order->second);
  };
  return verdict;
}

Verdict rewrite_graph(Plan& plan, const Move& move) {
  for (const History* h = plan.history.get(); h; h = h->earlier.get())
    if (!rewrites_graph(h->move.kind)) return "the graph is rewritten before all other moves";
  const lower::Program& program = *plan.program;
  Rewriting rewriting{program, {}};
  const auto apply_to = std::get<Verdict (*)(Rewriting&, const Move&)>(row_of(move.kind).apply);
  if (Verdict verdict = apply_to(rewriting, move); !verdict.empty()) return verdict;
  std::vector<graph::NodeRef> outputs = graph::rebuild(outputs_of(program), rewriting.replace);
  outputs = graph::fold_constants(graph::simplify(outputs), program.evaluate);
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < outputs.size(); ++k)
    named.push_back({program.outputs[k].name, outputs[k], program.outputs[k].declared});
  Plan made = initial_plan(std::make_shared<const lower::Program>(lower::lower(named, program.evaluate)));
  made.history = std::make_shared<History>(move, plan.history);
  plan = std::move(made);
  return {};
}

} // namespace lathe::search
