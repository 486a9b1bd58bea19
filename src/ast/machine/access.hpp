// Decides, once for all renderers, where the lanes of a vector loop lie in a buffer.
#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// The elements of a buffer that the lanes of a vector loop use, as offsets in elements.
struct Steps {
  Expr first; // of lane 0
  Expr step;  // from lane to lane
};
/// The steps of offset `flat` along `lane`; nothing if the lanes follow no fixed step.
std::optional<Steps> steps_of(Expr flat, Expr lane);

/// Whether element `first` is in the buffer, or directly past its end.
bool begins_inside(const Buffer& buffer, Expr first);
/// LaneKind::EverySecond: the lanes to pick from two vectors. The second vector begins lanes - 1 elements
/// after the first, and its lanes are numbered from `lanes` on.
std::vector<int> every_second(int lanes);

/// Whether lanes `step` elements apart are one vector in memory, in either direction.
constexpr bool is_one_vector(double step) { return step == 1 || step == -1; }
/// Whether lanes `step` elements apart can be a column of an array in registers. Renderers read columns by
/// transposing the rows.
constexpr bool is_column_step(double step, double lanes) { return step >= lanes; }

/// The kernel with the LaneAccess set for every load and store in a vector loop.
Kernel say_accesses(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
