// Why a plan's kernels are not one: the fusions that the suggesters propose, tried one by one.
#pragma once
#include "lathe/explain.hpp"
#include "search/beam/kernel_search.hpp"

namespace lathe::pipeline {

class Borders {
public:
  /// `plan`: the plan to explain. The model outlives this.
  Borders(const search::Plan& plan, search::CostModel& model);
  /// Of the kernel with the stages that `kernel` computes; none if no fusion alone makes such a kernel.
  std::vector<KernelBorder> of(const search::KernelPlan& kernel);

private:
  KernelBorder border(size_t reader, size_t producer, int stage);
  double seconds_of_new(const search::Plan& plan, const search::Plan& than);

  search::CostModel& model_;
  search::KernelSearch loops_;
  search::Plan partition_; // the plan's kernels before their loops were scheduled
};

} // namespace lathe::pipeline
