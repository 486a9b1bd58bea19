// Sorting rows that are long enough to be sorted by digits, against std::stable_sort: every dtype, values
// that are equal, zeros of both signs, infinities and NaN, in both orders, along each axis.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "support/devices.hpp"

using namespace lathe;

namespace {

/// Numbers of the dtype with many equal ones, as f64, which holds all of them.
std::vector<double> numbers(DType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& v : values) {
    const uint64_t kind = random() % 10;
    const double unit = std::uniform_real_distribution<double>(-1, 1)(random);
    v = kind < 4 ? std::floor(unit * 4) : std::floor(unit * 1e6);
    if (!is_float(dtype)) continue;
    if (kind == 9)
      v = std::vector<double>{NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40}[random() % 8];
    if (kind == 8) v = unit * 1e-3;
  }
  return values;
}

/// The positions in sorted order of a row; NaN is the largest.
std::vector<int64_t> sorted(const std::vector<double>& row, bool descending) {
  const auto before = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = row[static_cast<size_t>(i)], b = row[static_cast<size_t>(j)];
    return descending ? before(b, a) : before(a, b);
  });
  return order;
}

/// Bits, so that NaN equals NaN and -0 does not equal 0.
std::vector<uint64_t> bits(const Tensor& t) {
  const std::vector<double> values = t.cast(DType::F64).to_vector<double>();
  std::vector<uint64_t> out;
  for (double v : values) out.push_back(std::isnan(v) ? 0 : std::bit_cast<uint64_t>(v));
  return out;
}

Tensor rows_of(DType dtype, int64_t rows, int64_t size) {
  return Tensor::from(numbers(dtype, rows * size, static_cast<uint64_t>(size)), {rows, size}).cast(dtype);
}

/// Checks argsort, and returns what it is to give.
std::vector<int64_t> check_order(DType dtype, int64_t rows, int64_t size, bool descending) {
  const Tensor x = rows_of(dtype, rows, size);
  const std::vector<double> values = x.cast(DType::F64).to_vector<double>();
  std::vector<int64_t> want;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t p : sorted({values.begin() + r * size, values.begin() + (r + 1) * size}, descending))
      want.push_back(p);
  CHECK(x.argsort(-1, descending).to_vector<int64_t>() == want);
  return want;
}

void check_sorted(DType dtype, int64_t rows, int64_t size, bool descending) {
  const std::vector<int64_t> want = check_order(dtype, rows, size, descending);
  const Tensor x = rows_of(dtype, rows, size), order = Tensor::from(want, {rows, size});
  CHECK(bits(x.sort(-1, descending)) == bits(x.gather(-1, order)));
  CHECK(x.transpose().argsort(0, descending).transpose().to_vector<int64_t>() == want);
}

void check_chosen(DType dtype, int64_t size, int64_t k, bool largest) {
  const Tensor x = Tensor::from(numbers(dtype, 2 * size, static_cast<uint64_t>(k)), {2, size}).cast(dtype);
  const std::vector<double> values = x.cast(DType::F64).to_vector<double>();
  std::vector<int64_t> want;
  for (int64_t r = 0; r < 2; ++r) {
    const std::vector<int64_t> all =
        sorted({values.begin() + r * size, values.begin() + (r + 1) * size}, largest);
    want.insert(want.end(), all.begin(), all.begin() + k);
  }
  const auto [best, indices] = x.topk(k, -1, largest);
  CHECK(indices.to_vector<int64_t>() == want);
  CHECK(bits(best) == bits(x.gather(-1, Tensor::from(want, {2, k}))));
}

} // namespace

TEST_CASE("every dtype, by the interpreter") {
  set_default_device("interp");
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    INFO(to_string(dtype));
    if (d % 2 == 0) check_order(dtype, 1, 4097, d % 4 == 0);
    if (d % 2 == 1) check_chosen(dtype, 1025, 37, d % 4 == 1);
  }
  set_default_device("cpu");
}

TEST_CASE("numbers of different widths, compiled") {
  for (const DType dtype : {DType::I8, DType::F16, DType::I64}) {
    INFO(to_string(dtype));
    check_order(dtype, 2, 4133, true);
  }
  check_chosen(DType::U16, 4099, 5, false);
  check_sorted(DType::F32, 2, 4157, false);
  for (const int64_t k : {0, 1, 32, 33, 300, 2049}) check_chosen(DType::F32, 5003, k, true);
}

TEST_CASE("rows that are ranked: in one block, in some, and with a last one that is not full") {
  for (const int64_t size : {1, 2, 63, 64, 65, 96, 97, 1025})
    for (const DType dtype : {DType::F32, DType::U8, DType::F64}) {
      INFO(to_string(dtype), " ", size);
      check_order(dtype, 3, size, size % 2 == 0);
    }
  for (const DType dtype : {DType::F16, DType::I32, DType::U32, DType::I64, DType::U64, DType::Bool})
    check_order(dtype, 2, 131, true);
  check_sorted(DType::BF16, 2, 97, true);
}

TEST_CASE_TEMPLATE("integers at the ends of their dtype are ranked", T, int8_t, uint16_t, int32_t, uint32_t,
                   int64_t, uint64_t) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> row;
  for (int k = 0; k < 20; ++k)
    for (const T value :
         {Limits::max(), T{1}, Limits::min(), T(Limits::max() - 1), T{0}, T(Limits::min() + 1)})
      row.push_back(value);
  std::vector<int64_t> want(row.size());
  std::iota(want.begin(), want.end(), 0);
  std::ranges::stable_sort(want, {}, [&](int64_t k) { return row[static_cast<size_t>(k)]; });
  const Tensor order = Tensor::from(row).argsort(), least = Tensor::from(row).topk(7, -1, false).second;
  CHECK(order.to_vector<int64_t>() == want);
  CHECK(least.to_vector<int64_t>() == std::vector<int64_t>(want.begin(), want.begin() + 7));
}

TEST_CASE("the first few of rows, whole and cut into blocks") {
  for (const auto& [size, k] : {std::pair<int64_t, int64_t>{2, 1},
                                {16, 8},
                                {17, 8},
                                {127, 7},
                                {128, 8},
                                {128, 2},
                                {513, 32},
                                {513, 33},
                                {1031, 5},
                                {4099, 31},
                                {20011, 32}})
    for (const DType dtype : {DType::F32, DType::I8, DType::F64, DType::BF16}) {
      INFO(to_string(dtype), " ", k, " of ", size);
      check_chosen(dtype, size, k, k % 2 == 0);
    }
}

TEST_CASE("the first few of rows whose size is a symbol") {
  const Expr n = Var("n", 5, 4096);
  const auto program = compile({{"best", Tensor::input("x", Shape{Expr(2), n}).topk(5).second}}, on("cpu"));
  for (const int64_t size : {5, 6, 700}) {
    const Tensor x = rows_of(DType::F32, 2, size);
    CHECK(program(NamedTensors{{"x", x}}).at("best").to_vector<int64_t>() ==
          x.topk(5).second.to_vector<int64_t>());
  }
}

TEST_CASE("on the other devices") {
  for (const std::string device : {"c", "opencl"}) {
    if (!has_device(device)) continue;
    INFO(device);
    set_default_device(device);
    check_sorted(DType::U8, 1, 4100, false);
    check_chosen(DType::U8, 2050, 3, true);
    check_chosen(DType::F32, 2050, 40, false);
  }
  set_default_device("cpu");
}

TEST_CASE("a row of two million, whose counters have another width") {
  const int64_t size = (int64_t{1} << 21) + 1;
  check_order(DType::I8, 1, size, false);
}

TEST_CASE("the shortest row that is sorted by digits is sorted like the longest that is not") {
  const Tensor x = Tensor::from(numbers(DType::F32, 4097, 5)).cast(DType::F32);
  const Tensor shorter = x.index({Slice{{}, 4096}});
  for (const Tensor& t : {x, shorter}) {
    const std::vector<int64_t> want = sorted(t.cast(DType::F64).to_vector<double>(), false);
    CHECK(t.argsort().to_vector<int64_t>() == want);
  }
}

TEST_CASE("derivatives go to the elements that were chosen") {
  const int64_t n = 3000;
  const Tensor x = Tensor::input("x", {n}), weights = Tensor::arange(n).cast(DType::F32);
  const std::vector<double> values = numbers(DType::I32, n, 9);
  const NamedTensors fed{{"x", Tensor::from(values).cast(DType::F32)}};
  const Tensor by_sort = gradients((x.sort() * weights).sum(), {x})[0];
  const Tensor by_topk = gradients(x.topk(5).first.sum(), {x})[0];
  const NamedTensors got = compile({{"sort", by_sort}, {"topk", by_topk}}, on("cpu"))(fed);
  const std::vector<int64_t> up = sorted(values, false), down = sorted(values, true);
  std::vector<float> want(static_cast<size_t>(n)), chosen(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k)
    want[static_cast<size_t>(up[static_cast<size_t>(k)])] = static_cast<float>(k);
  for (size_t k = 0; k < 5; ++k) chosen[static_cast<size_t>(down[k])] = 1;
  CHECK(got.at("sort").to_vector<float>() == want);
  CHECK(got.at("topk").to_vector<float>() == chosen);
}
