// Reading images at places between their elements, as GridSample and DeformConv do.
//
//   std::vector<std::vector<GridTap>> taps; // for each spatial axis
//   taps.push_back(grid_taps(axis, places, "nearest"));
//   Tensor values = sample_images(images, axes, taps);
#pragma once
#include <string>
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// One axis of the images. `padding`: what places outside stand for, "zeros", "border" or "reflection".
struct GridAxis {
  int64_t size;
  bool align_corners = true; // -1 and 1 are the outer elements' centres, not their outer borders
  std::string padding = "zeros";

  /// From [-1, 1] to elements.
  Tensor denormalise(const Tensor& x) const;
  /// Which element a whole place outside stands for; places that padding by zeros leaves outside are kept.
  Tensor element(const Tensor& place) const;
  Tensor inside(const Tensor& element) const;
};

struct GridTap {
  Tensor element;
  std::optional<Tensor> weight; // none: 1
};

/// The elements of an axis that make the value at x, with their weights: "nearest", "linear" or "cubic".
std::vector<GridTap> grid_taps(const GridAxis& axis, const Tensor& x, const std::string& mode);

/// The axes behind [N, C] of images; Error(Shape) naming the node where they are not of fixed sizes.
std::vector<GridAxis> grid_axes(const Call& call, const Tensor& images, bool align_corners,
                                const std::string& padding);

/// The values of images [N, C, spatial...] at places, whose taps are [N, points] for each spatial axis:
/// [N, C, points].
Tensor sample_images(const Tensor& images, const std::vector<GridAxis>& axes,
                     const std::vector<std::vector<GridTap>>& taps);

} // namespace lathe::onnx
