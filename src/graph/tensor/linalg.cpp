// matmul, and contract(): products as expand, Mul, Reduce.
#include "graph/contract.hpp"
#include "graph/long_reduction.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

Tensor contract(const Tensor& a, const Tensor& b, const Shape& full, const std::vector<int>& axes) {
  const DType d = promote(a.dtype(), b.dtype());
  const Tensor x = broadcast_to(a.cast(wide(d)), full), y = broadcast_to(b.cast(wide(d)), full);
  if (d == DType::Bool) return reduce_op(Op::Or, x & y, axes);
  return sum_over(x * y, axes, kLongestFusedSum).cast(d);
}

} // namespace lathe::graph

namespace lathe {
using namespace graph;

Tensor Tensor::matmul(const Tensor& other) const {
  if (rank() == 0 || other.rank() == 0)
    fail(ErrorKind::Shape, "matmul: {} x {}, expected at least one axis each", to_string(shape()),
         to_string(other.shape()));
  const Tensor a = rank() == 1 ? unsqueeze(0) : *this;
  const Tensor b = other.rank() == 1 ? other.unsqueeze(1) : other;
  if (a.size(-1) != b.size(-2))
    fail(ErrorKind::Shape, "matmul: inner sizes differ: {} x {}, expected {} == {}", to_string(shape()),
         to_string(other.shape()), to_string(a.size(-1)), to_string(b.size(-2)));
  const Shape batch = broadcast_shape("matmul", {Shape(a.shape().begin(), a.shape().end() - 2),
                                                 Shape(b.shape().begin(), b.shape().end() - 2)});
  const Expr m = a.size(-2), n = b.size(-1), k = a.size(-1);
  Shape full = batch;
  full.insert(full.end(), {m, n, k});
  check_shape("matmul", full, promote(dtype(), other.dtype()));
  // [..., m, 1, k] * [..., 1, n, k], summed over k.
  const Tensor left = a.unsqueeze(-2), right = b.transpose().unsqueeze(-3);
  const int last = static_cast<int>(full.size()) - 1;
  std::vector<int> gone{last};
  if (rank() == 1) gone.push_back(last - 2);
  if (other.rank() == 1) gone.push_back(last - 1);
  return drop_axes(contract(left, right, full, {last}), gone);
}

} // namespace lathe
