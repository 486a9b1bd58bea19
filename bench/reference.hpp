// Straightforward computations in f64, independent of lathe, that every timed result is checked against.
#pragma once
#include <Eigen/Core>

#include "workloads.hpp"

namespace lathe::bench {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows x columns elements from `offset` on.
Matrix matrix(const HostTensor& tensor, int64_t rows, int64_t columns, int64_t offset = 0);
void append(std::vector<double>& out, const Matrix& m);
std::vector<double> flat(const Matrix& m);

Matrix softmax_rows(const Matrix& x);
Matrix layer_norm_rows(const Matrix& x, const Matrix& weight,
                       const Matrix& bias);                          ///< both of one row; eps 1e-5
Matrix gelu(const Matrix& x);                                        ///< by erf
Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v); ///< one head

/// Distance from 1 to the next number; 0 for integers.
double epsilon(DType dtype);
/// What rounding may do to a sum of `terms` products in any order.
double sum_tolerance(DType dtype, int64_t terms);

} // namespace lathe::bench
