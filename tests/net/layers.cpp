// Norms and attention, written out in cells.
#include <algorithm>
#include <cmath>
#include <map>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

using Row = std::vector<Cell>;

Cell mean_of(DType w, const Row& row) {
  return divide(w, sum_of(w, row), {static_cast<Real>(row.size()), 0});
}

/// A row with an element above 2^40 (f64: 2^300) is scaled down, so that no square overflows, as
/// docs/numbers.md says; eps is then nothing, but not 0.
void scale_down(DType w, Row& row, double& eps) {
  const bool is_f64 = w == DType::F64;
  const Real huge = std::ldexp(Real{1}, is_f64 ? 300 : 40), scale = std::ldexp(Real{1}, is_f64 ? -700 : -88);
  const auto size = [](const Cell& c) { return c.decided() && !std::isnan(c.v) ? std::fabs(c.v) : 0; };
  if (std::none_of(row.begin(), row.end(), [&](const Cell& c) { return size(c) > huge; })) return;
  for (Cell& c : row) c = mul(w, c, {scale, 0});
  eps = std::min(eps, is_f64 ? 0x1p-1022 : 0x1p-126);
}

/// (x - mean) / sqrt(var + eps), or x / sqrt(mean(x^2) + eps). A product with the inverse may round once
/// more.
Row normal(DType w, const Row& row, double eps, bool centre) {
  Row out = row;
  scale_down(w, out, eps);
  if (centre) {
    const Cell mean = mean_of(w, out);
    for (Cell& c : out) c = sub(w, c, mean);
  }
  Row squares;
  for (Cell c : out) squares.push_back(mul(w, c, c));
  Cell below = add(w, mean_of(w, squares), {round_to(w, eps), 0});
  if (below.decided() && below.v - below.e < 0) below = undecided();
  below = root(w, below);
  for (Cell& c : out) c = loosened(w, divide(w, c, below), 2);
  return out;
}

/// Rows of the elements that `group` gives the same number, normalised, then times a weight plus a bias at
/// `place`.
Array normalised(const Arrays& x, DType d, double eps, bool centre,
                 const std::function<int64_t(const Sizes&)>& group,
                 const std::function<int64_t(const Sizes&)>& place, const Sizes& parameter) {
  const DType w = wide_dtype(d);
  const Array a = cast_array(d, *x[0]);
  std::map<int64_t, std::vector<size_t>> groups;
  std::vector<int64_t> places;
  size_t k = 0;
  for_each_index(a.shape, [&](const Sizes& index) {
    groups[group(index)].push_back(k++);
    places.push_back(place(index));
  });
  std::vector<Array> more;
  for (size_t i = 1; i < x.size(); ++i) {
    require(x[i]->shape == parameter, "a parameter's shape");
    more.push_back(cast_array(w, *x[i]));
  }
  Array out{d, a.shape, std::vector<Cell>(a.at.size())};
  for (const auto& [number, members] : groups) {
    Row row;
    for (size_t m : members) row.push_back(a.at[m]);
    row = normal(w, row, eps, centre);
    for (size_t i = 0; i < members.size(); ++i) {
      Cell c = row[i];
      const auto at = static_cast<size_t>(places[members[i]]);
      if (!more.empty()) c = mul(w, c, more[0].at[at]);
      if (more.size() > 1) c = add(w, c, more[1].at[at]);
      out.at[members[i]] = d == w ? c : rounded(d, c);
    }
  }
  return out;
}

std::optional<Tensor> given(const Tensors& x, size_t k) {
  return k < x.size() ? std::optional<Tensor>(x[k]) : std::nullopt;
}
std::string given_text(const Texts& x, size_t k) { return k < x.size() ? x[k] : "std::nullopt"; }

double draw_eps(Maker& m) { return m.chance(50) ? 1e-5 : 0.125; }

void add_axes_norms(std::vector<Function>& rows) {
  for (const bool centre : {true, false})
    rows.push_back(
        {centre ? "layer_norm" : "rms_norm", "norm",
         [centre](Maker& m, Step& s) {
           const int a = m.some([](const Array& v) { return !v.shape.empty() && is_float(v.dtype); });
           const Array x = m.value(a);
           s.ints = m.axes(x);
           if (s.ints.empty()) s.ints = {-1};
           s.reals = {draw_eps(m)};
           s.in = {a};
           std::vector<size_t> which;
           for (int64_t axis : s.ints) which.push_back(static_cast<size_t>(axis_of(axis, x.shape.size())));
           std::sort(which.begin(), which.end());
           Sizes parameter;
           for (size_t i : which) parameter.push_back(x.shape[i]);
           for (uint64_t k = m.below(centre ? 3 : 2); k > 0; --k) s.in.push_back(m.leaf(parameter, x.dtype));
           return true;
         },
         [centre](const Step& s, const Tensors& x) {
           return centre ? x[0].layer_norm(axes_of(s.ints), given(x, 1), given(x, 2), s.reals[0])
                         : x[0].rms_norm(axes_of(s.ints), given(x, 1), s.reals[0]);
         },
         [centre](const Step& s, const Arrays& x) {
           const Sizes& shape = x[0]->shape;
           std::vector<bool> over(shape.size());
           for (int64_t axis : s.ints) {
             const auto at = static_cast<size_t>(axis_of(axis, shape.size()));
             require(!over[at], "axis twice");
             over[at] = true;
           }
           Sizes parameter, rest;
           for (size_t i = 0; i < shape.size(); ++i) (over[i] ? parameter : rest).push_back(shape[i]);
           const auto part = [&](const Sizes& index, bool of) {
             int64_t k = 0;
             for (size_t i = 0; i < shape.size(); ++i)
               if (over[i] == of) k = k * shape[i] + index[i];
             return k;
           };
           return normalised(
               x, real_dtype(x[0]->dtype), s.reals[0], centre, [&](const Sizes& i) { return part(i, false); },
               [&](const Sizes& i) { return part(i, true); }, parameter);
         },
         [centre](const Step& s, const Texts& x) {
           return centre ? fmt::format("{}.layer_norm({}, {}, {}, {})", x[0], axes_text(s.ints),
                                       given_text(x, 1), given_text(x, 2), s.reals[0])
                         : fmt::format("{}.rms_norm({}, {}, {})", x[0], axes_text(s.ints), given_text(x, 1),
                                       s.reals[0]);
         },
         2, true});
}

void add_channel_norms(std::vector<Function>& rows) {
  rows.push_back({"group_norm", "norm",
                  [](Maker& m, Step& s) {
                    const int a =
                        m.some([](const Array& v) { return v.shape.size() >= 2 && is_float(v.dtype); });
                    const Array x = m.value(a);
                    s.ints = {1 + static_cast<int64_t>(m.below(static_cast<uint64_t>(x.shape[1])))};
                    while (x.shape[1] % s.ints[0]) --s.ints[0];
                    s.reals = {draw_eps(m)};
                    s.in = {a};
                    for (uint64_t k = m.below(3); k > 0; --k) s.in.push_back(m.leaf({x.shape[1]}, x.dtype));
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    return x[0].group_norm(s.ints[0], given(x, 1), given(x, 2), s.reals[0]);
                  },
                  [](const Step& s, const Arrays& x) {
                    const Sizes& shape = x[0]->shape;
                    require(shape.size() >= 2 && s.ints[0] >= 1 && shape[1] % s.ints[0] == 0, "groups");
                    const int64_t channels = shape[1] / s.ints[0];
                    return normalised(
                        x, real_dtype(x[0]->dtype), s.reals[0], true,
                        [&](const Sizes& i) { return i[0] * shape[1] + i[1] / channels; },
                        [](const Sizes& i) { return i[1]; }, {shape[1]});
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("{}.group_norm({}, {}, {}, {})", x[0], s.ints[0], given_text(x, 1),
                                       given_text(x, 2), s.reals[0]);
                  },
                  1, true});
  rows.push_back({"batch_norm", "norm",
                  [](Maker& m, Step& s) {
                    const int a =
                        m.some([](const Array& v) { return v.shape.size() >= 2 && is_float(v.dtype); });
                    const Array x = m.value(a);
                    const Sizes channels{x.shape[1]};
                    s.in = {a, m.leaf(channels, x.dtype, 2), m.leaf(channels, x.dtype, 2)};
                    for (uint64_t k = m.below(3); k > 0; --k) s.in.push_back(m.leaf(channels, x.dtype));
                    s.reals = {8.0}; // above what variances of quarters are below 0
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    return x[0].batch_norm(x[1], x[2], given(x, 3), given(x, 4), s.reals[0]);
                  },
                  [](const Step& s, const Arrays& x) {
                    const DType d = real_dtype(x[0]->dtype), w = wide_dtype(d);
                    require(x[0]->shape.size() >= 2, "batch_norm");
                    std::vector<Array> p;
                    for (size_t k = 1; k < x.size(); ++k) {
                      require(x[k]->shape == Sizes{x[0]->shape[1]}, "batch_norm");
                      p.push_back(cast_array(w, *x[k]));
                    }
                    Array out = cast_array(d, *x[0]);
                    size_t k = 0;
                    for_each_index(out.shape, [&](const Sizes& index) {
                      const auto c = static_cast<size_t>(index[1]);
                      const Cell below = root(w, add(w, p[1].at[c], {round_to(w, s.reals[0]), 0}));
                      Cell y = loosened(w, divide(w, sub(w, out.at[k], p[0].at[c]), below), 2);
                      if (p.size() > 2) y = mul(w, y, p[2].at[c]);
                      if (p.size() > 3) y = add(w, y, p[3].at[c]);
                      out.at[k++] = d == w ? y : rounded(d, y);
                    });
                    return out;
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("{}.batch_norm({}, {}, {}, {}, {})", x[0], x[1], x[2],
                                       given_text(x, 3), given_text(x, 4), real_text(s.reals[0]));
                  },
                  1, true});
}

// ints: batch, causal, whether there is a mask; in: q, k, v, mask
Array attention_reference(const Step& s, const Arrays& x) {
  const DType d = promoted(promoted(x[0]->dtype, x[1]->dtype), x[2]->dtype), w = wide_dtype(d);
  for (size_t i = 0; i < 3; ++i) require(x[i]->shape.size() == 3 && is_float(x[i]->dtype), "attention");
  const Array q = cast_array(w, *x[0]), k = cast_array(w, *x[1]), v = cast_array(w, *x[2]);
  const int64_t batch = q.shape[0], rows = q.shape[1], columns = k.shape[1], features = q.shape[2],
                out = v.shape[2];
  require(k.shape[0] == batch && v.shape[0] == batch && k.shape[2] == features && v.shape[1] == columns,
          "attention");
  const Array* mask = x.size() > 3 ? x[3] : nullptr;
  require(!mask || mask->shape == Sizes{rows, columns}, "attention");
  const double scale = s.reals.empty() ? 1 / std::sqrt(static_cast<double>(features)) : s.reals[0];
  Array y{d, {batch, rows, out}, {}};
  const auto at = [](const Array& a, int64_t i, int64_t j, int64_t l) {
    return a.at[static_cast<size_t>((i * a.shape[1] + j) * a.shape[2] + l)];
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < rows; ++i) {
      Row scores;
      bool all = true;
      for (int64_t j = 0; j < columns; ++j) {
        Row terms;
        for (int64_t f = 0; f < features; ++f) terms.push_back(mul(w, at(q, b, i, f), at(k, b, j, f)));
        Cell c = loosened(w, mul(w, sum_of(w, terms), {round_to(w, scale), 0}), 1);
        if (mask) {
          const Cell m = mask->at[static_cast<size_t>(i * columns + j)];
          if (mask->dtype == DType::Bool)
            c = !m.decided() ? undecided() : m.v != 0 ? c : Cell{-kInfinity, 0};
          else
            c = add(w, c, cast_cell(w, mask->dtype, m));
        }
        if (s.ints[0] && j > i) c = {-kInfinity, 0};
        all &= c.v == -kInfinity;
        scores.push_back(c);
      }
      const Row p = softmax_cells(w, w, scores, false);
      for (int64_t o = 0; o < out; ++o) {
        Row terms;
        for (int64_t j = 0; j < columns; ++j)
          terms.push_back(mul(w, p[static_cast<size_t>(j)], at(v, b, j, o)));
        const Cell c = sum_of(w, terms);
        y.at.push_back(all      ? undecided()
                       : d == w ? c
                                : rounded(d, c)); // what a row of nothing is, differs between libraries
      }
    }
  return y;
}

void add_attention(std::vector<Function>& rows) {
  rows.push_back({"attention", "norm",
                  [](Maker& m, Step& s) {
                    const auto few = [&](uint64_t n) { return 1 + static_cast<int64_t>(m.below(n)); };
                    const DType d = m.dtype();
                    if (!is_float(d)) return false;
                    const int64_t batch = few(3), tokens = few(9), features = few(8);
                    const int64_t columns = m.chance(50) ? tokens : few(17);
                    const Sizes q{batch, tokens, features}, k{batch, columns, features},
                        v{batch, columns, few(9)};
                    const auto have =
                        m.existing([&](const Array& a) { return a.shape == q && is_float(a.dtype); });
                    s.in = {have ? *have : m.leaf(q, d, 1), m.leaf(k, d, 1), m.leaf(v, d, 1)};
                    s.ints = {m.chance(30)};
                    if (m.chance(30))
                      s.in.push_back(m.leaf({tokens, columns}, m.chance(50) ? DType::Bool : d, 2));
                    if (m.chance(30)) s.reals = {0.25};
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    return scaled_dot_product_attention(x[0], x[1], x[2], given(x, 3), s.ints[0] != 0,
                                                        s.reals.empty() ? std::nullopt
                                                                        : std::optional<double>(s.reals[0]));
                  },
                  attention_reference,
                  [](const Step& s, const Texts& x) {
                    return fmt::format("scaled_dot_product_attention({}, {}, {}, {}, {}, {})", x[0], x[1],
                                       x[2], given_text(x, 3), bool_text(s.ints[0]),
                                       s.reals.empty() ? "std::nullopt" : real_text(s.reals[0]));
                  },
                  2, true});
}

} // namespace

void add_layers(std::vector<Function>& rows) {
  add_axes_norms(rows);
  add_channel_norms(rows);
  add_attention(rows);
}

} // namespace lathe::net
