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

} // namespace lathe::search
