// Windows of images, combined: what Tensor's pooling and that of ONNX models share.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::detail {

/// The axes from `first` on become those of windows, of which `combine` makes one element each: a sum or a
/// maximum over the given axes. It is called once for all axes, or for one axis after another where that
/// takes half the elements or fewer. `kernel`, `stride` and `dilation` have a number per axis; windows fit
/// the axes.
Tensor combine_windows(Tensor x, int first, const std::vector<int64_t>& kernel,
                       const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation,
                       const std::function<Tensor(const Tensor&, const Axes&)>& combine);

} // namespace lathe::detail
