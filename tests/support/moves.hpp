// Moves by their text.
#pragma once
#include <fmt/format.h>

#include "search/moves/move.hpp"

namespace lathe::test {

template <class... A> search::Move move(fmt::format_string<A...> text, A&&... arguments) {
  return search::parse_move(fmt::format(text, std::forward<A>(arguments)...));
}

} // namespace lathe::test
