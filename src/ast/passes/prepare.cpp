#include "ast/passes/prepare.hpp"

#include "ast/passes/interleave.hpp"

namespace lathe::ast {

Kernel prepare(const Kernel& scheduled) {
  return interleave_copies(
      expand_math(keep_accumulators(expand_unrolled(peel_guards(partition_tails(scheduled))))));
}

} // namespace lathe::ast
