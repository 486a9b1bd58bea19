// Ops that move elements without computing: shapes, orders, parts and copies. Padding and what looks at
// values is in layout.cpp.
#include <algorithm>
#include <numeric>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// An attribute in old opsets, an input in new ones. Whatever is looked at comes before the data is asked
/// for: looking makes inputs of the values that are used afterwards.
Shape attribute_or_sizes(Call& call, std::string_view name, size_t input) {
  if (!call.has_attribute(name)) return call.sizes(input);
  const std::vector<int64_t> given = call.integers(name);
  return Shape(given.begin(), given.end());
}

/// The size that is left open, -1, of a shape for no elements: what the axes that 0 does not copy leave over.
Expr open_size(const Shape& given, const Shape& requested) {
  Expr have = 1, want = 1;
  for (size_t i = 0; i < std::max(given.size(), requested.size()); ++i) {
    const bool copied = i < requested.size() && requested[i].is_const(0);
    if (!copied && i < given.size()) have = have * given[i];
    if (!copied && i < requested.size() && !requested[i].is_const(-1)) want = want * requested[i];
  }
  return want.is_const(0) ? Expr(0) : floordiv(have, want);
}

std::vector<Value> reshape(Call& call) {
  Shape shape = attribute_or_sizes(call, "shape", 1); // an attribute before opset 5
  const Value x = call.value(0);
  const bool zero_copies = call.integer("allowzero", 0) == 0;
  const auto open = std::find(shape.begin(), shape.end(), Expr(-1));
  const Expr left = x.is_empty() ? open_size(x.shape(), shape) : Expr(-1);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_const(0) || !zero_copies) continue;
    if (i >= x.shape().size())
      call.fail(ErrorKind::Shape, to_string(x.shape()) + " to " + to_string(shape) +
                                      ", expected no 0 for an axis that is not there");
    shape[i] = x.shape()[i];
  }
  if (open != shape.end()) *open = left;
  return {x.tensor().reshape(shape)};
}

std::vector<Value> flatten(Call& call) {
  const Value x = call.value(0);
  const int64_t given = call.integer("axis", 1);
  const int axis = given == x.rank() ? x.rank() : normalise_axis(call, given, std::max(x.rank(), 1));
  return {x.tensor().reshape(
      {elements_between(x.shape(), 0, axis), elements_between(x.shape(), axis, x.rank())})};
}

std::vector<Value> squeeze(Call& call) {
  const auto given = axes_operand(call, 1);
  const Value x = call.value(0);
  std::vector<int> axes = normalise_axes(call, given.value_or(std::vector<int64_t>{}), x.rank());
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool one = x.shape()[axis].is_const(1);
    const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (named && !one)
      call.fail(ErrorKind::Shape,
                "axis " + std::to_string(axis) + " of " + to_string(x.shape()) + ", expected size 1");
    if (given ? !named : !one) shape.push_back(x.shape()[axis]);
  }
  return {x.tensor().reshape(shape)};
}

std::vector<Value> unsqueeze(Call& call) {
  const auto given = axes_operand(call, 1);
  const Value x = call.value(0);
  if (!given) call.fail(ErrorKind::Value, "no axes, expected them");
  const int rank = x.rank() + static_cast<int>(given->size());
  const std::vector<int> axes = normalise_axes(call, *given, rank);
  Shape shape;
  for (int axis = 0, next = 0; axis < rank; ++axis) {
    const bool fresh = std::find(axes.begin(), axes.end(), axis) != axes.end();
    shape.push_back(fresh ? Expr(1) : x.shape()[next++]);
  }
  return {x.tensor().reshape(shape)};
}

std::vector<Value> transpose(Call& call) {
  const Value x = call.value(0);
  std::vector<int64_t> reversed;
  for (int axis = x.rank(); axis-- > 0;) reversed.push_back(axis);
  const std::vector<int> order = normalise_axes(call, call.integers("perm", reversed), x.rank());
  if (static_cast<int>(order.size()) != x.rank())
    call.fail(ErrorKind::Axis,
              "perm of " + std::to_string(order.size()) + " axes, expected " + std::to_string(x.rank()));
  return {x.rank() < 2 ? x : Value(x.tensor().permute(order))};
}

std::vector<Value> concatenate(Call& call) {
  std::vector<Value> parts;
  for (size_t i = 0; i < call.input_count(); ++i) parts.push_back(call.value(i));
  if (parts.empty()) call.fail(ErrorKind::Value, "no inputs, expected at least one");
  return {concat_values(call, parts, axis_attribute(call, 1, parts[0].rank()))};
}

/// The sizes of as many parts as the node has outputs. Since opset 18 the last may be smaller than the
/// others.
Shape even_parts(const Call& call, Expr size) {
  const auto count = static_cast<int64_t>(call.output_count());
  const bool counted = call.has_attribute("num_outputs");
  if (counted && call.integer("num_outputs") != count)
    call.fail(ErrorKind::Value, "num_outputs " + std::to_string(call.integer("num_outputs")) +
                                    ", expected that of the node's outputs, " + std::to_string(count));
  const Expr each = floordiv(size, count);
  if (each * count == size) return Shape(call.output_count(), each);
  if (!counted || !size.is_const())
    call.fail(ErrorKind::Shape,
              "axis of size " + to_string(size) + ", expected a multiple of " + std::to_string(count));
  const int64_t more = each.value() + 1, last = size.value() - more * (count - 1);
  if (last < 0)
    call.fail(ErrorKind::Shape, "axis of size " + to_string(size) + " in " + std::to_string(count) +
                                    " parts of " + std::to_string(more) +
                                    ", expected the parts before the last to fit");
  Shape sizes(call.output_count(), Expr(more));
  sizes.back() = last;
  return sizes;
}

std::vector<Value> split(Call& call) {
  const bool given = call.has_attribute("split") || call.has(1); // an attribute before opset 13
  if (given && call.has_attribute("num_outputs"))
    call.fail(ErrorKind::Value, "split and num_outputs, expected one of them");
  Shape sizes = given ? attribute_or_sizes(call, "split", 1) : Shape{};
  const int axis = axis_attribute(call, 0, call.value(0).rank());
  const Expr size = call.value(0).shape()[axis];
  if (!given) sizes = even_parts(call, size);
  const Expr all = std::accumulate(sizes.begin(), sizes.end(), Expr(0), [](Expr a, Expr b) { return a + b; });
  if (!holds(call, eq(all, size)))
    call.fail(ErrorKind::Shape,
              "parts of " + to_string(all) + " elements in all, expected " + to_string(size));
  for (Expr& part : sizes) {
    if (proves_le(0, part)) continue;
    if (!holds(call, le(0, part)))
      call.fail(ErrorKind::Shape, "a part of " + to_string(part) + " elements, expected 0 or more");
    part = max(part, 0);
  }
  const Value x = call.value(0);
  std::vector<Value> outputs;
  Expr begin = 0;
  for (Expr s : sizes) {
    outputs.push_back(slices(x, axis, begin, s));
    begin = begin + s;
  }
  return outputs;
}

/// What an axis keeps in a slice: `count` elements from `first`, `step` apart.
struct SliceRange {
  Expr first, count;
  int64_t step;
};

/// ONNX's bounds count from the end where negative and are clamped into the axis.
SliceRange resolve_range(const Call& call, Expr start, Expr end, int64_t step, Expr size) {
  if (step == 0) call.fail(ErrorKind::Value, "step 0, expected another");
  step = std::clamp<int64_t>(step, -INT32_MAX, INT32_MAX); // beyond any axis all the same
  if (size.is_const() && start.is_const() && end.is_const()) {
    if (size.is_const(0)) return {0, 0, step};
    const int64_t n = size.value(), high = step > 0 ? n : n - 1;
    const auto bound = [&](int64_t at, int64_t low) {
      return std::clamp(at < 0 ? std::max(at, -n - 1) + n : at, low, high);
    };
    // A start before the axis is its first element, whatever the direction; only an end may lie before it.
    const int64_t first = bound(start.value(), 0), stride = std::abs(step);
    const int64_t last = bound(end.value(), step > 0 ? 0 : -1);
    const int64_t span = step > 0 ? last - first : first - last;
    return {first, std::max<int64_t>((span + stride - 1) / stride, 0), step};
  }
  const auto counted = [&](Expr first, Expr distance) {
    const Expr count = ceildiv(distance, std::abs(step));
    if (proves_le(0, count) || std::abs(step) == 1) return SliceRange{first, max(count, 0), step};
    call.fail(ErrorKind::Shape, to_string(count) + " elements, expected to know that it is not negative");
  };
  const auto bound = [&](Expr at, Expr least, Expr most) {
    if (proves_le(size, at)) return most;
    if (proves_le(at, -size - 1)) return least;
    if (at.lo() < 0 && at.hi() >= 0)
      call.fail(ErrorKind::Shape,
                "bound " + to_string(at) + ", expected one of which it is known whether it is negative");
    return max(least, min(at.hi() < 0 ? at + size : at, most));
  };
  if (step > 0) {
    const Expr first = bound(start, 0, size);
    // size - max(size + start, 0)
    if (start.hi() < 0 && proves_le(size, end)) return counted(first, min(size, -start));
    return counted(first, bound(end, 0, size) - first);
  }
  const Expr first = bound(start, 0, size - 1);
  return counted(first, first - bound(end, -1, size - 1));
}

Value slice_axis(const Value& x, int axis, const SliceRange& range) {
  const Expr reach =
      (range.count - 1) * std::abs(range.step) + 1; // from the first to the last, both included
  if (range.count.is_const(0)) return slices(x, axis, 0, 0);
  const Expr begin = range.step > 0 ? range.first : range.first + 1 - reach;
  const Value kept = slices(x, axis, begin, reach);
  if (range.step == 1) return kept;
  std::vector<IndexItem> items(axis, Slice{});
  items.push_back(Slice{{}, {}, range.step});
  return kept.tensor().index(items);
}

std::vector<Value> slice(Call& call) {
  const bool attributes = call.has_attribute("starts"); // before opset 10
  const Shape starts = attribute_or_sizes(call, "starts", 1), ends = attribute_or_sizes(call, "ends", 2);
  std::vector<int64_t> axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (attributes) axes = call.integers("axes", axes);
  if (!attributes && call.has(3)) axes = call.integers(3);
  if (!attributes && call.has(4)) steps = call.integers(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.fail(ErrorKind::Shape, "starts, ends, axes and steps differ in length, expected equal lengths");
  Value x = call.value(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalise_axis(call, axes[i], x.rank());
    x = slice_axis(x, axis, resolve_range(call, starts[i], ends[i], steps[i], x.shape()[axis]));
  }
  return {x};
}

std::vector<Value> expand(Call& call) {
  Shape target = call.sizes(1);
  const Value x = call.value(0);
  while (target.size() < x.shape().size()) target.insert(target.begin(), Expr(1));
  const size_t fresh = target.size() - x.shape().size();
  for (size_t i = 0; i < x.shape().size(); ++i)
    if (target[fresh + i].is_const(1)) target[fresh + i] = x.shape()[i];
  return {x.tensor().expand(target)};
}

std::vector<Value> tile(Call& call) {
  const Shape counts = call.sizes(1);
  const Value x = call.value(0);
  if (static_cast<int>(counts.size()) != x.rank())
    call.fail(ErrorKind::Shape, std::to_string(counts.size()) + " repeats of " + to_string(x.shape()) +
                                    ", expected one an axis");
  // [a, b] times (2, 3): [1, a, 1, b] -> [2, a, 3, b] -> [2a, 3b].
  Shape apart, repeated, joined;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Expr size = x.shape()[axis];
    apart.insert(apart.end(), {Expr(1), size});
    repeated.insert(repeated.end(), {counts[axis], size});
    joined.push_back(counts[axis] * size);
  }
  return {x.tensor().reshape(apart).expand(repeated).reshape(joined)};
}

std::vector<Value> identity(Call& call) { return {call.value(0)}; }

/// Error unless x is [N, C, H, W].
Tensor image(const Call& call) {
  const Tensor x = call.tensor(0);
  if (x.rank() != 4)
    call.fail(ErrorKind::Shape, "input of shape " + to_string(x.shape()) + ", expected [N, C, H, W]");
  return x;
}

std::vector<Value> depth_to_space(Call& call) {
  const Tensor x = image(call);
  const Expr n = x.size(0), h = x.size(2), w = x.size(3), block = call.integer("blocksize");
  const Expr c = floordiv(x.size(1), block * block);
  const std::string mode = call.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") call.fail(ErrorKind::Value, "mode " + mode + ", expected DCR or CRD");
  const bool depth_first = mode == "DCR";
  const Shape split = depth_first ? Shape{n, block, block, c, h, w} : Shape{n, c, block, block, h, w};
  const Axes order = depth_first ? Axes{0, 3, 4, 1, 5, 2} : Axes{0, 1, 4, 2, 5, 3};
  return {x.reshape(split).permute(order).reshape({n, c, h * block, w * block})};
}

std::vector<Value> space_to_depth(Call& call) {
  const Tensor x = image(call);
  const Expr n = x.size(0), c = x.size(1), block = call.integer("blocksize");
  const Expr h = floordiv(x.size(2), block), w = floordiv(x.size(3), block);
  const std::string mode = call.text("mode", "DCR"); // of opset 28
  if (mode != "DCR" && mode != "CRD") call.fail(ErrorKind::Value, "mode " + mode + ", expected DCR or CRD");
  return {x.reshape({n, c, h, block, w, block})
              .permute(mode == "DCR" ? Axes{0, 3, 5, 1, 2, 4} : Axes{0, 1, 3, 5, 2, 4})
              .reshape({n, c * block * block, h, w})};
}

const OpRow kMovementOps[] = {{"Reshape", 1, reshape},
                              {"Flatten", 1, flatten},
                              {"Squeeze", 1, squeeze},
                              {"Unsqueeze", 1, unsqueeze},
                              {"Transpose", 1, transpose},
                              {"Concat", 1, concatenate},
                              {"Split", 1, split},
                              {"Slice", 1, slice},
                              {"Expand", 8, expand},
                              {"Tile", 6, tile},
                              {"Identity", 1, identity},
                              {"DepthToSpace", 1, depth_to_space},
                              {"SpaceToDepth", 1, space_to_depth}};

} // namespace

OpTable movement_ops() { return kMovementOps; }

} // namespace lathe::onnx
