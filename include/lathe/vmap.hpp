// Functions of tensors, applied along an axis of their arguments.
//
//   // a distance of two vectors, then of each row of a [n, 3] and b [n, 3], then of each pair of rows: [n, m]
//   const auto distance = [](const std::vector<Tensor>& v) -> std::vector<Tensor> {
//     return {(v[0] - v[1]).square().sum().sqrt()};
//   };
//   Tensor by_row = vmap(distance)({a, b})[0];
//   Tensor by_pair = vmap(vmap(distance, {std::nullopt, 0}), {0, std::nullopt})({a, c})[0];
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {

/// Builds results from arguments.
using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& arguments)>;

/// jax.vmap: returns a function that gives, stacked, what `f` gives for each element along an axis of the arguments.
/// `in_axes` has the axis of each argument, or nothing for an argument that is the same for all; without it, it is axis 0 of all.
/// `out_axes` says where each result has the axis, by default in front.
///
/// This is no loop: `f` is called once, with arguments that lack the axis, and each op that it builds gets the axis. So a product
/// of a matrix with a vector becomes one product of matrices. Results that depend on no mapped argument are repeated along the
/// axis; random numbers are such results. A loop (while_loop) runs until it has ended for all elements, and those that ended earlier
/// keep their states. f may take derivatives, and the results have derivatives. The axis may have no elements, and its size may be a
/// symbol.
///
/// The returned function throws Error(Value) for another number of axes than of arguments or results, and where no argument is
/// mapped; Error(Axis) for an axis that a tensor does not have; Error(Shape) for axes of different sizes; Error(DType) for mapped
/// arguments and for results of narrow dtypes (is_narrow()).
TensorFunction vmap(TensorFunction f, std::vector<std::optional<int>> in_axes = {}, std::vector<int> out_axes = {});

}  // namespace lathe
