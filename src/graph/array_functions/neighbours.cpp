#include "graph/neighbours.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "graph/tensor_impl.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kFarthest = 2; // elements of padding at each edge
constexpr size_t kMostParts = 3; // views that results are chosen from

/// Result `results` * j + p reads element `elements` * j + offset[p].
struct Pattern {
  int64_t groups, elements, results;
  std::vector<int64_t> offset;
  std::set<int64_t> offsets() const { return {offset.begin(), offset.end()}; }
};

/// Nothing where no pattern says all positions. The edges may hide an offset, so it is read in the middle.
std::optional<Pattern> pattern_of(const std::vector<int64_t>& positions, int64_t size) {
  const auto count = static_cast<int64_t>(positions.size());
  if (size == 0 || count == 0) return {};
  const int64_t groups = std::gcd(count, size), middle = groups / 2;
  Pattern found{groups, size / groups, count / groups, {}};
  for (int64_t p = 0; p < found.results; ++p) {
    const int64_t at = positions[static_cast<size_t>(middle * found.results + p)] - middle * found.elements;
    if (at < -kFarthest || at >= found.elements + kFarthest) return {};
    found.offset.push_back(at);
  }
  // Vectors repeat the places of a power of two of results. Others would be read lane by lane, as at an
  // index.
  if (found.offsets().size() > kMostParts || !std::has_single_bit(static_cast<uint64_t>(found.results)))
    return {};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t at =
        k / found.results * found.elements + found.offset[static_cast<size_t>(k % found.results)];
    if (positions[static_cast<size_t>(k)] != std::clamp<int64_t>(at, 0, size - 1)) return {};
  }
  return found;
}

/// Every `step`-th of x's elements along the axis, `count` of them, from `first` on.
Tensor every(const Tensor& x, int axis, int64_t first, int64_t count, int64_t step) {
  const Tensor part = part_of(x, axis, first, first + (count - 1) * step + 1);
  std::vector<int64_t> steps(part.shape().size(), 1);
  steps[static_cast<size_t>(axis)] = step;
  return view_op(part, View::contiguous(part.shape()).stride(steps));
}

} // namespace

std::optional<Tensor> take_neighbours(const Tensor& x, int axis, const std::vector<int64_t>& positions) {
  const Expr whole = x.shape()[static_cast<size_t>(axis)];
  if (!whole.is_const()) return {};
  const int64_t size = whole.value();
  const auto pattern = pattern_of(positions, size);
  if (!pattern) return {};
  const std::set<int64_t> offsets = pattern->offsets();
  const int64_t before = std::max<int64_t>(-*offsets.begin(), 0),
                after = std::max<int64_t>(*offsets.rbegin() - (pattern->elements - 1), 0);
  std::vector<Tensor> parts(static_cast<size_t>(before), part_of(x, axis, 0, 1));
  parts.push_back(x);
  parts.insert(parts.end(), static_cast<size_t>(after), part_of(x, axis, size - 1, size));
  const Tensor extended = parts.size() > 1 ? concat(parts, axis).contiguous() : x;

  Shape apart = x.shape(), joined = x.shape(), along(static_cast<size_t>(x.rank() + 1), Expr(1));
  apart[static_cast<size_t>(axis)] = pattern->groups;
  apart.insert(apart.begin() + axis + 1, Expr(pattern->results));
  along[static_cast<size_t>(axis + 1)] = pattern->results;
  joined[static_cast<size_t>(axis)] = static_cast<int64_t>(positions.size());
  std::optional<Tensor> result;
  for (const int64_t offset : offsets) {
    const Tensor read = every(extended, axis, before + offset, pattern->groups, pattern->elements);
    const Tensor repeated = broadcast_to(read.unsqueeze(axis + 1), apart);
    std::vector<bool> here;
    for (const int64_t o : pattern->offset) here.push_back(o == offset);
    result = result ? where(Tensor::from(here, along), repeated, *result) : repeated;
  }
  return view_op(*result, View::contiguous(joined));
}

} // namespace lathe::graph
