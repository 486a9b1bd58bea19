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
/// LaneKind::Spaced: how lanes `step` elements apart are picked from whole vectors of as many lanes.
struct SpacedLoad {
  /// Two vectors become one. Vectors are numbered: those that are loaded first, then those that merging
  /// makes.
  struct Merge {
    int left, right;
    std::vector<int> pick; // for each lane a lane of left, or of right plus the number of lanes; -1: any
  };
  std::vector<int> starts;   // of the vectors to load, in elements after lane 0
  std::vector<Merge> merges; // the last one makes the result
};
/// Touches nothing past the last lane. `lanes` and `step` are at least 2.
SpacedLoad spaced_load(int lanes, int step);

/// LaneKind::Scattered: lanes at fixed places of a vector no longer than theirs, as where each element of a
/// row is repeated. The vector is loaded, and the lanes are picked from it.
struct PickedLoad {
  Expr first;            // element of the vector
  std::vector<int> pick; // for each lane the element after `first`
  int elements;          // of the vector: 2, 4, 8 ...; lanes touch its first and its last one
};
/// Of the elements at offset `flat`. Nothing if they do not lie so. The number of lanes is at least 2.
std::optional<PickedLoad> picked_load(const Buffer& buffer, Expr flat, Expr lane, int lanes);

/// Whether lanes `step` elements apart are one vector in memory, in either direction.
constexpr bool is_one_vector(double step) { return step == 1 || step == -1; }
/// Whether lanes `step` elements apart can be a column of an array in registers. Renderers read columns by
/// transposing the rows.
constexpr bool is_column_step(double step, double lanes) { return step >= lanes; }

/// Whether lanes `step` elements apart lie so close that it costs less to load what is between them than to
/// access each lane.
constexpr bool is_spaced_step(double step, DType dtype) { return step >= 2 && step * size_of(dtype) <= 16; }

/// Whether a Gather looks bytes up in a table of 256 by indices that are bytes. None is out of range, and a
/// target may hold the table in registers.
bool is_byte_look_up(const Value& gather);

/// Whether x86 with vectors of so many bytes has one instruction that loads some lanes of a vector. Without
/// it, each lane is a branch.
constexpr bool masks_loads(int vector_bytes, DType dtype) {
  return vector_bytes == 64 || (vector_bytes == 32 && size_of(dtype) >= 4);
}

/// The kernel with the LaneAccess set for every load and store in a vector loop.
Kernel say_accesses(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
