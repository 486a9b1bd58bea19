// Leaves: named inputs and constants of drawn values, and the functions that make tensors of nothing.
#include <fmt/format.h>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

/// The finaliser of SplitMix64: values depend on the leaf's seed and position alone, so that a leaf keeps its
/// kind of values when the shrinker cuts it.
uint64_t mixed(uint64_t z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

Cell float_value(DType d, int64_t kind, uint64_t r) {
  const Real unit = static_cast<Real>(r >> 11) * 0x1p-53L; // [0, 1)
  const Format f = format_of(d);
  switch (kind) {
  case 0: return {static_cast<Real>(static_cast<int64_t>(r % 9) - 4) + Real{0}, 0};
  case 1: return {round_to(d, (unit * 4 - 2)), 0};
  case 2: return {static_cast<Real>(static_cast<int64_t>(r % 33) - 16) / 4 + Real{0}, 0};
  case 3: return {round_to(d, std::ldexp(unit * 2 - 1, static_cast<int>(r % 25) - 12)), 0};
  case 4:
    return {round_to(d, std::ldexp(unit * 2 - 1,
                                   f.least + static_cast<int>(r % static_cast<uint64_t>(f.most - f.least)))),
            0};
  default: {
    const Real table[] = {0.0L,
                          -0.0L,
                          kInfinity,
                          -kInfinity,
                          std::nanl(""),
                          std::ldexp(Real{1}, f.least - f.digits + 1),
                          std::ldexp(Real{-3}, f.least - f.digits + 1),
                          std::ldexp(Real{1}, f.least),
                          largest(d),
                          -largest(d),
                          1,
                          -1,
                          0.5L,
                          2,
                          1.5L,
                          -2.5L};
    return {r & 1 ? table[(r >> 1) % 16] : round_to(d, unit * 4 - 2), 0};
  }
  }
}

Cell integer_value(DType d, int64_t kind, uint64_t r) {
  if (d == DType::Bool) return truth(r & 1);
  const int64_t small = static_cast<int64_t>(r % 9) - (is_signed(d) ? 4 : 0);
  if (kind <= 2)
    return wrapped(d, kind == 0 ? small : static_cast<int64_t>(r % 61) - (is_signed(d) ? 30 : 0));
  if (kind == 3) return wrapped(d, static_cast<Wide>(r % 10007));
  if (kind == 4) return wrapped(d, static_cast<Wide>(r));
  const Wide half = Wide{1} << (dtype_bits(d) - 1);
  const Wide table[] = {0, 1, -1, half, half - 1, half + 1, 2, -2};
  return r & 1 ? wrapped(d, table[(r >> 1) % 8]) : wrapped(d, small);
}

// ints: shape; more: kind of values, seed, [low, high) of indices
Array data_values(const Step& s, const Arrays&) { return leaf_values(s); }

std::string data_text(const Step& s, const Texts& names) { return names.empty() ? "?" : names[0] + s.text; }

Array counted(DType d, const Sizes& shape, const std::function<Cell(const Sizes&)>& f) {
  Array out{d, shape, {}};
  for_each_index(shape, [&](const Sizes& i) { out.at.push_back(f(i)); });
  return out;
}

Cell number_of(DType d, Real v) {
  if (!is_float(d)) return cast_cell(d, DType::F64, {v, 0});
  return {round_to(d, v), 0};
}

void add_full(std::vector<Function>& rows) {
  rows.push_back(
      {"full", "creation",
       [](Maker& m, Step& s) {
         s.ints = m.shape(0, 3);
         s.dtype = m.dtype();
         s.reals = {static_cast<double>(m.below(9)) - (is_unsigned(s.dtype) ? 0 : 4)};
         if (s.dtype == DType::Bool) s.reals[0] = static_cast<double>(m.below(2));
         return true;
       },
       [](const Step& s, const Tensors&) {
         return Tensor::full(shape_of(s.ints), Scalar::of_float(DType::F64, s.reals[0]).cast(s.dtype));
       },
       [](const Step& s, const Arrays&) {
         return counted(s.dtype, s.ints, [&](const Sizes&) { return number_of(s.dtype, s.reals[0]); });
       },
       [](const Step& s, const Texts&) {
         return fmt::format("Tensor::full({}, Scalar::of_float(DType::F64, {}).cast({}))", shape_text(s.ints),
                            real_text(s.reals[0]), dtype_text(s.dtype));
       }});
  rows.push_back(
      {"iota", "creation",
       [](Maker& m, Step& s) {
         s.ints = m.shape(1, 3);
         s.more = {static_cast<int64_t>(m.below(s.ints.size()))};
         s.dtype = m.dtype();
         return s.dtype != DType::Bool;
       },
       [](const Step& s, const Tensors&) {
         return Tensor::iota(shape_of(s.ints), static_cast<int>(s.more[0]), s.dtype);
       },
       [](const Step& s, const Arrays&) {
         const int axis = axis_of(s.more[0], s.ints.size());
         return counted(s.dtype, s.ints, [&](const Sizes& i) {
           return cast_cell(s.dtype, DType::I64, {static_cast<Real>(i[static_cast<size_t>(axis)]), 0});
         });
       },
       [](const Step& s, const Texts&) {
         return fmt::format("Tensor::iota({}, {}, {})", shape_text(s.ints), s.more[0], dtype_text(s.dtype));
       }});
}

/// Whether a whole number is one of the dtype's, or the dtype rounds it.
bool holds(DType dtype, int64_t value) {
  if (!is_integer(dtype)) return true;
  const int digits = bits_of(dtype) - is_signed(dtype);
  return (value >= 0 || is_signed(dtype)) && (digits >= 63 || (value >> digits) == (value < 0 ? -1 : 0));
}

void add_ranges(std::vector<Function>& rows) {
  rows.push_back(
      {"arange", "creation",
       [](Maker& m, Step& s) {
         const int64_t step = m.chance(50) ? 1 : static_cast<int64_t>(m.below(7)) - 3;
         if (step == 0) return false;
         const int64_t start = static_cast<int64_t>(m.below(11)) - 5;
         s.ints = {start, start + step * m.size() - (m.chance(30) && step > 1 ? 1 : 0), step};
         if (s.ints[0] == s.ints[1]) return false;
         s.dtype = m.dtype();
         if (const int64_t least = std::min(s.ints[0], s.ints[1]); is_unsigned(s.dtype) && least < 0) {
           s.ints[0] -= least;
           s.ints[1] -= least;
         }
         return s.dtype != DType::Bool;
       },
       [](const Step& s, const Tensors&) { return Tensor::arange(s.ints[0], s.ints[1], s.ints[2], s.dtype); },
       [](const Step& s, const Arrays&) {
         const int64_t start = s.ints[0], stop = s.ints[1], step = s.ints[2];
         Array out{s.dtype, {}, {}};
         require(step != 0, "arange");
         for (int64_t v = start; step > 0 ? v < stop : v > stop; v += step) {
           require(holds(s.dtype, v), "arange");
           out.at.push_back(cast_cell(s.dtype, DType::I64, {static_cast<Real>(v), 0}));
         }
         out.shape = {static_cast<int64_t>(out.at.size())};
         return out;
       },
       [](const Step& s, const Texts&) {
         return fmt::format("Tensor::arange({}, {}, {}, {})", s.ints[0], s.ints[1], s.ints[2],
                            dtype_text(s.dtype));
       }});
  rows.push_back(
      {"tri", "creation",
       [](Maker& m, Step& s) {
         s.ints = {m.size(), m.size(), static_cast<int64_t>(m.below(7)) - 3};
         s.dtype = m.dtype();
         return true;
       },
       [](const Step& s, const Tensors&) { return Tensor::tri(s.ints[0], s.ints[1], s.ints[2], s.dtype); },
       [](const Step& s, const Arrays&) {
         return counted(s.dtype, {s.ints[0], s.ints[1]},
                        [&](const Sizes& i) { return truth(i[1] <= i[0] + s.ints[2]); });
       },
       [](const Step& s, const Texts&) {
         return fmt::format("Tensor::tri({}, {}, {}, {})", s.ints[0], s.ints[1], s.ints[2],
                            dtype_text(s.dtype));
       }});
  rows.push_back({"eye", "creation",
                  [](Maker& m, Step& s) {
                    s.ints = {m.size(), m.size()};
                    s.dtype = m.dtype();
                    return true;
                  },
                  [](const Step& s, const Tensors&) { return Tensor::eye(s.ints[0], s.ints[1], s.dtype); },
                  [](const Step& s, const Arrays&) {
                    return counted(s.dtype, s.ints, [&](const Sizes& i) { return truth(i[0] == i[1]); });
                  },
                  [](const Step& s, const Texts&) {
                    return fmt::format("Tensor::eye({}, {}, {})", s.ints[0], s.ints[1], dtype_text(s.dtype));
                  }});
  rows.push_back({"linspace", "creation",
                  [](Maker& m, Step& s) {
                    s.ints = {m.size()};
                    s.reals = {static_cast<double>(m.below(9)) - 4, static_cast<double>(m.below(100)) / 4};
                    s.dtype = m.dtype();
                    return is_float(s.dtype);
                  },
                  [](const Step& s, const Tensors&) {
                    return Tensor::linspace(s.reals[0], s.reals[1], s.ints[0], s.dtype);
                  },
                  [](const Step& s, const Arrays&) {
                    const int64_t n = s.ints[0];
                    require(n >= 0, "linspace");
                    const Real a = s.reals[0], b = s.reals[1];
                    return counted(s.dtype, {n}, [&](const Sizes& i) {
                      if (i[0] == 0) return number_of(s.dtype, a);
                      if (i[0] == n - 1) return number_of(s.dtype, b);
                      const Real part = (b - a) * static_cast<Real>(i[0]) / static_cast<Real>(n - 1);
                      return rounded(s.dtype,
                                     {a + part, 0x1p-51L * (std::fabs(part) + std::fabs(a) + std::fabs(b))});
                    });
                  },
                  [](const Step& s, const Texts&) {
                    return fmt::format("Tensor::linspace({}, {}, {}, {})", s.reals[0], s.reals[1], s.ints[0],
                                       dtype_text(s.dtype));
                  }});
}

/// Random numbers are known by their range alone: the middle, give or take half of it.
void add_random(std::vector<Function>& rows) {
  for (const bool normal : {false, true})
    rows.push_back({normal ? "randn" : "rand", "random",
                    [](Maker& m, Step& s) {
                      s.ints = m.shape(0, 3);
                      s.more = {static_cast<int64_t>(m.below(1000))};
                      s.dtype = m.dtype();
                      return is_float(s.dtype);
                    },
                    [normal](const Step& s, const Tensors&) {
                      const auto seed = static_cast<uint64_t>(s.more[0]);
                      return normal ? Tensor::randn(shape_of(s.ints), seed, s.dtype)
                                    : Tensor::rand(shape_of(s.ints), seed, s.dtype);
                    },
                    [normal](const Step& s, const Arrays&) {
                      return counted(s.dtype, s.ints,
                                     [&](const Sizes&) { return normal ? Cell{0, 9} : Cell{0.5L, 0.5L}; });
                    },
                    [normal](const Step& s, const Texts&) {
                      return fmt::format("Tensor::{}({}, {}, {})", normal ? "randn" : "rand",
                                         shape_text(s.ints), s.more[0], dtype_text(s.dtype));
                    },
                    1});
}

} // namespace

bool is_input(const Step& s) { return s.function->name == "input"; }
bool is_leaf(const Step& s) { return is_input(s) || s.function->name == "data"; }

Array leaf_values(const Step& s) {
  Array out{s.dtype, s.ints, {}};
  const int64_t n = count_of(s.ints);
  require(n >= 0, "size");
  if (!s.values.empty()) {
    for (int64_t k = 0; k < n; ++k) out.at.push_back(s.values[static_cast<size_t>(k) % s.values.size()]);
    return out;
  }
  const int64_t kind = s.more[0];
  for (int64_t k = 0; k < n; ++k) {
    const uint64_t r = mixed(static_cast<uint64_t>(s.more[1]) * 0x100000001B3ull + static_cast<uint64_t>(k));
    if (s.more.size() > 2) // indices
      out.at.push_back(wrapped(
          s.dtype, s.more[2] + static_cast<int64_t>(r % static_cast<uint64_t>(s.more[3] - s.more[2]))));
    else
      out.at.push_back(is_float(s.dtype) ? float_value(s.dtype, kind, r) : integer_value(s.dtype, kind, r));
  }
  return out;
}

void add_creation(std::vector<Function>& rows) {
  const auto none = [](Maker&, Step&) { return false; };
  // The runner feeds inputs by name, and the printer writes the values: see run.cpp and print.cpp.
  rows.push_back({"input", "creation", none,
                  [](const Step&, const Tensors&) -> Tensor { throw Invalid("input"); }, data_values,
                  data_text});
  rows.push_back({"data", "creation", none,
                  [](const Step& s, const Tensors&) { return data_tensor(leaf_values(s)); }, data_values,
                  data_text});
  add_full(rows);
  add_ranges(rows);
  add_random(rows);
}

} // namespace lathe::net
