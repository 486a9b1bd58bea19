// Movements: each is a map from an index of the result to an element of the source.
#include <algorithm>
#include <numeric>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

using Draw = std::function<bool(Maker&, Step&)>;

/// The shape with every -1 replaced by what is left.
Sizes resolved(const Sizes& shape, int64_t count) {
  Sizes out = shape;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == -1) {
      require(open < 0, "reshape");
      open = static_cast<int64_t>(i);
    } else {
      require(out[i] >= 0, "reshape");
      known *= out[i];
    }
  }
  if (open >= 0) {
    require(known > 0 && count % known == 0, "reshape");
    out[static_cast<size_t>(open)] = count / known;
  }
  require(count_of(out) == count, "reshape");
  return out;
}

/// Another shape of so many elements, by factors put together at random.
Sizes other_shape(Maker& m, int64_t count) {
  std::vector<int64_t> factors;
  for (int64_t p = 2; count > 1 && factors.size() < 12; ++p)
    while (count % p == 0) {
      factors.push_back(p);
      count /= p;
    }
  Sizes shape(1 + m.below(4), 1);
  if (count == 0) {
    for (int64_t& size : shape) size = static_cast<int64_t>(m.below(4));
    shape[m.below(shape.size())] = 0;
  }
  for (int64_t f : factors) shape[m.below(shape.size())] *= f;
  return shape;
}

Array reshaped(const Array& a, const Sizes& shape) {
  Array out = a;
  out.shape = shape;
  require(count_of(shape) == static_cast<int64_t>(a.at.size()), "reshape");
  return out;
}

void add_shapes(std::vector<Function>& rows) {
  rows.push_back(
      {"reshape", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         s.ints = other_shape(m, count_of(m.value(s.in[0]).shape));
         if (m.chance(20)) s.ints[m.below(s.ints.size())] = -1;
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].reshape(shape_of(s.ints)); },
       [](const Step& s, const Arrays& x) {
         return reshaped(*x[0], resolved(s.ints, count_of(x[0]->shape)));
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.reshape({})", x[0], list_text(s.ints)); },
       10, true});
  rows.push_back({"flatten", "movement",
                  [](Maker& m, Step& s) {
                    s.in = {m.some([](const Array& a) { return !a.shape.empty(); })};
                    const auto rank = m.value(s.in[0]).shape.size();
                    int64_t a = static_cast<int64_t>(m.below(rank)), b = static_cast<int64_t>(m.below(rank));
                    if (a > b) std::swap(a, b);
                    s.ints = {a, m.chance(50) ? b : b - static_cast<int64_t>(rank)};
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    return x[0].flatten(static_cast<int>(s.ints[0]), static_cast<int>(s.ints[1]));
                  },
                  [](const Step& s, const Arrays& x) {
                    const Sizes& from = x[0]->shape;
                    if (from.empty()) return reshaped(*x[0], {1});
                    const auto a = static_cast<size_t>(axis_of(s.ints[0], from.size())),
                               b = static_cast<size_t>(axis_of(s.ints[1], from.size()));
                    require(a <= b, "flatten");
                    Sizes to(from.begin(), from.begin() + static_cast<long>(a));
                    int64_t n = 1;
                    for (size_t i = a; i <= b; ++i) n *= from[i];
                    to.push_back(n);
                    to.insert(to.end(), from.begin() + static_cast<long>(b) + 1, from.end());
                    return reshaped(*x[0], to);
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("{}.flatten({}, {})", x[0], s.ints[0], s.ints[1]);
                  },
                  1, true});
  rows.push_back({"squeeze", "movement",
                  [](Maker& m, Step& s) {
                    s.in = {m.some()};
                    const Sizes& shape = m.value(s.in[0]).shape;
                    for (size_t i = 0; i < shape.size(); ++i)
                      if (shape[i] == 1 && m.chance(50) && s.ints.empty()) s.ints = {static_cast<int64_t>(i)};
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    return s.ints.empty() ? x[0].squeeze() : x[0].squeeze(static_cast<int>(s.ints[0]));
                  },
                  [](const Step& s, const Arrays& x) {
                    Sizes to;
                    const Sizes& from = x[0]->shape;
                    const int only = s.ints.empty() ? -1 : axis_of(s.ints[0], from.size());
                    for (size_t i = 0; i < from.size(); ++i) {
                      const bool gone = only < 0 ? from[i] == 1 : static_cast<int>(i) == only;
                      require(!gone || from[i] == 1, "squeeze");
                      if (!gone) to.push_back(from[i]);
                    }
                    return reshaped(*x[0], to);
                  },
                  [](const Step& s, const Texts& x) {
                    return s.ints.empty() ? x[0] + ".squeeze()"
                                          : fmt::format("{}.squeeze({})", x[0], s.ints[0]);
                  },
                  1, true});
  rows.push_back(
      {"unsqueeze", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         const auto rank = static_cast<int64_t>(m.value(s.in[0]).shape.size());
         s.ints = {static_cast<int64_t>(m.below(static_cast<uint64_t>(2 * rank + 2))) - rank - 1};
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].unsqueeze(static_cast<int>(s.ints[0])); },
       [](const Step& s, const Arrays& x) {
         Sizes to = x[0]->shape;
         to.insert(to.begin() + axis_of(s.ints[0], to.size() + 1), 1);
         return reshaped(*x[0], to);
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.unsqueeze({})", x[0], s.ints[0]); }, 2,
       true});
}

void add_orders(std::vector<Function>& rows) {
  const auto permuted = [](const Array& a, const std::vector<int>& order) {
    Sizes shape, own(a.shape.size());
    for (int axis : order) shape.push_back(a.shape[static_cast<size_t>(axis)]);
    return moved(a, shape, [&](const Sizes& index) {
      for (size_t i = 0; i < order.size(); ++i) own[static_cast<size_t>(order[i])] = index[i];
      return flat_of(a.shape, own);
    });
  };
  rows.push_back(
      {"permute", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         s.ints.resize(m.value(s.in[0]).shape.size());
         std::iota(s.ints.begin(), s.ints.end(), 0);
         for (size_t i = s.ints.size(); i > 1; --i) std::swap(s.ints[i - 1], s.ints[m.below(i)]);
         for (int64_t& axis : s.ints)
           if (m.chance(10)) axis -= static_cast<int64_t>(s.ints.size());
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].permute(axes_of(s.ints)); },
       [permuted](const Step& s, const Arrays& x) {
         require(s.ints.size() == x[0]->shape.size(), "permute");
         std::vector<int> order, seen(s.ints.size());
         for (int64_t axis : s.ints) order.push_back(axis_of(axis, s.ints.size()));
         for (int axis : order) require(!seen[static_cast<size_t>(axis)]++, "permute");
         return permuted(*x[0], order);
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.permute({})", x[0], list_text(s.ints)); },
       6, true});
  rows.push_back({"transpose", "movement",
                  [](Maker& m, Step& s) {
                    s.in = {m.some([](const Array& a) { return a.shape.size() >= 2; })};
                    s.ints = {m.axis(m.value(s.in[0])), m.axis(m.value(s.in[0]))};
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    return x[0].transpose(static_cast<int>(s.ints[0]), static_cast<int>(s.ints[1]));
                  },
                  [permuted](const Step& s, const Arrays& x) {
                    std::vector<int> order(x[0]->shape.size());
                    std::iota(order.begin(), order.end(), 0);
                    std::swap(order[static_cast<size_t>(axis_of(s.ints[0], order.size()))],
                              order[static_cast<size_t>(axis_of(s.ints[1], order.size()))]);
                    return permuted(*x[0], order);
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("{}.transpose({}, {})", x[0], s.ints[0], s.ints[1]);
                  },
                  4, true});
  rows.push_back(
      {"flip", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         s.ints = m.axes(m.value(s.in[0]));
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].flip(axes_of(s.ints)); },
       [](const Step& s, const Arrays& x) {
         const Sizes& shape = x[0]->shape;
         std::vector<bool> turned(shape.size(), s.ints.empty());
         for (int64_t axis : s.ints) {
           const auto at = static_cast<size_t>(axis_of(axis, shape.size()));
           require(!turned[at], "flip");
           turned[at] = true;
         }
         return moved(*x[0], shape, [&](Sizes index) {
           for (size_t i = 0; i < index.size(); ++i)
             if (turned[i]) index[i] = shape[i] - 1 - index[i];
           return flat_of(shape, index);
         });
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.flip({})", x[0], list_text(s.ints)); }, 4,
       true});
  rows.push_back(
      {"roll", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some([](const Array& a) { return !a.shape.empty(); })};
         s.ints = {static_cast<int64_t>(m.below(41)) - 20, m.axis(m.value(s.in[0]))};
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].roll(s.ints[0], static_cast<int>(s.ints[1])); },
       [](const Step& s, const Arrays& x) {
         const Sizes& shape = x[0]->shape;
         const auto axis = static_cast<size_t>(axis_of(s.ints[1], shape.size()));
         return moved(*x[0], shape, [&](Sizes index) {
           const int64_t n = shape[axis];
           index[axis] = ((index[axis] - s.ints[0]) % n + n) % n;
           return flat_of(shape, index);
         });
       },
       [](const Step& s, const Texts& x) {
         return fmt::format("{}.roll({}, {})", x[0], s.ints[0], s.ints[1]);
       },
       2, true});
}

void add_extents(std::vector<Function>& rows) {
  rows.push_back(
      {"expand", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         const Sizes& from = m.value(s.in[0]).shape;
         s.ints.clear();
         if (m.chance(40)) s.ints.push_back(1 + static_cast<int64_t>(m.below(4)));
         for (int64_t n : from)
           s.ints.push_back(n == 1 && m.chance(70) ? 1 + static_cast<int64_t>(m.below(6))
                            : m.chance(30)         ? -1
                                                   : n);
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].expand(shape_of(s.ints)); },
       [](const Step& s, const Arrays& x) {
         const Sizes& from = x[0]->shape;
         Sizes to = s.ints;
         require(to.size() >= from.size(), "expand");
         const size_t fresh = to.size() - from.size();
         for (size_t i = 0; i < to.size(); ++i) {
           if (i >= fresh && to[i] == -1) to[i] = from[i - fresh];
           require(to[i] >= 0 && (i < fresh || from[i - fresh] == 1 || from[i - fresh] == to[i]), "expand");
         }
         return broadcast_array(*x[0], to);
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.expand({})", x[0], list_text(s.ints)); }, 4,
       true});
  rows.push_back({"pad", "movement", // ints: before and after of each axis
                  [](Maker& m, Step& s) {
                    s.in = {m.some()};
                    for (size_t i = 0; i < m.value(s.in[0]).shape.size(); ++i)
                      for (int k = 0; k < 2; ++k)
                        s.ints.push_back(m.chance(50) ? 0
                                                      : static_cast<int64_t>(m.below(m.chance(15) ? 17 : 4)));
                    s.reals = {m.chance(60) ? 0 : static_cast<double>(m.below(7)) - 3};
                    const DType d = m.value(s.in[0]).dtype;
                    if (is_unsigned(d)) s.reals[0] = std::fabs(s.reals[0]);
                    if (is_integer(d) && cast_cell(d, DType::F64, {s.reals[0], 0}).v != s.reals[0])
                      s.reals[0] = 0;
                    return true;
                  },
                  [](const Step& s, const Tensors& x) {
                    std::vector<std::pair<int64_t, int64_t>> amounts;
                    for (size_t i = 0; i + 1 < s.ints.size(); i += 2)
                      amounts.push_back({s.ints[i], s.ints[i + 1]});
                    return x[0].pad(amounts, s.reals[0]);
                  },
                  [](const Step& s, const Arrays& x) {
                    const Sizes& from = x[0]->shape;
                    require(s.ints.size() == 2 * from.size(), "pad");
                    Sizes to = from;
                    for (size_t i = 0; i < to.size(); ++i) {
                      require(s.ints[2 * i] >= 0 && s.ints[2 * i + 1] >= 0, "pad");
                      to[i] += s.ints[2 * i] + s.ints[2 * i + 1];
                    }
                    const DType d = x[0]->dtype;
                    const Cell fill = is_float(d) ? Cell{round_to(d, s.reals[0]), 0}
                                                  : cast_cell(d, DType::F64, {s.reals[0], 0});
                    return moved(
                        *x[0], to,
                        [&](Sizes index) -> int64_t {
                          for (size_t i = 0; i < index.size(); ++i) {
                            index[i] -= s.ints[2 * i];
                            if (index[i] < 0 || index[i] >= from[i]) return -1;
                          }
                          return flat_of(from, index);
                        },
                        fill);
                  },
                  [](const Step& s, const Texts& x) {
                    std::string pairs;
                    for (size_t i = 0; i + 1 < s.ints.size(); i += 2)
                      pairs += fmt::format("{}{{{}, {}}}", i ? ", " : "", s.ints[i], s.ints[i + 1]);
                    return fmt::format("{}.pad(std::vector<std::pair<int64_t, int64_t>>{{{}}}, {})", x[0],
                                       pairs, real_text(s.reals[0]));
                  },
                  10, true});
  rows.push_back(
      {"shrink", "movement", // ints: begin and end of each axis
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         for (int64_t n : m.value(s.in[0]).shape) {
           if (n == 0) {
             s.ints.insert(s.ints.end(), 2, 0);
             continue;
           }
           const int64_t begin = m.chance(50) ? 0 : static_cast<int64_t>(m.below(static_cast<uint64_t>(n)));
           s.ints.push_back(begin);
           s.ints.push_back(
               m.chance(50) ? n
                            : begin + 1 + static_cast<int64_t>(m.below(static_cast<uint64_t>(n - begin))));
         }
         return true;
       },
       [](const Step& s, const Tensors& x) {
         std::vector<std::pair<Expr, Expr>> ranges;
         for (size_t i = 0; i + 1 < s.ints.size(); i += 2)
           ranges.push_back({Expr(s.ints[i]), size_of_axis(s.ints[i + 1])});
         return x[0].shrink(ranges);
       },
       [](const Step& s, const Arrays& x) {
         const Sizes& from = x[0]->shape;
         require(s.ints.size() == 2 * from.size(), "shrink");
         Sizes to;
         for (size_t i = 0; i < from.size(); ++i) {
           require(s.ints[2 * i] >= 0 && s.ints[2 * i] <= s.ints[2 * i + 1] && s.ints[2 * i + 1] <= from[i],
                   "shrink");
           to.push_back(s.ints[2 * i + 1] - s.ints[2 * i]);
         }
         return moved(*x[0], to, [&](Sizes index) {
           for (size_t i = 0; i < index.size(); ++i) index[i] += s.ints[2 * i];
           return flat_of(from, index);
         });
       },
       [](const Step& s, const Texts& x) {
         std::string pairs;
         for (size_t i = 0; i + 1 < s.ints.size(); i += 2)
           pairs += fmt::format("{}{{{}, {}}}", i ? ", " : "", s.ints[i], s.ints[i + 1]);
         return fmt::format("{}.shrink(std::vector<std::pair<Expr, Expr>>{{{}}})", x[0], pairs);
       },
       6, true});
  rows.push_back(
      {"repeat", "movement",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         s.ints.resize(std::max<size_t>(1, m.value(s.in[0]).shape.size()) + (m.chance(20) ? 1 : 0));
         for (int64_t& n : s.ints) n = m.chance(50) ? 1 : 1 + static_cast<int64_t>(m.below(3));
         if (m.chance(3)) s.ints[0] = 0;
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].repeat(s.ints); },
       [](const Step& s, const Arrays& x) {
         const Sizes& from = x[0]->shape;
         const size_t rank = std::max(from.size(), s.ints.size());
         Sizes to(rank, 1), own(from.size());
         for (size_t i = 0; i < from.size(); ++i) to[rank - from.size() + i] *= from[i];
         for (size_t i = 0; i < s.ints.size(); ++i) {
           require(s.ints[i] >= 0, "repeat");
           to[rank - s.ints.size() + i] *= s.ints[i];
         }
         return moved(*x[0], to, [&](const Sizes& index) {
           for (size_t i = 0; i < from.size(); ++i) own[i] = index[rank - from.size() + i] % from[i];
           return flat_of(from, own);
         });
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.repeat({})", x[0], list_text(s.ints)); }, 2,
       true});
  rows.push_back(
      {"window", "movement", // ints: axis, size, step, dilation
       [](Maker& m, Step& s) {
         s.in = {m.some([](const Array& a) { return !a.shape.empty() && a.shape.size() < 5; })};
         const int64_t axis = m.axis(m.value(s.in[0]));
         const Sizes& from = m.value(s.in[0]).shape;
         const int64_t n = from[static_cast<size_t>(axis_of(axis, from.size()))];
         const int64_t dilation = m.chance(70) ? 1 : 2, most = (n - 1) / dilation + 1;
         s.ints = {axis, 1 + static_cast<int64_t>(m.below(static_cast<uint64_t>(std::min<int64_t>(most, 5)))),
                   1 + static_cast<int64_t>(m.below(3)), dilation};
         return true;
       },
       [](const Step& s, const Tensors& x) {
         return x[0].window(static_cast<int>(s.ints[0]), s.ints[1], s.ints[2], s.ints[3]);
       },
       [](const Step& s, const Arrays& x) {
         const Sizes& from = x[0]->shape;
         const auto axis = static_cast<size_t>(axis_of(s.ints[0], from.size()));
         require(s.ints[1] >= 1 && s.ints[2] >= 1 && s.ints[3] >= 1, "window");
         const int64_t reach = (s.ints[1] - 1) * s.ints[3] + 1;
         require(reach <= from[axis], "window");
         Sizes to = from;
         to[axis] = (from[axis] - reach) / s.ints[2] + 1;
         to.push_back(s.ints[1]);
         return moved(*x[0], to, [&](Sizes index) {
           index[axis] = index[axis] * s.ints[2] + index.back() * s.ints[3];
           index.pop_back();
           return flat_of(from, index);
         });
       },
       [](const Step& s, const Texts& x) {
         return fmt::format("{}.window({}, {}, {}, {})", x[0], s.ints[0], s.ints[1], s.ints[2], s.ints[3]);
       },
       4, true});
}

} // namespace

void add_movement(std::vector<Function>& rows) {
  add_shapes(rows);
  add_orders(rows);
  add_extents(rows);
}

} // namespace lathe::net
