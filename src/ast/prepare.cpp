#include "ast/prepare.hpp"

namespace lathe::ast {

Kernel prepare(const Kernel& scheduled) {
  return expand_math(keep_accumulators(expand_unrolled(peel_guards(partition_tails(scheduled)))));
}

} // namespace lathe::ast
