// The lowered program of tensors, for the commands that look into the search itself.
#pragma once
#include "search/search.hpp"

namespace lathe::bench {

/// By the printed graph, which is the public API's way to it. Constants are there, but not their values.
std::shared_ptr<const lower::Program> lowered(const NamedTensors& program);

/// This machine's CPU, as the cost model sees it.
search::Target host_target(int threads);

} // namespace lathe::bench
