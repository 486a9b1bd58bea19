// Reflections I - v v^T with vectors v of length sqrt(2), or 0 for none, as the reductions of eigh and svd
// use them.
#pragma once
#include <algorithm>

#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// Columns that are reduced one by one before their reflections are applied as a product.
inline constexpr int64_t kReflections = 32;
/// The most columns that are reduced by one recurrence.
inline constexpr int64_t kPanel = 256;

struct Reflection {
  Tensor vector; // [batch, n]
  Tensor head;   // [batch]: what the reflected element in row `first` is; all below are 0
};
/// Of x [batch, n], which is 0 before row `first` and at most about 1.
Reflection reflection_of(const Tensor& x, const Tensor& first);

/// How many of `count` columns are reduced one by one.
inline int64_t panel_width(int64_t count) { return std::min(count, kReflections); }

/// The product of the reflections by `vectors` [batch, count, n], first to last, times x [batch, n, columns].
/// panel_width() divides `count`.
Tensor reflected_back(const Tensor& vectors, const Tensor& x);

/// Matrices as value times scale, where no element is above 1; matrices that are not finite become NaN.
struct Scaled {
  Tensor value, scale; // scale: [batch, 1, 1]
};
Scaled scaled_to_one(const Tensor& x);

} // namespace lathe::graph
