// Divide and conquer. A tridiagonal matrix is two smaller ones beside each other plus rho v v^T, where v has
// 1 at the seam. With the eigenvectors of both as a basis it is a diagonal D plus rho z z^T. Its eigenvalues
// are the roots of 1 + rho sum z[k]^2 / (d[k] - x), one between any two neighbours of D.
//
// All merges of a level are one: matrices keep their full size, and `part` says which part each row belongs
// to. So a level is a step of a recurrence, and the program does not grow with the matrix.
//
// What makes it accurate:
// - D is rounded to a grid of the rounding error of the whole matrix. Elements are then equal, or well apart.
//   Of equal ones, a reflection turns all of z but one element to 0. The others keep their eigenvalues.
// - A root is stored as its distance from the nearest element of D, and so has all its digits beside that
//   element. A bracket of the distance shrinks until it has no more digits, or the secular function no value
//   that is more than rounding.
// - The vectors belong to the z for which the stored roots are exact (Gu and Eisenstat 1995). So they are
//   orthogonal however close the roots are.
#include "graph/linear_algebra/tridiagonal.hpp"

#include <limits>

#include "graph/linear_algebra/matrices.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/scan.hpp"

namespace lathe::graph {
namespace {

// Rows of the blocks whose merges are cheap as a batch of small matrices; those above work on the whole
// matrix.
constexpr int64_t kBlock = 32;

Tensor constant(const Tensor& like, double value) { return number(value, like.dtype()); }
Tensor column_of(const Tensor& x) { return x.unsqueeze(2); }
Tensor row_of(const Tensor& x) { return x.unsqueeze(1); }
double rounding(DType dtype) { return dtype == DType::F64 ? 0x1p-52 : 0x1p-23; }

/// What all levels of merges read, by level.
struct Levels {
  Tensor part;     // [levels, n]: the part that a row belongs to after the merge
  Tensor is_first; // [levels, n]: whether a row is of the part's first half
  Tensor rho;      // [levels, batch, n]: the weight of the part's seam; 0 without one
  Tensor sign;     // [levels, batch, n]: of the seam
};

/// Of parts of `size` rows that become one; `beside` [batch, n] has the elements at seams.
Levels levels_of(const Tensor& beside, int64_t size) {
  const int64_t n = beside.size(1).value();
  std::vector<int32_t> part, seam;
  std::vector<uint8_t> first;
  int64_t levels = 0;
  for (; size < n; size *= 2, ++levels)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = i / (2 * size);
      part.push_back(static_cast<int32_t>(at));
      first.push_back(i / size % 2 == 0);
      // A part without a second half ends with the last row, whose element is 0.
      seam.push_back(static_cast<int32_t>(std::min(at * 2 * size + size, n) - 1));
    }
  const auto tensor = [&](const auto& values) { return Tensor::from(values, {levels, n}); };
  const Tensor at_seam = beside.take(tensor(seam), 1).permute({1, 0, 2});
  const Tensor one = Tensor::ones({}, beside.dtype());
  return {tensor(part), tensor(first).cast(DType::Bool), at_seam.abs(),
          where(at_seam < constant(beside, 0), -one, one)};
}

/// A diagonal plus rho z z^T, part by part.
struct Update {
  Tensor part;             // [n]
  Tensor diagonal, rho, z; // [batch, n]
  Tensor same;             // [n, n]: whether rows are of one part
  Tensor equal;            // [batch, n, n]: and of equal elements of the diagonal
  Tensor length;           // [batch, n]: of z's elements of equal ones
  Tensor leads;            // [batch, n]: whether a row is the first of equal ones
  Tensor moves;            // [batch, n]: whether it leads and has a root of its own
};

Update update_of(const Tensor& values, const Tensor& z, const Tensor& part, const Tensor& rho) {
  const Tensor zero = constant(values, 0), grid = constant(values, rounding(values.dtype()));
  const Tensor is_split = rho > zero;
  Update u{part, where(is_split, (values / grid).round() * grid, values), rho, {}, {}, {}, {}, {}, {}};
  u.z = where(is_split & (z.abs() > grid), z, zero);
  u.same = part.unsqueeze(1) == part.unsqueeze(0);
  u.equal = u.same & (column_of(u.diagonal) == row_of(u.diagonal));
  u.length = where(u.equal, row_of(u.z).square(), zero).sum(2).sqrt();
  const int64_t n = values.size(1).value();
  const Tensor earlier = Tensor::iota({n, n}, 1) < Tensor::iota({n, n}, 0);
  u.leads = (u.equal & earlier).any(2).logical_not();
  u.moves = u.leads & (u.length > zero);
  return u;
}

/// Root i is origin[i] + sign[i] distance[i].
struct Roots {
  Tensor origin, sign, distance; // [batch, n]
  Tensor weight;                 // [batch, n]: of z at the origin
};

/// d[k] - origin[i] in row i, infinite where z[k] has no part in root i.
Tensor poles(const Update& u, const Tensor& origin) {
  const Tensor counts = u.same & row_of(u.z != constant(u.z, 0));
  return where(counts, row_of(u.diagonal) - column_of(origin),
               constant(u.z, std::numeric_limits<double>::infinity()));
}

/// 1 + rho sum z[k]^2 / (pole[i, k] - x[i]), and the same with terms without signs, to which its rounding is
/// relative.
struct Secular {
  Tensor value, size;
};
Secular secular(const Update& u, const Tensor& poles, const Tensor& x) {
  const Tensor one = constant(x, 1), terms = row_of(u.z.square()) / (poles - column_of(x));
  return {one + u.rho * terms.sum(2), one + u.rho * terms.abs().sum(2)};
}

/// The secular function at distances from the roots' origins, times the distances from the two poles beside
/// it: without these poles it is close to a line. It goes up.
class Levelled {
public:
  Levelled(const Update& u, const Roots& roots, const Tensor& gap, const Tensor& is_last,
           const Tensor& is_low)
      : u_(u), sign_(roots.sign), from_origin_(poles(u, roots.origin)), gap_(gap), is_last_(is_last),
        is_low_(is_low) {}

  struct At {
    Tensor value, is_root; // is_root: the value is no more than rounding
  };
  At at(const Tensor& distance) const {
    const Secular s = secular(u_, from_origin_, sign_ * distance);
    const Tensor level = s.value * distance * where(is_last_, constant(gap_, 1), (gap_ - distance) / gap_);
    return {where(is_low_, level, -level), s.value.abs() <= s.size * constant(gap_, rounding(gap_.dtype()))};
  }

private:
  const Update& u_;
  const Tensor sign_, from_origin_, gap_, is_last_, is_low_;
};

/// The roots between `least` and `most`, where the function is below and above 0.
///
/// The method is ITP (Oliveira and Takahashi 2020), on the logarithm of the distance: the secant's point,
/// moved towards the middle, but no further from the middle than leaves enough steps to bisect the rest. Most
/// roots need 10 to 15 steps, and none can need more than the limit.
Tensor roots_between(const Levelled& f, const Tensor& least, const Tensor& most, const Tensor& moves) {
  const Tensor zero = constant(least, 0), half = constant(least, 0.5);
  const double digit = rounding(least.dtype());
  const bool is_f64 = least.dtype() == DType::F64;
  // The exponents of the ends differ by up to 160 in f64 and 72 in f32, so that many bisections find all
  // digits.
  const int64_t bisections = is_f64 ? 60 : 31, free = 4;
  const Tensor slack = constant(least, (is_f64 ? 160.0 : 72.0) * static_cast<double>(1 << free));
  const auto goes_on = [&](const std::vector<Tensor>& s) {
    return (moves & (s[1] > s[0] * constant(least, 1 + 2 * digit))).any();
  };
  const auto step = [&](const std::vector<Tensor>& s) -> std::vector<Tensor> {
    const Tensor &low = s[0], &high = s[1];
    const Tensor middle = (low * high).sqrt(), width = (high / low).log2();
    const Tensor secant = low - s[2] * (high - low) / (s[3] - s[2]);
    const Tensor guess = where((secant > low) & (secant < high), secant, middle);
    const Tensor by = minimum(width.square() * constant(low, 0.1), width * half) + constant(low, 2 * digit);
    const Tensor factor = by.exp2();
    const Tensor moved =
        where(guess < middle, minimum(guess * factor, middle), maximum(guess / factor, middle));
    const Tensor reach = maximum(s[4] - width * half, zero).exp2();
    const Tensor inside = minimum(maximum(moved, middle / reach), middle * reach);
    const Tensor x = minimum(maximum(inside, low), high);
    const Levelled::At at = f.at(x);
    const Tensor is_above = at.value > zero;
    return {where(is_above & at.is_root.logical_not(), low, x), where(is_above | at.is_root, x, high),
            where(is_above, s[2], at.value), where(is_above, at.value, s[3]), s[4] * half};
  };
  const std::vector<Tensor> made =
      while_loop(goes_on, step, {least, most, f.at(least).value, f.at(most).value, slack}, bisections + free);
  return (made[0] * made[1]).sqrt();
}

Roots roots_of(const Update& u) {
  const Tensor zero = constant(u.z, 0), one = constant(u.z, 1), half = constant(u.z, 0.5);
  const Tensor infinite = constant(u.z, std::numeric_limits<double>::infinity());
  const Tensor above = u.same & row_of(u.moves) & (row_of(u.diagonal) > column_of(u.diagonal));
  const Tensor next = where(above, row_of(u.diagonal), infinite).min(2);
  const Tensor total = where(u.same, row_of(u.z.square()), zero).sum(2);
  const Tensor is_last = next == infinite;
  const Tensor gap = where(is_last, u.rho * total, next - u.diagonal), middle = gap * half;
  const Tensor is_low = is_last | (secular(u, poles(u, u.diagonal), middle).value > zero);
  Roots r{where(is_low, u.diagonal, next), where(is_low, one, -one), {}, {}};
  const Tensor from_origin = poles(u, r.origin);
  const Tensor weight = where(from_origin == zero, row_of(u.z.square()), zero).sum(2);
  const Tensor most = where(is_last, gap, middle);
  const Tensor least = minimum(u.rho * weight / (one + constant(u.z, 2) * u.rho * total / gap), most);
  r.distance = roots_between(Levelled(u, r, gap, is_last, is_low), least, most, u.moves);
  return r;
}

/// Row i: the eigenvector of place i in the basis of the halves' eigenvectors.
Tensor merged_basis(const Update& u, const Roots& r) {
  const int64_t n = u.z.size(1).value();
  const Tensor zero = constant(u.z, 0), one = constant(u.z, 1), two = constant(u.z, 2);
  const Tensor apart = poles(u, r.origin) - column_of(r.sign * r.distance); // d[k] - root[i]
  const Tensor counts = u.same & row_of(u.z != zero);
  const Tensor ratio = where(u.equal, apart, apart / (row_of(u.diagonal) - column_of(u.diagonal))).abs();
  const Tensor size = where(column_of(u.moves) & counts, ratio, one).prod(1).sqrt();
  const Tensor z = where(u.z == zero, zero, size * u.z / u.length);
  const Tensor moved = where(counts, row_of(z) / apart, zero);
  const Tensor unit = moved / moved.square().sum(2, true).sqrt();
  // The reflection of z's elements of equal ones to the one that leads.
  const Tensor head = where(u.equal & row_of(u.leads), row_of(u.z), zero).sum(2).abs();
  const Tensor longer = where(u.leads, where(u.z < zero, u.z - u.length, u.z + u.length), u.z);
  const Tensor mirror = where(u.length > zero, longer / (u.length * (u.length + head)).sqrt(), zero);
  const Tensor is_same_place = Tensor::iota({n, n}, 0) == Tensor::iota({n, n}, 1);
  const Tensor kept = where(is_same_place, one, zero) - column_of(mirror) * row_of(mirror);
  return where(column_of(u.moves), unit, where(u.equal, kept, zero));
}

/// [batch, n, n] with blocks [batch * count, size, size] on the diagonal.
Tensor with_diagonal_blocks(const Tensor& blocks, Expr batch, int64_t count) {
  const int64_t size = blocks.size(1).value(), n = count * size;
  const Tensor apart = blocks.reshape({batch, count, size, 1, size});
  const Tensor is_own =
      (Tensor::iota({count, count}, 0) == Tensor::iota({count, count}, 1)).reshape({1, count, 1, count, 1});
  return where(is_own, apart, constant(blocks, 0)).reshape({batch, n, n});
}

/// Values, the first and last elements of their vectors, and perhaps the vectors: [batch, n], [batch, n, 2],
/// [batch, n, n].
using Parts = std::vector<Tensor>;

/// The eigenvalues of a matrix from those of its parts of `size` rows.
Parts merged(const Parts& parts, const Tensor& seams, int64_t size) {
  if (seams.size(1).value() <= size) return parts;
  const Levels levels = levels_of(seams, size);
  const Tensor zero = constant(seams, 0);
  const auto step = [&](const Parts& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor is_first = row[1], ends = state[1];
    const Tensor top = ends.index({Slice{}, Slice{}, 0}), bottom = ends.index({Slice{}, Slice{}, 1});
    const Update u = update_of(state[0], where(is_first, bottom, row[3] * top), row[0], row[2]);
    const Roots r = roots_of(u);
    const Tensor basis = merged_basis(u, r).contiguous();
    const Tensor outer = stack({where(is_first, top, zero), where(is_first, zero, bottom)}, 2);
    Parts next{where(u.moves, r.origin + r.sign * r.distance, u.diagonal), basis.matmul(outer)};
    if (state.size() == 3) next.push_back(basis.matmul(state[2]));
    return {next, {}};
  };
  return scan(step, parts, {levels.part, levels.is_first, levels.rho, levels.sign}).state;
}

/// Of the parts of two rows [a, b; b, c], each turned by one rotation: values [batch, n], vectors [batch, n,
/// 2].
Parts pairs_of(const Tensor& diagonal, const Tensor& inner) {
  const Expr batch = diagonal.size(0);
  const int64_t n = diagonal.size(1).value();
  const auto element = [&](const Tensor& x, int64_t at) {
    return part_of(x.reshape({batch, n / 2, 2}), 2, at, at + 1);
  };
  const Tensor zero = constant(diagonal, 0), one = constant(diagonal, 1);
  const Tensor a = element(diagonal, 0), b = element(inner, 0), c = element(diagonal, 1);
  const Tensor tau = (c - a) / (b + b);
  const Tensor size = one / (tau.abs() + (one + tau.square()).sqrt());
  const Tensor tangent = where(b == zero, zero, where(tau < zero, -size, size));
  const Tensor cosine = (one + tangent.square()).rsqrt(), sine = tangent * cosine;
  return {concat({a - tangent * b, c + tangent * b}, 2).reshape({batch, n}),
          stack({concat({cosine, -sine}, 2), concat({sine, cosine}, 2)}, 2).reshape({batch, n, 2})};
}

} // namespace

EigenRows eigen_of_tridiagonal(const Tensor& diagonal, const Tensor& beside, bool wants_vectors) {
  const Expr batch = diagonal.size(0);
  const int64_t n = diagonal.size(1).value(), even = n + n % 2;
  const int64_t size = std::min(even, kBlock), blocks = (even + size - 1) / size, whole = blocks * size;
  const Tensor zero = constant(diagonal, 0), one = constant(diagonal, 1);
  const auto filled = [&](const Tensor& x) { return pad_zero(x, {0, 0}, {0, whole - x.size(1).value()}); };
  const auto after = [&](const Tensor& x) { return pad_zero(part_of(x, 1, 0, whole - 1), {0, 1}, {0, 0}); };
  const Tensor d = filled(diagonal), e = filled(beside);
  const Tensor norm = (d.abs() + e.abs() + after(e.abs())).max({1}, true);
  const Tensor scale = where(norm == zero, one, norm), scaled = e / scale;
  const Tensor is_seam = Tensor::iota({1, whole}, 1) % 2 == 1;
  const Tensor seams = where(is_seam & (scaled.abs() > constant(d, rounding(d.dtype()))), scaled, zero);
  const Tensor torn = d / scale - seams.abs() - after(seams.abs());

  const Parts pairs = pairs_of(torn, where(is_seam, zero, scaled));
  const auto in_blocks = [&](const Tensor& x) {
    return x.rank() == 2 ? x.reshape({batch * blocks, size}) : x.reshape({batch * blocks, size, 2});
  };
  Parts parts{in_blocks(pairs[0]), in_blocks(pairs[1])};
  if (wants_vectors)
    parts.push_back(
        with_diagonal_blocks(pairs[1].reshape({batch * (whole / 2), 2, 2}), batch * blocks, size / 2));
  parts = merged(parts, in_blocks(seams), 2);
  parts[0] = parts[0].reshape({batch, whole});
  parts[1] = parts[1].reshape({batch, whole, 2});
  if (wants_vectors) parts[2] = with_diagonal_blocks(parts[2], batch, blocks);
  parts = merged(parts, seams, size);
  return {part_of(parts[0], 1, 0, n) * scale, wants_vectors ? block(parts[2], 0, n, 0, n) : Tensor()};
}

} // namespace lathe::graph
