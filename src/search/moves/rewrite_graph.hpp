// Moves that rewrite the graph.
#pragma once
#include "search/moves/plan.hpp"
#include "search/moves/table.hpp"

namespace lathe::search {

/// Makes the plan that of the program lowered anew from its rewritten graph. Legal as long as the plan's
/// history holds only such moves.
Verdict rewrite_graph(Plan& plan, const Move& move);

} // namespace lathe::search
