// View: how the elements of a tensor lie in a flat row-major buffer of another shape.
//
// Element (i0, i1, ...) of the view is buffer[offset + sum(i_k * stride_k)] if begin_k <= i_k < end_k for every axis
// k, and 0 otherwise (the mask is the padding). Shape, strides, offset and mask are Exprs, so sizes may be symbolic.
// Every movement op is an O(rank) edit. An edit that no single linear view can express gives nothing; the caller
// then stacks a second view on the first (see ViewStack).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/expr.hpp"

namespace lathe {

struct Interval {  // [begin, end)
  Expr begin, end;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Where an element lives: the flat offset, and the conditions (each 0 or 1) that must all hold, else it is 0.
struct Access {
  Expr offset;
  std::vector<Expr> valid;
};

class View {
 public:
  View() = default;
  /// The identity: row-major, no mask.
  static View contiguous(Shape shape);
  View(Shape shape, std::vector<Expr> strides, Expr offset, std::vector<Interval> mask);  // empty mask: none

  const Shape& shape() const { return shape_; }
  const std::vector<Expr>& strides() const { return strides_; }
  Expr offset() const { return offset_; }
  const std::vector<Interval>& mask() const { return mask_; }  // one per axis; [0, size) where not padded
  bool has_mask() const;
  bool is_contiguous() const;  // row-major from offset 0 without a mask
  bool is_static() const;      // no variable in its shape, strides, offset or mask

  // Movement ops. Arguments are already checked by the caller (the graph's builders name the user's op).
  std::optional<View> reshape(const Shape& shape) const;
  View permute(const std::vector<int>& axes) const;
  View expand(const Shape& shape) const;                        // axes of size 1 become any size, with stride 0
  View pad(const std::vector<Expr>& before, const std::vector<Expr>& after) const;
  View shrink(const std::vector<Expr>& begin, const std::vector<Expr>& end) const;
  View flip(const std::vector<bool>& axes) const;
  View stride(const std::vector<int64_t>& steps) const;         // every step-th element, steps >= 1
  /// Adds a trailing axis of `size` with `dilation` and reduces axis to the count of windows at `step`:
  /// out[..., w, ..., k] = in[..., w * step + k * dilation, ...]. Nothing if the axis is masked.
  std::optional<View> window(int axis, Expr size, int64_t step, int64_t dilation) const;

  /// Where element `index` lives.
  Access access(const std::vector<Expr>& index) const;
  size_t hash() const;
  friend bool operator==(const View&, const View&) = default;

 private:
  Shape shape_;
  std::vector<Expr> strides_;
  Expr offset_;
  std::vector<Interval> mask_;
};

/// The one linear view equal to `outer` applied to the result of `inner` (outer indexes inner's row-major elements),
/// when it exists.
std::optional<View> compose(const View& inner, const View& outer);

std::string to_string(const View&);  // "view([2, 3], strides [1, 2], offset 0)" with ", mask [0:2, 1:3]" if masked
View parse_view(std::string_view text, const std::function<std::optional<Expr>(std::string_view)>& lookup);

/// Views applied one after the other, from the buffer outwards: back() is what the user sees. Never empty.
class ViewStack {
 public:
  explicit ViewStack(View base) : views_{std::move(base)} {}
  /// Composes into the last view where one linear view exists, else adds a level.
  void push(const View& outer);
  const std::vector<View>& views() const { return views_; }
  const Shape& shape() const { return views_.back().shape(); }
  /// The flat offset into the buffer and its validity, for element `index` of the outermost view.
  Access access(const std::vector<Expr>& index) const;

 private:
  std::vector<View> views_;
};

/// The row-major strides of a shape; the index of flat position `offset` in that shape, each in [0, size); and the
/// flat position of an index.
std::vector<Expr> row_major_strides(const Shape& shape);
std::vector<Expr> delinearise(Expr offset, const Shape& shape);
Expr linearise(const std::vector<Expr>& index, const Shape& shape);

}  // namespace lathe
