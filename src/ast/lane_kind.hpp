// The words for LaneAccess in the text of kernels.
#pragma once
#include <array>
#include <string_view>

namespace lathe::ast {

/// By LaneKind.
inline constexpr std::array<std::string_view, 9> kLaneKindNames = {
    "", "one", "whole", "backwards", "every_second", "apart", "column", "moved_up", "scattered"};
inline constexpr std::string_view kMasked = " masked";

} // namespace lathe::ast
