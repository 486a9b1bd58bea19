// Plans of a search in which whatever can be inlined is.
#pragma once
#include "search/moves/plan.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

namespace lathe::test {

/// `plan` with every stage inlined that is neither an output nor a reduction, where that is legal.
inline search::Plan inlined(search::Plan plan) {
  for (const lower::Stage& stage : plan.program->stages)
    if (!stage.is_output && !stage.is_reduction)
      if (search::Applied applied = apply(plan, move("inline({})", stage.buffer->name), target());
          applied.plan)
        plan = *applied.plan;
  return plan;
}

/// The first plan of these outputs, inlined.
inline search::Plan inlined_plan(const NamedTensors& outputs) {
  std::vector<lower::NamedOutput> named;
  for (const auto& [name, tensor] : outputs) named.push_back({name, graph::node_of(tensor)});
  return inlined(search::initial_plan(std::make_shared<const lower::Program>(lower::lower(named))));
}

} // namespace lathe::test
