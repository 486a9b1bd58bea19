// Tensor loops: the loops that one instruction computes.
//
//   [for rows in m { for k_rows in k / pack {] for columns in n { for k in pack { C[..] += cast(A[..]) *
//   cast(B[..]) } } ... }
//
// A may be at the place of B in the product: B is the one that moves with the columns. In the machine form
// there are two more nests, of rows and columns alone, for arrays in tile registers: C[..] = 0, and
// memory[..] = C[..]. A nest of columns and k alone copies an operand B into the order in which instructions
// take it.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

struct TensorNest {
  std::vector<const For*> loops; // outermost first
  const Store* store;
};
/// The nest of a tensor loop; nothing if its body is anything else than further tensor loops and one store.
std::optional<TensorNest> tensor_nest(const For& outermost);

/// The place of an access in the first iteration of all loops of the nest, in elements.
Expr first_of(const Buffer& buffer, const std::vector<Expr>& index, const TensorNest& nest);

/// What a nest of tensor loops multiplies.
struct TensorProduct {
  const For *rows, *k_rows; // null where the instruction has one row
  const For *columns, *k;
  const Store* store;
  DType a_dtype, b_dtype;
  const LoadAttr *a, *b; // null where an operand is computed; no instruction takes it so
};
/// Nothing if the nest does not add products of the form above, of loads or of computed values.
std::optional<TensorProduct> tensor_product(const TensorNest& nest);
/// The two factors of the product that the store adds, as they are before they are cast.
std::optional<std::pair<ValueRef, ValueRef>> factors_of(const Store& store);
/// Whether a value depends on the loop variable.
bool moves_with(const ValueRef& value, Expr var);

/// The instruction among `present` that has the shape and the types of the product.
std::optional<Instruction> instruction_of(const TensorProduct& product, const Instructions& present);
/// Whether the elements of A, B and C lie as the instruction takes them; `unguarded`: and all are there.
bool is_laid_out(const TensorProduct& product, const InstructionInfo& row, bool unguarded = true);

/// A copy of several rows of k, so that what lies in one column comes to lie side by side: P[column, k] =
/// B[k, column]. Two tensor loops, columns and k.
struct TensorCopy {
  const For *columns, *k;
  const Store* store;
  const LoadAttr* from;
};
/// Nothing if the nest is no such copy, or reads past the ends of B.
std::optional<TensorCopy> tensor_copy(const TensorNest& nest);

/// An array in tile registers: a grid of tiles of `rows` x 16 elements, `columns` elements wide, row by row.
/// `k_rows`: of the operands that are multiplied.
struct TileGrid {
  static constexpr int64_t kWidth = 16;
  int64_t rows, columns, k_rows;
  /// How many tiles an array of so many elements has; 0: it does not consist of tiles.
  int64_t tiles_in(int64_t elements) const {
    return elements % (rows * columns) == 0 ? elements / (rows * kWidth) : 0;
  }
  /// The number of the tile that begins at this element; nothing if none does.
  std::optional<int64_t> tile_at(int64_t element) const {
    const int64_t row = element / columns, column = element % columns;
    if (element < 0 || row % rows != 0 || column % kWidth != 0) return {};
    return row / rows * (columns / kWidth) + column / kWidth;
  }
  int64_t first_of(int64_t tile) const {
    return tile / (columns / kWidth) * rows * columns + tile % (columns / kWidth) * kWidth;
  }
  bool operator==(const TileGrid&) const = default;
};
/// The grid of the array that a product by an instruction on tiles adds to.
TileGrid tile_grid(const TensorProduct& product);

} // namespace lathe::ast
