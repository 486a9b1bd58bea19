// A move's text at the end of another text, without a string for each of its parts: a trace writes millions.
#pragma once
#include <string>

#include "search/moves/move.hpp"

namespace lathe::search {

/// Adds to_string(move).
void append(std::string& out, const Move& move);

} // namespace lathe::search
