// Searches that do not depend on each other, on all cores.
#pragma once
#include <functional>

#include "search/beam/search.hpp"

namespace lathe::search {

/// Calls piece(k) once for every k in [0, count), in the calling thread's expression scope. A search that is
/// traced or measures does one piece after the other: what it tells and what it times belongs to one thread.
void search_pieces(size_t count, const SearchOptions& options, const std::function<void(size_t)>& piece);

} // namespace lathe::search
