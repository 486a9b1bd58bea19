#include "ast/machine/instructions.hpp"

#include <algorithm>

#include "ast/instruction.hpp"
#include "ast/passes/math.hpp"

namespace lathe::ast {

Kernel choose_instructions(const Kernel& kernel, const VectorForms& forms) {
  Rewriter rewriter;
  rewriter.on_stmt = [&](Stmt stmt) {
    if (auto* store = std::get_if<Store>(&stmt.node)) {
      const auto by = instruction_for(*store);
      const bool is_there = by && std::count(forms.instructions.begin(), forms.instructions.end(), *by) > 0;
      if (is_there && !(forms.scales && math::as_scaled(*store->value))) store->by = by;
    }
    Block out;
    out.push_back(std::move(stmt));
    return out;
  };
  Kernel out = kernel;
  out.body = rewrite(kernel.body, rewriter);
  return out;
}

} // namespace lathe::ast
