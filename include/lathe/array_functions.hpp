// What NumPy and PyTorch have beyond Tensor's members: matrices, padding, patches of images, statistics. Each function says
// which one it follows. Axes may be negative. Sizes along axes that a function pads, resizes, folds or sorts are static; the
// others may hold Vars.
#pragma once
#include <utility>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {

// ---- matrices: the last two axes; what is before them is a batch ----
/// x where column <= row + diagonal (tril) or column >= row + diagonal (triu), else 0. numpy.tril, numpy.triu.
Tensor tril(const Tensor& x, Whole diagonal = 0);
Tensor triu(const Tensor& x, Whole diagonal = 0);
/// The elements [i, i + offset] of two axes, in a new last axis. numpy.diagonal. Error(Value) if there are none, for some size of
/// a Var.
Tensor diagonal(const Tensor& x, Whole offset = 0, Axis axis1 = -2, Axis axis2 = -1);
/// Of a vector the matrix with that diagonal, 0 elsewhere; of a matrix its diagonal. numpy.diag. Error(Shape) for other ranks.
Tensor diag(const Tensor& x, Whole offset = 0);
/// The sum of a diagonal; dtype as sum. numpy.trace of the last two axes.
Tensor trace(const Tensor& x, Whole offset = 0);
/// All products of an element of a and one of b, both flattened: [a's elements, b's elements]. numpy.outer.
Tensor outer(const Tensor& a, const Tensor& b);
/// Kronecker's product; the smaller rank gets axes of size 1 in front. numpy.kron.
Tensor kron(const Tensor& a, const Tensor& b);

// ---- choosing ----
/// A tensor for each vector, all of one shape: element [i, j, ...] of the k-th is the k-th vector's element at the k-th of
/// i, j, ... Each keeps its dtype. numpy.meshgrid with indexing="ij"; with `xy`, its default "xy", which swaps the first two axes.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, Flag xy = false);
/// 1 at each index along a new last axis of `classes` elements, else 0. A row of zeros for an index outside of [0, classes).
/// torch.nn.functional.one_hot, in a dtype. Error(DType) unless the index is of integers, Error(Value) for less than 1 class.
Tensor one_hot(const Tensor& index, Whole classes, DType dtype = DType::F32);
/// x with `value` where the mask is not 0. torch.Tensor.masked_fill: the shapes broadcast, the dtype stays x's. Error(DType) for a
/// number of another kind (0.5 in i32), Error(Value) for an integer that the dtype does not hold.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Number value);

// ---- padding and patches ----
/// What stands outside: the edge's element; a mirror image without (Reflect) or with (Symmetric) the edge; the other end (Wrap).
enum class PadMode { Edge, Reflect, Symmetric, Wrap };
/// numpy.pad, with as many (before, after) as axes, 0 or more. Tensor::pad pads with a value. Amounts may exceed the size: the
/// image is then repeated, as NumPy does. Error(Value) for Reflect along an axis of one element, unless nothing is padded.
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& before_after, PadMode mode);
/// Patches of [N, C, H, W] as columns [N, C * kernel, patches], in the order of torch.nn.functional.unfold; pads with 0.
Tensor unfold(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options = {});
/// Sums patches into [N, C, H, W], where (H, W) is `size`: unfold's transpose. Three sizes or more are as many axes; else as
/// torch.nn.functional.fold. stride defaults to 1 in both; ceil_mode is an error. Integers wrap, half precision rounds once.
Tensor fold(const Tensor& x, const std::vector<int64_t>& size, const std::vector<int64_t>& kernel, const PoolOptions& options = {});
enum class Interpolation { Nearest, Linear, Cubic };
/// Resizes the last axes, as many as `sizes` has. torch.nn.functional.interpolate: Cubic has a = -0.75; align_corners is for
/// Linear and Cubic, Error(Value) with Nearest, which is floor(i * in / out). Integers give f64, but for Nearest, which keeps the
/// dtype. An axis that keeps its size is not touched.
Tensor interpolate(const Tensor& x, const std::vector<int64_t>& sizes, Interpolation mode = Interpolation::Nearest,
                   Flag align_corners = false);

// ---- along an axis ----
/// x[i + 1] - x[i] along the axis, n times over. numpy.diff; of bools x[i + 1] != x[i]. Error(Value) if n < 0.
Tensor diff(const Tensor& x, Whole n = 1, Axis axis = -1);
/// The q-th quantile, 0 <= q <= 1, interpolated linearly between the two nearest elements. numpy.quantile. Of all elements without
/// an axis. NaN if there is a NaN. Integers give f64. n^2 comparisons along the axis, as sort. Error(Value) unless 0 <= q <= 1.
Tensor quantile(const Tensor& x, double q, std::optional<Axis> axis = {}, Flag keepdim = false);
Tensor median(const Tensor& x, std::optional<Axis> axis = {}, Flag keepdim = false);

// ---- counting ----
/// How many elements lie in each of `bins` equal parts of [low, high]; the last part includes `high`, and what is outside counts
/// nowhere. i64[bins]. numpy.histogram with a range: the edges low + i * (high - low) / bins are computed in f64 and rounded to
/// x's dtype (integers: f64). Error(Value) unless low < high, both finite in that dtype; Error(Limit) above 2^28 bins.
Tensor histogram(const Tensor& x, Whole bins, double low, double high);
/// How often each of 0, 1, ..., length - 1 occurs, or the sum of its weights; others count nowhere. i64[length], or weights'
/// dtype. x: integers or bool of any shape, and weights of the same. numpy.bincount, of a length that is given.
Tensor bincount(const Tensor& x, Whole length, const std::optional<Tensor>& weights = {});
/// For each value, where to insert it into an ascending vector so that it stays ascending: before equal elements, or after them
/// with `right`. i64. numpy.searchsorted; NaN is above all.
Tensor searchsorted(const Tensor& ascending, const Tensor& values, Flag right = false);

// ---- of values: the results' sizes depend on them, so these realise x ----
/// The indices of the elements that are not 0, in row-major order: i64[count, rank]. torch.nonzero. Error(Shape) for
/// a scalar.
Tensor nonzero(const Tensor& x);
/// The distinct values of all elements, ascending, NaN once and last, and how often each occurs (i64); of -0 and 0 one stays.
/// numpy.unique with return_counts.
std::pair<Tensor, Tensor> unique(const Tensor& x);

}  // namespace lathe
