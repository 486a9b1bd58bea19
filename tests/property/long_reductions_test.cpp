// Reductions of many elements into few results, which are cut into parts: they are exact on every device.
#include <cmath>
#include <limits>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/devices.hpp"

using namespace lathe;

namespace {

/// A tensor of three axes, its elements as integers, and the axes to reduce.
struct Case {
  std::vector<int64_t> shape;
  std::vector<int> axes;
  std::string name() const { return fmt::format("{} along {}", shape, axes); }
  int64_t count() const { return shape[0] * shape[1] * shape[2]; }
  bool reduces(int axis) const { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }
  Axes reduced() const { return Axes(axes); }
  Shape full() const { return {shape[0], shape[1], shape[2]}; }

  /// Calls f(result, element) with the places of each element and of the result that it belongs to.
  template <class F> void visit(F f) const {
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        for (int64_t k = 0; k < shape[2]; ++k) {
          int64_t result = reduces(0) ? 0 : i;
          if (!reduces(1)) result = result * shape[1] + j;
          if (!reduces(2)) result = result * shape[2] + k;
          f(static_cast<size_t>(result), static_cast<size_t>((i * shape[1] + j) * shape[2] + k));
        }
  }
  size_t results() const {
    size_t n = 1;
    for (int a = 0; a < 3; ++a)
      if (!reduces(a)) n *= static_cast<size_t>(shape[static_cast<size_t>(a)]);
    return n;
  }
};

const std::vector<Case> kCases{
    {{1, 1, 131071}, {0, 1, 2}}, {{1, 1, 131072}, {2}},   {{1, 1, 132097}, {2}},
    {{1, 257, 1031}, {1, 2}},    {{3, 131101, 1}, {1}},   {{1, 132001, 3}, {0, 1}},
    {{67, 63, 131}, {0, 1, 2}},  {{67, 2, 2053}, {0, 2}}, {{2, 66001, 5}, {0, 1}},
};

/// Values of which every sum is exact, and no two extremes are equal but by chance.
template <class T> std::vector<T> values_of(const Case& c) {
  std::mt19937_64 random(static_cast<uint64_t>(c.count()));
  std::vector<T> values(static_cast<size_t>(c.count()));
  for (T& v : values) v = static_cast<T>(static_cast<int64_t>(random() % 200000) - 100000);
  return values;
}

template <class T> struct Reduced {
  std::vector<T> least, most;
  std::vector<int64_t> sum;
  std::vector<uint8_t> any, all;
};

template <class T> Reduced<T> expected(const Case& c, const std::vector<T>& values, T wanted) {
  const size_t n = c.results();
  Reduced<T> r{std::vector<T>(n, std::numeric_limits<T>::max()),
               std::vector<T>(n, std::numeric_limits<T>::lowest()), std::vector<int64_t>(n),
               std::vector<uint8_t>(n), std::vector<uint8_t>(n, 1)};
  c.visit([&](size_t at, size_t element) {
    const T v = values[element];
    r.least[at] = std::min(r.least[at], v);
    r.most[at] = std::max(r.most[at], v);
    r.sum[at] += static_cast<int64_t>(v);
    r.any[at] = r.any[at] || v == wanted;
    r.all[at] = r.all[at] && v != wanted;
  });
  return r;
}

template <class T> void check(const Case& c, const std::string& device) {
  CAPTURE(c.name());
  CAPTURE(device);
  const std::vector<T> values = values_of<T>(c);
  const T wanted = values.back();
  const Tensor x = Tensor::input("x", c.full(), dtype_of<T>()), is_wanted = x == Tensor::scalar(wanted);
  const Axes axes(c.axes);
  const auto got = compile({{"least", x.min(axes)},
                            {"most", x.max(axes)},
                            {"sum", x.cast(DType::I64).sum(axes)},
                            {"any", is_wanted.any(axes)},
                            {"all", is_wanted.logical_not().all(axes)}},
                           on(device))({{"x", Tensor::from(values, c.full())}});
  const Reduced<T> want = expected(c, values, wanted);
  CHECK(got.at("least").template to_vector<T>() == want.least);
  CHECK(got.at("most").template to_vector<T>() == want.most);
  CHECK(got.at("sum").template to_vector<int64_t>() == want.sum);
  CHECK(got.at("any").template to_vector<uint8_t>() == want.any);
  CHECK(got.at("all").template to_vector<uint8_t>() == want.all);
}

} // namespace

TEST_CASE("reductions in parts are exact") {
  for (const Case& c : kCases) {
    check<float>(c, default_device());
    check<int8_t>(c, default_device());
  }
  for (const std::string& device : present_devices())
    if (device != default_device()) check<int32_t>(kCases[2], device);
}

TEST_CASE("a NaN anywhere is the extreme") {
  const int64_t count = 132097;
  const Tensor x = Tensor::input("x", {count});
  const Executable program =
      compile({{"least", x.min()}, {"most", x.max()}, {"at", x.argmax()}}, on(default_device()));
  for (const int64_t at : {int64_t{0}, int64_t{70000}, count - 1}) {
    std::vector<float> values(static_cast<size_t>(count), 1.0f);
    values[static_cast<size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
    const auto got = program({{"x", Tensor::from(values)}});
    CHECK(std::isnan(got.at("least").item<float>()));
    CHECK(std::isnan(got.at("most").item<float>()));
    CHECK(got.at("at").item<int64_t>() == at);
  }
}

TEST_CASE("all elements equal to an extreme share its derivative evenly") {
  const int64_t count = 132097;
  const Tensor x = Tensor::input("x", {count}), most = x.max(), least = x.min();
  std::vector<float> values(static_cast<size_t>(count), 0.5f), want(values.size(), 0.0f);
  for (const size_t at : {size_t{0}, size_t{1}, size_t{70000}, values.size() - 1}) {
    values[at] = 2;
    want[at] = 0.25f;
  }
  values[9] = values[132090] = -1;
  want[9] = want[132090] = 1.5f;
  const Tensor slope = gradients(most + least * 3.0f, {x})[0];
  const auto got = compile({{"slope", slope}}, on(default_device()))({{"x", Tensor::from(values)}});
  CHECK(got.at("slope").to_vector<float>() == want);
}
