// Views against brute force: chains of movement ops, as linear views and as stacks, compared element by
// element with a tensor that is moved for real. Sizes are constants, and then variables.
#include <doctest/doctest.h>

#include <functional>
#include <iostream>
#include <random>

#include <fmt/core.h>

#include "view/view.hpp"

using namespace lathe;

namespace {

/// A tensor that remembers for each element which element of the buffer it is; -1 is padding.
struct Naive {
  std::vector<int64_t> shape;
  std::vector<int64_t> from;
};

int64_t product(const std::vector<int64_t>& v) {
  int64_t p = 1;
  for (int64_t s : v) p *= s;
  return p;
}

void for_each_index(const std::vector<int64_t>& shape,
                    const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t left = product(shape); left > 0; left--) {
    f(index);
    for (size_t k = shape.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
}

/// out[index] = in[source(index)], or padding where source gives nothing.
Naive gather(const Naive& in, std::vector<int64_t> shape,
             const std::function<std::optional<std::vector<int64_t>>(const std::vector<int64_t>&)>& source) {
  Naive out{shape, {}};
  for_each_index(shape, [&](const auto& index) {
    const auto at = source(index);
    if (!at) return out.from.push_back(-1);
    int64_t flat = 0;
    for (size_t k = 0; k < in.shape.size(); k++) flat = flat * in.shape[k] + (*at)[k];
    out.from.push_back(in.from[static_cast<size_t>(flat)]);
  });
  return out;
}

Naive identity(const std::vector<int64_t>& shape) {
  Naive n{shape, {}};
  for (int64_t i = 0; i < product(shape); i++) n.from.push_back(i);
  return n;
}

enum class Kind { Reshape, Permute, Expand, Pad, Shrink, Flip, Stride, Window };

/// One movement op. `sizes` are the new shape, or the amounts at the front; `more` those at the back.
struct Move {
  Kind kind;
  std::vector<int> axes;
  Shape sizes, more;
  std::vector<int64_t> numbers;
};

using Values = std::vector<std::pair<Expr, int64_t>>;

int64_t value(Expr e, const Values& values) {
  return evaluate(e, [&](Expr v) {
    for (auto& [var, n] : values)
      if (var == v) return n;
    FAIL("unbound " << to_string(v));
    return int64_t{0};
  });
}
std::vector<int64_t> values_of(const std::vector<Expr>& list, const Values& values) {
  std::vector<int64_t> out;
  for (Expr e : list) out.push_back(value(e, values));
  return out;
}

Naive apply(const Naive& in, const Move& m, const Values& env) {
  const auto sizes = values_of(m.sizes, env), more = values_of(m.more, env);
  auto shape = in.shape;
  switch (m.kind) {
  case Kind::Reshape: return {sizes, in.from};
  case Kind::Permute:
    for (size_t k = 0; k < shape.size(); k++) shape[k] = in.shape[static_cast<size_t>(m.axes[k])];
    return gather(in, shape, [&](const auto& index) {
      auto at = index;
      for (size_t k = 0; k < index.size(); k++) at[static_cast<size_t>(m.axes[k])] = index[k];
      return at;
    });
  case Kind::Expand:
    return gather(in, sizes, [&](auto index) {
      for (size_t k = 0; k < index.size(); k++)
        if (in.shape[k] == 1) index[k] = 0;
      return index;
    });
  case Kind::Pad:
    for (size_t k = 0; k < shape.size(); k++) shape[k] += sizes[k] + more[k];
    return gather(in, shape, [&](auto index) -> std::optional<std::vector<int64_t>> {
      for (size_t k = 0; k < index.size(); k++) {
        index[k] -= sizes[k];
        if (index[k] < 0 || index[k] >= in.shape[k]) return std::nullopt;
      }
      return index;
    });
  case Kind::Shrink:
    for (size_t k = 0; k < shape.size(); k++) shape[k] = more[k] - sizes[k];
    return gather(in, shape, [&](auto index) {
      for (size_t k = 0; k < index.size(); k++) index[k] += sizes[k];
      return index;
    });
  case Kind::Flip:
    return gather(in, shape, [&](auto index) {
      for (size_t k = 0; k < index.size(); k++)
        if (m.axes[k]) index[k] = in.shape[k] - 1 - index[k];
      return index;
    });
  case Kind::Stride:
    for (size_t k = 0; k < shape.size(); k++) shape[k] = (shape[k] + m.numbers[k] - 1) / m.numbers[k];
    return gather(in, shape, [&](auto index) {
      for (size_t k = 0; k < index.size(); k++) index[k] *= m.numbers[k];
      return index;
    });
  case Kind::Window: {
    const auto axis = static_cast<size_t>(m.axes[0]);
    shape[axis] = (shape[axis] - (sizes[0] - 1) * m.numbers[1] - 1) / m.numbers[0] + 1;
    shape.push_back(sizes[0]);
    return gather(in, shape, [&](auto index) {
      index[axis] = index[axis] * m.numbers[0] + index.back() * m.numbers[1];
      index.pop_back();
      return index;
    });
  }
  }
  return in;
}

std::optional<View> apply(const View& v, const Move& m) {
  switch (m.kind) {
  case Kind::Reshape: return v.reshape(m.sizes);
  case Kind::Permute: return v.permute(m.axes);
  case Kind::Expand: return v.expand(m.sizes);
  case Kind::Pad: return v.pad(m.sizes, m.more);
  case Kind::Shrink: return v.shrink(m.sizes, m.more);
  case Kind::Flip: return v.flip(std::vector<bool>(m.axes.begin(), m.axes.end()));
  case Kind::Stride: return v.stride(m.numbers);
  case Kind::Window: return v.window(m.axes[0], m.sizes[0], m.numbers[0], m.numbers[1]);
  }
  return std::nullopt;
}

int64_t g_checks = 0;

/// Compares the elements of `shape` that `access` says with `expected`.
void compare(const Shape& shape, const std::function<Access(const std::vector<Expr>&)>& access,
             const Naive& expected, Values env, const std::string& what) {
  REQUIRE_MESSAGE(values_of(shape, env) == expected.shape, what);
  std::vector<Expr> loops;
  for (size_t k = 0; k < shape.size(); k++)
    loops.push_back(loop_var(static_cast<int>(k), fmt::format("i{}", k), shape[k]));
  const Access a = access(loops);
  const size_t first = env.size();
  for (Expr loop : loops) env.emplace_back(loop, 0);
  size_t at = 0;
  for_each_index(expected.shape, [&](const auto& index) {
    for (size_t k = 0; k < index.size(); k++) env[first + k].second = index[k];
    int64_t got = -1;
    bool valid = true;
    for (Expr condition : a.valid) valid = valid && value(condition, env);
    if (valid) got = value(a.offset, env);
    g_checks++;
    if (got != expected.from[at])
      FAIL(what << ": element " << at << " is " << got << ", expected " << expected.from[at] << ", offset "
                << to_string(a.offset));
    at++;
  });
}

std::string describe(const std::vector<Move>& moves) {
  static const char* names[] = {"reshape", "permute", "expand", "pad", "shrink", "flip", "stride", "window"};
  std::string out;
  for (const Move& m : moves) {
    out += fmt::format("{}{}(", out.empty() ? "" : ", ", names[static_cast<int>(m.kind)]);
    for (int a : m.axes) out += fmt::format("{} ", a);
    if (!m.sizes.empty()) out += to_string(m.sizes);
    if (!m.more.empty()) out += to_string(m.more);
    for (int64_t n : m.numbers) out += fmt::format(" {}", n);
    out += ")";
  }
  return out;
}

struct Tally {
  int linear = 0, stacked = 0;
};

/// Runs moves three ways: on one linear view while that is possible, as a stack of composed views, and for
/// real.
void check_chain(const Shape& shape, const std::vector<Move>& moves, const std::vector<Values>& envs,
                 Tally* tally = nullptr) {
  ViewStack stack(View::contiguous(shape)), linear(View::contiguous(shape));
  for (const Move& m : moves) {
    const View alone = *apply(View::contiguous(stack.shape()), m);
    stack.push(alone);
    if (auto v = apply(linear.views().back(), m)) {
      std::vector<View> levels(linear.views().begin(), linear.views().end() - 1);
      levels.push_back(*v);
      ViewStack again(levels[0]);
      for (size_t k = 1; k < levels.size(); k++) again.push(levels[k]);
      linear = again;
    } else {
      linear.push(alone);
    }
  }
  if (tally) (stack.views().size() == 1 ? tally->linear : tally->stacked)++;
  for (const Values& env : envs) {
    Naive naive = identity(values_of(shape, env));
    for (const Move& m : moves) naive = apply(naive, m, env);
    const std::string what = to_string(shape) + ": " + describe(moves);
    compare(
        stack.shape(), [&](const auto& index) { return stack.access(index); }, naive, env, what);
    compare(
        linear.shape(), [&](const auto& index) { return linear.access(index); }, naive, env,
        what + " (linear)");
  }
}

std::vector<std::vector<int64_t>> factorisations(int64_t n, int rank) {
  if (rank == 1) return {{n}};
  std::vector<std::vector<int64_t>> out;
  for (int64_t d = 1; d <= n; d++)
    if (n % d == 0)
      for (auto rest : factorisations(n / d, rank - 1)) {
        rest.insert(rest.begin(), d);
        out.push_back(rest);
      }
  return out;
}

Shape exprs(const std::vector<int64_t>& v) { return Shape(v.begin(), v.end()); }

/// Every op with small arguments on a shape of constants.
std::vector<Move> all_moves(const std::vector<int64_t>& shape) {
  std::vector<Move> out;
  const size_t rank = shape.size();
  for (int r = 1; r <= 3; r++)
    for (const auto& f : factorisations(product(shape), r))
      out.push_back({Kind::Reshape, {}, exprs(f), {}, {}});
  std::vector<int> axes(rank);
  for (size_t k = 0; k < rank; k++) axes[k] = static_cast<int>(k);
  do out.push_back({Kind::Permute, axes, {}, {}, {}});
  while (std::next_permutation(axes.begin(), axes.end()));
  for (size_t k = 0; k < rank; k++) {
    if (shape[k] == 1)
      for (int64_t n : {2, 3}) {
        Shape wide = exprs(shape);
        wide[k] = n;
        out.push_back({Kind::Expand, {}, wide, {}, {}});
      }
    for (auto [before, after] : {std::pair{1, 0}, {0, 2}, {1, 1}}) {
      Shape b(rank, 0), a(rank, 0);
      b[k] = before, a[k] = after;
      out.push_back({Kind::Pad, {}, b, a, {}});
    }
    for (int64_t begin = 0; begin < shape[k]; begin++)
      for (int64_t end = begin + 1; end <= shape[k]; end++) {
        Shape b(rank, 0), e = exprs(shape);
        b[k] = begin, e[k] = end;
        out.push_back({Kind::Shrink, {}, b, e, {}});
      }
    std::vector<int> flip(rank, 0);
    flip[k] = 1;
    out.push_back({Kind::Flip, flip, {}, {}, {}});
    for (int64_t step : {2, 3}) {
      std::vector<int64_t> steps(rank, 1);
      steps[k] = step;
      out.push_back({Kind::Stride, {}, {}, {}, steps});
    }
    for (int64_t size = 1; size <= shape[k]; size++)
      for (int64_t step : {1, 2})
        for (int64_t dilation : {1, 2})
          if ((size - 1) * dilation < shape[k])
            out.push_back({Kind::Window, {static_cast<int>(k)}, {size}, {}, {step, dilation}});
  }
  return out;
}

} // namespace

TEST_CASE("every pair of movement ops on every small shape") {
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t a = 1; a <= 4; a++) {
    shapes.push_back({a});
    for (int64_t b = 1; b <= 3; b++) {
      shapes.push_back({a, b});
      for (int64_t c = 1; c <= 2; c++) shapes.push_back({a, b, c});
    }
  }
  Tally tally;
  int64_t chains = 0;
  for (const auto& shape : shapes)
    for (const Move& first : all_moves(shape)) {
      const Naive moved = apply(identity(shape), first, {});
      if (product(moved.shape) > 40) continue;
      for (const Move& second : all_moves(moved.shape)) {
        check_chain(exprs(shape), {first, second}, {{}}, &tally);
        chains++;
      }
    }
  std::cout << "pairs: " << chains << " chains, " << tally.linear << " linear, " << tally.stacked
            << " stacked, " << g_checks << " elements checked\n";
  CHECK(tally.linear > tally.stacked * 4);
}

TEST_CASE("random chains of movement ops") {
  std::mt19937 random(7);
  auto pick = [&](size_t n) { return random() % n; };
  Tally tally;
  for (int round = 0; round < 12000; round++) {
    std::vector<int64_t> shape(1 + pick(3));
    for (auto& s : shape) s = static_cast<int64_t>(1 + pick(6));
    std::vector<Move> moves;
    Naive naive = identity(shape);
    for (size_t step = 2 + pick(5); step-- > 0;) {
      const auto choices = all_moves(naive.shape);
      const Move m = choices[pick(choices.size())];
      Naive next = apply(naive, m, {});
      if (product(next.shape) > 120 || next.shape.size() > 4) continue;
      naive = std::move(next);
      moves.push_back(m);
    }
    check_chain(exprs(shape), moves, {{}}, &tally);
  }
  std::cout << "random: " << tally.linear << " linear, " << tally.stacked << " stacked, " << g_checks
            << " elements checked so far\n";
  CHECK(g_checks >= 1000000);
}

TEST_CASE("random chains over variable sizes") {
  std::mt19937 random(11);
  auto pick = [&](size_t n) { return random() % n; };
  const Expr n = Var("n", 2, 64), m = Var("m", 1, 64);
  std::vector<Values> envs;
  for (int64_t vn : {2, 3, 5, 8})
    for (int64_t vm : {1, 4}) envs.push_back({{n, vn}, {m, vm}});
  const std::vector<Shape> starts{{n}, {n, 3}, {4, n}, {n, m}, {2, n, m}, {n * 4}, {n * 6, m}, {n, 1, 3}};
  Tally tally;
  const int64_t before = g_checks;
  for (int round = 0; round < 1500; round++) {
    const Shape start = starts[pick(starts.size())];
    Shape shape = start;
    std::vector<Move> moves;
    for (size_t step = 1 + pick(4); step-- > 0;) {
      Move move{};
      const size_t k = pick(shape.size());
      Shape zeros(shape.size(), 0);
      switch (pick(8)) {
      case 0: // merge two axes
        if (k + 1 == shape.size()) continue;
        move = {Kind::Reshape, {}, shape, {}, {}};
        move.sizes[k] = shape[k] * shape[k + 1];
        move.sizes.erase(move.sizes.begin() + static_cast<int>(k) + 1);
        break;
      case 1: { // split an axis whose size is a product
        const auto half = floordiv(shape[k], 2);
        if (half * 2 != shape[k]) continue;
        move = {Kind::Reshape, {}, shape, {}, {}};
        move.sizes[k] = half;
        move.sizes.insert(move.sizes.begin() + static_cast<int>(k) + static_cast<int>(pick(2)), 2);
        break;
      }
      case 2: {
        std::vector<int> axes(shape.size());
        for (size_t a = 0; a < axes.size(); a++) axes[a] = static_cast<int>(a);
        std::shuffle(axes.begin(), axes.end(), random);
        move = {Kind::Permute, axes, {}, {}, {}};
        break;
      }
      case 3:
        move = {Kind::Pad, {}, zeros, zeros, {}};
        move.sizes[k] = pick(2) ? Expr(1) : m;
        move.more[k] = static_cast<int64_t>(pick(3));
        break;
      case 4:
        if (shape[k].lo() < 2) continue;
        move = {Kind::Shrink, {}, zeros, shape, {}};
        (pick(2) ? move.sizes[k] : move.more[k]) = pick(2) ? Expr(1) : shape[k] - 1;
        break;
      case 5: {
        std::vector<int> flip(shape.size(), 0);
        flip[k] = 1;
        move = {Kind::Flip, flip, {}, {}, {}};
        break;
      }
      case 6: {
        std::vector<int64_t> steps(shape.size(), 1);
        steps[k] = 2;
        move = {Kind::Stride, {}, {}, {}, steps};
        break;
      }
      default:
        if (shape[k].lo() < 2 || shape.size() > 3) continue;
        move = {Kind::Window, {static_cast<int>(k)}, {2}, {}, {static_cast<int64_t>(1 + pick(2)), 1}};
      }
      shape = apply(View::contiguous(shape), move)->shape();
      moves.push_back(move);
    }
    check_chain(start, moves, envs, &tally);
  }
  std::cout << "variable sizes: " << tally.linear << " linear, " << tally.stacked << " stacked, "
            << g_checks - before << " elements checked\n";
  CHECK(tally.linear > tally.stacked);
}
