// From a scheduled kernel to what renderers take.
#pragma once
#include "ast/ast.hpp"

namespace lathe::pipeline {

/// ast::prepare, and verify in debug builds.
ast::Kernel finalise(const ast::Kernel& scheduled);

} // namespace lathe::pipeline
