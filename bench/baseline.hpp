// Other ways to decide which stages share a kernel, to compare the joint search with. The loops of their
// kernels are searched as it searches them, in the same time.
#pragma once
#include "lathe/lathe.hpp"

namespace lathe::bench {

enum class Baseline {
  LeastTraffic, ///< first the fusions that save the most traffic and launches, then loops
  /// As XLA and TVM have them: an elementwise op goes into the ops that read it, or into the reduction that
  /// it alone reads. No reduction is computed inside another kernel's loops, or twice. Among these fusions
  /// the cost model chooses.
  FixedRules,
};

/// The outputs compiled with the plan that the baseline finds. All that is stored of a program was found by
/// searching both together, so this search does without.
Executable compiled_by(Baseline baseline, const NamedTensors& outputs, CompileOptions with,
                       const TuneOptions& tune);

} // namespace lathe::bench
