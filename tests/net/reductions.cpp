// Reductions over sets of axes, and the positions of extremes.
#include <algorithm>
#include <cmath>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

/// The elements that each element of the result is made of, in row-major order.
struct Groups {
  Sizes kept;    // with the reduced axes as 1
  Sizes dropped; // without them
  std::vector<std::vector<Cell>> cells;
};

Groups grouped(const Array& a, const std::vector<int64_t>& axes) {
  Groups g;
  std::vector<bool> gone(a.shape.size(), axes.empty());
  for (int64_t axis : axes) {
    const auto at = static_cast<size_t>(axis_of(axis, a.shape.size()));
    require(!gone[at], "axis twice");
    gone[at] = true;
  }
  for (size_t i = 0; i < a.shape.size(); ++i) {
    g.kept.push_back(gone[i] ? 1 : a.shape[i]);
    if (!gone[i]) g.dropped.push_back(a.shape[i]);
  }
  g.cells.resize(static_cast<size_t>(count_of(g.kept)));
  size_t k = 0;
  Sizes own(a.shape.size());
  for_each_index(a.shape, [&](const Sizes& index) {
    for (size_t i = 0; i < own.size(); ++i) own[i] = gone[i] ? 0 : index[i];
    g.cells[static_cast<size_t>(flat_of(g.kept, own))].push_back(a.at[k++]);
  });
  return g;
}

/// How many elements each element of the result is made of.
int64_t reduced_count(const Array& a, const std::vector<int64_t>& axes) {
  if (axes.empty()) return count_of(a.shape);
  int64_t count = 1;
  for (int64_t axis : axes) count *= a.shape[static_cast<size_t>(axis_of(axis, a.shape.size()))];
  return count;
}

using Folded = std::function<Cell(const std::vector<Cell>&)>;

Array folded(const Array& a, const std::vector<int64_t>& axes, bool keepdim, DType out, const Folded& f) {
  const Groups g = grouped(a, axes);
  Array result{out, keepdim ? g.kept : g.dropped, {}};
  for (const auto& cells : g.cells) result.at.push_back(f(cells));
  return result;
}

Cell mean_cell(DType d, const std::vector<Cell>& cells) {
  return divide(d, sum_of(d, cells), {static_cast<Real>(cells.size()), 0});
}
Cell variance_cell(DType d, const std::vector<Cell>& cells, int64_t correction) {
  const Cell mean = mean_cell(d, cells);
  std::vector<Cell> squares;
  for (Cell c : cells) {
    const Cell centred = sub(d, c, mean);
    squares.push_back(mul(d, centred, centred));
  }
  Cell v =
      divide(d, sum_of(d, squares), {static_cast<Real>(static_cast<int64_t>(cells.size()) - correction), 0});
  return v;
}
/// A root of what is not negative, though its bound may be.
Cell root_of_variance(DType d, Cell v) {
  if (!v.decided() || v.v - v.e >= 0 || !std::isfinite(v.v)) return root(d, v);
  const Real r = std::sqrt(v.v), high = std::sqrt(v.v + v.e);
  return rounded(d, {r, std::max(high - r, r)});
}

Cell any_cell(const std::vector<Cell>& cells, bool wanted) {
  bool unknown = false;
  for (Cell c : cells) {
    if (!c.decided() || (!c.exact() && std::fabs(c.v) <= c.e))
      unknown = true;
    else if ((c.v != 0) == wanted)
      return truth(wanted);
  }
  return unknown ? undecided() : truth(!wanted);
}

Cell extreme_cell(DType d, const std::vector<Cell>& cells, bool largest) {
  const auto turned = [&](Cell c) { return largest ? c : negated(c); };
  if (cells.empty() && d == DType::Bool) return truth(!largest);
  if (cells.empty()) return {largest ? -kInfinity : kInfinity, 0};
  Cell best = turned(cells[0]);
  for (size_t k = 1; k < cells.size(); ++k) best = max_of(d, best, turned(cells[k]));
  return turned(best);
}

/// The first position of the extreme; NaN wins.
Cell position_of_extreme(const std::vector<Cell>& cells, bool largest) {
  for (size_t k = 0; k < cells.size(); ++k) {
    if (!cells[k].decided()) return undecided();
    if (std::isnan(cells[k].v)) {
      for (Cell c : cells)
        if (!c.decided()) return undecided();
      return {static_cast<Real>(k), 0};
    }
  }
  size_t best = 0;
  for (size_t k = 1; k < cells.size(); ++k)
    if (largest ? cells[k].v > cells[best].v : cells[k].v < cells[best].v) best = k;
  for (size_t k = 0; k < cells.size(); ++k) {
    if (k == best) continue;
    const int c = largest ? compared(cells[k], cells[best]) : compared(cells[best], cells[k]);
    if (c == 2) return undecided();
  }
  return {static_cast<Real>(best), 0};
}

struct Reduction {
  const char* name;
  Tensor (*call)(const Tensor&, const Axes&, bool);
  bool smooth;
};
const Reduction kReductions[] = {
    {"sum", [](const Tensor& x, const Axes& a, bool k) { return x.sum(a, k); }, true},
    {"prod", [](const Tensor& x, const Axes& a, bool k) { return x.prod(a, k); }, true},
    {"max", [](const Tensor& x, const Axes& a, bool k) { return x.max(a, k); }, true},
    {"min", [](const Tensor& x, const Axes& a, bool k) { return x.min(a, k); }, true},
    {"mean", [](const Tensor& x, const Axes& a, bool k) { return x.mean(a, k); }, true},
    {"any", [](const Tensor& x, const Axes& a, bool k) { return x.any(a, k); }, false},
    {"all", [](const Tensor& x, const Axes& a, bool k) { return x.all(a, k); }, false},
};

Array reduce_reference(std::string_view name, const Step& s, const Array& a) {
  const bool keep = s.more[0];
  const DType acc = sum_dtype(a.dtype), wide = wide_dtype(acc);
  const auto out = [&](Cell c) { return is_half(acc) ? rounded(acc, c) : c; };
  if (name == "sum")
    return folded(cast_array(acc, a), s.ints, keep, acc, [&](auto& c) { return out(sum_of(wide, c)); });
  if (name == "prod")
    return folded(cast_array(acc, a), s.ints, keep, acc, [&](auto& c) { return out(product_of(wide, c)); });
  if (name == "any" || name == "all")
    return folded(a, s.ints, keep, DType::Bool, [&](auto& c) { return any_cell(c, name == "any"); });
  if (name == "mean") {
    const DType d = is_float(a.dtype) ? a.dtype : DType::F64, w = wide_dtype(d);
    return folded(cast_array(d, a), s.ints, keep, d,
                  [&](auto& c) { return is_half(d) ? rounded(d, mean_cell(w, c)) : mean_cell(w, c); });
  }
  require(!is_integer(a.dtype) || reduced_count(a, s.ints) > 0, "an extreme of nothing");
  return folded(a, s.ints, keep, a.dtype, [&](auto& c) { return extreme_cell(a.dtype, c, name == "max"); });
}

/// Axes, or one axis as an int where there is that overload. more: keepdim, and 1 for the int.
bool draw_axes(Maker& m, Step& s, bool ints_too) {
  s.ints = m.axes(m.value(s.in[0]));
  s.more = {static_cast<int64_t>(m.below(2)), ints_too && s.ints.size() == 1 && m.chance(40)};
  return true;
}
std::string axes_argument(const Step& s) {
  return s.more[1] ? fmt::format("{}", s.ints[0]) : axes_text(s.ints);
}

void add_variances(std::vector<Function>& rows) {
  for (const bool deviation : {false, true})
    rows.push_back({deviation ? "std" : "var", "reduction",
                    [](Maker& m, Step& s) {
                      s.in = {m.some_float()};
                      draw_axes(m, s, false);
                      s.more[1] = static_cast<int64_t>(m.below(2)); // correction
                      return true;
                    },
                    [deviation](const Step& s, const Tensors& x) {
                      return deviation ? x[0].std(axes_of(s.ints), s.more[1], s.more[0] != 0)
                                       : x[0].var(axes_of(s.ints), s.more[1], s.more[0] != 0);
                    },
                    [deviation](const Step& s, const Arrays& x) {
                      const DType d = is_float(x[0]->dtype) ? x[0]->dtype : DType::F64, w = wide_dtype(d);
                      require(reduced_count(*x[0], s.ints) > s.more[1], "correction");
                      return folded(cast_array(d, *x[0]), s.ints, s.more[0], d,
                                    [&](const std::vector<Cell>& c) {
                                      const Cell v = variance_cell(w, c, s.more[1]);
                                      const Cell r = deviation ? root_of_variance(w, v) : v;
                                      return is_half(d) ? rounded(d, r) : r;
                                    });
                    },
                    [deviation](const Step& s, const Texts& x) {
                      return fmt::format("{}.{}({}, {}, {})", x[0], deviation ? "std" : "var",
                                         axes_text(s.ints), s.more[1], bool_text(s.more[0]));
                    },
                    1, !deviation});
}

void add_positions(std::vector<Function>& rows) {
  for (const bool largest : {true, false})
    rows.push_back({largest ? "argmax" : "argmin", "reduction",
                    [](Maker& m, Step& s) {
                      s.in = {m.some([](const Array& a) { return !a.shape.empty(); })};
                      const Array& a = m.value(s.in[0]);
                      if (m.chance(70)) s.ints = {m.axis(a)};
                      s.more = {static_cast<int64_t>(m.below(2))};
                      return true;
                    },
                    [largest](const Step& s, const Tensors& x) {
                      const std::optional<int> axis =
                          s.ints.empty() ? std::nullopt : std::optional<int>(static_cast<int>(s.ints[0]));
                      return largest ? x[0].argmax(axis, s.more[0] != 0) : x[0].argmin(axis, s.more[0] != 0);
                    },
                    [largest](const Step& s, const Arrays& x) {
                      require(reduced_count(*x[0], s.ints) > 0, "a position in nothing");
                      return folded(*x[0], s.ints, s.more[0], DType::I64, [&](const std::vector<Cell>& c) {
                        return position_of_extreme(c, largest);
                      });
                    },
                    [largest](const Step& s, const Texts& x) {
                      return fmt::format("{}.{}({}, {})", x[0], largest ? "argmax" : "argmin",
                                         s.ints.empty() ? "std::nullopt" : fmt::format("{}", s.ints[0]),
                                         bool_text(s.more[0]));
                    },
                    2});
}

void add_logsumexp(std::vector<Function>& rows) {
  rows.push_back(
      {"logsumexp", "softmax",
       [](Maker& m, Step& s) {
         s.in = {m.some_float()};
         return draw_axes(m, s, false);
       },
       [](const Step& s, const Tensors& x) { return x[0].logsumexp(axes_of(s.ints), s.more[0] != 0); },
       [](const Step& s, const Arrays& x) {
         const DType d = real_dtype(x[0]->dtype), w = wide_dtype(d);
         return folded(cast_array(d, *x[0]), s.ints, s.more[0], d, [&](const std::vector<Cell>& cells) {
           Real most = -kInfinity, total = 0, e = 0, reach = 0;
           for (Cell c : cells) {
             if (!c.decided()) return undecided();
             if (std::isnan(c.v)) most = c.v;
             if (!std::isnan(most)) most = std::max(most, c.v);
             e = std::max(e, c.e);
           }
           if (!std::isfinite(most)) return Cell{most, 0};
           for (Cell c : cells) {
             total += std::exp(c.v - most);
             if (std::isfinite(c.v)) reach = std::max(reach, std::fabs(c.v));
           }
           const Real unit = std::ldexp(Real{1}, -format_of(w).digits);
           const Real v = most + std::log(total);
           const Real own = unit * (static_cast<Real>(cells.size()) + 16 + 4 * reach + 4 * std::fabs(v));
           return rounded(d, rounded(w, {v, e * 1.01L + own}));
         });
       },
       [](const Step& s, const Texts& x) {
         return fmt::format("{}.logsumexp({}, {})", x[0], axes_text(s.ints), bool_text(s.more[0]));
       },
       1, true});
}

} // namespace

void add_reductions(std::vector<Function>& rows) {
  for (const Reduction& row : kReductions)
    rows.push_back({row.name, "reduction",
                    [&row](Maker& m, Step& s) {
                      const bool numbers =
                          std::string_view(row.name) == "sum" || std::string_view(row.name) == "prod";
                      s.in = {m.some()};
                      return draw_axes(m, s, !numbers || row.name[0] == 's');
                    },
                    [&row](const Step& s, const Tensors& x) {
                      const std::string_view name = row.name;
                      if (s.more[1]) {
                        const int axis = static_cast<int>(s.ints[0]);
                        if (name == "sum") return x[0].sum(axis, s.more[0] != 0);
                        if (name == "max") return x[0].max(axis, s.more[0] != 0);
                        if (name == "min") return x[0].min(axis, s.more[0] != 0);
                        if (name == "mean") return x[0].mean(axis, s.more[0] != 0);
                      }
                      return row.call(x[0], axes_of(s.ints), s.more[0]);
                    },
                    [&row](const Step& s, const Arrays& x) { return reduce_reference(row.name, s, *x[0]); },
                    [&row](const Step& s, const Texts& x) {
                      const std::string_view name = row.name;
                      const bool one =
                          s.more[1] && (name == "sum" || name == "max" || name == "min" || name == "mean");
                      return fmt::format("{}.{}({}, {})", x[0], row.name,
                                         one ? axes_argument(s) : axes_text(s.ints), bool_text(s.more[0]));
                    },
                    row.name[0] == 's' ? 10 : 4, row.smooth});
  add_variances(rows);
  add_positions(rows);
  add_logsumexp(rows);
}

} // namespace lathe::net
