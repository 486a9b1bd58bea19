// The rules are written with the functions themselves, so derivatives of every order are right. An
// elimination that a rule asks for again is the node that the value was made of.
#include "graph/matrix_rules.hpp"

#include "graph/tensor_impl.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/linalg.hpp"

namespace lathe::graph {
namespace {

Tensor flipped(const Tensor& x) { return x.transpose(); }

/// The lower triangle with half of the diagonal.
Tensor lower_half(const Tensor& x) { return (tril(x) + tril(x, -1)) * number(0.5, x.dtype()); }

/// Of X in A X = B: B gets A^-T dX, and A minus that times X^T, where `within` keeps what A consists of.
template <class Solve, class Within>
Part part_of_solution(const BackwardStep& s, size_t k, const Solve& solve_transposed, const Within& within) {
  const Tensor right = solve_transposed(flipped(s.source(1)), s.cotangent);
  if (k == 1) return right;
  return within(-right.matmul(flipped(s.value())));
}

/// The lower triangle and its mirror image.
Tensor mirrored(const Tensor& x) { return tril(x) + flipped(tril(x, -1)); }
/// X R^-T
Tensor over_transposed(const Tensor& x, const Tensor& r) {
  return flipped(triangular_solve(r, flipped(x), Triangle::Upper));
}

/// X / (w_j - w_i), and 0 on the diagonal.
Tensor over_gaps(const Tensor& x, const Tensor& w) {
  const int64_t n = w.size(-1).value();
  const Tensor is_same = Tensor::iota({n, n}, 0) == Tensor::iota({n, n}, 1);
  const Tensor gap = where(is_same, Tensor::ones({}, w.dtype()), w.unsqueeze(-2) - w.unsqueeze(-1));
  return where(is_same, Tensor::zeros({}, w.dtype()), x / gap);
}

} // namespace

/// L^-T Phi(L^T dL) L^-1, made symmetric, where Phi is the lower triangle with half of the diagonal.
Part cholesky_part(const BackwardStep& s, size_t) {
  const Tensor lower = s.value(), upper = flipped(lower);
  const Tensor inner = lower_half(upper.matmul(tril(s.cotangent)));
  const Tensor left = triangular_solve(upper, inner, Triangle::Upper);
  const Tensor both = flipped(triangular_solve(upper, flipped(left), Triangle::Upper));
  return (both + flipped(both)) * number(0.5, lower.dtype());
}

Part solve_part(const BackwardStep& s, size_t k) {
  return part_of_solution(
      s, k, [](const Tensor& a, const Tensor& b) { return solve(a, b); }, [](const Tensor& d) { return d; });
}
Part solve_lower_part(const BackwardStep& s, size_t k) {
  return part_of_solution(
      s, k, [](const Tensor& a, const Tensor& b) { return triangular_solve(a, b, Triangle::Upper); },
      [](const Tensor& d) { return tril(d); });
}
Part solve_upper_part(const BackwardStep& s, size_t k) {
  return part_of_solution(
      s, k, [](const Tensor& a, const Tensor& b) { return triangular_solve(a, b, Triangle::Lower); },
      [](const Tensor& d) { return triu(d); });
}

Part det_part(const BackwardStep& s, size_t) {
  return (s.cotangent * s.value()).unsqueeze(-1).unsqueeze(-1) * flipped(inverse(s.source(1)));
}
Part slogdet_part(const BackwardStep& s, size_t) {
  return s.cotangent.unsqueeze(-1).unsqueeze(-1) * flipped(inverse(s.source(1)));
}

/// (dQ + Q M) R^-T, where M is the mirrored lower triangle of -dQ^T Q.
Part qr_q_part(const BackwardStep& s, size_t) {
  const Tensor q = s.value(), r = qr(s.source(1)).r;
  return over_transposed(s.cotangent - q.matmul(mirrored(flipped(s.cotangent).matmul(q))), r);
}
/// Q M R^-T, where M is the mirrored lower triangle of R dR^T.
Part qr_r_part(const BackwardStep& s, size_t) {
  const Tensor r = s.value(), q = qr(s.source(1)).q;
  return over_transposed(q.matmul(mirrored(r.matmul(flipped(triu(s.cotangent))))), r);
}

/// V diag(dw) V^T
Part eigh_values_part(const BackwardStep& s, size_t) {
  const Tensor vectors = eigh(s.source(1)).vectors;
  return (vectors * s.cotangent.unsqueeze(-2)).matmul(flipped(vectors));
}
/// V (V^T dV / (w_j - w_i)) V^T, made symmetric.
Part eigh_vectors_part(const BackwardStep& s, size_t) {
  const Tensor vectors = s.value(), values = eigh(s.source(1)).values;
  const Tensor inner = over_gaps(flipped(vectors).matmul(s.cotangent), values);
  const Tensor whole = vectors.matmul(inner).matmul(flipped(vectors));
  return (whole + flipped(whole)) * number(0.5, values.dtype());
}

/// U diag(ds) V^T
Part svd_values_part(const BackwardStep& s, size_t) {
  const SVD made = svd(s.source(1));
  return (made.u * s.cotangent.unsqueeze(-2)).matmul(made.vt);
}
/// U G S V^T + (dU - U U^T dU) S^-1 V^T, where G = (K - K^T) / (s_j^2 - s_i^2) for K = U^T dU.
Part svd_u_part(const BackwardStep& s, size_t) {
  const SVD made = svd(s.source(1));
  const Tensor u = s.value(), row = made.s.unsqueeze(-2), k = flipped(u).matmul(s.cotangent);
  const Tensor inner = over_gaps(k - flipped(k), made.s.square()) * row;
  Tensor left = u.matmul(inner);
  if (s.source(1).size(-2) != s.source(1).size(-1)) left += (s.cotangent - u.matmul(k)) / row;
  return left.matmul(made.vt);
}
/// U S G V^T for the same G of V; x has at least as many rows as columns, so V is square.
Part svd_v_part(const BackwardStep& s, size_t) {
  const SVD made = svd(s.source(1));
  const Tensor k = made.vt.matmul(s.cotangent);
  const Tensor inner = made.s.unsqueeze(-1) * over_gaps(k - flipped(k), made.s.square());
  return made.u.matmul(inner).matmul(made.vt);
}

/// At a constant rank, for P = pinv(x): (1 - x P) dP^T P P^T + P^T P dP^T (1 - P x) - P^T dP P^T.
Part pinv_part(const BackwardStep& s, size_t) {
  const Tensor x = s.source(1), p = s.value(), pt = flipped(p), g = flipped(s.cotangent);
  const Tensor left = g.matmul(p).matmul(pt), right = pt.matmul(p).matmul(g);
  return left - x.matmul(p.matmul(left)) + right - right.matmul(p).matmul(x) -
         pt.matmul(s.cotangent).matmul(pt);
}

} // namespace lathe::graph
