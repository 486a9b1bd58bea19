// Moves that rewrite the graph.
#pragma once
#include "search/moves/plan.hpp"
#include "search/moves/table.hpp"

namespace lathe::search {

/// The plan of the program lowered anew from its rewritten graph. Legal as long as the plan's history holds
/// nothing else than such moves.
Verdict rewrite_graph(Plan& plan, const Move& move);

} // namespace lathe::search
