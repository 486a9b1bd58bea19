// Convolutions and pooling, as PyTorch defines them.
#include <algorithm>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

// ints: spatial axes, groups, then stride, padding, dilation, output padding of each axis in turn.
struct Options {
  int64_t axes, groups;
  std::vector<int64_t> stride, padding, dilation, extra;
};
Options options_of(const Step& s) {
  require(s.ints.size() >= 2 && s.ints[0] >= 1 && s.ints[0] <= 3 &&
              s.ints.size() == static_cast<size_t>(2 + 4 * s.ints[0]),
          "conv");
  Options o{s.ints[0], s.ints[1], {}, {}, {}, {}};
  for (int64_t i = 0; i < o.axes; ++i) {
    const int64_t* p = &s.ints[static_cast<size_t>(2 + 4 * i)];
    require(p[0] >= 1 && p[1] >= 0 && p[2] >= 1 && p[3] >= 0, "conv");
    o.stride.push_back(p[0]);
    o.padding.push_back(p[1]);
    o.dilation.push_back(p[2]);
    o.extra.push_back(p[3]);
  }
  require(o.groups >= 1, "conv");
  return o;
}
ConvOptions conv_options(const Step& s) {
  const Options o = options_of(s);
  return {o.stride, o.padding, o.dilation, o.groups, o.extra};
}

Cell total(DType d, DType w, std::vector<Cell>& terms) {
  if (terms.empty()) return {0, is_float(d) ? kSignless : 0};
  const Cell s = sum_of(w, terms);
  return is_half(d) ? rounded(d, s) : s;
}

Array with_bias(Array y, const Array* bias) {
  if (!bias) return y;
  require(bias->shape == Sizes{y.shape[1]}, "bias");
  const Array b = cast_array(y.dtype, *bias);
  size_t k = 0;
  for_each_index(y.shape, [&](const Sizes& index) {
    Cell& c = y.at[k++];
    const Cell add_to = b.at[static_cast<size_t>(index[1])];
    c = is_float(y.dtype) ? add(y.dtype, c, add_to) : sum_of(y.dtype, {c, add_to});
  });
  return y;
}

Array conv_reference(const Step& s, const Arrays& x) {
  const Options o = options_of(s);
  const size_t n = static_cast<size_t>(o.axes);
  const DType d = promoted(x[0]->dtype, x[1]->dtype), w = wide_dtype(d);
  const Array a = cast_array(d, *x[0]), k = cast_array(d, *x[1]);
  require(a.shape.size() == n + 2 && k.shape.size() == n + 2 && x[0]->dtype != DType::Bool &&
              x[1]->dtype != DType::Bool,
          "conv");
  require(a.shape[1] == k.shape[1] * o.groups && k.shape[0] % o.groups == 0, "conv");
  Sizes shape{a.shape[0], k.shape[0]}, taps{k.shape[1]};
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = (k.shape[2 + i] - 1) * o.dilation[i] + 1, room = a.shape[2 + i] + 2 * o.padding[i];
    require(reach <= room, "conv");
    shape.push_back((room - reach) / o.stride[i] + 1);
    taps.push_back(k.shape[2 + i]);
  }
  const int64_t per_group = k.shape[0] / o.groups;
  Array y{d, shape, {}};
  for_each_index(shape, [&](const Sizes& out) {
    std::vector<Cell> terms;
    for_each_index(taps, [&](const Sizes& tap) {
      Sizes from{out[0], out[1] / per_group * k.shape[1] + tap[0]}, weight{out[1], tap[0]};
      for (size_t i = 0; i < n; ++i) {
        const int64_t p = out[2 + i] * o.stride[i] + tap[1 + i] * o.dilation[i] - o.padding[i];
        weight.push_back(tap[1 + i]);
        from.push_back(p);
        if (p < 0 || p >= a.shape[2 + i]) return;
      }
      terms.push_back(term_of(d, a.at[static_cast<size_t>(flat_of(a.shape, from))],
                              k.at[static_cast<size_t>(flat_of(k.shape, weight))]));
    });
    // A tap on the padding is 0 times the weight, which is NaN where that is not finite.
    bool special = false;
    for (Cell c : k.at) special |= !std::isfinite(c.v) || !c.decided();
    y.at.push_back(special && static_cast<int64_t>(terms.size()) < count_of(taps) ? undecided()
                                                                                  : total(d, w, terms));
  });
  return with_bias(y, x.size() > 2 ? x[2] : nullptr);
}

Array transposed_reference(const Step& s, const Arrays& x) {
  const Options o = options_of(s);
  const DType d = promoted(x[0]->dtype, x[1]->dtype), w = wide_dtype(d);
  const Array a = cast_array(d, *x[0]), k = cast_array(d, *x[1]);
  require(o.axes == 2 && a.shape.size() == 4 && k.shape.size() == 4 && x[0]->dtype != DType::Bool &&
              x[1]->dtype != DType::Bool,
          "conv");
  require(a.shape[1] == k.shape[0] && a.shape[1] % o.groups == 0, "conv");
  Sizes shape{a.shape[0], k.shape[1] * o.groups};
  for (size_t i = 0; i < 2; ++i) {
    require(o.extra[i] < std::max(o.stride[i], o.dilation[i]), "conv");
    const int64_t n = (a.shape[2 + i] - 1) * o.stride[i] - 2 * o.padding[i] +
                      o.dilation[i] * (k.shape[2 + i] - 1) + o.extra[i] + 1;
    require(n >= 1, "conv");
    shape.push_back(n);
  }
  const int64_t in_group = a.shape[1] / o.groups;
  std::vector<std::vector<Cell>> terms(static_cast<size_t>(count_of(shape)));
  bool special = false;
  for (Cell c : k.at) special |= !std::isfinite(c.v) || !c.decided();
  for_each_index(a.shape, [&](const Sizes& from) {
    for_each_index({k.shape[1], k.shape[2], k.shape[3]}, [&](const Sizes& tap) {
      Sizes to{from[0], from[1] / in_group * k.shape[1] + tap[0]};
      for (size_t i = 0; i < 2; ++i) {
        const int64_t p = from[2 + i] * o.stride[i] + tap[1 + i] * o.dilation[i] - o.padding[i];
        if (p < 0 || p >= shape[2 + i]) return;
        to.push_back(p);
      }
      const Cell weight = k.at[static_cast<size_t>(flat_of(k.shape, {from[1], tap[0], tap[1], tap[2]}))];
      terms[static_cast<size_t>(flat_of(shape, to))].push_back(
          term_of(d, a.at[static_cast<size_t>(flat_of(a.shape, from))], weight));
    });
  });
  Array y{d, shape, {}};
  for (auto& t : terms) y.at.push_back(special ? undecided() : total(d, w, t));
  return with_bias(y, x.size() > 2 ? x[2] : nullptr);
}

bool draw_conv(Maker& m, Step& s, int64_t axes, bool transposed) {
  const auto few = [&](uint64_t n) { return 1 + static_cast<int64_t>(m.below(n)); };
  const int64_t groups = m.chance(70) ? 1 : 2, inputs = few(3), outputs = few(4);
  Sizes shape{few(2), inputs * groups},
      weight{transposed ? inputs * groups : outputs * groups, transposed ? outputs : inputs};
  s.ints = {axes, groups};
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t tap = few(3), dilation = m.chance(70) ? 1 : 2, stride = m.chance(60) ? 1 : few(3);
    shape.push_back(few(9) + (tap - 1) * dilation);
    weight.push_back(tap);
    const int64_t padding = m.chance(50) ? 0 : few(2);
    if (transposed && (shape.back() - 1) * stride + (tap - 1) * dilation + 1 <= 2 * padding) return false;
    s.ints.insert(s.ints.end(),
                  {stride, padding, dilation,
                   transposed && m.chance(30)
                       ? static_cast<int64_t>(m.below(static_cast<uint64_t>(std::max(stride, dilation))))
                       : 0});
  }
  const DType d = m.dtype();
  if (d == DType::Bool) return false;
  const auto have = m.existing([&](const Array& v) {
    return v.shape.size() == shape.size() && v.shape[1] == shape[1] && v.dtype != DType::Bool &&
           count_of(v.shape) < 1000;
  });
  s.in = {have ? *have : m.leaf(shape, d), m.leaf(weight, d)};
  if (m.chance(40)) s.in.push_back(m.leaf({outputs * groups}, d));
  return true;
}

std::string conv_text(const std::string& name, const Step& s, const Texts& x) {
  const Options o = options_of(s);
  return fmt::format("{}.{}({}, {}, ConvOptions{{.stride = {}, .padding = {}, .dilation = {}, .groups = {}, "
                     ".output_padding = {}}})",
                     x[0], name, x[1], x.size() > 2 ? x[2] : "std::nullopt", list_text(o.stride),
                     list_text(o.padding), list_text(o.dilation), o.groups, list_text(o.extra));
}

void add_convs(std::vector<Function>& rows) {
  const auto bias = [](const Tensors& x) {
    return x.size() > 2 ? std::optional<Tensor>(x[2]) : std::nullopt;
  };
  for (int64_t axes : {1, 2, 3}) {
    const std::string name = fmt::format("conv{}d", axes);
    rows.push_back({name, "window", [axes](Maker& m, Step& s) { return draw_conv(m, s, axes, false); },
                    [axes, bias](const Step& s, const Tensors& x) {
                      const ConvOptions o = conv_options(s);
                      return axes == 1   ? x[0].conv1d(x[1], bias(x), o)
                             : axes == 2 ? x[0].conv2d(x[1], bias(x), o)
                                         : x[0].conv3d(x[1], bias(x), o);
                    },
                    conv_reference, [name](const Step& s, const Texts& x) { return conv_text(name, s, x); },
                    axes == 2 ? 2 : 1, true});
  }
  rows.push_back({"conv_transpose2d", "window", [](Maker& m, Step& s) { return draw_conv(m, s, 2, true); },
                  [bias](const Step& s, const Tensors& x) {
                    return x[0].conv_transpose2d(x[1], bias(x), conv_options(s));
                  },
                  transposed_reference,
                  [](const Step& s, const Texts& x) { return conv_text("conv_transpose2d", s, x); }, 1,
                  true});
}

// ---- pooling; ints: kernel h, w, stride h, w (0: the kernel's), padding h, w, dilation h, w, ceil_mode,
// count_include_pad ----
PoolOptions pool_options(const Step& s) {
  PoolOptions o;
  if (s.ints[2]) o.stride = {s.ints[2], s.ints[3]};
  o.padding = {s.ints[4], s.ints[5]};
  o.dilation = {s.ints[6], s.ints[7]};
  o.ceil_mode = s.ints[8];
  o.count_include_pad = s.ints[9];
  return o;
}

Array pool_reference(const Step& s, const Array& a, bool largest) {
  require(s.ints.size() == 10 && (a.shape.size() == 3 || a.shape.size() == 4) && a.dtype != DType::Bool,
          "pool");
  const size_t first = a.shape.size() - 2;
  Sizes shape = a.shape;
  int64_t kernel[2], stride[2], pad[2], dilation[2];
  for (size_t i = 0; i < 2; ++i) {
    kernel[i] = s.ints[i];
    stride[i] = s.ints[2] ? s.ints[2 + i] : kernel[i];
    pad[i] = s.ints[4 + i];
    dilation[i] = s.ints[6 + i];
    require(kernel[i] >= 1 && stride[i] >= 1 && pad[i] >= 0 && 2 * pad[i] <= kernel[i] && dilation[i] >= 1,
            "pool");
    const int64_t room = a.shape[first + i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1;
    require(room >= 0, "pool");
    int64_t n = room / stride[i] + 1;
    if (s.ints[8] && room % stride[i] && n * stride[i] < a.shape[first + i] + pad[i])
      ++n; // starts inside or in the left padding
    shape[first + i] = n;
  }
  const DType out = largest ? a.dtype : real_dtype(a.dtype), w = wide_dtype(out);
  const Array x = cast_array(out, a);
  Array y{out, shape, {}};
  for_each_index(shape, [&](const Sizes& at) {
    std::vector<Cell> cells;
    int64_t counted = 0;
    for_each_index({kernel[0], kernel[1]}, [&](const Sizes& tap) {
      Sizes from = at;
      bool inside = true, padded = true;
      for (size_t i = 0; i < 2; ++i) {
        const int64_t p = at[first + i] * stride[i] + tap[i] * dilation[i] - pad[i];
        from[first + i] = p;
        inside &= p >= 0 && p < a.shape[first + i];
        padded &= p < a.shape[first + i] + pad[i];
      }
      counted += s.ints[9] ? padded : inside;
      if (inside) cells.push_back(x.at[static_cast<size_t>(flat_of(x.shape, from))]);
    });
    if (cells.empty()) { // only with dilation
      y.at.push_back(undecided());
    } else if (largest) {
      Cell best = cells[0];
      for (Cell c : cells) best = max_of(out, best, c);
      y.at.push_back(best);
    } else {
      const Cell c = divide(w, sum_of(w, cells), {static_cast<Real>(counted), 0});
      y.at.push_back(is_half(out) ? rounded(out, c) : c);
    }
  });
  return y;
}

void add_pools(std::vector<Function>& rows) {
  for (const bool largest : {true, false})
    rows.push_back({largest ? "max_pool2d" : "avg_pool2d", "window",
                    [largest](Maker& m, Step& s) {
                      const auto few = [&](uint64_t n) { return 1 + static_cast<int64_t>(m.below(n)); };
                      s.ints = {few(3), few(3), 0, 0, 0, 0, 1, 1, m.chance(30), m.chance(50)};
                      if (m.chance(60)) s.ints[2] = few(3), s.ints[3] = few(3);
                      for (size_t i = 0; i < 2; ++i)
                        if (m.chance(40)) s.ints[4 + i] = s.ints[i] / 2;
                      if (m.chance(20)) s.ints[6] = 2;
                      const DType d = m.dtype();
                      const auto have = m.existing([&](const Array& v) {
                        return (v.shape.size() == 3 || v.shape.size() == 4) && v.dtype != DType::Bool &&
                               v.shape.back() >= 3 && v.shape[v.shape.size() - 2] >= 5;
                      });
                      if (!have && d == DType::Bool) return false;
                      Sizes shape{few(2), few(3), 5 + few(6), 3 + few(9)};
                      if (m.chance(30)) shape.erase(shape.begin());
                      s.in = {have ? *have : m.leaf(shape, d)};
                      return true;
                    },
                    [largest](const Step& s, const Tensors& x) {
                      const std::vector<int64_t> kernel{s.ints[0], s.ints[1]};
                      return largest ? x[0].max_pool2d(kernel, pool_options(s))
                                     : x[0].avg_pool2d(kernel, pool_options(s));
                    },
                    [largest](const Step& s, const Arrays& x) { return pool_reference(s, *x[0], largest); },
                    [largest](const Step& s, const Texts& x) {
                      const PoolOptions o = pool_options(s);
                      return fmt::format("{}.{}({}, PoolOptions{{.stride = {}, .padding = {}, .dilation = "
                                         "{}, .count_include_pad = {}, .ceil_mode = {}}})",
                                         x[0], largest ? "max_pool2d" : "avg_pool2d",
                                         list_text({s.ints[0], s.ints[1]}), list_text(o.stride),
                                         list_text(o.padding), list_text(o.dilation),
                                         bool_text(o.count_include_pad), bool_text(o.ceil_mode));
                    },
                    2, true});
}

} // namespace

void add_windows(std::vector<Function>& rows) {
  add_convs(rows);
  add_pools(rows);
}

} // namespace lathe::net
