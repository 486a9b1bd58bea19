// Padding with what the tensor holds itself: an axis goes on with its own image, mirrored or not, over and
// over.
#include "graph/tensor_impl.hpp"
#include "lathe/array_functions.hpp"

namespace lathe {
using namespace graph;
namespace {

/// The `count` elements that follow the last one of an axis.
Tensor continued(const Tensor& x, int axis, int64_t count, PadMode mode) {
  const int64_t size = x.shape()[axis].value();
  const bool mirrors = mode == PadMode::Reflect || mode == PadMode::Symmetric;
  const int64_t first = mode == PadMode::Reflect ? 1 : 0; // of an image, behind the edge that it shares
  Tensor image = x;
  if (mode == PadMode::Edge) image = part_of(x, axis, size - 1, size);
  if (mirrors) image = part_of(x.flip(axis), axis, first, size);
  // Behind the mirror image comes the tensor itself again.
  if (mirrors && count > size - first) image = concat({image, part_of(x, axis, first, size)}, axis);
  const int64_t period = image.shape()[axis].value();
  std::vector<int64_t> times(x.shape().size(), 1);
  times[axis] = (count - 1) / period + 1;
  return part_of(image.repeat(times), axis, 0, count);
}

} // namespace

Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, PadMode mode) {
  padded_shape(x, before_after);
  Tensor result = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto [before, after] = before_after[axis];
    if (before == 0 && after == 0) continue;
    const Expr size = x.shape()[axis];
    if (!size.is_const())
      fail(ErrorKind::Shape, "pad: axis {} of {}, expected a static size", axis, to_string(x.shape()));
    if (size.is_const(0))
      fail(ErrorKind::Value, "pad: axis {} of {}, expected an element to go on with", axis,
           to_string(x.shape()));
    if (mode == PadMode::Reflect && size.is_const(1))
      fail(ErrorKind::Value, "pad: Reflect along axis {} of {}, expected more than the edge itself", axis,
           to_string(x.shape()));
    std::vector<Tensor> parts{result};
    if (after > 0) parts.push_back(continued(result, axis, after, mode));
    // What comes before is what follows in the other direction.
    if (before > 0) parts.insert(parts.begin(), continued(result.flip(axis), axis, before, mode).flip(axis));
    result = concat(parts, axis);
  }
  return result;
}

} // namespace lathe
