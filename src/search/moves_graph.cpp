// Moves that rewrite the graph: the program is lowered anew, so they come before all others.
#include <fmt/format.h>

#include <set>

#include "graph/constants.hpp"
#include "graph/winograd.hpp"
#include "search/draft.hpp"

namespace lathe::search {

Verdict rewrite_graph(Plan& plan, const Move& move) {
  for (const History* h = plan.history.get(); h; h = h->earlier.get())
    if (h->move.kind != MoveKind::Winograd) return "the graph is rewritten before all other moves";
  const lower::Program& program = *plan.program;
  if (move.numbers[0] != 2 && move.numbers[0] != 4) return "tiles are of 2 or 4";
  std::set<const graph::Node*> convolutions;
  for (const std::string& name : move.names) {
    const int stage = stage_of_name(name);
    if (stage < 0 || stage >= static_cast<int>(program.stages.size()) ||
        name != program.stages[stage].buffer->name)
      return fmt::format("there is no stage {}", name);
    const graph::NodeRef& convolution = program.stages[stage].node;
    if (!graph::read_convolution(convolution))
      return fmt::format("{} is no 3 x 3 convolution of stride 1", name);
    convolutions.insert(convolution.get());
  }

  std::vector<graph::NodeRef> outputs;
  for (const lower::OutputBuffer& output : program.outputs) outputs.push_back(output.node);
  outputs = graph::rebuild(outputs, [&](const graph::NodeRef& original, graph::NodeRef rebuilt) {
    return convolutions.count(original.get()) ? graph::winograd(rebuilt, static_cast<int>(move.numbers[0]))
                                              : rebuilt;
  });
  outputs = graph::fold_constants(graph::simplify(outputs));
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < outputs.size(); ++k) named.push_back({program.outputs[k].name, outputs[k]});
  Plan made = initial_plan(std::make_shared<const lower::Program>(lower::lower(named)));
  made.history = std::make_shared<History>(move, plan.history);
  plan = std::move(made);
  return {};
}

} // namespace lathe::search
