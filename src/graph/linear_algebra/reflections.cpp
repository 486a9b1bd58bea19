#include "graph/linear_algebra/reflections.hpp"

#include "graph/linear_algebra/matrices.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/scan.hpp"

namespace lathe::graph {

Reflection reflection_of(const Tensor& x, const Tensor& first) {
  const DType dtype = x.dtype();
  const Tensor zero = Tensor::zeros({}, dtype), place = Tensor::iota({1, x.size(1)}, 1);
  // Elements are at most 1: what is shorter than this is nothing beside the rounding of the largest.
  const Tensor nothing = number(dtype == DType::F64 ? 1e-140 : 1e-15, dtype);
  const Tensor head = where(place == first, x, zero).sum(1, true), length = x.square().sum(1, true).sqrt();
  const Tensor signed_length = where(head < zero, -length, length);
  const Tensor longer = where(place == first, x + signed_length, x) / (length * (length + head.abs())).sqrt();
  const Tensor is_none = length < nothing;
  return {where(is_none, zero, longer), where(is_none, zero, -signed_length).reshape({x.size(0)})};
}

Tensor reflected_back(const Tensor& vectors, const Tensor& x) {
  // A product of reflections is I - V T V^T, where 1/T is the upper triangle of V^T V with ones on the
  // diagonal.
  const Expr batch = vectors.size(0);
  const int64_t count = vectors.size(1).value(), width = panel_width(count), panels = count / width;
  const Tensor rows = vectors.reshape({batch * panels, width, vectors.size(2)});
  const Tensor inverse = triu(rows.matmul(transposed(rows)), 1) + identity_of(x, width, width);
  const Tensor factor = solve_upper(inverse, broadcast_to(identity_of(x, width, width), inverse.shape()));
  const auto by_panel = [&](const Tensor& t) {
    return t.reshape({batch, panels, width, t.size(2)}).transpose(0, 1).contiguous();
  };
  const auto step = [](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor products = row[1].matmul(row[0].matmul(state[0]));
    return {{state[0] - transposed(row[0]).matmul(products)}, {}};
  };
  ScanOptions options;
  options.backward = true;
  return scan(step, {x}, {by_panel(rows), by_panel(factor)}, options).state[0];
}

Scaled scaled_to_one(const Tensor& x) {
  const Tensor most = x.abs().max({1, 2}, true);
  const Tensor scale = where(most == Tensor::zeros({}, x.dtype()), Tensor::ones({}, x.dtype()), most);
  return {x / scale, scale};
}

} // namespace lathe::graph
