#include "search/cost/constants.hpp"

namespace lathe::search {

constinit CostConstants cost_constants;

namespace {
constexpr CostConstantInfo kInfos[] = {
#define LATHE_COST_CONSTANT(name, value, unit, meaning, source)                                              \
  {#name, unit, meaning, source, &CostConstants::name},
#include "search/cost/constants.def"
#undef LATHE_COST_CONSTANT
};
} // namespace

std::span<const CostConstantInfo> cost_constant_infos() { return kInfos; }

} // namespace lathe::search
