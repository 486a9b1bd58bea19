// Matrices, choices, padding and patches of array_functions.hpp: against plain loops, and PyTorch's numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "support/errors.hpp"
#include "support/plain_array.hpp"
#include "support/tensor_values.hpp"
#ifndef LATHE_TEST_WHOLE_LIBRARY
#include "graph/tensor_impl.hpp"
#endif

using namespace lathe;
using namespace lathe::test;

namespace {

using Sizes = std::vector<int64_t>;
using Move = std::function<Tensor(const Tensor&)>;

Shape shape_of(const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); }

Tensor tensor_of(const PlainArray& x) { return Tensor::from(x.values, shape_of(x.shape)).cast(x.dtype); }

/// 1, 2, 3, ...: each element's own place, and never the 0 of what is added.
PlainArray numbered(const Sizes& shape) {
  int64_t next = 0;
  return made(DType::I64, shape, [&](const Place&) { return ++next; });
}

void check_equal(const Tensor& got, const PlainArray& want) {
  REQUIRE(to_string(got.shape()) == to_string(shape_of(want.shape)));
  REQUIRE(got.dtype() == want.dtype);
  CHECK(got.cast(DType::I64).to_vector<int64_t>() == want.values);
}

std::vector<unsigned char> bytes_of(const Tensor& t) {
  std::vector<unsigned char> out(static_cast<size_t>(t.element_count()) * size_of(t.dtype()));
  t.read(out.data(), t.dtype());
  return out;
}

/// A function that moves elements, and adds zeros, moves those of every dtype as it moves numbers.
void check_every_dtype(const Move& move, const Sizes& shape) {
  const PlainArray places = numbered(shape);
  const std::vector<int64_t> from = move(tensor_of(places)).to_vector<int64_t>();
  const std::vector<double> special{-0.0, kNan, kInf, 1, -1.5, -kInf, 3, 1e-3};
  std::vector<double> values;
  for (size_t k = 0; k < places.values.size(); ++k)
    values.push_back(k % 3 ? special[k % special.size()] : static_cast<double>(k % 100));
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    CAPTURE(to_string(dtype));
    const Tensor x = Tensor::from(values, shape_of(shape)).cast(dtype).realise(), y = move(x);
    REQUIRE(y.dtype() == dtype);
    const auto in = bytes_of(x), out = bytes_of(y);
    const auto width = static_cast<size_t>(size_of(dtype));
    REQUIRE(out.size() == from.size() * width);
    const std::vector<unsigned char> zero(width);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto* want = from[i] == 0 ? zero.data() : in.data() + static_cast<size_t>(from[i] - 1) * width;
      CHECK_MESSAGE(std::equal(want, want + width, out.data() + i * width), i);
    }
  }
}

/// What a program of one input "x", with a size n, gives for these values.
Tensor run_at(const Tensor& program, const Tensor& x, [[maybe_unused]] int64_t n) {
#ifdef LATHE_TEST_WHOLE_LIBRARY
  return compile({{"y", program}}, {.device = std::getenv("LATHE_TEST_DEVICE")})({{"x", x}}).at("y");
#else
  Bindings bindings;
  bindings.sizes["n"] = n;
  bindings.inputs["x"] = bytes_of(x);
  const StorageRef y = evaluate_graph({graph::node_of(program)}, bindings)[0];
  Shape shape;
  for (Expr size : program.shape()) shape.push_back(evaluate(size, [&](Expr) { return n; }));
  return Tensor::from_memory(y->data(), static_cast<size_t>(num_elements(shape).value()), program.dtype(),
                             shape);
#endif
}

} // namespace

TEST_CASE("triangles") {
  for (const Sizes& shape : std::vector<Sizes>{{1, 1}, {3, 5}, {7, 1}, {2, 5, 3}, {2, 1, 1, 4}}) {
    const PlainArray x = numbered(shape);
    for (const int64_t diagonal : {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{6}, INT64_MIN, INT64_MAX}) {
      CAPTURE(diagonal);
      const auto kept = [&](bool lower) {
        return made(DType::I64, shape, [&](const Place& p) {
          const int64_t right = p[p.size() - 1] - p[p.size() - 2];
          return (lower ? right <= diagonal : right >= diagonal) ? x.at(p) : 0;
        });
      };
      check_equal(tril(tensor_of(x), diagonal), kept(true));
      check_equal(triu(tensor_of(x), diagonal), kept(false));
    }
  }
  check_every_dtype([](const Tensor& x) { return tril(x, 1); }, {2, 3, 5});
  check_every_dtype([](const Tensor& x) { return triu(x); }, {5, 7});
  const Var n("n", 1, 64);
  const Tensor x = Tensor::input("x", {n, 3}, DType::I64);
  check_equal(run_at(tril(x, -1), Tensor::arange(1, 7).reshape({2, 3}), 2),
              {DType::I64, {2, 3}, {0, 0, 0, 4, 0, 0}});
}

TEST_CASE("diagonals") {
  const PlainArray x = numbered({3, 4, 1, 5});
  for (const auto& [a, b] : std::vector<std::pair<int, int>>{{0, 1}, {1, 0}, {3, 0}, {-2, -1}, {1, 3}}) {
    const size_t row = a < 0 ? a + 4 : a, column = b < 0 ? b + 4 : b;
    const int64_t rows = x.shape[row], columns = x.shape[column];
    for (int64_t offset = 1 - rows; offset < columns; ++offset) {
      CAPTURE(offset);
      int64_t length = 0;
      for (int64_t i = 0; i < rows; ++i) length += 0 <= i + offset && i + offset < columns;
      Sizes shape;
      for (size_t k = 0; k < 4; ++k)
        if (k != row && k != column) shape.push_back(x.shape[k]);
      shape.push_back(length);
      const PlainArray want = made(DType::I64, shape, [&](const Place& p) {
        Place from(4);
        size_t next = 0;
        for (size_t k = 0; k < 4; ++k)
          if (k != row && k != column) from[k] = p[next++];
        from[row] = p.back() - std::min<int64_t>(offset, 0);
        from[column] = from[row] + offset;
        return x.at(from);
      });
      check_equal(diagonal(tensor_of(x), offset, a, b), want);
    }
  }
  // Of a tensor that is a view itself, and whose sizes are multiples of each other.
  check_equal(diagonal(Tensor::arange(1, 17).reshape({4, 4}).transpose().flip({0}), 1),
              {DType::I64, {3}, {8, 11, 14}});
  check_every_dtype([](const Tensor& t) { return diagonal(t, -1, 0, 2); }, {5, 2, 3});
  const Var n("n", 2, 9);
  const Tensor batch = Tensor::input("x", {n, 2, 3}, DType::I64);
  check_equal(run_at(diagonal(batch, 1), Tensor::arange(18).reshape({3, 2, 3}), 3),
              {DType::I64, {3, 2}, {1, 5, 7, 11, 13, 17}});
}

TEST_CASE("diag and trace") {
  for (const int64_t size : {1, 2, 5}) {
    const PlainArray v = numbered({size});
    for (const int64_t offset : {0, 1, -1, 4, -3}) {
      const int64_t whole = size + std::abs(offset);
      const PlainArray want = made(DType::I64, {whole, whole}, [&](const Place& p) {
        return p[1] - p[0] == offset ? v.values[static_cast<size_t>(std::min(p[0], p[1]))] : 0;
      });
      const Tensor matrix = diag(tensor_of(v), offset);
      check_equal(matrix, want);
      check_equal(diag(matrix, offset), v);
    }
  }
  check_every_dtype([](const Tensor& x) { return diag(x, -2); }, {7});
  const Tensor open = Tensor::input("x", {Var("n", 1, 9)}, DType::I64);
  check_equal(run_at(diag(open, 1), Tensor::from({int64_t{4}, int64_t{5}}), 2),
              {DType::I64, {3, 3}, {0, 4, 0, 0, 0, 5, 0, 0, 0}});
  const Tensor x = Tensor::from(noise<int8_t>(2 * 5 * 3, 7), {2, 5, 3});
  const auto in = x.to_vector<int8_t>();
  for (const int64_t offset : {-4, -1, 0, 2}) {
    const PlainArray want = made(DType::I64, {2}, [&](const Place& p) {
      int64_t sum = 0;
      for (int64_t i = 0; i < 5; ++i)
        if (0 <= i + offset && i + offset < 3)
          sum += in[static_cast<size_t>((p[0] * 5 + i) * 3 + i + offset)];
      return sum;
    });
    check_equal(trace(x, offset), want);
  }
  CHECK(trace(Tensor::eye(3, 3, DType::U8)).dtype() == DType::U64);
  CHECK(trace(Tensor::full({100, 100}, int8_t{100})).item<int64_t>() == 10000);
  CHECK(trace(Tensor::eye(3).cast(DType::F16)).dtype() == DType::F16);
}

TEST_CASE("products of all pairs") {
  const PlainArray a = numbered({2, 3}), b = numbered({1, 5});
  const auto product = [&](DType dtype) {
    return made(dtype, {6, 5}, [&](const Place& p) { return (p[0] + 1) * (p[1] + 1); });
  };
  check_equal(outer(tensor_of(a), tensor_of(b)), product(DType::I64));
  check_equal(outer(tensor_of(a).cast(DType::I8), tensor_of(b).cast(DType::F32)), product(DType::F32));
  check_equal(outer(tensor_of(a).cast(DType::U8), tensor_of(b).cast(DType::I8)), product(DType::I16));
  check_equal(outer(Tensor::scalar(int64_t{3}), Tensor::from({int64_t{2}, int64_t{5}})),
              {DType::I64, {1, 2}, {6, 15}});
  check_equal(outer(Tensor::from({true, false}), Tensor::from({false, true})),
              {DType::Bool, {2, 2}, {0, 1, 0, 0}});
  for (const auto& [left, right] : std::vector<std::pair<Sizes, Sizes>>{
           {{1}, {1}}, {{3}, {2}}, {{2, 3}, {3, 5}}, {{2}, {3, 1, 2}}, {{2, 1, 3}, {5}}, {{2, 2}, {}}}) {
    const PlainArray x = numbered(left), y = numbered(right);
    const size_t rank = std::max(left.size(), right.size());
    Sizes m = left, n = right, shape(rank);
    m.insert(m.begin(), rank - m.size(), 1);
    n.insert(n.begin(), rank - n.size(), 1);
    for (size_t k = 0; k < rank; ++k) shape[k] = m[k] * n[k];
    const PlainArray want = made(DType::I64, shape, [&](const Place& p) {
      Place i = p, j = p;
      for (size_t k = 0; k < rank; ++k) i[k] = p[k] / n[k], j[k] = p[k] % n[k];
      return reshaped(x, m).at(i) * reshaped(y, n).at(j);
    });
    check_equal(kron(tensor_of(x), tensor_of(y)), want);
  }
  CHECK(kron(Tensor::from({int16_t{2}}), Tensor::from({1.5f})).dtype() == DType::F32);
  CHECK(kron(Tensor::from({true}), Tensor::from({true, false})).dtype() == DType::Bool);
}

TEST_CASE("meshgrid, and vectors of any length") {
  const std::vector<PlainArray> vectors{numbered({3}), numbered({1}), numbered({5})};
  for (size_t count = 1; count <= 3; ++count)
    for (const bool xy : {false, true}) {
      std::vector<Tensor> tensors;
      for (size_t k = 0; k < count; ++k) tensors.push_back(tensor_of(vectors[k]));
      const auto axis = [&](size_t k) { return xy && count > 1 && k < 2 ? 1 - k : k; };
      Sizes shape(count);
      for (size_t k = 0; k < count; ++k) shape[axis(k)] = vectors[k].shape[0];
      const std::vector<Tensor> grids = meshgrid(tensors, xy);
      REQUIRE(grids.size() == count);
      for (size_t k = 0; k < count; ++k)
        check_equal(grids[k],
                    made(DType::I64, shape, [&](const Place& p) { return vectors[k].at({p[axis(k)]}); }));
    }
  const Tensor open = Tensor::input("x", {Var("n", 1, 9)}, DType::I64),
               two = Tensor::from({int64_t{4}, int64_t{5}});
  check_equal(run_at(meshgrid({open, Tensor::arange(3)}, true)[0], two, 2),
              {DType::I64, {3, 2}, {4, 5, 4, 5, 4, 5}});
  check_equal(run_at(outer(open, Tensor::arange(3)), two, 2), {DType::I64, {2, 3}, {0, 4, 8, 0, 5, 10}});
  check_equal(run_at(kron(open, two), two, 2), {DType::I64, {4}, {16, 20, 20, 25}});
  check_equal(run_at(masked_fill(open, open > 4, -1), two, 2), {DType::I64, {2}, {4, -1}});
  const auto grids = meshgrid({Tensor::from({-0.0f, kNan}), Tensor::from({true, false})});
  CHECK(grids[0].dtype() == DType::F32);
  CHECK(std::signbit(grids[0].to_vector<float>()[1]));
  CHECK(grids[1].to_vector<uint8_t>() == std::vector<uint8_t>{1, 0, 1, 0});
}

TEST_CASE("one_hot") {
  const std::vector<int64_t> at{0, 2, -1, 4, 3, INT64_MIN, 1, 7};
  for (const DType dtype : {DType::Bool, DType::I8, DType::U64, DType::F16, DType::F32, DType::F64}) {
    const PlainArray want = made(
        dtype, {2, 4, 4}, [&](const Place& p) { return at[static_cast<size_t>(p[0] * 4 + p[1])] == p[2]; });
    check_equal(one_hot(Tensor::from(at, {2, 4}), 4, dtype), want);
  }
  check_equal(one_hot(Tensor::from({uint64_t{1} << 63, UINT64_MAX, uint64_t{1}}), 2),
              {DType::F32, {3, 2}, {0, 0, 0, 0, 0, 1}});
  check_equal(one_hot(Tensor::scalar(uint8_t{0}), 1), {DType::F32, {1}, {1}});
  check_equal(one_hot(Tensor::from({int8_t{-1}, int8_t{127}}), 200, DType::I64).sum(0),
              made(DType::I64, {200}, [](const Place& p) { return p[0] == 127; }));
  const Tensor index = Tensor::input("x", {Var("n", 1, 9)}, DType::I32);
  check_equal(run_at(one_hot(index, 3), Tensor::from({2, 0}), 2), {DType::F32, {2, 3}, {0, 0, 1, 1, 0, 0}});
}

TEST_CASE("masked_fill") {
  const Tensor x = Tensor::from(std::vector<float>{1, -0.0f, kNan, 4, 5, 6}, {2, 3});
  const auto filled = masked_fill(x, Tensor::from({true, false, false}), 7);
  CHECK(filled.dtype() == DType::F32);
  const auto values = filled.to_vector<float>();
  check_close(values, std::vector<float>{7, 0, kNan, 7, 5, 6}, 0);
  CHECK(std::signbit(values[1]));
  // The mask has more axes than x; a NaN is true, and -0 is false.
  const Tensor column = Tensor::from(std::vector<float>{kNan, -0.0f, 2}, {3, 1});
  check_close(as_doubles(masked_fill(Tensor::from({1.0, 2.0}), column, -kInf)),
              std::vector<double>{-kInf, -kInf, 1, 2, -kInf, -kInf}, 0);
  const Tensor mask = Tensor::from({1, 0});
  check_equal(masked_fill(Tensor::from({uint8_t{1}, uint8_t{2}}), mask, 255), {DType::U8, {2}, {255, 2}});
  check_equal(masked_fill(Tensor::from({uint8_t{7}, uint8_t{2}}), mask, true), {DType::U8, {2}, {1, 2}});
  check_equal(masked_fill(Tensor::from({false, true}), mask, true), {DType::Bool, {2}, {1, 1}});
  check_equal(masked_fill(Tensor::from({1, 2}).cast(DType::F16), mask, 0.0), {DType::F16, {2}, {0, 2}});
  check_equal(masked_fill(Tensor::from({1, 2}), mask, int64_t{INT32_MIN}), {DType::I32, {2}, {INT32_MIN, 2}});
}

namespace {

/// Where the element before or behind an axis comes from: one edge after the other, until it is inside.
int64_t source(int64_t i, int64_t size, PadMode mode) {
  while (i < 0 || i >= size) {
    const bool before = i < 0;
    switch (mode) {
    case PadMode::Edge: i = before ? 0 : size - 1; break;
    case PadMode::Reflect: i = before ? -i : 2 * (size - 1) - i; break;
    case PadMode::Symmetric: i = before ? -1 - i : 2 * size - 1 - i; break;
    case PadMode::Wrap: i += before ? size : -size; break;
    }
  }
  return i;
}

constexpr PadMode kPadModes[] = {PadMode::Edge, PadMode::Reflect, PadMode::Symmetric, PadMode::Wrap};

} // namespace

TEST_CASE("padding with the tensor itself") {
  struct Pads {
    Sizes shape;
    std::vector<std::pair<int64_t, int64_t>> by;
  };
  for (const Pads& c : std::vector<Pads>{{{3}, {{2, 1}}},
                                         {{3}, {{11, 8}}},
                                         {{2}, {{5, 6}}},
                                         {{5}, {{0, 4}}},
                                         {{5}, {{5, 0}}},
                                         {{7}, {{6, 7}}},
                                         {{3, 5}, {{1, 3}, {2, 4}}},
                                         {{2, 3, 2}, {{0, 0}, {4, 7}, {1, 3}}},
                                         {{1, 4}, {{0, 0}, {9, 0}}},
                                         {{}, {}}}) {
    const PlainArray x = numbered(c.shape);
    for (const PadMode mode : kPadModes) {
      CAPTURE(static_cast<int>(mode));
      Sizes shape = c.shape;
      for (size_t k = 0; k < shape.size(); ++k) shape[k] += c.by[k].first + c.by[k].second;
      const PlainArray want = made(DType::I64, shape, [&](Place p) {
        for (size_t k = 0; k < p.size(); ++k) p[k] = source(p[k] - c.by[k].first, c.shape[k], mode);
        return x.at(p);
      });
      check_equal(pad(tensor_of(x), c.by, mode), want);
    }
  }
  for (const PadMode mode : {PadMode::Edge, PadMode::Symmetric, PadMode::Wrap})
    check_equal(pad(Tensor::from({int64_t{5}}), {{2, 3}}, mode), {DType::I64, {6}, {5, 5, 5, 5, 5, 5}});
  for (const PadMode mode : kPadModes)
    check_every_dtype([&](const Tensor& x) { return pad(x, {{1, 0}, {2, 6}}, mode); }, {2, 3});
  // An axis that is not padded may have any size.
  const Tensor x = Tensor::input("x", {Var("n", 1, 9), 2}, DType::I64);
  check_equal(run_at(pad(x, {{0, 0}, {1, 0}}, PadMode::Reflect), Tensor::arange(1, 5).reshape({2, 2}), 2),
              {DType::I64, {2, 3}, {2, 1, 2, 4, 3, 4}});
}

namespace {

struct Patches {
  Sizes image, kernel, stride{1, 1}, padding{0, 0}, dilation{1, 1};

  PoolOptions options() const { return {.stride = stride, .padding = padding, .dilation = dilation}; }
  int64_t count(int k) const {
    return (image[2 + k] + 2 * padding[k] - dilation[k] * (kernel[k] - 1) - 1) / stride[k] + 1;
  }
  Sizes columns() const { return {image[0], image[1] * kernel[0] * kernel[1], count(0) * count(1)}; }
  /// The pixel that an element of the columns is; nothing if that is padding.
  std::optional<Place> pixel(const Place& p) const {
    const int64_t taps = kernel[0] * kernel[1], tap[] = {p[1] % taps / kernel[1], p[1] % kernel[1]},
                  window[] = {p[2] / count(1), p[2] % count(1)};
    Place at{p[0], p[1] / taps, 0, 0};
    for (int k = 0; k < 2; ++k) {
      at[2 + k] = window[k] * stride[k] + tap[k] * dilation[k] - padding[k];
      if (at[2 + k] < 0 || at[2 + k] >= image[2 + k]) return {};
    }
    return at;
  }
};

const std::vector<Patches>& patches() {
  static const std::vector<Patches> cases{{{1, 1, 1, 1}, {1, 1}},
                                          {{2, 3, 5, 4}, {2, 3}},
                                          {{1, 2, 7, 6}, {3, 2}, {2, 2}, {1, 0}},
                                          {{2, 1, 5, 11}, {1, 2}, {3, 4}, {0, 2}},
                                          {{1, 2, 7, 7}, {3, 3}, {1, 2}, {2, 1}, {2, 3}},
                                          {{1, 1, 8, 6}, {2, 3}, {2, 3}},
                                          {{1, 3, 2, 2}, {4, 5}, {1, 1}, {3, 2}}};
  return cases;
}

} // namespace

TEST_CASE("patches of images") {
  for (const Patches& c : patches()) {
    const PlainArray x = numbered(c.image);
    const PlainArray want = made(DType::I64, c.columns(), [&](const Place& p) {
      const auto at = c.pixel(p);
      return at ? x.at(*at) : 0;
    });
    check_equal(unfold(tensor_of(x), c.kernel, c.options()), want);
  }
  CHECK(unfold(random({1, 2, 5, 5}, 1), {3}).shape() == Shape{1, 18, 9});
  check_every_dtype([](const Tensor& x) { return unfold(x, {2, 3}, {.stride = {2, 1}, .padding = {1}}); },
                    {1, 2, 3, 4});
  const Tensor x = Tensor::input("x", {Var("n", 1, 9), 1, 2, 2}, DType::I64);
  check_equal(run_at(unfold(x, {2, 1}), Tensor::arange(1, 9).reshape({2, 1, 2, 2}), 2),
              {DType::I64, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}});
}

TEST_CASE("sums of patches") {
  for (const Patches& c : patches()) {
    const PlainArray columns = numbered(c.columns());
    PlainArray want{DType::I64, c.image, {}};
    want.values.assign(static_cast<size_t>(want.count()), 0);
    made(DType::I64, c.columns(), [&](const Place& p) {
      if (const auto at = c.pixel(p)) {
        size_t flat = 0;
        for (size_t k = 0; k < 4; ++k) flat = flat * static_cast<size_t>(c.image[k]) + (*at)[k];
        want.values[flat] += columns.at(p);
      }
      return 0;
    });
    const Sizes size{c.image[2], c.image[3]};
    check_equal(fold(tensor_of(columns), size, c.kernel, c.options()), want);
    // The transpose: <unfold(x), y> = <x, fold(y)>.
    const Tensor x = random<double>(shape_of(c.image), 3), y = random<double>(shape_of(c.columns()), 4);
    CHECK((unfold(x, c.kernel, c.options()) * y).sum().item<double>() ==
          doctest::Approx((x * fold(y, size, c.kernel, c.options())).sum().item<double>()).epsilon(1e-12));
  }
  // Half precision is summed in f32 and rounded once: 2048 + 1 stays 2048, and 2048 + 3 gives 2052.
  const Tensor halves = Tensor::from({0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 2048, 0, 0, 0}).cast(DType::F16);
  check_equal(fold(halves.reshape({1, 4, 4}), {3}, {2}),
              {DType::F16, {1, 1, 3, 3}, {0, 0, 0, 0, 2052, 0, 0, 0, 0}});
  const Tensor ones = Tensor::full({1, 4, 4}, int8_t{100});
  check_equal(fold(ones, {3}, {2}),
              {DType::I8, {1, 1, 3, 3}, {100, -56, 100, -56, -112, -56, 100, -56, 100}});
}

TEST_CASE("interpolation: PyTorch's numbers") {
  const Tensor square = Tensor::from({{1.f, 2.f}, {3.f, 4.f}});
  check_close(interpolate(square, {4, 4}).to_vector<float>(),
              std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4}, 0);
  check_close(interpolate(square, {4, 4}, Interpolation::Linear).to_vector<float>(),
              std::vector<float>{1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3,
                                 3.25f, 3.75f, 4},
              0);
  check_close(interpolate(square, {4, 4}, Interpolation::Linear, true).to_vector<float>(),
              std::vector<float>{1, 1.3333f, 1.6667f, 2, 1.6667f, 2, 2.3333f, 2.6667f, 2.3333f, 2.6667f, 3,
                                 3.3333f, 3, 3.3333f, 3.6667f, 4},
              1e-4);
  const Tensor ramp = Tensor::arange(1, 17, 1, DType::F32).reshape({4, 4});
  const auto first = [](const Tensor& t) { return t.index({0}).to_vector<float>(); };
  check_close(first(interpolate(ramp, {8, 8}, Interpolation::Cubic)),
              std::vector<float>{0.47265625f, 0.76953125f, 1.24609375f, 1.875f, 2.28125f, 2.91015625f,
                                 3.38671875f, 3.68359375f},
              1e-6);
  check_close(
      first(interpolate(ramp, {8, 8}, Interpolation::Cubic, true)),
      std::vector<float>{1, 1.34110787f, 1.80029155f, 2.32944606f, 2.67055394f, 3.19970845f, 3.65889213f, 4},
      1e-6);
}

namespace {

/// One element between those of an axis, as PyTorch's upsampling computes it.
double between(const std::vector<double>& x, int64_t i, int64_t out, Interpolation mode, bool align) {
  const auto in = static_cast<int64_t>(x.size());
  const auto at = [&](int64_t k) { return x[static_cast<size_t>(std::clamp<int64_t>(k, 0, in - 1))]; };
  if (mode == Interpolation::Nearest) return at(i * in / out);
  const auto n = static_cast<double>(in), m = static_cast<double>(out), x_i = static_cast<double>(i);
  const double scale = !align ? n / m : out > 1 ? (n - 1) / (m - 1) : 0;
  double place = align ? x_i * scale : (x_i + 0.5) * scale - 0.5;
  if (mode == Interpolation::Linear) {
    place = std::max(place, 0.0);
    const auto k = static_cast<int64_t>(place);
    return at(k) + (place - std::floor(place)) * (at(k + 1) - at(k));
  }
  const double below = std::floor(place), t = place - below, a = -0.75;
  const auto k = static_cast<int64_t>(below);
  const auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return far(t + 1) * at(k - 1) + near(t) * at(k) + near(1 - t) * at(k + 1) + far(2 - t) * at(k + 2);
}

/// The same along every axis of a matrix.
std::vector<double> resized(std::vector<double> x, int64_t h, int64_t w, int64_t to_h, int64_t to_w,
                            Interpolation mode, bool align) {
  const auto rows = [&](const std::vector<double>& from, int64_t count, int64_t size, int64_t out) {
    std::vector<double> turned(static_cast<size_t>(out * count)); // transposed
    for (int64_t r = 0; r < count; ++r) {
      const std::vector<double> row(from.begin() + r * size, from.begin() + (r + 1) * size);
      for (int64_t i = 0; i < out; ++i)
        turned[static_cast<size_t>(i * count + r)] = between(row, i, out, mode, align);
    }
    return turned;
  };
  x = rows(x, h, w, to_w);
  return rows(x, to_w, h, to_h);
}

} // namespace

TEST_CASE("interpolation against plain loops") {
  struct Sizing {
    int64_t h, w, to_h, to_w;
  };
  const std::pair<Interpolation, bool> modes[] = {{Interpolation::Nearest, false},
                                                  {Interpolation::Linear, false},
                                                  {Interpolation::Linear, true},
                                                  {Interpolation::Cubic, false},
                                                  {Interpolation::Cubic, true}};
  for (const Sizing& s :
       std::vector<Sizing>{{3, 4, 7, 5}, {1, 5, 6, 1}, {6, 9, 3, 3}, {7, 5, 7, 13}, {5, 2, 2, 8}})
    for (const auto& [mode, align] : modes) {
      CAPTURE(s.h);
      CAPTURE(static_cast<int>(mode));
      CAPTURE(align);
      const Tensor x = random<double>({2, s.h, s.w}, 51);
      const Tensor y = interpolate(x, {s.to_h, s.to_w}, mode, align);
      REQUIRE(y.shape() == Shape{2, s.to_h, s.to_w});
      const auto in = x.to_vector<double>();
      std::vector<double> want;
      for (int64_t n = 0; n < 2; ++n) {
        const auto plane = in.begin() + n * s.h * s.w;
        const auto one = resized({plane, plane + s.h * s.w}, s.h, s.w, s.to_h, s.to_w, mode, align);
        want.insert(want.end(), one.begin(), one.end());
      }
      check_close(y.to_vector<double>(), want, 1e-13);
    }
}

TEST_CASE("interpolation: dtypes, and what does not spread") {
  // Read at indices, by steps, repeated.
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{{5, 4}, {16, 8}, {5, 10}})
    check_every_dtype([&](const Tensor& x) { return interpolate(x, {out}); }, {2, in});
  const Tensor ints = Tensor::from({1, 2, 4});
  for (const Interpolation mode : {Interpolation::Linear, Interpolation::Cubic}) {
    CHECK(interpolate(ints, {3}, mode).dtype() == DType::F64);
    CHECK(interpolate(ints.cast(DType::Bool), {6}, mode).dtype() == DType::F64);
    CHECK(interpolate(ints.cast(DType::BF16), {6}, mode).dtype() == DType::BF16);
    check_close(as_doubles(interpolate(ints, {7}, mode)),
                as_doubles(interpolate(ints.cast(DType::F64), {7}, mode)), 0);
    check_close(as_doubles(interpolate(ints.cast(DType::F16), {7}, mode)),
                as_doubles(interpolate(ints.cast(DType::F32), {7}, mode).cast(DType::F16)), 0);
  }
  const Tensor row = Tensor::from({0.f, 1.f, kNan, 3.f, 4.f, 5.f, kInf, 7.f});
  check_close(interpolate(row, {16}, Interpolation::Linear).to_vector<float>(),
              std::vector<float>{0, 0.25f, 0.75f, kNan, kNan, kNan, kNan, 3.25f, 3.75f, 4.25f, 4.75f, kInf,
                                 kInf, kInf, kInf, 7},
              0);
  // An axis that keeps its size is not touched.
  check_close(
      interpolate(row.reshape({2, 4}), {4, 4}, Interpolation::Cubic).index({Slice{}, 0}).to_vector<float>(),
      interpolate(row.reshape({2, 4}).index({Slice{}, 0}), {4}, Interpolation::Cubic).to_vector<float>(), 0);
  const Tensor x = Tensor::input("x", {Var("n", 1, 9), 2});
  check_close(
      run_at(interpolate(x, {3}, Interpolation::Linear, true), Tensor::from({{1.f, 2.f}, {5.f, 9.f}}), 2)
          .to_vector<float>(),
      std::vector<float>{1, 1.5f, 2, 5, 7, 9});
}

TEST_CASE("bad calls") {
  const Tensor v = Tensor::input("v", {4}), m = Tensor::input("m", {3, 4}), image = random({1, 2, 4, 4}, 1);
  const Tensor cube = Tensor::input("cube", {2, 3, 4}), i = Tensor::input("i", {3}, DType::I32);
  const Tensor open = Tensor::input("open", {2, Var("n", 1, 9)});
  const auto shape = [](const char* op, const std::function<void()>& f) {
    check_error(ErrorKind::Shape, op, f);
  };
  const auto value = [](const char* op, const std::function<void()>& f) {
    check_error(ErrorKind::Value, op, f);
  };
  const auto dtype = [](const char* op, const std::function<void()>& f) {
    check_error(ErrorKind::DType, op, f);
  };
  const auto axis = [](const char* op, const std::function<void()>& f) {
    check_error(ErrorKind::Axis, op, f);
  };
  const auto limit = [](const char* op, const std::function<void()>& f) {
    check_error(ErrorKind::Limit, op, f);
  };
  shape("tril", [&] { (void)tril(v); });
  shape("triu", [&] { (void)triu(v, 1); });
  shape("diagonal", [&] { (void)diagonal(v); });
  axis("diagonal", [&] { (void)diagonal(m, 0, 0, 2); });
  axis("diagonal", [&] { (void)diagonal(m, 0, 1, -1); });
  value("diagonal", [&] { (void)diagonal(m, 4); });
  value("diagonal", [&] { (void)diagonal(m, -3); });
  value("diagonal", [&] { (void)diagonal(m, INT64_MIN); });
  value("diagonal", [&] { (void)diagonal(open, 1); });
  shape("diag", [&] { (void)diag(cube); });
  shape("diag", [&] { (void)diag(Tensor::scalar(1.f)); });
  value("diag", [&] { (void)diag(m, 4); });
  limit("diag", [&] { (void)diag(v, INT64_MIN); });
  limit("diag", [&] { (void)diag(v, int64_t{1} << 40); });
  shape("trace", [&] { (void)trace(v); });
  value("trace", [&] { (void)trace(m, INT64_MAX); });
  const Tensor huge = Tensor::zeros({int64_t{1} << 40});
  limit("outer", [&] { (void)outer(huge, huge); });
  limit("kron", [&] { (void)kron(huge, huge); });
  value("meshgrid", [&] { (void)meshgrid({}); });
  shape("meshgrid", [&] { (void)meshgrid({v, m}); });
  limit("meshgrid", [&] { (void)meshgrid({huge, huge}); });
  dtype("one_hot", [&] { (void)one_hot(v, 3); });
  dtype("one_hot", [&] { (void)one_hot(v.cast(DType::Bool), 3); });
  value("one_hot", [&] { (void)one_hot(i, 0); });
  limit("one_hot", [&] { (void)one_hot(i, INT64_MAX); });
  shape("masked_fill", [&] { (void)masked_fill(m, i > 0, 1); });
  value("masked_fill", [&] { (void)masked_fill(i.cast(DType::U8), i > 0, 256); });
  value("masked_fill", [&] { (void)masked_fill(i.cast(DType::U8), i > 0, -1); });
  dtype("masked_fill", [&] { (void)masked_fill(i, i > 0, 0.5); });
  dtype("masked_fill", [&] { (void)masked_fill(i > 0, i > 0, 2); });
  shape("pad", [&] { (void)pad(m, {{1, 1}}, PadMode::Edge); });
  value("pad", [&] { (void)pad(m, {{0, 0}, {0, -1}}, PadMode::Wrap); });
  value("pad", [&] { (void)pad(m.reshape({12, 1}), {{0, 0}, {0, 1}}, PadMode::Reflect); });
  shape("pad", [&] { (void)pad(open, {{0, 0}, {0, 1}}, PadMode::Edge); });
  limit("pad", [&] { (void)pad(v, {{INT64_MAX, INT64_MAX}}, PadMode::Symmetric); });
  limit("pad", [&] { (void)pad(v, {{0, int64_t{1} << 60}}, PadMode::Symmetric); });
  shape("unfold", [&] { (void)unfold(cube, {2}); });
  shape("unfold", [&] { (void)unfold(image, {5}); });
  shape("unfold", [&] { (void)unfold(image, {2}, {.dilation = {1, 4}}); });
  value("unfold", [&] { (void)unfold(image, {2, 0}); });
  value("unfold", [&] { (void)unfold(image, {2, 2, 2}); });
  value("unfold", [&] { (void)unfold(image, {2}, {.stride = {0}}); });
  value("unfold", [&] { (void)unfold(image, {2}, {.padding = {-1}}); });
  value("unfold", [&] { (void)unfold(image, {2}, {.ceil_mode = true}); });
  shape("fold", [&] { (void)fold(m, {4}, {2}); });
  shape("fold", [&] { (void)fold(cube, {4}, {2}); });
  shape("fold", [&] { (void)fold(cube, {2, 2}, {3, 1}); });
  shape("fold", [&] { (void)fold(cube, {3, 3}, {3, 1}); });
  value("fold", [&] { (void)fold(cube, {0, 4}, {3, 1}); });
  value("fold", [&] { (void)fold(cube, {4, 4, 4}, {3, 1}); });
  dtype("fold", [&] { (void)fold(cube.cast(DType::Bool), {3, 4}, {3, 1}); });
  value("interpolate", [&] { (void)interpolate(m, {0}); });
  value("interpolate", [&] { (void)interpolate(m, {2, -4}); });
  shape("interpolate", [&] { (void)interpolate(m, {}); });
  shape("interpolate", [&] { (void)interpolate(m, {2, 2, 2}); });
  shape("interpolate", [&] { (void)interpolate(open, {4}, Interpolation::Linear); });
  value("interpolate", [&] { (void)interpolate(m, {4}, Interpolation::Nearest, true); });
}
