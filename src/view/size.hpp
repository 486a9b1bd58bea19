// How long an expression is. Equal parts are one node, so that a short expression may be long to write and to
// walk.
#pragma once
#include <cstdint>
#include <vector>

#include "lathe/expr.hpp"

namespace lathe {

/// Indices longer than this are not made: what computes them, and who compiles that, would take longer than a
/// copy of the tensor. Nodes; a strided window takes some 30.
inline constexpr uint32_t kLongestIndex = 256;

/// Its constants, variables and operations when it is written out, shared parts as often as they occur.
/// Saturates at 2^30.
uint32_t written_size(Expr e);
/// Whether an access's index and guards together are longer than kLongestIndex.
bool is_too_long(const std::vector<Expr>& index, const std::vector<Expr>& guards);

} // namespace lathe
