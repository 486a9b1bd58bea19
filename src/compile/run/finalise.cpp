#include "compile/run/finalise.hpp"

#include "ast/passes/prepare.hpp"

namespace lathe::pipeline {

ast::Kernel finalise(const ast::Kernel& scheduled) {
  ast::Kernel kernel = ast::prepare(scheduled);
#ifndef NDEBUG
  ast::verify(kernel);
#endif
  return kernel;
}

} // namespace lathe::pipeline
