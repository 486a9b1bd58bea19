// ResNet-18, layer by layer: the workload, its reference and the peers walk the same list.
#pragma once
#include <string>
#include <vector>

#include "convolution.hpp"

namespace lathe::bench {

/// A convolution with bias (the batch norm behind it is folded into both), named "w_NAME" and "b_NAME".
struct ResnetConv {
  std::string name;
  ConvGeometry geometry;
};
/// y = relu(second(relu(first(x))) + shortcut(x)); without a shortcut, x itself.
struct ResnetBlock {
  ResnetConv first, second;
  bool has_shortcut;
  ResnetConv shortcut;
};
struct Resnet18 {
  explicit Resnet18(int64_t size); ///< of the images, which are square
  ResnetConv stem;                 ///< 7x7, stride 2; relu
  int64_t pooled;                  ///< size behind the 3x3 max pool of stride 2, padded by 1
  std::vector<ResnetBlock> blocks;
  static constexpr int64_t kFeatures = 512, kClasses = 1000; ///< mean over pixels, then "w_fc" and "b_fc"
};

} // namespace lathe::bench
