// What a Kernel handle points to.
#pragma once
#include "lathe/executable.hpp"
#include "runtime/device.hpp"
#include "search/moves/plan.hpp"

namespace lathe {

struct Kernel::Impl {
  std::string name;
  std::vector<KernelParam> params; // in the order of the compiled kernel's
  std::vector<Expr> shape_vars;
  search::KernelPlanRef plan;
  double predicted_seconds = 0;
  int threads = 1; // of its parallel loops
  runtime::Device* device = nullptr;
  std::shared_ptr<const runtime::Program> program;
};

} // namespace lathe
