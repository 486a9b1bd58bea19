// Eigenvalues and eigenvectors of symmetric tridiagonal matrices of a float dtype.
#pragma once
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// Rows of `vectors` are the vectors of the values in the same places, in no order.
struct EigenRows {
  Tensor values;  // [batch, n]
  Tensor vectors; // [batch, n, n]
};

/// Of the matrices with `diagonal` [batch, n] and `beside` [batch, n - 1] next to it, n > 0. Without
/// `wants_vectors` the vectors are not computed and empty.
EigenRows eigen_of_tridiagonal(const Tensor& diagonal, const Tensor& beside, bool wants_vectors);

} // namespace lathe::graph
