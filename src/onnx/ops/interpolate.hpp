// Kernels of interpolation.
#pragma once

namespace lathe::onnx {

/// Keys' cubic convolution: the weight of an element at `distance`, which is below 2. `a` is its slope at 1.
/// Of numbers and of tensors.
template <class T> T cubic_near(const T& distance, double a) { // up to 1
  return (distance * (a + 2) - (a + 3)) * distance * distance + 1.0;
}
template <class T> T cubic_far(const T& distance, double a) { // from 1 to 2
  return ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a;
}
/// 0 from a distance of 2 on.
inline double cubic_weight(double distance, double a) {
  if (distance >= 2) return 0;
  return distance <= 1 ? cubic_near(distance, a) : cubic_far(distance, a);
}

} // namespace lathe::onnx
