// Moves that rewrite the graph: the program is lowered anew, so they come before all others.
#include <fmt/format.h>

#include <set>

#include "graph/constants.hpp"
#include "graph/storage_order.hpp"
#include "graph/strassen.hpp"
#include "graph/winograd.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

namespace {

/// How a move makes each node anew; see graph::rebuild.
using Replace = std::function<graph::NodeRef(const graph::NodeRef& original, graph::NodeRef rebuilt)>;

std::vector<graph::NodeRef> outputs_of(const lower::Program& program) {
  std::vector<graph::NodeRef> outputs;
  for (const lower::OutputBuffer& output : program.outputs) outputs.push_back(output.node);
  return outputs;
}

Verdict winograd(const std::vector<graph::NodeRef>& stages, int64_t tile, Replace& replace) {
  if (tile != 2 && tile != 4) return "tiles are of 2 or 4";
  std::set<const graph::Node*> convolutions;
  for (const graph::NodeRef& stage : stages) {
    if (!graph::read_convolution(stage)) return "no 3 x 3 convolution of stride 1";
    convolutions.insert(stage.get());
  }
  replace = [=](const graph::NodeRef& original, graph::NodeRef rebuilt) {
    return convolutions.contains(original.get()) ? graph::winograd(rebuilt, static_cast<int>(tile)) : rebuilt;
  };
  return {};
}

Verdict strassen(const std::vector<graph::NodeRef>& stages, int64_t levels, Replace& replace) {
  if (levels != 1 && levels != 2) return "one level of blocks or two";
  std::set<const graph::Node*> products;
  for (const graph::NodeRef& stage : stages) {
    const auto product = graph::read_product(stage);
    if (!product) return "no product of two matrices";
    if (!graph::can_halve(*product, static_cast<int>(levels)))
      return fmt::format("{} rows, {} columns and {} terms are not multiples of {}", product->rows,
                         product->columns, product->terms, 1 << levels);
    products.insert(stage.get());
  }
  replace = [=](const graph::NodeRef& original, graph::NodeRef rebuilt) {
    return products.contains(original.get()) ? graph::strassen(rebuilt, static_cast<int>(levels)) : rebuilt;
  };
  return {};
}

Verdict innermost(const lower::Program& program, const std::vector<graph::NodeRef>& stages, int64_t axis,
                  Replace& replace) {
  const graph::Families families(outputs_of(program));
  graph::StorageOrders orders;
  for (const graph::NodeRef& stage : stages) {
    if (axis >= static_cast<int64_t>(stage->shape.size())) return fmt::format("there is no axis {}", axis);
    if (graph::is_innermost(stage, static_cast<int>(axis))) return fmt::format("axis {} is innermost", axis);
    if (orders.contains(stage.get())) continue;
    graph::StorageOrders family = families.around(stage, static_cast<int>(axis));
    if (family.empty()) return "its order is fixed";
    orders.merge(family);
  }
  replace = [orders = std::move(orders)](const graph::NodeRef& original, graph::NodeRef rebuilt) {
    const auto order = orders.find(original.get());
    return order == orders.end() ? rebuilt : graph::stored_in_order(rebuilt, order->second);
  };
  return {};
}

} // namespace

Verdict rewrite_graph(Plan& plan, const Move& move) {
  for (const History* h = plan.history.get(); h; h = h->earlier.get())
    if (!rewrites_graph(h->move.kind)) return "the graph is rewritten before all other moves";
  const lower::Program& program = *plan.program;
  std::vector<graph::NodeRef> stages;
  for (const std::string& name : move.names) {
    const int stage = stage_of_name(name);
    if (stage < 0 || stage >= static_cast<int>(program.stages.size()) ||
        name != program.stages[stage].buffer->name)
      return fmt::format("there is no stage {}", name);
    stages.push_back(program.stages[stage].node);
  }
  Replace replace;
  const Verdict verdict = move.kind == MoveKind::Winograd ? winograd(stages, move.numbers[0], replace)
                          : move.kind == MoveKind::Strassen
                              ? strassen(stages, move.numbers[0], replace)
                              : innermost(program, stages, move.numbers[0], replace);
  if (!verdict.empty()) return verdict;
  std::vector<graph::NodeRef> outputs = graph::rebuild(outputs_of(program), replace);
  outputs = graph::fold_constants(graph::simplify(outputs));
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < outputs.size(); ++k) named.push_back({program.outputs[k].name, outputs[k]});
  Plan made = initial_plan(std::make_shared<const lower::Program>(lower::lower(named)));
  made.history = std::make_shared<History>(move, plan.history);
  plan = std::move(made);
  return {};
}

} // namespace lathe::search
