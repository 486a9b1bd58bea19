// Solutions of triangular systems.
#include "graph/function.hpp"
#include "graph/linear_algebra/matrices.hpp"
#include "lathe/linalg.hpp"

namespace lathe {
using namespace graph;

Tensor triangular_solve(const Tensor& a, const Tensor& b, Triangle triangle) {
  constexpr std::string_view op = "triangular_solve";
  (void)square_matrices_of(op, a);
  const auto [m, right] = matched_matrices(op, a, b);
  const bool lower = triangle == Triangle::Lower;
  const Tensor x = lower ? solve_lower(m.value, right.value) : solve_upper(m.value, right.value);
  return right.result(with_derivative(lower ? "solve_lower" : "solve_upper", x, {m.value, right.value}));
}

} // namespace lathe
