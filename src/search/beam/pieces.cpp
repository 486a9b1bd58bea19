#include "search/beam/pieces.hpp"

#include "core/on_cores.hpp"
#include "view/expr_scope.hpp"

namespace lathe::search {

void search_pieces(size_t count, const SearchOptions& options, const std::function<void(size_t)>& piece) {
  if (options.trace || options.measure) {
    for (size_t k = 0; k < count; ++k) piece(k);
    return;
  }
  const ExprScopeRef scope = current_expr_scope();
  on_cores(count, [&](size_t k) {
    const InExprScope here(scope);
    piece(k);
  });
}

} // namespace lathe::search
