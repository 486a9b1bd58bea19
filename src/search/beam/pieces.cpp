#include "search/beam/pieces.hpp"

#include "view/scoped_pieces.hpp"

namespace lathe::search {

void search_pieces(size_t count, const SearchOptions& options, const std::function<void(size_t)>& piece) {
  if (options.trace || options.measure) {
    for (size_t k = 0; k < count; ++k) piece(k);
    return;
  }
  on_cores_in_scope(count, piece);
}

} // namespace lathe::search
