// Where the lanes of a vector loop lie in a buffer: decided here once, for all renderers.
#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// Elements of a buffer, as the lanes of a vector loop use them.
struct Steps {
  Expr first; // lane 0's
  Expr step;  // from lane to lane
};
/// Nothing if the lanes follow no fixed step.
std::optional<Steps> steps_of(Expr flat, Expr lane);

/// Whether element `first` is in the buffer, or right behind its end.
bool begins_inside(const Buffer& buffer, Expr first);
/// LaneKind::EverySecond: the lanes to pick of two vectors, the second of which begins lanes - 1 elements
/// after the first. The second vector's lanes are numbered on from the first's.
std::vector<int> every_second(int lanes);

/// Whether lanes so many elements apart are one vector in memory, in either direction.
constexpr bool is_one_vector(double step) { return step == 1 || step == -1; }
/// Whether lanes so many elements apart are a column of an array in registers, which is read by transposing
/// its rows.
constexpr bool is_column_step(double step, double lanes) { return step >= lanes; }

/// The kernel with the LaneAccess of every load and store in a vector loop.
Kernel say_accesses(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
