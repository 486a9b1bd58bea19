// The numbers of the cost model, from constants.def.
#pragma once
#include <span>
#include <string_view>

namespace lathe::search {

struct CostConstants {
#define LATHE_COST_CONSTANT(name, value, unit, meaning, source) double name = value;
#include "search/cost/constants.def"
#undef LATHE_COST_CONSTANT
};
/// Only `lathe-bench constants` changes them, in a process of one thread.
extern CostConstants cost_constants;

struct CostConstantInfo {
  std::string_view name, unit, meaning, source;
  double CostConstants::* member;
};
std::span<const CostConstantInfo> cost_constant_infos();

} // namespace lathe::search
