// Slices, indices that are tensors, and joining.
#include <algorithm>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

// ---- index(): ints hold five numbers an item: kind (0 position, 1 slice, 2 new axis, 3 ellipsis), then
// position, or start, stop, step; more: of each item, 1 where start is given, 2 where stop is. ----
int64_t at(const std::vector<int64_t>& list, size_t k) {
  require(k < list.size(), "index");
  return list[k];
}

std::vector<IndexItem> items_of(const Step& s) {
  std::vector<IndexItem> items;
  for (size_t i = 0; i + 3 < s.ints.size(); i += 4) {
    const int64_t given = at(s.more, i / 4);
    switch (s.ints[i]) {
    case 0: items.push_back(s.ints[i + 1]); break;
    case 1: {
      Slice slice;
      if (given & 1) slice.start = s.ints[i + 1];
      if (given & 2) slice.stop = s.ints[i + 2];
      slice.step = s.ints[i + 3];
      items.push_back(slice);
      break;
    }
    case 2: items.push_back(NewAxis{}); break;
    default: items.push_back(Ellipsis{});
    }
  }
  return items;
}

std::string items_text(const Step& s) {
  std::string out;
  for (size_t i = 0; i + 3 < s.ints.size(); i += 4) {
    const int64_t given = at(s.more, i / 4);
    if (i) out += ", ";
    switch (s.ints[i]) {
    case 0: out += fmt::format("int64_t{{{}}}", s.ints[i + 1]); break;
    case 1:
      out += fmt::format("Slice{{{}, {}, {}}}", given & 1 ? fmt::format("{}", s.ints[i + 1]) : "{}",
                         given & 2 ? fmt::format("{}", s.ints[i + 2]) : "{}", s.ints[i + 3]);
      break;
    case 2: out += "NewAxis{}"; break;
    default: out += "Ellipsis{}";
    }
  }
  return out;
}

/// Python's slice.indices().
std::vector<int64_t> places(int64_t n, std::optional<int64_t> start, std::optional<int64_t> stop,
                            int64_t step) {
  require(step != 0, "step");
  const auto bound = [&](std::optional<int64_t> v, int64_t open) {
    if (!v) return open;
    const int64_t w = *v < 0 ? *v + n : *v;
    return step > 0 ? std::clamp<int64_t>(w, 0, n) : std::clamp<int64_t>(w, -1, n - 1);
  };
  const int64_t first = bound(start, step > 0 ? 0 : n - 1), last = bound(stop, step > 0 ? n : -1);
  std::vector<int64_t> out;
  for (int64_t i = first; step > 0 ? i < last : i > last; i += step) out.push_back(i);
  return out;
}

Array index_reference(const Step& s, const Array& a) {
  std::vector<std::vector<int64_t>> chosen; // places along each axis of the source
  std::vector<int> layout;                  // axes of the result: one of the source, or -1
  size_t axis = 0;
  const size_t items = s.ints.size() / 4;
  size_t used = 0;
  for (size_t i = 0; i < items; ++i) used += s.ints[4 * i] <= 1;
  require(used <= a.shape.size(), "index");
  const auto keep = [&](size_t count) {
    for (; count > 0; --count, ++axis) {
      layout.push_back(static_cast<int>(axis));
      chosen.push_back(places(a.shape[axis], {}, {}, 1));
    }
  };
  for (size_t i = 0; i < items; ++i) {
    const int64_t* item = &s.ints[4 * i];
    const int64_t given = at(s.more, i);
    if (item[0] == 2)
      layout.push_back(-1);
    else if (item[0] == 3)
      keep(a.shape.size() - used), used = a.shape.size();
    else if (item[0] == 0) {
      const int64_t n = a.shape[axis++];
      require(item[1] >= -n && item[1] < n, "position");
      chosen.push_back({item[1] < 0 ? item[1] + n : item[1]});
    } else {
      layout.push_back(static_cast<int>(axis));
      const auto opt = [&](int bit, int64_t v) {
        return given & bit ? std::optional<int64_t>(v) : std::nullopt;
      };
      chosen.push_back(places(a.shape[axis++], opt(1, item[1]), opt(2, item[2]), item[3]));
    }
  }
  keep(a.shape.size() - axis);
  Sizes shape;
  for (int l : layout)
    shape.push_back(l < 0 ? 1 : static_cast<int64_t>(chosen[static_cast<size_t>(l)].size()));
  Sizes own(a.shape.size());
  return moved(a, shape, [&](const Sizes& index) {
    for (size_t i = 0; i < own.size(); ++i) own[i] = chosen[i][0];
    for (size_t k = 0; k < layout.size(); ++k)
      if (layout[k] >= 0)
        own[static_cast<size_t>(layout[k])] =
            chosen[static_cast<size_t>(layout[k])][static_cast<size_t>(index[k])];
    return flat_of(a.shape, own);
  });
}

bool draw_index(Maker& m, Step& s) {
  s.in = {m.some([](const Array& a) { return !a.shape.empty(); })};
  const Sizes& shape = m.value(s.in[0]).shape;
  size_t axis = 0;
  bool dots = false;
  const size_t stop = 1 + m.below(shape.size());
  while (axis < stop) {
    const uint64_t kind = m.below(10);
    if (kind == 0) {
      s.ints.insert(s.ints.end(), {2, 0, 0, 1});
      s.more.push_back(0);
      continue;
    }
    if (kind == 1 && !dots && axis + 1 < stop) {
      s.ints.insert(s.ints.end(), {3, 0, 0, 1});
      s.more.push_back(0);
      dots = true;
      ++axis; // so that fewer items follow than there are axes
      continue;
    }
    const auto n = static_cast<uint64_t>(shape[axis++]);
    if (kind < 4) {
      s.ints.insert(s.ints.end(), {0, static_cast<int64_t>(m.below(2 * n)) - static_cast<int64_t>(n), 0, 1});
      s.more.push_back(0);
    } else {
      int64_t step = m.chance(50) ? 1 : static_cast<int64_t>(m.below(7)) - 3;
      if (step == 0) step = -1;
      s.ints.insert(s.ints.end(), {1, static_cast<int64_t>(m.below(2 * n + 1)) - static_cast<int64_t>(n),
                                   static_cast<int64_t>(m.below(2 * n + 2)) - static_cast<int64_t>(n), step});
      s.more.push_back(static_cast<int64_t>(m.below(4)));
    }
  }
  return true;
}

// ---- gather, take, scatter ----
/// The place an index means, or -1 outside.
int64_t place(const Array& index, size_t k, int64_t n) {
  const int64_t v = static_cast<int64_t>(index.at[k].v);
  const int64_t w = v < 0 ? v + n : v;
  return w >= 0 && w < n && index.at[k].v < 0x1p62L ? w : -1;
}
void check_index(const Array& index) {
  require(is_integer(index.dtype), "index");
  for (Cell c : index.at) require(c.decided(), "an undecided index");
}

Array gather_reference(const Step& s, const Array& a, const Array& index) {
  check_index(index);
  const auto axis = static_cast<size_t>(axis_of(s.ints[0], a.shape.size()));
  require(index.shape.size() == a.shape.size(), "gather");
  for (size_t i = 0; i < a.shape.size(); ++i) require(i == axis || index.shape[i] <= a.shape[i], "gather");
  size_t k = 0;
  return moved(a, index.shape, [&](Sizes at) -> int64_t {
    const int64_t p = place(index, k++, a.shape[axis]);
    if (p < 0) return -1;
    at[axis] = p;
    return flat_of(a.shape, at);
  });
}

Array take_reference(const Step& s, const Array& a, const Array& index) {
  check_index(index);
  const auto axis = static_cast<size_t>(axis_of(s.ints[0], a.shape.size()));
  const size_t wide = index.shape.size();
  Sizes shape(a.shape.begin(), a.shape.begin() + static_cast<long>(axis));
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), a.shape.begin() + static_cast<long>(axis) + 1, a.shape.end());
  return moved(a, shape, [&](const Sizes& at) -> int64_t {
    const Sizes inner(at.begin() + static_cast<long>(axis), at.begin() + static_cast<long>(axis + wide));
    const int64_t p = place(index, static_cast<size_t>(flat_of(index.shape, inner)), a.shape[axis]);
    if (p < 0) return -1;
    Sizes own(at.begin(), at.begin() + static_cast<long>(axis));
    own.push_back(p);
    own.insert(own.end(), at.begin() + static_cast<long>(axis + wide), at.end());
    return flat_of(a.shape, own);
  });
}

Array scatter_reference(const Step& s, const Arrays& x, bool adds) {
  const Array &base = *x[0], &index = *x[1], &source = *x[2];
  check_index(index);
  const auto axis = static_cast<size_t>(axis_of(s.ints[0], base.shape.size()));
  require(index.shape == source.shape && source.dtype == base.dtype &&
              index.shape.size() == base.shape.size(),
          "scatter");
  require(!adds || base.dtype != DType::Bool, "scatter");
  for (size_t i = 0; i < base.shape.size(); ++i)
    require(i == axis || index.shape[i] <= base.shape[i], "scatter");
  std::vector<std::vector<Cell>> terms;
  for (Cell c : base.at) terms.push_back({c});
  size_t k = 0;
  for_each_index(index.shape, [&](Sizes at) {
    const int64_t p = place(index, k, base.shape[axis]);
    const Cell c = source.at[k++];
    if (p < 0) return;
    at[axis] = p;
    auto& into = terms[static_cast<size_t>(flat_of(base.shape, at))];
    if (adds)
      into.push_back(c);
    else
      into = {c};
  });
  Array out{base.dtype, base.shape, {}};
  const DType w = wide_dtype(base.dtype);
  for (const auto& t : terms) {
    if (t.size() == 1)
      out.at.push_back(t[0]);
    else
      out.at.push_back(is_half(base.dtype) ? rounded(base.dtype, sum_of(w, t)) : sum_of(w, t));
  }
  return out;
}

Sizes index_shape(Maker& m, const Sizes& shape, size_t axis) {
  Sizes out = shape;
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = i == axis      ? 1 + static_cast<int64_t>(m.below(7))
             : m.chance(70) ? out[i]
                            : 1 + static_cast<int64_t>(m.below(static_cast<uint64_t>(out[i])));
  return out;
}

void add_gathers(std::vector<Function>& rows) {
  rows.push_back(
      {"gather", "index",
       [](Maker& m, Step& s) {
         const int a = m.some([](const Array& v) { return !v.shape.empty(); });
         s.ints = {m.axis(m.value(a))};
         const Sizes shape = m.value(a).shape;
         const auto axis = static_cast<size_t>(axis_of(s.ints[0], shape.size()));
         s.in = {a, m.indices(index_shape(m, shape, axis), shape[axis])};
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].gather(static_cast<int>(s.ints[0]), x[1]); },
       [](const Step& s, const Arrays& x) { return gather_reference(s, *x[0], *x[1]); },
       [](const Step& s, const Texts& x) { return fmt::format("{}.gather({}, {})", x[0], s.ints[0], x[1]); },
       3, true});
  rows.push_back(
      {"take", "index",
       [](Maker& m, Step& s) {
         const int a = m.some([](const Array& v) { return !v.shape.empty(); });
         s.ints = {m.axis(m.value(a))};
         const Sizes shape = m.value(a).shape;
         const auto axis = static_cast<size_t>(axis_of(s.ints[0], shape.size()));
         Sizes at(m.below(3));
         for (int64_t& n : at) n = 1 + static_cast<int64_t>(m.below(5));
         s.in = {a, m.indices(at, shape[axis])};
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].take(x[1], static_cast<int>(s.ints[0])); },
       [](const Step& s, const Arrays& x) { return take_reference(s, *x[0], *x[1]); },
       [](const Step& s, const Texts& x) { return fmt::format("{}.take({}, {})", x[0], x[1], s.ints[0]); }, 3,
       true});
  for (const bool adds : {false, true})
    rows.push_back({adds ? "scatter_add" : "scatter", "index",
                    [](Maker& m, Step& s) {
                      const int a =
                          m.some([](const Array& v) { return !v.shape.empty() && v.dtype != DType::Bool; });
                      s.ints = {m.axis(m.value(a))};
                      const Array base = m.value(a);
                      const auto axis = static_cast<size_t>(axis_of(s.ints[0], base.shape.size()));
                      const Sizes at = index_shape(m, base.shape, axis);
                      s.in = {a, m.indices(at, base.shape[axis]), m.leaf(at, base.dtype)};
                      return true;
                    },
                    [adds](const Step& s, const Tensors& x) {
                      const int axis = static_cast<int>(s.ints[0]);
                      return adds ? x[0].scatter_add(axis, x[1], x[2]) : x[0].scatter(axis, x[1], x[2]);
                    },
                    [adds](const Step& s, const Arrays& x) { return scatter_reference(s, x, adds); },
                    [adds](const Step& s, const Texts& x) {
                      return fmt::format("{}.{}({}, {}, {})", x[0], adds ? "scatter_add" : "scatter",
                                         s.ints[0], x[1], x[2]);
                    },
                    2, true});
}

// ---- joining and splitting ----
Array concat_reference(const Arrays& x, int64_t which) {
  const Sizes& first = x[0]->shape;
  const auto axis = static_cast<size_t>(axis_of(which, first.size()));
  DType d = x[0]->dtype;
  Sizes shape = first;
  shape[axis] = 0;
  for (const Array* a : x) {
    require(a->shape.size() == first.size(), "concat");
    for (size_t i = 0; i < first.size(); ++i) require(i == axis || a->shape[i] == first[i], "concat");
    d = promoted(d, a->dtype);
    shape[axis] += a->shape[axis];
  }
  std::vector<Array> parts;
  for (const Array* a : x) parts.push_back(cast_array(d, *a));
  Array out{d, shape, {}};
  for_each_index(shape, [&](Sizes index) {
    size_t k = 0;
    while (index[axis] >= parts[k].shape[axis]) index[axis] -= parts[k++].shape[axis];
    out.at.push_back(parts[k].at[static_cast<size_t>(flat_of(parts[k].shape, index))]);
  });
  return out;
}

/// Values of the same shape, or new leaves, of dtypes that promote.
bool draw_join(Maker& m, Step& s, bool needs_axes) {
  const int a = m.some([&](const Array& v) { return !needs_axes || !v.shape.empty(); });
  const Array first = m.value(a);
  s.in = {a};
  const uint64_t count = 1 + m.below(3);
  for (uint64_t k = 0; k < count; ++k) {
    const auto other = m.existing([&](const Array& v) { return v.shape == first.shape; });
    s.in.push_back(other && m.chance(60) ? *other
                                         : m.leaf(first.shape, m.chance(80) ? first.dtype : m.dtype()));
  }
  const auto rank = static_cast<int64_t>(first.shape.size()) + (needs_axes ? 0 : 1);
  s.ints = {static_cast<int64_t>(m.below(static_cast<uint64_t>(2 * rank))) - rank};
  return true;
}

void add_joins(std::vector<Function>& rows) {
  rows.push_back({"concat", "movement", [](Maker& m, Step& s) { return draw_join(m, s, true); },
                  [](const Step& s, const Tensors& x) { return concat(x, static_cast<int>(s.ints[0])); },
                  [](const Step& s, const Arrays& x) { return concat_reference(x, s.ints[0]); },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("concat({{{}}}, {})", fmt::join(x, ", "), s.ints[0]);
                  },
                  4, true});
  rows.push_back({"stack", "movement", [](Maker& m, Step& s) { return draw_join(m, s, false); },
                  [](const Step& s, const Tensors& x) { return stack(x, static_cast<int>(s.ints[0])); },
                  [](const Step& s, const Arrays& x) {
                    std::vector<Array> parts;
                    Arrays views;
                    const int axis = axis_of(s.ints[0], x[0]->shape.size() + 1);
                    for (const Array* a : x) {
                      require(a->shape == x[0]->shape, "stack");
                      parts.push_back(*a);
                      parts.back().shape.insert(parts.back().shape.begin() + axis, 1);
                    }
                    for (const Array& p : parts) views.push_back(&p);
                    return concat_reference(views, axis);
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("stack({{{}}}, {})", fmt::join(x, ", "), s.ints[0]);
                  },
                  3, true});
  rows.push_back(
      {"split", "movement", // ints: axis, size of the parts, which part
       [](Maker& m, Step& s) {
         s.in = {m.some([](const Array& a) { return !a.shape.empty(); })};
         const int64_t axis = m.axis(m.value(s.in[0]));
         const Sizes& shape = m.value(s.in[0]).shape;
         const int64_t n = shape[static_cast<size_t>(axis_of(axis, shape.size()))];
         const int64_t size = 1 + static_cast<int64_t>(m.below(static_cast<uint64_t>(n)));
         s.ints = {axis, size, static_cast<int64_t>(m.below(static_cast<uint64_t>((n + size - 1) / size)))};
         return true;
       },
       [](const Step& s, const Tensors& x) {
         return x[0].split(s.ints[1], static_cast<int>(s.ints[0])).at(static_cast<size_t>(s.ints[2]));
       },
       [](const Step& s, const Arrays& x) {
         const Sizes& from = x[0]->shape;
         const auto axis = static_cast<size_t>(axis_of(s.ints[0], from.size()));
         require(s.ints[1] >= 1 && s.ints[2] >= 0 && s.ints[1] * s.ints[2] < from[axis], "split");
         Sizes to = from;
         to[axis] = std::min(s.ints[1], from[axis] - s.ints[1] * s.ints[2]);
         return moved(*x[0], to, [&](Sizes index) {
           index[axis] += s.ints[1] * s.ints[2];
           return flat_of(from, index);
         });
       },
       [](const Step& s, const Texts& x) {
         return fmt::format("{}.split({}, {})[{}]", x[0], s.ints[1], s.ints[0], s.ints[2]);
       },
       2, true});
}

} // namespace

void add_indexing(std::vector<Function>& rows) {
  rows.push_back(
      {"index", "movement", draw_index,
       [](const Step& s, const Tensors& x) { return x[0].index(items_of(s)); },
       [](const Step& s, const Arrays& x) { return index_reference(s, *x[0]); },
       [](const Step& s, const Texts& x) { return fmt::format("{}.index({{{}}})", x[0], items_text(s)); }, 8,
       true});
  add_gathers(rows);
  add_joins(rows);
}

} // namespace lathe::net
