#include <algorithm>

#include "search/suggest/suggest.hpp"

namespace lathe::search {

const std::vector<NamedSuggester>& suggesters() {
  static const std::vector<NamedSuggester> list = {
#define LATHE_SUGGESTER(name, function, graph) {name, function, graph},
#include "search/suggest/suggesters.def"
#undef LATHE_SUGGESTER
  };
  return list;
}

std::vector<Proposal> proposals(const SuggestContext& context, bool graph) {
  std::vector<Proposal> all;
  const auto is_left_out = [&](const Move& move) { return move.kind == context.without; };
  for (const NamedSuggester& s : suggesters()) {
    if (s.graph != graph) continue;
    for (Proposal& p : s.suggest(context))
      if (std::none_of(p.moves.begin(), p.moves.end(), is_left_out)) all.push_back(std::move(p));
  }
  return all;
}

} // namespace lathe::search
