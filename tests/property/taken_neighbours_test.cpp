// Elements taken at known positions that repeat, as resizing does it: views, which must give what indices
// give.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/neighbours.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

using Positions = std::vector<int64_t>;

/// Position b * j + p is a * j + offset[p], inside.
Positions resized(int64_t size, int64_t a, const std::vector<int64_t>& offset) {
  Positions out;
  for (int64_t j = 0; j < size / a; ++j)
    for (const int64_t o : offset) out.push_back(std::clamp<int64_t>(a * j + o, 0, size - 1));
  return out;
}

/// Numbers with a NaN and infinities, which no neighbour's result may take up.
std::vector<float> numbers(int64_t count, std::mt19937& random) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) {
    const auto kind = random() % 8;
    v = kind == 0 ? NAN : kind == 1 ? INFINITY : static_cast<float>(random() % 1000) - 500;
  }
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b,
                            [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// Of [before, size, after], the elements at the positions.
std::vector<float> taken(const std::vector<float>& x, int64_t before, int64_t size, int64_t after,
                         const Positions& positions) {
  std::vector<float> out;
  for (int64_t i = 0; i < before; ++i)
    for (const int64_t at : positions)
      for (int64_t k = 0; k < after; ++k) out.push_back(x[static_cast<size_t>((i * size + at) * after + k)]);
  return out;
}

} // namespace

TEST_CASE("positions that repeat, along each axis") {
  std::mt19937 random(7);
  const auto check = [&](const std::string& device, const Positions& positions, int64_t size, bool as_views) {
    for (const int axis : {0, 1}) {
      const int64_t other = 1 + static_cast<int64_t>(random() % 20);
      const Shape shape = axis == 0 ? Shape{size, other} : Shape{other, size};
      const std::vector<float> data = numbers(size * other, random);
      const Tensor x = Tensor::input("x", shape);
      INFO(device, " axis ", axis, " of ", size, ", other axis ", other, ", ", positions.size(), " results");
      CHECK(graph::take_neighbours(x, axis, positions).has_value() == as_views);
      const Tensor y = x.take(Tensor::from(positions), axis);
      const auto got = compile({{"y", y}}, on(device))({{"x", Tensor::from(data, shape)}}).at("y");
      CHECK(got.shape()[axis] == Expr(static_cast<int64_t>(positions.size())));
      CHECK(same(got.to_vector<float>(), axis == 0 ? taken(data, 1, size, other, positions)
                                                   : taken(data, other, size, 1, positions)));
    }
  };
  struct Resizing {
    int64_t a;
    std::vector<int64_t> offset;
  };
  const Resizing kinds[] = {{1, {0}},     {1, {0, 0}}, {1, {-1, 0}}, {1, {0, 1}}, {1, {-2, -1}},
                            {1, {1, 2}},  {2, {0}},    {2, {1}},     {2, {-1}},   {2, {2}},
                            {1, {1}},     {3, {0, 2}}, {3, {-1, 1}}, {4, {4}},    {1, {-1, -1, 0, 0}},
                            {1, {0, -1}}, {2, {3}}};
  for (const std::string& device : present_devices())
    for (const Resizing& kind : kinds)
      for (const int64_t groups : {1, 2, 5, 17})
        if (device == "cpu" || groups == 5) {
          // Where there are few elements, clamping may make a simpler pattern of it.
          const Positions positions = resized(groups * kind.a, kind.a, kind.offset);
          const bool as_views =
              graph::take_neighbours(Tensor::zeros({groups * kind.a}), 0, positions).has_value();
          if (groups >= 5) CHECK(as_views);
          check(device, positions, groups * kind.a, as_views);
        }
  // No such pattern: a row backwards, one place that differs, five apart, three results each.
  check("cpu", {3, 2, 1, 0}, 4, false);
  check("cpu", {0, 0, 1, 1, 2, 3, 3, 3}, 4, false);
  check("cpu", resized(25, 5, {-4}), 25, false);
  check("cpu", resized(6, 1, {0, 0, 1}), 6, false);
}

TEST_CASE("random positions") {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const int64_t size = 1 + static_cast<int64_t>(random() % 4);
    Positions positions(1 + random() % 8);
    for (int64_t& at : positions) at = static_cast<int64_t>(random() % static_cast<unsigned>(size));
    const std::vector<float> data = numbers(size, random);
    const Tensor y = Tensor::from(data).take(Tensor::from(positions), 0);
    CHECK(same(y.to_vector<float>(), taken(data, 1, size, 1, positions)));
  }
}

TEST_CASE("positions outside stay an error or another element's, and none gives nothing") {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3});
  CHECK(x.take(Tensor::from(Positions{-1, 0, 1}), 0).to_vector<float>() == std::vector<float>{3, 1, 2});
  CHECK(x.take(Tensor::zeros({0}, DType::I64), 0).to_vector<float>().empty());
}

TEST_CASE("derivatives are added up where an element is read again") {
  const Tensor x = Tensor::input("x", {6});
  const Positions positions = resized(6, 1, {-1, 0});
  const Tensor weights = Tensor::arange(12).cast(DType::F32);
  const Tensor g = gradients((x.take(Tensor::from(positions), 0) * weights).sum(), {x})[0];
  std::vector<float> want(6);
  for (size_t k = 0; k < positions.size(); ++k)
    want[static_cast<size_t>(positions[k])] += static_cast<float>(k);
  CHECK(compile({{"g", g}}, on("cpu"))(NamedTensors{}).at("g").to_vector<float>() == want);
}
