#include "search/suggest/suggest.hpp"

namespace lathe::search {

const std::vector<NamedSuggester>& suggesters() {
  static const std::vector<NamedSuggester> list = {
      {"inline", suggest_inline, true},
      {"fuse", suggest_fuse, true},
      {"fused-tile", suggest_fused_tile, true},
      {"transform", suggest_transform, true},
      {"tile", suggest_tile, false},
      {"vectorise", suggest_vectorise, false},
      {"parts", suggest_parts, false},
      {"reorder", suggest_reorder, false},
      {"unroll", suggest_unroll, false},
      {"parallel", suggest_parallel, false},
      {"rows", suggest_rows, false},
      {"transpose", suggest_transpose, false},
      {"stream", suggest_stream, false},
      {"prefetch", suggest_prefetch, false},
      {"opencl", suggest_opencl, false},
  };
  return list;
}

} // namespace lathe::search
