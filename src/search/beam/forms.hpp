// What decisions between forms of a sum share.
#pragma once
#include <algorithm>
#include <string>

#include "graph/realise.hpp"
#include "search/beam/search.hpp"

namespace lathe::search {

/// Ratio of times: a form that rounds differently must save five per cent.
inline constexpr double kWorthwhileForm = 0.95;

/// The options for a search by the model alone. It has compile()'s beam and takes none of tuning's budget.
inline SearchOptions by_model_alone(SearchOptions options) {
  options.measure = nullptr;
  options.prepare = nullptr;
  options.seeds.clear();
  options.budget_seconds = 0;
  options.beam = std::min(options.beam, SearchOptions().beam);
  options.log.clear();
  options.progress = nullptr;
  return options;
}

/// Equal for sums that are decided alike: the graph as text, without the data of its constants.
inline std::string signature_of(const graph::NodeRef& alone) {
  return graph::print(graph::without_data({alone}).outputs);
}

} // namespace lathe::search
