// The words that print() and parse() use for LaneAccess.
#pragma once
#include <array>
#include <string_view>

namespace lathe::ast {

/// Indexed by LaneKind.
inline constexpr std::array<std::string_view, 9> kLaneKindNames = {
    "", "one", "whole", "backwards", "spaced", "apart", "column", "moved_up", "scattered"};
inline constexpr std::string_view kMasked = " masked";

} // namespace lathe::ast
