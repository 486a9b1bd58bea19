#include "ast/machine/instructions.hpp"

#include <algorithm>

#include "ast/append.hpp"
#include "ast/instruction.hpp"
#include "ast/passes/math.hpp"

namespace lathe::ast {

Kernel choose_instructions(const Kernel& kernel, const VectorForms& forms) {
  return with_statements(kernel, [&](Stmt& stmt) {
    auto* store = std::get_if<Store>(&stmt.node);
    const auto by = store && !store->by ? instruction_for(*store) : std::nullopt;
    const bool is_there = by && std::count(forms.instructions.begin(), forms.instructions.end(), *by) > 0;
    if (is_there && !(forms.scales && math::as_scaled(*store->value))) store->by = by;
  });
}

} // namespace lathe::ast
