// What convolution, pooling and patches of images share: their options, their padding and their windows.
#pragma once
#include <string_view>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::graph {

/// One number per spatial axis; a single one stands for all. Error(Value) for another count, or below
/// `least`.
std::vector<int64_t> per_axis(std::string_view op, std::string_view what, const std::vector<int64_t>& given,
                              size_t count, int64_t least);
/// Pads the last axes by `before` and `after`, which may be negative and then cut; with zero if not `fill`.
Tensor pad_spatial(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                   const Tensor* fill = nullptr);
/// Error(Shape) unless a window fits an axis of `size`.
void check_window(std::string_view op, Expr size, int64_t kernel, int64_t dilation);
/// [..., H, W] -> [..., OH, OW, KH, KW]. Windows that don't fit are an error naming op.
Tensor windows(std::string_view op, Tensor x, const std::vector<int64_t>& kernel,
               const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation);

} // namespace lathe::graph
