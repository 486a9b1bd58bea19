// Random small programs of views, elementwise functions and reductions, each both a Tensor and a PlainArray.
// They print as the C++ that makes them, and can be cut short to find the step that goes wrong.
#pragma once
#include <optional>
#include <random>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lathe/lathe.hpp"
#include "support/plain_array.hpp"

namespace lathe::test {

inline std::string dtype_text(DType d) { // as in C++
  std::string name = to_string(d);
  for (char& c : name) c = static_cast<char>(std::toupper(c));
  return d == DType::Bool ? "DType::Bool" : "DType::" + name;
}

struct ViewStep {
  std::string text; // of C++, on x
  std::function<Tensor(const Tensor&)> tensor;
  std::function<PlainArray(const PlainArray&)> plain;
};

struct ViewProgram {
  PlainArray input;
  std::vector<ViewStep> steps;
  PlainArray expected;

  /// As `input_tensor`'s, after so many steps.
  Tensor tensor(Tensor x, size_t steps_taken) const {
    for (size_t i = 0; i < steps_taken; ++i) x = steps[i].tensor(x);
    return x;
  }
  /// The same program with fewer steps.
  ViewProgram cut(size_t steps_taken) const {
    ViewProgram out{input, {steps.begin(), steps.begin() + static_cast<long>(steps_taken)}, input};
    for (const ViewStep& s : out.steps) out.expected = s.plain(out.expected);
    return out;
  }
  std::string text() const {
    std::string out = fmt::format("Tensor x = Tensor::input(\"x\", {{{}}}, {});\n",
                                  fmt::join(input.shape, ", "), dtype_text(input.dtype));
    for (const ViewStep& s : steps) out += "x = " + s.text + ";\n";
    return out;
  }
};

inline Shape shape_of(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

inline std::string axes_text(const std::vector<int>& axes) {
  return fmt::format("Axes{{{}}}", fmt::join(axes, ", "));
}

class ViewProgramMaker {
public:
  explicit ViewProgramMaker(uint64_t seed) : random_(seed) {}

  ViewProgram make(DType dtype) {
    while (true) {
      ViewProgram program{input(dtype), {}, {}};
      program.expected = program.input;
      const int wanted = 2 + below(6);
      for (int tries = 0; tries < 40 && static_cast<int>(program.steps.size()) < wanted; ++tries) {
        std::optional<ViewStep> step = draw(program.expected);
        if (!step) continue;
        PlainArray next = step->plain(program.expected);
        if (next.count() > kMostElements || next.rank() > 5 || !next.is_exact()) continue;
        program.expected = std::move(next);
        program.steps.push_back(std::move(*step));
      }
      if (program.steps.size() >= 2) return program;
    }
  }

private:
  static constexpr int64_t kMostElements = 1500;

  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  int axis_of(const PlainArray& x) { return below(x.rank()); }
  static int64_t size(const PlainArray& x, int axis) { return x.shape[static_cast<size_t>(axis)]; }

  PlainArray input(DType dtype) {
    // One less and more than the lanes of vectors, primes, ones.
    static constexpr int64_t sizes[] = {1,  2,  2,  3,  3,  4,  5,  6,  7,  8,  9,
                                        11, 12, 13, 15, 16, 17, 31, 32, 33, 63, 65};
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (int rank = 1 + below(4); rank > 0; --rank) {
      const int64_t s = sizes[static_cast<size_t>(below(std::size(sizes)))];
      shape.push_back(count * s <= 400 ? s : 2);
      count *= shape.back();
    }
    return made(dtype, shape, [&](const Place&) -> int64_t {
      if (dtype == DType::Bool) return below(2);
      return is_unsigned(dtype) ? below(9) : below(9) - 4;
    });
  }

  std::optional<ViewStep> draw(const PlainArray& x) {
    if (x.rank() == 0) return below(2) ? expand(x) : elementwise(x);
    switch (below(24)) {
    case 0:
    case 1:
    case 2: return pad(x);
    case 3:
    case 4:
    case 5: return reshape(x);
    case 6: return permute(x);
    case 7: return flip(x);
    case 8:
    case 9: return stride(x);
    case 10: return window(x);
    case 11: return expand(x);
    case 12: return roll(x);
    case 13:
    case 14:
    case 15:
    case 16: return elementwise(x);
    case 17: return with_itself(x);
    case 18: return cast(x);
    case 19:
    case 20:
    case 21: return reduce(x);
    case 22: return less_reduced(x);
    default: return scan(x);
    }
  }

  std::optional<ViewStep> pad(const PlainArray& x) {
    std::vector<std::pair<int64_t, int64_t>> by(x.shape.size(), {0, 0});
    for (int n = 1 + below(2); n > 0; --n)
      by[static_cast<size_t>(axis_of(x))] = {below(3) * below(3), below(3) * below(3)};
    const int64_t value = x.dtype != DType::Bool && one_in(5) ? 3 : 0;
    std::string text;
    for (const auto& [before, after] : by)
      text += fmt::format("{}{{{}, {}}}", text.empty() ? "" : ", ", before, after);
    return ViewStep{fmt::format("x.pad({{{}}}, {})", text, value),
                    [=](const Tensor& t) { return t.pad(by, static_cast<double>(value)); },
                    [=](const PlainArray& a) { return padded(a, by, value); }};
  }

  std::optional<ViewStep> reshape(const PlainArray& x) {
    std::vector<int64_t> shape;
    int64_t rest = x.count();
    for (int n = below(3); n > 0; --n) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= rest; ++d)
        if (rest % d == 0) divisors.push_back(d);
      shape.push_back(divisors[static_cast<size_t>(below(static_cast<int>(divisors.size())))]);
      rest /= shape.back();
    }
    shape.push_back(rest);
    return ViewStep{fmt::format("x.reshape({{{}}})", fmt::join(shape, ", ")),
                    [=](const Tensor& t) { return t.reshape(shape_of(shape)); },
                    [=](const PlainArray& a) { return reshaped(a, shape); }};
  }

  std::optional<ViewStep> permute(const PlainArray& x) {
    std::vector<int> axes;
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
    std::shuffle(axes.begin(), axes.end(), random_);
    return ViewStep{fmt::format("x.permute({})", axes_text(axes)),
                    [=](const Tensor& t) { return t.permute(axes); },
                    [=](const PlainArray& a) { return permuted(a, axes); }};
  }

  std::optional<ViewStep> flip(const PlainArray& x) {
    const int axis = axis_of(x);
    return ViewStep{fmt::format("x.flip({})", axes_text({axis})),
                    [=](const Tensor& t) { return t.flip(Axes{axis}); },
                    [=](const PlainArray& a) { return flipped(a, axis); }};
  }

  std::optional<ViewStep> stride(const PlainArray& x) {
    const int axis = axis_of(x);
    const int64_t n = size(x, axis), begin = below(static_cast<int>(std::min<int64_t>(n, 3)));
    const int64_t end = n - below(static_cast<int>(std::min<int64_t>(n - begin, 3))), step = 1 + below(4);
    std::vector<IndexItem> items(static_cast<size_t>(axis), IndexItem(Slice{}));
    items.push_back(Slice{begin, end, step});
    return ViewStep{fmt::format(
                        "x.index({{{}Slice{{{}, {}, {}}}}})",
                        [&] {
                          std::string all;
                          for (int d = 0; d < axis; ++d) all += "Slice{}, ";
                          return all;
                        }(),
                        begin, end, step),
                    [=](const Tensor& t) { return t.index(items); },
                    [=](const PlainArray& a) { return strided(a, axis, begin, end, step); }};
  }

  std::optional<ViewStep> window(const PlainArray& x) {
    const int axis = axis_of(x);
    const int64_t n = size(x, axis), dilation = 1 + below(2), step = 1 + below(3);
    const int64_t most = (n - 1) / dilation + 1,
                  window = 1 + below(static_cast<int>(std::min<int64_t>(most, 6)));
    return ViewStep{fmt::format("x.window({}, {}, {}, {})", axis, window, step, dilation),
                    [=](const Tensor& t) { return t.window(axis, window, step, dilation); },
                    [=](const PlainArray& a) { return windows(a, axis, window, step, dilation); }};
  }

  std::optional<ViewStep> expand(const PlainArray& x) {
    const int axis = below(x.rank() + 1);
    const int64_t count = 2 + below(4);
    std::vector<int64_t> shape = x.shape;
    shape.insert(shape.begin() + axis, count);
    return ViewStep{fmt::format("x.unsqueeze({}).expand({{{}}})", axis, fmt::join(shape, ", ")),
                    [=](const Tensor& t) { return t.unsqueeze(axis).expand(shape_of(shape)); },
                    [=](const PlainArray& a) { return expanded(a, axis, count); }};
  }

  std::optional<ViewStep> roll(const PlainArray& x) {
    const int axis = axis_of(x);
    const int64_t by = below(static_cast<int>(size(x, axis)));
    return ViewStep{fmt::format("x.roll({}, {})", by, axis),
                    [=](const Tensor& t) { return t.roll(by, axis); },
                    [=](const PlainArray& a) { return rolled(a, axis, by); }};
  }

  std::optional<ViewStep> elementwise(const PlainArray& x) {
    const DType d = x.dtype;
    const auto step = [&](const char* text, std::function<Tensor(const Tensor&)> tensor,
                          std::function<int64_t(int64_t)> f) {
      return ViewStep{text, std::move(tensor), [f](const PlainArray& a) { return each(a, f); }};
    };
    if (d == DType::Bool)
      return step(
          "x.logical_not()", [](const Tensor& t) { return t.logical_not(); }, [](int64_t v) { return !v; });
    switch (below(is_float(d) ? 7 : 9)) {
    case 0:
      return step("x * 3", [](const Tensor& t) { return t * 3; }, [](int64_t v) { return multiplied(v, 3); });
    case 1:
      return step(
          "x.square()", [](const Tensor& t) { return t.square(); },
          [](int64_t v) { return multiplied(v, v); });
    case 2:
      return step("x + 5", [](const Tensor& t) { return t + 5; }, [](int64_t v) { return added(v, 5); });
    case 3:
      return step(
          "where(x > 1, x, x + 2)", [](const Tensor& t) { return where(t > 1, t, t + 2); },
          [d](int64_t v) { return less(d, 1, v) ? v : added(v, 2); });
    case 4:
      return step(
          "maximum(x, 1 - x)", [](const Tensor& t) { return maximum(t, 1 - t); },
          [d](int64_t v) {
            const int64_t other = is_float(d) ? 1 - v : wrapped(d, static_cast<uint64_t>(added(1, -v)));
            return less(d, v, other) ? other : v;
          });
    case 5:
      return step("-x", [](const Tensor& t) { return -t; }, [](int64_t v) { return multiplied(v, -1); });
    case 6: // where a lane without an element must not decide
      return step(
          "where(x != 0, x, x - 7)", [](const Tensor& t) { return where(t != 0, t, t - 7); },
          [](int64_t v) { return v ? v : -7; });
    case 7: // a lane past the end may divide by zero
      return step(
          "floor_divide(x + 9, (x & 3) + 1)",
          [](const Tensor& t) { return floor_divide(t + 9, (t & 3) + 1); },
          [d](int64_t v) {
            const int64_t a = wrapped(d, static_cast<uint64_t>(added(v, 9))), b = (v & 3) + 1;
            if (d == DType::U64)
              return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
            return a / b - (a % b < 0);
          });
    default:
      return step(
          "(x ^ 5) % ((x & 3) + 1)", [](const Tensor& t) { return (t ^ 5) % ((t & 3) + 1); },
          [d](int64_t v) {
            const int64_t a = v ^ 5, b = (v & 3) + 1;
            if (d == DType::U64)
              return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
            return (a % b + b) % b;
          });
    }
  }

  /// Another view of x beside x.
  std::optional<ViewStep> with_itself(const PlainArray& x) {
    std::optional<ViewStep> other = one_in(2) ? flip(x) : roll(x);
    const bool logical = x.dtype == DType::Bool, add = one_in(2);
    const std::string op = logical ? "^" : add ? "+" : "*", shown = other->text;
    return ViewStep{fmt::format("x {} {}", op, shown),
                    [=](const Tensor& t) {
                      const Tensor y = other->tensor(t);
                      return logical ? t ^ y : add ? t + y : t * y;
                    },
                    [=](const PlainArray& a) {
                      return both(a, other->plain(a), [=](int64_t v, int64_t w) {
                        return logical ? v ^ w : add ? added(v, w) : multiplied(v, w);
                      });
                    }};
  }

  std::optional<ViewStep> cast(const PlainArray& x) {
    const auto to = static_cast<DType>(below(kDTypeCount));
    PlainArray there{to, x.shape, x.values};
    const bool from_u64 = x.dtype == DType::U64;
    if (is_float(x.dtype) || is_float(to)) { // what fits, is the same number
      if (!there.is_exact()) return {};
      for (int64_t v : x.values)
        if ((v < 0 && (from_u64 || to == DType::U64)) ||
            (!is_float(to) && wrapped(to, static_cast<uint64_t>(v)) != v))
          return {};
    }
    return ViewStep{
        fmt::format("x.cast({})", dtype_text(to)), [=](const Tensor& t) { return t.cast(to); },
        [=](const PlainArray& a) { return made(to, a.shape, [&](const Place& p) { return a.at(p); }); }};
  }

  /// The sum of sizes along the axes stays exact.
  static bool sums_exactly(const PlainArray& x, const std::vector<int>& axes) {
    if (!is_float(x.dtype)) return true;
    const PlainArray sizes = each(x, [](int64_t v) { return std::abs(v); });
    return folded(sizes, axes, added).is_exact();
  }

  struct Reduction {
    std::string name;
    std::function<Tensor(const Tensor&, const Axes&)> tensor; // keeps the axes
    std::function<int64_t(int64_t, int64_t)> f;
  };

  Reduction reduction(DType d) {
    switch (below(5)) {
    case 0:
      return {"max", [](const Tensor& t, const Axes& axes) { return t.max(axes, true); },
              [d](int64_t a, int64_t b) { return less(d, a, b) ? b : a; }};
    case 1:
      return {"min", [](const Tensor& t, const Axes& axes) { return t.min(axes, true); },
              [d](int64_t a, int64_t b) { return less(d, b, a) ? b : a; }};
    case 2:
      if (!is_float(d))
        return {"prod", [d](const Tensor& t, const Axes& axes) { return t.prod(axes, true).cast(d); },
                multiplied};
      [[fallthrough]];
    default:
      return {"sum", [d](const Tensor& t, const Axes& axes) { return t.sum(axes, true).cast(d); }, added};
    }
  }

  std::vector<int> some_axes(const PlainArray& x) {
    std::vector<int> axes;
    for (int d = 0; d < x.rank(); ++d)
      if (one_in(2)) axes.push_back(d);
    if (axes.empty()) axes.push_back(axis_of(x));
    return axes;
  }

  std::optional<ViewStep> reduce(const PlainArray& x) {
    const std::vector<int> axes = some_axes(x);
    const Reduction by = reduction(x.dtype);
    if (by.name == "sum" && !sums_exactly(x, axes)) return {};
    const bool keep = one_in(2);
    std::vector<int64_t> left;
    for (int d = 0; d < x.rank(); ++d)
      if (std::find(axes.begin(), axes.end(), d) == axes.end()) left.push_back(size(x, d));
    return ViewStep{fmt::format("x.{}({}, true).cast(x.dtype()){}", by.name, axes_text(axes),
                                keep ? "" : fmt::format(".reshape({{{}}})", fmt::join(left, ", "))),
                    [=](const Tensor& t) {
                      const Tensor y = by.tensor(t, axes);
                      return keep ? y : y.reshape(shape_of(left));
                    },
                    [=](const PlainArray& a) {
                      const PlainArray y = folded(a, axes, by.f);
                      return keep ? y : reshaped(y, left);
                    }};
  }

  /// x beside what its rows are reduced to.
  std::optional<ViewStep> less_reduced(const PlainArray& x) {
    const std::vector<int> axes = some_axes(x);
    const Reduction by = reduction(x.dtype);
    if (by.name == "sum" && !sums_exactly(x, axes)) return {};
    const bool logical = x.dtype == DType::Bool;
    return ViewStep{
        fmt::format("x {} x.{}({}, true).cast(x.dtype())", logical ? "^" : "-", by.name, axes_text(axes)),
        [=](const Tensor& t) {
          const Tensor y = by.tensor(t, axes);
          return logical ? t ^ y : t - y;
        },
        [=](const PlainArray& a) {
          return both(a, folded(a, axes, by.f),
                      [=](int64_t v, int64_t w) { return logical ? v ^ w : added(v, multiplied(w, -1)); });
        }};
  }

  std::optional<ViewStep> scan(const PlainArray& x) {
    const int axis = axis_of(x);
    const DType d = x.dtype;
    if (!sums_exactly(x, {axis})) return {};
    return ViewStep{fmt::format("x.cumsum({}).cast(x.dtype())", axis),
                    [=](const Tensor& t) { return t.cumsum(axis).cast(d); },
                    [=](const PlainArray& a) { return scanned(a, axis, added); }};
  }

  std::mt19937_64 random_;
};

} // namespace lathe::test
