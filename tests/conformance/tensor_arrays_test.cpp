// Matrices and choices of array_functions.hpp against plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "support/errors.hpp"
#include "support/moved_elements.hpp"

using namespace lathe;
using namespace lathe::test;

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

TEST_CASE("bad calls of matrices and choices") {
  const Tensor v = Tensor::input("v", {4}), m = Tensor::input("m", {3, 4});
  const Tensor cube = Tensor::input("cube", {2, 3, 4}), i = Tensor::input("i", {3}, DType::I32);
  const Tensor open = Tensor::input("open", {2, Var("n", 1, 9)});
  const auto shape = errors_of(ErrorKind::Shape);
  const auto value = errors_of(ErrorKind::Value);
  const auto dtype = errors_of(ErrorKind::DType);
  const auto axis = errors_of(ErrorKind::Axis);
  const auto limit = errors_of(ErrorKind::Limit);
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
}
