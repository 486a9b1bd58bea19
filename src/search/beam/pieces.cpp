#include "search/beam/pieces.hpp"

#include "view/scoped_pieces.hpp"

namespace lathe::search {

void search_pieces(size_t count, const SearchOptions& options,
                   const std::function<void(size_t, SearchTrace*)>& piece) {
  if (options.measure) { // what is timed has the machine for itself
    for (size_t k = 0; k < count; ++k) piece(k, options.trace);
    return;
  }
  TracedPieces traces(options.trace, count);
  on_cores_in_scope(count, [&](size_t k) { piece(k, traces[k]); });
  traces.join();
}

} // namespace lathe::search
