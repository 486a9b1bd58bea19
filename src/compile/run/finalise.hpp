// The passes from a scheduled kernel to the form that renderers take.
#pragma once
#include "ast/ast.hpp"

namespace lathe::pipeline {

/// Returns the kernel after ast::prepare, verified in debug builds.
ast::Kernel finalise(const ast::Kernel& scheduled);

} // namespace lathe::pipeline
