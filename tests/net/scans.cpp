// What is computed along one axis and keeps its size: sums so far, orders, softmax.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

using Row = std::vector<Cell>;

/// Applies f to every row along the axis; rows may change their length.
Array along(const Array& a, int64_t which, DType out, const std::function<Row(const Row&)>& f) {
  const auto axis = static_cast<size_t>(axis_of(which, a.shape.size()));
  const int64_t n = a.shape[axis];
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < a.shape.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : a.shape[i];
  Array result{out, a.shape, {}};
  std::vector<Row> rows;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < inner; ++k) {
      Row row;
      for (int64_t i = 0; i < n; ++i) row.push_back(a.at[static_cast<size_t>((o * n + i) * inner + k)]);
      rows.push_back(f(row));
    }
  const Row any = rows.empty() ? f(Row(static_cast<size_t>(n))) : rows[0];
  const auto m = static_cast<int64_t>(any.size());
  result.shape[axis] = m;
  result.at.resize(static_cast<size_t>(outer * m * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t k = 0; k < inner; ++k)
        result.at[static_cast<size_t>((o * m + i) * inner + k)] =
            rows[static_cast<size_t>(o * inner + k)][static_cast<size_t>(i)];
  return result;
}

/// Positions in order: stable, NaN the largest.
std::vector<size_t> order_of(const Row& row, bool descending) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](size_t i, size_t j) {
    const Real a = row[i].v, b = row[j].v;
    if (descending) return (std::isnan(a) && !std::isnan(b)) || a > b;
    return (std::isnan(b) && !std::isnan(a)) || a < b;
  };
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

bool all_decided(const Row& row) {
  return std::all_of(row.begin(), row.end(), [](Cell c) { return c.decided(); });
}

Row sorted_values(const Row& row, bool descending) {
  if (!all_decided(row)) return Row(row.size(), undecided());
  Real e = 0;
  bool exact = true;
  for (Cell c : row) {
    e = std::max(e, c.e);
    exact &= c.exact();
  }
  Row out;
  bool zero = false;
  for (size_t k : order_of(row, descending)) {
    // The k-th largest moves by no more than the largest bound.
    out.push_back({row[k].v, std::isfinite(row[k].v) && !exact ? e : row[k].e});
    zero |= row[k].v == 0;
  }
  (void)zero;
  return out;
}

Row sorted_positions(const Row& row, bool descending) {
  if (!all_decided(row)) return Row(row.size(), undecided());
  const std::vector<size_t> order = order_of(row, descending);
  Row out;
  for (size_t k = 0; k < order.size(); ++k) {
    bool sure = true;
    for (size_t j = 0; j < order.size() && sure; ++j)
      sure = j == k || compared(row[order[j]], row[order[k]]) != 2;
    out.push_back(sure ? Cell{static_cast<Real>(order[k]), 0} : undecided());
  }
  return out;
}

Row sums_so_far(DType out, DType w, const Row& row) {
  Row result, part;
  for (Cell c : row) {
    part.push_back(c);
    const Cell s = sum_of(w, part);
    result.push_back(out == w ? s : rounded(out, s));
  }
  // An infinity or NaN may not reach the sums before it, but blocks are padded with zeros only: nothing to
  // add.
  return result;
}

bool draw_along(Maker& m, Step& s, int64_t longest) {
  s.in = {m.some([&](const Array& a) {
    return !a.shape.empty() && *std::max_element(a.shape.begin(), a.shape.end()) <= longest;
  })};
  s.ints = {m.axis(m.value(s.in[0]))};
  return true;
}

void add_orders(std::vector<Function>& rows) {
  for (const bool positions : {false, true})
    rows.push_back({positions ? "argsort" : "sort", "sort",
                    [](Maker& m, Step& s) {
                      draw_along(m, s, 65);
                      s.more = {static_cast<int64_t>(m.below(2))};
                      return count_of(m.value(s.in[0]).shape) <= 600;
                    },
                    [positions](const Step& s, const Tensors& x) {
                      const int axis = static_cast<int>(s.ints[0]);
                      return positions ? x[0].argsort(axis, s.more[0] != 0) : x[0].sort(axis, s.more[0] != 0);
                    },
                    [positions](const Step& s, const Arrays& x) {
                      return along(*x[0], s.ints[0], positions ? DType::I64 : x[0]->dtype, [&](const Row& r) {
                        return positions ? sorted_positions(r, s.more[0]) : sorted_values(r, s.more[0]);
                      });
                    },
                    [positions](const Step& s, const Texts& x) {
                      return fmt::format("{}.{}({}, {})", x[0], positions ? "argsort" : "sort", s.ints[0],
                                         bool_text(s.more[0]));
                    },
                    1});
  rows.push_back({"topk", "sort", // ints: axis; more: k, largest, 0 for values and 1 for positions
                  [](Maker& m, Step& s) {
                    draw_along(m, s, 65);
                    const Array& a = m.value(s.in[0]);
                    const int64_t n = a.shape[static_cast<size_t>(axis_of(s.ints[0], a.shape.size()))];
                    s.more = {1 + static_cast<int64_t>(m.below(static_cast<uint64_t>(n))),
                              static_cast<int64_t>(m.below(2)), static_cast<int64_t>(m.below(2))};
                    return count_of(a.shape) <= 600;
                  },
                  [](const Step& s, const Tensors& x) {
                    const auto both = x[0].topk(s.more[0], static_cast<int>(s.ints[0]), s.more[1] != 0);
                    return s.more[2] ? both.second : both.first;
                  },
                  [](const Step& s, const Arrays& x) {
                    return along(*x[0], s.ints[0], s.more[2] ? DType::I64 : x[0]->dtype, [&](const Row& r) {
                      require(s.more[0] >= 0 && s.more[0] <= static_cast<int64_t>(r.size()), "topk");
                      Row all = s.more[2] ? sorted_positions(r, s.more[1]) : sorted_values(r, s.more[1]);
                      all.resize(static_cast<size_t>(s.more[0]));
                      return all;
                    });
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("{}.topk({}, {}, {}).{}", x[0], s.more[0], s.ints[0],
                                       bool_text(s.more[1]), s.more[2] ? "second" : "first");
                  },
                  1});
}

} // namespace

std::vector<Cell> softmax_cells(DType out, DType w, const Row& row, bool logarithm) {
  if (!all_decided(row)) return Row(row.size(), undecided());
  Real most = -kInfinity, e = 0, total = 0, reach = 0;
  for (Cell c : row) {
    if (std::isnan(c.v)) return Row(row.size(), Cell{c.v, 0});
    most = std::max(most, c.v);
    e = std::max(e, c.e);
    if (std::isfinite(c.v)) reach = std::max(reach, std::fabs(c.v));
  }
  if (std::isinf(most)) {
    // inf - inf at the largest; what is below gives exp(-inf) / NaN.
    return Row(row.size(), Cell{std::nanl(""), 0});
  }
  for (Cell c : row) total += std::exp(c.v - most);
  const Real unit = std::ldexp(Real{1}, -format_of(w).digits), n = static_cast<Real>(row.size());
  Row result;
  for (Cell c : row) {
    Cell y;
    if (logarithm) {
      const Real v = c.v - most - std::log(total);
      y = std::isinf(v) ? Cell{v, 0} : Cell{v, 2.01L * e + unit * (n + 16 + 4 * reach + 4 * std::fabs(v))};
    } else {
      const Real range = most - c.v, v = std::exp(-range) / total;
      if (std::isinf(range))
        y = {0, kSignless};
      else
        y = {v, v * (std::expm1(2.01L * e) + unit * (n + 20 + 3 * std::min(range, Real{800}))) +
                    std::ldexp(Real{4}, format_of(w).least - format_of(w).digits)};
    }
    result.push_back(rounded(out, y.exact() ? y : rounded(w, y)));
  }
  return result;
}

void add_scans(std::vector<Function>& rows) {
  add_orders(rows);
  for (const bool logarithm : {false, true})
    rows.push_back({logarithm ? "log_softmax" : "softmax", "softmax",
                    [](Maker& m, Step& s) {
                      s.in = {m.some([](const Array& a) { return !a.shape.empty() && is_float(a.dtype); })};
                      s.ints = {m.axis(m.value(s.in[0]))};
                      return true;
                    },
                    [logarithm](const Step& s, const Tensors& x) {
                      const int axis = static_cast<int>(s.ints[0]);
                      return logarithm ? x[0].log_softmax(axis) : x[0].softmax(axis);
                    },
                    [logarithm](const Step& s, const Arrays& x) {
                      const DType d = real_dtype(x[0]->dtype);
                      return along(cast_array(d, *x[0]), s.ints[0], d, [&](const Row& r) {
                        return softmax_cells(d, wide_dtype(d), r, logarithm);
                      });
                    },
                    [logarithm](const Step& s, const Texts& x) {
                      return fmt::format("{}.{}({})", x[0], logarithm ? "log_softmax" : "softmax", s.ints[0]);
                    },
                    2, true});
  rows.push_back({"cumsum", "scan", [](Maker& m, Step& s) { return draw_along(m, s, 1000); },
                  [](const Step& s, const Tensors& x) { return x[0].cumsum(static_cast<int>(s.ints[0])); },
                  [](const Step& s, const Arrays& x) {
                    const DType d = sum_dtype(x[0]->dtype);
                    return along(cast_array(d, *x[0]), s.ints[0], d,
                                 [&](const Row& r) { return sums_so_far(d, wide_dtype(d), r); });
                  },
                  [](const Step& s, const Texts& x) { return fmt::format("{}.cumsum({})", x[0], s.ints[0]); },
                  3, true});
}

} // namespace lathe::net
