// View's movement ops: each an O(rank) edit of strides, offset and mask.
#include "view/view.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "core/hash.hpp"
#include "lathe/error.hpp"

namespace lathe {
namespace {

bool is_full(const Interval& mask, Expr size) { return mask.begin.is_const(0) && mask.end == size; }

/// The part of [begin, end) within [0, size).
Interval clamp(Expr begin, Expr end, Expr size) { return {min(max(begin, 0), size), max(min(end, size), 0)}; }

void require(bool ok, const char* op) {
  if (!ok) throw InternalError(fmt::format("View::{}: the arguments do not fit the rank", op));
}

} // namespace

View View::contiguous(Shape shape) {
  auto strides = row_major_strides(shape);
  return View(std::move(shape), std::move(strides), 0, {});
}

View::View(Shape shape, std::vector<Expr> strides, Expr offset, std::vector<Interval> mask)
    : shape_(std::move(shape)), strides_(std::move(strides)), offset_(offset), mask_(std::move(mask)) {
  if (mask_.empty())
    for (Expr size : shape_) mask_.push_back({0, size});
  require(strides_.size() == shape_.size() && mask_.size() == shape_.size(), "View");
  for (size_t k = 0; k < shape_.size(); k++) // axes of size 1 never move; 0 makes equal views equal objects
    if (shape_[k].is_const(1)) strides_[k] = 0;
}

bool View::has_mask() const {
  for (size_t k = 0; k < shape_.size(); k++)
    if (!is_full(mask_[k], shape_[k])) return true;
  return false;
}

bool View::is_contiguous() const { return offset_.is_const(0) && *this == contiguous(shape_); }

bool View::is_static() const {
  const auto is_number = [](Expr e) { return e.is_const(); };
  return lathe::is_static(shape_) && offset_.is_const() &&
         std::all_of(strides_.begin(), strides_.end(), is_number) &&
         std::all_of(mask_.begin(), mask_.end(),
                     [](const Interval& kept) { return kept.begin.is_const() && kept.end.is_const(); });
}

View View::permute(const std::vector<int>& axes) const {
  require(axes.size() == shape_.size(), "permute");
  Shape shape;
  std::vector<Expr> strides;
  std::vector<Interval> mask;
  for (int axis : axes) {
    const auto k = static_cast<size_t>(axis);
    require(k < shape_.size(), "permute");
    shape.push_back(shape_[k]);
    strides.push_back(strides_[k]);
    mask.push_back(mask_[k]);
  }
  return View(std::move(shape), std::move(strides), offset_, std::move(mask));
}

View View::expand(const Shape& shape) const {
  require(shape.size() == shape_.size(), "expand");
  View v = *this;
  for (size_t k = 0; k < shape.size(); k++) {
    if (shape[k] == shape_[k]) continue;
    require(shape_[k].is_const(1), "expand");
    v.strides_[k] = 0;
    v.mask_[k] = {mask_[k].begin * shape[k],
                  mask_[k].end * shape[k]}; // the whole axis, or nothing if the 1 was padding
  }
  return View(shape, std::move(v.strides_), offset_, std::move(v.mask_));
}

View View::pad(const std::vector<Expr>& before, const std::vector<Expr>& after) const {
  require(before.size() == shape_.size() && after.size() == shape_.size(), "pad");
  View v = *this;
  for (size_t k = 0; k < shape_.size(); k++) {
    v.shape_[k] = shape_[k] + before[k] + after[k];
    v.offset_ = v.offset_ - strides_[k] * before[k];
    v.mask_[k] = {mask_[k].begin + before[k], mask_[k].end + before[k]};
  }
  return v;
}

View View::shrink(const std::vector<Expr>& begin, const std::vector<Expr>& end) const {
  require(begin.size() == shape_.size() && end.size() == shape_.size(), "shrink");
  View v = *this;
  for (size_t k = 0; k < shape_.size(); k++) {
    v.shape_[k] = end[k] - begin[k];
    v.offset_ = v.offset_ + strides_[k] * begin[k];
    v.mask_[k] = is_full(mask_[k], shape_[k])
                     ? Interval{0, v.shape_[k]}
                     : clamp(mask_[k].begin - begin[k], mask_[k].end - begin[k], v.shape_[k]);
  }
  return View(std::move(v.shape_), std::move(v.strides_), v.offset_, std::move(v.mask_));
}

View View::flip(const std::vector<bool>& axes) const {
  require(axes.size() == shape_.size(), "flip");
  View v = *this;
  for (size_t k = 0; k < shape_.size(); k++) {
    if (!axes[k]) continue;
    v.offset_ = v.offset_ + strides_[k] * (shape_[k] - 1);
    v.strides_[k] = -strides_[k];
    v.mask_[k] = {shape_[k] - mask_[k].end, shape_[k] - mask_[k].begin};
  }
  return v;
}

View View::stride(const std::vector<int64_t>& steps) const {
  require(steps.size() == shape_.size(), "stride");
  View v = *this;
  for (size_t k = 0; k < shape_.size(); k++) {
    const Expr step = steps[k];
    v.shape_[k] = ceildiv(shape_[k], step);
    v.strides_[k] = strides_[k] * step;
    v.mask_[k] = {ceildiv(mask_[k].begin, step), ceildiv(mask_[k].end, step)};
  }
  return View(std::move(v.shape_), std::move(v.strides_), v.offset_, std::move(v.mask_));
}

std::optional<View> View::window(int axis, Expr size, int64_t step, int64_t dilation) const {
  const auto k = static_cast<size_t>(axis);
  require(k < shape_.size(), "window");
  if (!is_full(mask_[k], shape_[k])) return std::nullopt;
  View v = *this;
  const Expr count = floordiv(shape_[k] - (size - 1) * dilation - 1, step) + 1;
  v.shape_[k] = count;
  v.strides_[k] = strides_[k] * step;
  v.mask_[k] = {0, count};
  v.shape_.push_back(size);
  v.strides_.push_back(strides_[k] * dilation);
  v.mask_.push_back({0, size});
  return View(std::move(v.shape_), std::move(v.strides_), v.offset_, std::move(v.mask_));
}

Access View::access(const std::vector<Expr>& index) const {
  require(index.size() == shape_.size(), "access");
  Access a{offset_, {}};
  for (size_t k = 0; k < shape_.size(); k++) {
    a.offset = a.offset + index[k] * strides_[k];
    if (is_full(mask_[k], shape_[k])) continue;
    for (Expr condition : {le(mask_[k].begin, index[k]), lt(index[k], mask_[k].end)})
      if (!condition.is_const(1)) a.valid.push_back(condition);
  }
  return a;
}

size_t View::hash() const {
  size_t h = mix(0x76696577, offset_.hash());
  for (size_t k = 0; k < shape_.size(); k++) {
    h = mix(mix(h, shape_[k].hash()), strides_[k].hash());
    h = mix(mix(h, mask_[k].begin.hash()), mask_[k].end.hash());
  }
  return h;
}

} // namespace lathe
