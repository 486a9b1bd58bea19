// How long an expression is. Equal parts are one node, so an expression of few nodes may be long to write and
// to walk.
#pragma once
#include <cstdint>
#include <vector>

#include "lathe/expr.hpp"

namespace lathe {

/// Nodes of the longest index that lathe makes; the index of a strided window has about 30. To compile and to
/// compute a longer index takes longer than a copy of the tensor.
inline constexpr uint32_t kLongestIndex = 256;

/// The number of constants, variables and operations in e when it is written out. A shared part counts as
/// often as it occurs. Saturates at 2^30.
uint32_t written_size(Expr e);
/// Whether an access's index and guards together are longer than kLongestIndex.
bool is_too_long(const std::vector<Expr>& index, const std::vector<Expr>& guards);

} // namespace lathe
