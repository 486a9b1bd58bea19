// Why a plan's kernels are not one: the fusions that its search tried, or else those that the suggesters
// propose, tried here.
#pragma once
#include <optional>

#include "lathe/explain.hpp"
#include "search/beam/fusions.hpp"
#include "search/beam/kernel_search.hpp"

namespace lathe::pipeline {

class Borders {
public:
  /// `plan`: the plan to explain, which `moves` made. `fusions`: what its search tried; null if no search
  /// says. Plan, fusions and model outlive this.
  Borders(const search::Plan& plan, std::vector<search::Move> moves,
          const std::vector<search::TriedFusion>* fusions, search::CostModel& model);
  /// Between this kernel of the plan and each that it reads.
  std::vector<KernelBorder> of(const search::KernelPlan& kernel);

private:
  KernelBorder by_search(const search::KernelPlan& reader, const search::KernelPlan& producer,
                         int stage) const;
  std::optional<KernelBorder> again(const search::KernelPlan& reader, const search::KernelPlan& producer,
                                    int stage);
  std::vector<std::vector<search::Move>> tries(const search::KernelPlan& reader, int stage);
  double seconds_of_new(const search::Plan& plan, const search::Plan& than);
  const search::Plan& partition();
  std::string name(int stage) const;

  const search::Plan& plan_;
  std::vector<search::Move> moves_;
  const std::vector<search::TriedFusion>* fusions_;
  search::CostModel& model_;
  search::KernelSearch loops_;
  std::optional<search::Plan> partition_; // the plan's kernels before their loops were scheduled
};

} // namespace lathe::pipeline
