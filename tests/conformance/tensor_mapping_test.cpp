// vmap against a plain loop: the function applied to each element along the axis. Integers are equal, floats
// as close as sums in another order.
#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "lathe/linalg.hpp"
#include "lathe/vmap.hpp"
#include "support/errors.hpp"
#include "support/moved_elements.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Tensors = std::vector<Tensor>;
using Axes1 = std::vector<std::optional<int>>; // of each argument

/// Whole numbers from -9 to 9, of the shape with `size` at `axis`, if it has one.
Tensor numbers(Shape shape, std::optional<int> axis, int64_t size, DType dtype, uint32_t seed) {
  if (axis)
    shape.insert(shape.begin() + (*axis < 0 ? *axis + static_cast<int>(shape.size()) + 1 : *axis), size);
  const auto count = static_cast<size_t>(num_elements(shape).value());
  std::vector<int64_t> values(count);
  for (size_t k = 0; k < count; ++k) values[k] = noise<int64_t>(count, seed)[k] % 10;
  return Tensor::from(values, shape).cast(dtype).realise();
}

struct MapCase {
  std::function<Tensors(const Tensors&)> f;
  std::vector<Shape> shapes; // of one element
  DType dtype = DType::I64;
  double tolerance = 0;
};

Tensors applied(const MapCase& c, const Tensors& arguments, const Axes1& axes, int64_t at) {
  Tensors one;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const Tensor& x = arguments[k];
    if (!axes[k])
      one.push_back(x);
    else if (*axes[k] == 0)
      one.push_back(x.index({IndexItem(at), Ellipsis{}}).realise());
    else
      one.push_back(x.index({Ellipsis{}, IndexItem(at)}).realise());
  }
  return c.f(one);
}

/// The elements of the axes that are tried. Mapping changes the graph: that devices agree is seen by one
/// size.
std::vector<int64_t> sizes() {
  if (kCompiled) return {3};
  return {3, 1, 0};
}

/// All choices of which arguments are mapped, by the first or the last axis.
void check_mapped(const MapCase& c) {
  const size_t count = c.shapes.size();
  for (uint32_t choice = 1; choice < (1u << count); ++choice)
    for (const int64_t size : sizes()) {
      CAPTURE(choice);
      CAPTURE(size);
      Axes1 axes(count);
      Tensors arguments;
      for (size_t k = 0; k < count; ++k) {
        if (choice >> k & 1) axes[k] = (choice + k) % 2 ? 0 : -1;
        arguments.push_back(numbers(c.shapes[k], axes[k], size, c.dtype, static_cast<uint32_t>(k + 1)));
      }
      const Tensors got = vmap(c.f, axes)(arguments);
      for (size_t r = 0; r < got.size(); ++r) {
        CAPTURE(r);
        REQUIRE(got[r].shape()[0] == Expr(size));
        const std::vector<double> all = as_doubles(got[r]);
        for (int64_t at = 0; at < size; ++at) {
          const Tensor want = applied(c, arguments, axes, at)[r];
          REQUIRE(got[r].dtype() == want.dtype());
          const auto each = static_cast<long>(num_elements(want.shape()).value());
          const std::vector<double> part(all.begin() + at * each, all.begin() + (at + 1) * each);
          CHECK(to_string(Shape(got[r].shape().begin() + 1, got[r].shape().end())) ==
                to_string(want.shape()));
          check_close(part, as_doubles(want), c.tolerance);
        }
      }
    }
}

/// Of one result.
MapCase of(const std::function<Tensor(const Tensors&)>& f, std::vector<Shape> shapes,
           DType dtype = DType::I64, double tolerance = 0) {
  return {[f](const Tensors& x) -> Tensors { return {f(x)}; }, std::move(shapes), dtype, tolerance};
}

/// A matrix of the elements that is far from singular.
Tensor regular(const Tensor& x) { return x + Tensor::eye(x.size(-1).value(), -1, DType::F64) * 40.0; }
Tensor positive(const Tensor& x) {
  return x.matmul(x.transpose()) + Tensor::eye(x.size(-1).value(), -1, DType::F64);
}

constexpr double kDigits = 1e-9; // of functions in f64

} // namespace

TEST_CASE("elementwise functions of several arguments, shapes and dtypes") {
  check_mapped(of([](const Tensors& x) { return x[0] * x[1] - x[0]; }, {{2, 3}, {3}}));
  check_mapped(of([](const Tensors& x) { return where(x[0] < x[1], x[0] + int64_t{2}, x[1]); }, {{}, {4}}));
  check_mapped(of([](const Tensors& x) { return (x[0].cast(DType::I8) << 2).cast(DType::I32) ^ 5; }, {{5}}));
  check_mapped(of([](const Tensors& x) { return x[0] * Tensor::iota({2, 3}, 1) + Tensor::iota({2, 3}, 0); },
                  {{2, 3}}));
  check_mapped(of([](const Tensors& x) { return x[0].tanh() + x[0].exp(); }, {{3}}, DType::F64, kDigits));
  // what depends on no argument, and an argument itself
  const Tensor fixed = Tensor::arange(4).realise();
  check_mapped(
      {[&](const Tensors& x) -> Tensors { return {fixed * int64_t{2}, x[0], x[1].sum()}; }, {{2}, {}}});
}

TEST_CASE("reductions") {
  const std::vector<Shape> shape{{2, 3, 4}};
  check_mapped(of([](const Tensors& x) { return x[0].sum({0, 2}); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].prod(1, true); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].max(-1) - x[0].min(); }, shape));
  check_mapped(of([](const Tensors& x) { return (x[0] > int64_t{7}).any(0); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].argmax(1); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].mean({0, 1}); }, shape, DType::F64, kDigits));
}

TEST_CASE("movements, also such as no single view expresses") {
  const std::vector<Shape> shape{{4, 6}};
  check_mapped(of([](const Tensors& x) { return x[0].transpose(); }, shape));
  check_mapped(of(
      [](const Tensors& x) { return x[0].transpose().reshape({3, 8}).transpose().reshape({4, 6}); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].pad({{1, 2}, {0, 3}}).transpose().flatten(); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].flip({0}).index({Slice{1, 4, 2}, Slice{}}); }, shape));
  check_mapped(of([](const Tensors& x) { return x[0].window(1, 3, 1); }, shape));
  check_mapped(of([](const Tensors& x) { return concat({x[0], x[1].expand({2, 6})}, 0).roll(2, 1); },
                  {{4, 6}, {1, 6}}));
  check_mapped(of([](const Tensors& x) { return x[0].pad({{1, 1}, {1, 1}}).pad({{2, 0}, {0, 1}}); }, shape));
}

TEST_CASE("elements at computed places: in range and outside, of every dtype of indices") {
  for (const DType dtype : {DType::I64, DType::I8, DType::U64}) {
    CAPTURE(to_string(dtype));
    check_mapped(of([=](const Tensors& x) { return x[0].take(x[1].cast(dtype), 1); }, {{3, 5}, {4}}));
    check_mapped(of([=](const Tensors& x) { return x[0].gather(0, x[1].cast(dtype)); }, {{7, 2}, {3, 2}}));
  }
  check_mapped(of([](const Tensors& x) { return x[0].scatter(0, x[1], x[2]); }, {{6, 2}, {4, 2}, {4, 2}}));
  check_mapped(
      of([](const Tensors& x) { return x[0].scatter_add(0, x[1], x[2]); }, {{6, 2}, {4, 2}, {4, 2}}));
  check_mapped(of([](const Tensors& x) { return slice_at(x[0], {x[1], 0}, {2, 2}); }, {{6, 2}, {}}));
  check_mapped(of([](const Tensors& x) { return one_hot(x[0], 5); }, {{3}}));
}

TEST_CASE("what is composed: orders, running sums, products, windows, layers, transforms") {
  check_mapped(of([](const Tensors& x) { return x[0].sort(0); }, {{9, 2}}));
  check_mapped(of([](const Tensors& x) { return x[0].argsort(-1); }, {{2, 9}}));
  check_mapped(of([](const Tensors& x) { return x[0].cumsum(0); }, {{70}}));
  check_mapped(of([](const Tensors& x) { return searchsorted(x[0].sort(0), x[1]); }, {{8}, {5}}));
  check_mapped(of([](const Tensors& x) { return x[0].matmul(x[1]); }, {{3, 4}, {4, 2}}));
  check_mapped(of([](const Tensors& x) { return x[0].matmul(x[1]); }, {{2, 3, 4}, {4}}));
  check_mapped(of([](const Tensors& x) { return einsum("ij,kj->ik", {x[0], x[1]}); }, {{3, 4}, {2, 4}}));
  check_mapped(of([](const Tensors& x) { return x[0].conv2d(x[1]); }, {{1, 2, 5, 5}, {3, 2, 3, 3}},
                  DType::F64, kDigits));
  check_mapped(of([](const Tensors& x) { return x[0].softmax(-1); }, {{3, 4}}, DType::F64, kDigits));
  check_mapped(of([](const Tensors& x) { return view_as_real(rfft(x[0])); }, {{12}}, DType::F64, kDigits));
  check_mapped(of([](const Tensors& x) { return quantile(x[0], 0.3, 0); }, {{7}}, DType::F64, kDigits));
}

TEST_CASE("linear algebra") {
  const std::vector<Shape> square{{4, 4}}, solved{{4, 4}, {4, 2}};
  check_mapped(of([](const Tensors& x) { return solve(regular(x[0]), x[1]); }, solved, DType::F64, kDigits));
  check_mapped(of([](const Tensors& x) { return det(x[0]); }, square, DType::F64, 1e-6));
  check_mapped(of([](const Tensors& x) { return cholesky(positive(x[0])); }, square, DType::F64, kDigits));
  check_mapped({[](const Tensors& x) -> Tensors {
                  const QR made = qr(regular(x[0]));
                  return {made.q, made.r};
                },
                square, DType::F64, kDigits});
  check_mapped(of([](const Tensors& x) { return lstsq(x[0], x[1]); }, {{5, 3}, {5, 2}}, DType::F64, 1e-7));
  check_mapped(
      of([](const Tensors& x) { return eigvalsh(x[0] + x[0].transpose()); }, square, DType::F64, 1e-7));
}

TEST_CASE("recurrences: mapped states, rows and values, in both directions") {
  for (const bool backward : {false, true}) {
    CAPTURE(backward);
    const auto f = [=](const Tensors& x) -> Tensors {
      const auto step = [&](const Tensors& s, const Tensors& r) -> ScanStep {
        const Tensor next = s[0] * int64_t{2} + r[0] * x[2];
        return {{next, s[1] + int64_t{1}, s[0]}, {next.sum(), s[1]}};
      };
      const Scanned made = scan(step, {x[0], Tensor::zeros({}, DType::I64), x[0]}, {x[1]}, {{}, backward});
      return {made.state[0], made.state[1], made.state[2], made.stacked[0], made.stacked[1]};
    };
    check_mapped({f, {{3}, {5, 3}, {}}});
  }
}

TEST_CASE("loops end for each element by itself") {
  const auto f = [](const Tensors& x) -> Tensors {
    const auto goes_on = [&](const Tensors& s) { return s[0].max() < x[1] * int64_t{20}; };
    const auto next = [&](const Tensors& s) -> Tensors {
      return {s[0] * int64_t{2} + int64_t{11}, s[1] + int64_t{1}};
    };
    return while_loop(goes_on, next, {x[0], Tensor::zeros({}, DType::I64)}, 30);
  };
  check_mapped({f, {{2}, {}}});
  // Inside of another one's steps, whose number differs as well.
  const auto outer = [&](const Tensors& x) -> Tensors {
    const auto goes_on = [&](const Tensors& s) { return s[0].sum() < int64_t{400}; };
    const auto next = [&](const Tensors& s) -> Tensors {
      return {f({s[0] + int64_t{3}, x[1]})[0] + int64_t{1}};
    };
    return while_loop(goes_on, next, {x[0]}, 50);
  };
  check_mapped({outer, {{2}, {}}});
}

TEST_CASE("derivatives of mapped functions, and mapped derivatives") {
  const auto y = [](const Tensors& x) {
    return (x[0].tanh() * x[1]).sum() + x[0].square().sum() * x[1].max();
  };
  const auto derivatives = [&](const Tensors& x) { return gradients(y(x), {x[0], x[1]}); };
  check_mapped({derivatives, {{3}, {3}}, DType::F64, kDigits});
  const auto of_scan = [](const Tensors& x) -> Tensors {
    const auto step = [&](const Tensors& s, const Tensors& r) -> ScanStep {
      const Tensor next = (s[0] * 0.1).sin() + r[0] * x[2];
      return {{next}, {next}};
    };
    const Scanned made = scan(step, {x[0]}, {x[1]});
    return gradients(made.state[0].sum() + made.stacked[0].square().sum(), {x[0], x[1], x[2]});
  };
  check_mapped({of_scan, {{2}, {3, 2}, {2}}, DType::F64, kDigits});
  const auto of_loop = [](const Tensors& x) -> Tensors {
    const auto goes_on = [&](const Tensors& s) { return s[0].sum() < 50.0; };
    const auto next = [&](const Tensors& s) -> Tensors { return {s[0] * 1.5 + x[1].square() * 0.1 + 1.0}; };
    const Tensor last = while_loop(goes_on, next, {x[0]}, 12)[0];
    return gradients(last.square().sum(), {x[0], x[1]});
  };
  check_mapped({of_loop, {{2}, {2}}, DType::F64, kDigits});
  const auto of_solve = [](const Tensors& x) -> Tensors {
    return gradients(solve(regular(x[0]), x[1]).square().sum(), {x[0], x[1]});
  };
  check_mapped({of_solve, {{3, 3}, {3, 2}}, DType::F64, kDigits});

  // The derivative of a mapped function: of the sum over the axis, so that of what is the same for all adds
  // up.
  const Tensor a = numbers({3}, 0, 4, DType::F64, 1), w = numbers({3}, {}, 0, DType::F64, 2);
  const auto mapped = [&](const Tensors& x) {
    return vmap([&](const Tensors& v) -> Tensors { return {y(v)}; }, {0, std::nullopt})(x)[0];
  };
  const Tensors got = gradients(mapped({a, w}), {a, w});
  Tensor sum = Tensor::zeros({3}, DType::F64);
  for (int64_t k = 0; k < 4; ++k) {
    const Tensors one = derivatives({a[k].realise(), w});
    check_close(as_doubles(got[0][k]), as_doubles(one[0]), kDigits);
    sum = sum + one[1];
  }
  check_close(as_doubles(got[1]), as_doubles(sum), kDigits);
}

TEST_CASE("an axis whose size is a symbol") {
  const Var n("n", 0, 64);
  const Tensor x = Tensor::input("x", {n, 4}, DType::I64);
  const Tensor places = Tensor::from({2, 0, 3, 9}).realise(),
               w = Tensor::arange(12).reshape({4, 3}).realise();
  const std::vector<TensorFunction> functions{
      [&](const Tensors& v) -> Tensors { return {v[0].matmul(w) + v[0].sum()}; },
      [&](const Tensors& v) -> Tensors { return {v[0].pad({{1, 2}}).flip({0}).reshape({7, 1})}; },
      [&](const Tensors& v) -> Tensors { return {v[0].take(places) + v[0].take(v[0] % int64_t{4})}; },
      [&](const Tensors& v) -> Tensors { return {v[0].scatter_add(0, v[0] % int64_t{4}, v[0])}; },
      [&](const Tensors& v) -> Tensors { return {v[0].sort(0)}; },
      [&](const Tensors& v) -> Tensors {
        const auto step = [](const Tensors& s, const Tensors& r) -> ScanStep {
          return {{s[0] * int64_t{3} + r[0]}, {s[0]}};
        };
        const Scanned made = scan(step, {Tensor::zeros({}, DType::I64)}, {v[0]});
        return {made.stacked[0] + made.state[0]};
      },
      [&](const Tensors& v) -> Tensors {
        const auto goes_on = [](const Tensors& s) { return s[0].max() < int64_t{100}; };
        return while_loop(
            goes_on, [](const Tensors& s) -> Tensors { return {s[0] * int64_t{2} + int64_t{5}}; }, {v[0]},
            40);
      }};
  for (size_t k = 0; k < functions.size(); ++k) {
    CAPTURE(k);
    const Tensor program = vmap(functions[k])({x})[0];
    for (const int64_t size : {5, 1, 0}) {
      CAPTURE(size);
      const Tensor given = numbers({4}, 0, size, DType::I64, 3);
      const std::vector<int64_t> got = run_at(program, given, size).to_vector<int64_t>();
      std::vector<int64_t> want;
      for (int64_t at = 0; at < size; ++at) {
        const auto one = functions[k]({given[at].realise()})[0].to_vector<int64_t>();
        want.insert(want.end(), one.begin(), one.end());
      }
      CHECK(got == want);
    }
  }
}

TEST_CASE("mapped twice, and axes of results") {
  const auto f = [](const Tensors& x) -> Tensors { return {x[0] * int64_t{10} + x[1], x[0].sum()}; };
  const Tensor a = Tensor::arange(6).reshape({3, 2}), b = Tensor::arange(8).reshape({4, 2});
  const Tensors pairs = vmap(vmap(f, {std::nullopt, 0}), {0, std::nullopt})({a, b});
  check_close(as_doubles(pairs[0]), as_doubles(a.reshape({3, 1, 2}) * int64_t{10} + b), 0);
  check_close(as_doubles(pairs[1]), as_doubles(a.sum(1).reshape({3, 1}).expand({3, 4})), 0);
  const Tensors last = vmap(f, {}, {-1, 0})({a, b.index({Slice{0, 3}})});
  check_close(as_doubles(last[0]), as_doubles((a * int64_t{10} + b.index({Slice{0, 3}})).transpose()), 0);
}

TEST_CASE("bad calls") {
  const auto f = [](const Tensors& x) -> Tensors { return {x[0] + 1.0f}; };
  const Tensor x = Tensor::zeros({3, 2}), y = Tensor::zeros({4, 2});
  const auto check = [&](ErrorKind kind, const TensorFunction& mapped, const Tensors& arguments) {
    check_error(kind, "vmap", [&] { (void)mapped(arguments); });
  };
  check(ErrorKind::Value, vmap(f, {0, 0}), {x});
  check(ErrorKind::Value, vmap(f, {std::nullopt}), {x});
  check(ErrorKind::Value, vmap(f), {});
  check(ErrorKind::Value, vmap(f, {}, {0, 0}), {x});
  check(ErrorKind::Axis, vmap(f, {2}), {x});
  check(ErrorKind::Axis, vmap(f), {Tensor::zeros({})});
  check(ErrorKind::Axis, vmap(f, {}, {2}), {x});
  check(ErrorKind::Shape, vmap(f), {x, y});
  check(ErrorKind::DType, vmap(f), {x.cast(DType::F8E4M3FN)});
  const auto narrow = [](const Tensors& v) -> Tensors { return {v[0].cast(DType::F8E4M3FN)}; };
  check(ErrorKind::DType, vmap(narrow), {x});
}
