// Searches that do not depend on each other, on all cores.
#pragma once
#include <functional>

#include "search/beam/search.hpp"

namespace lathe::search {

/// Calls piece(k, trace) once for every k in [0, count), in the calling thread's expression scope; `trace` is
/// what the piece tells, null if nobody listens. A search that measures does one piece after the other.
void search_pieces(size_t count, const SearchOptions& options,
                   const std::function<void(size_t, SearchTrace*)>& piece);

} // namespace lathe::search
