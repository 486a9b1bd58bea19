// Derivatives of the functions of lathe/linalg.hpp, for the table in function.cpp. Arguments and values are
// [batch, rows, columns].
#pragma once
#include "graph/gradient.hpp"

namespace lathe::graph {

Part cholesky_part(const BackwardStep& s, size_t k);
Part solve_part(const BackwardStep& s, size_t k);
Part solve_lower_part(const BackwardStep& s, size_t k);
Part solve_upper_part(const BackwardStep& s, size_t k);
Part det_part(const BackwardStep& s, size_t k);
Part slogdet_part(const BackwardStep& s, size_t k);
Part qr_q_part(const BackwardStep& s, size_t k);
Part qr_r_part(const BackwardStep& s, size_t k);
Part eigh_values_part(const BackwardStep& s, size_t k);
Part eigh_vectors_part(const BackwardStep& s, size_t k);
Part svd_values_part(const BackwardStep& s, size_t k);
Part svd_u_part(const BackwardStep& s, size_t k);
Part svd_v_part(const BackwardStep& s, size_t k);
Part pinv_part(const BackwardStep& s, size_t k);

} // namespace lathe::graph
