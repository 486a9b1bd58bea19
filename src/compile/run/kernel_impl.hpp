// What a Kernel handle points to.
#pragma once
#include <mutex>

#include "lathe/executable.hpp"
#include "runtime/device.hpp"
#include "search/moves/plan.hpp"
#include "view/expr_scope.hpp"

namespace lathe {

struct Kernel::Impl {
  ExprScopeRef expressions; // of the plan
  std::string name;
  std::vector<KernelParam> params; // in the order of the compiled kernel's
  std::vector<Expr> shape_vars;
  search::KernelPlanRef plan;
  double predicted_seconds = 0;
  runtime::CompileFlags flags;
  runtime::Device* device = nullptr;
  std::shared_ptr<const runtime::Program> program;

  /// The source for the device, made at the first call.
  const std::string& source() const;

private:
  mutable std::once_flag source_once_;
  mutable std::string source_;
};

} // namespace lathe
