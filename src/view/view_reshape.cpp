// Reshape: old and new axes are cut into groups of equal product. The old axes of a group must merge into one
// run of constant stride whose mask is one interval. The run is then split into the new axes.
#include "view/expr_node.hpp"
#include "view/view.hpp"

namespace lathe {
namespace {

struct Run {
  Expr size, stride;
  Interval mask;
  bool is_full() const { return mask.begin.is_const(0) && mask.end == size; }
};

bool is_empty(const Interval& i) { return proves_le(i.end, i.begin); }

/// Two adjacent axes as one run, in which i of the outer and j of the inner axis is element
/// i * inner.size + j. Adds to `offset` what the run needs. Nothing if the axes do not form one run.
std::optional<Run> merge(const Run& outer, const Run& inner, Expr& offset) {
  if (outer.size.is_const(1) && outer.is_full()) return inner;
  if (inner.size.is_const(1) && inner.is_full()) return outer;
  const Expr size = outer.size * inner.size, step = inner.stride * inner.size;
  const Expr begin = outer.mask.begin * inner.size;
  if (outer.mask.end == outer.mask.begin + 1) { // one valid row: the distance between rows does not matter
    offset = offset + (outer.stride - step) * outer.mask.begin;
    return Run{size, inner.stride, {begin + inner.mask.begin, begin + inner.mask.end}};
  }
  if (outer.stride != step || !inner.is_full()) return std::nullopt;
  return Run{size, inner.stride, {begin, outer.mask.end * inner.size}};
}

/// Splits `run` into axes of these sizes, and appends their strides and masks to the lists. There is at least
/// one size, and their product is the run's size. False if the mask is not one interval per axis.
bool split(const Run& run, const Shape& sizes, std::vector<Expr>& strides, std::vector<Interval>& mask) {
  Interval valid = run.mask;
  bool full = run.is_full();
  std::vector<Expr> blocks(sizes.size(), 1); // elements in one step of an axis
  for (size_t k = sizes.size(); k-- > 1;) blocks[k - 1] = blocks[k] * sizes[k];
  for (size_t k = 0; k < sizes.size(); k++) {
    const Expr block = blocks[k];
    strides.push_back(run.stride * block);
    if (full) {
      mask.push_back({0, sizes[k]});
      continue;
    }
    const auto begin = divide_exactly(valid.begin, block), end = divide_exactly(valid.end, block);
    if (begin && end) {
      mask.push_back({*begin, *end});
      full = true;
      continue;
    }
    const Expr row = floordiv(valid.begin, block);
    if (row != floordiv(valid.end - 1, block)) return false;
    mask.push_back({row, row + 1});
    valid = {valid.begin - row * block, valid.end - row * block};
    full = valid.begin.is_const(0) && valid.end == block;
  }
  return true;
}

} // namespace

std::optional<View> View::reshape(const Shape& shape) const {
  if (shape == shape_) return *this;
  for (Expr size : shape)
    if (size.is_const(0)) return contiguous(shape); // no elements
  for (size_t k = 0; k < shape_.size(); k++) {
    if (!is_empty(mask_[k])) continue; // all padding
    if (shape.empty()) return std::nullopt;
    View v(shape, std::vector<Expr>(shape.size(), 0), 0, {});
    v.mask_[0] = {0, 0};
    return v;
  }
  std::vector<Expr> strides;
  std::vector<Interval> mask;
  Expr offset = offset_;
  size_t from = 0, to = 0;
  while (from < shape_.size() || to < shape.size()) {
    std::optional<Run> run;
    Shape sizes;
    Expr have = 1, want = 1;
    auto take_old = [&] {
      const Run axis{shape_[from], strides_[from], mask_[from]};
      have = have * axis.size;
      from++;
      run = run ? merge(*run, axis, offset) : std::optional(axis);
      return run.has_value();
    };
    auto take_new = [&] { want = want * shape[to], sizes.push_back(shape[to++]); };
    // A group begins with one axis of each side, where there is one.
    if (from < shape_.size() && !take_old()) return std::nullopt;
    if (to < shape.size()) take_new();
    while (have != want) {
      const bool old_left = from < shape_.size(), new_left = to < shape.size();
      if (!old_left && !new_left) return std::nullopt;
      const bool multiple = divide_exactly(want, have).has_value(),
                 divisor = divide_exactly(have, want).has_value();
      const bool grow_old = old_left && (!new_left || multiple || (!divisor && !proves_lt(want, have)));
      const bool grow_new = new_left && (!grow_old || (!multiple && !proves_lt(have, want)));
      if (grow_old && !take_old()) return std::nullopt;
      if (grow_new) take_new();
    }
    if (!run) run = Run{1, 0, {0, 1}};
    if (sizes.empty()) {
      if (!run->is_full()) return std::nullopt; // nowhere to keep the mask of a dropped axis
      continue;
    }
    if (!split(*run, sizes, strides, mask)) return std::nullopt;
  }
  return View(shape, std::move(strides), offset, std::move(mask));
}

} // namespace lathe
