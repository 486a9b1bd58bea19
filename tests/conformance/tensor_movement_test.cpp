// Indexing, padding, joining, gathering and scattering, bit by bit.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("indexing") {
  const Tensor x = Tensor::arange(30).reshape({5, 6});
  const auto v = [](const Tensor& t) { return t.to_vector<int64_t>(); };
  CHECK(v(x.index({1, 2})) == std::vector<int64_t>{8});
  CHECK(v(x.index({-1, Slice{{}, {}, 2}})) == std::vector<int64_t>{24, 26, 28});
  CHECK(v(x.index({Slice{{}, {}, -2}, 0})) == std::vector<int64_t>{24, 12, 0});
  CHECK(v(x.index({Slice{3, 0, -2}, 1})) == std::vector<int64_t>{19, 7});
  CHECK(v(x.index({Slice{-2, {}}, Slice{-2, 100}})) == std::vector<int64_t>{22, 23, 28, 29});
  CHECK(v(x.index({Slice{-100, 1}, Slice{4, {}, -3}})) == std::vector<int64_t>{4, 1});
  CHECK(v(x.index({Ellipsis{}, Slice{1, 6, 4}}).flip({0}).index({0})) == std::vector<int64_t>{25, 29});
  CHECK(v(x.roll(2, 0).index({Ellipsis{}, 0})) == std::vector<int64_t>{18, 24, 0, 6, 12});
  CHECK(v(x.roll(-1, 1).index({0})) == std::vector<int64_t>{1, 2, 3, 4, 5, 0});
  CHECK(v(Tensor::arange(3).repeat({2, 2})) == std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(v(Tensor::arange(6).window(0, 3, 2)) == std::vector<int64_t>{0, 1, 2, 2, 3, 4});
  CHECK(v(Tensor::arange(6).window(0, 2, 1, 3)) == std::vector<int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(v(Tensor::arange(10, 0, -3)) == std::vector<int64_t>{10, 7, 4, 1});
  CHECK(v(Tensor::tri(3, 4, 1, DType::I64)) == std::vector<int64_t>{1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  CHECK(v(Tensor::eye(2, 3, DType::I64)) == std::vector<int64_t>{1, 0, 0, 0, 1, 0});
  check_close(Tensor::linspace(0, 1, 5).to_vector<float>(), std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1});
}

TEST_CASE("padding, joining and splitting keep every bit") {
  const Tensor x = Tensor::from(std::vector<float>{kNan, -0.0f, kInf, 2}, {2, 2}),
               y = Tensor::from(std::vector<float>{-0.0f, 5}, {1, 2});
  const auto joined = concat({x, y, x}).to_vector<float>();
  check_close(joined, std::vector<float>{kNan, 0, kInf, 2, 0, 5, kNan, 0, kInf, 2}, 0);
  CHECK(std::signbit(joined[1]));
  CHECK(std::signbit(joined[4]));
  check_close(x.pad({{0, 1}, {1, 0}}, -1).to_vector<float>(),
              std::vector<float>{-1, kNan, 0, -1, kInf, 2, -1, -1, -1}, 0);
  check_close(stack({y, y}, 2).to_vector<float>(), std::vector<float>{0, 0, 5, 5}, 0);
  const Tensor z = random({7, 3}, 12);
  for (int axis : {0, 1})
    check_close(concat(z.split(2, axis), axis).to_vector<float>(), z.to_vector<float>(), 0);
  const auto parts = z.split({1, 4, 2});
  CHECK(parts[1].to_vector<float>() == z.shrink({{1, 5}, {0, 3}}).to_vector<float>());
  CHECK(concat({Tensor::from({1, 2}), Tensor::from({0.5})}).to_vector<double>() ==
        std::vector<double>{1, 2, 0.5});
}

TEST_CASE("gather, take and scatter") {
  const auto in = noise<int32_t>(12, 3);
  const Tensor x = Tensor::from(in, {3, 4});
  const std::vector<int64_t> at{0, 2, -1, 1, 5, 0, -3, 2};
  const Tensor i = Tensor::from(at, {2, 4});
  const auto got = x.gather(0, i).to_vector<int32_t>();
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      const int64_t k = at[r * 4 + c] < 0 ? at[r * 4 + c] + 3 : at[r * 4 + c];
      CHECK(got[r * 4 + c] == (k < 3 ? in[k * 4 + c] : 0));
    }
  const auto rows = x.take(Tensor::from({2, 0, -1}), 0).to_vector<int32_t>();
  for (int64_t c = 0; c < 4; ++c) {
    CHECK(rows[c] == in[8 + c]);
    CHECK(rows[4 + c] == in[c]);
    CHECK(rows[8 + c] == in[8 + c]);
  }
  CHECK(x.take(Tensor::from(std::vector<int>{1, 1}, {2, 1}), 1).shape() == Shape{3, 2, 1});
  CHECK(x.take(Tensor::from({3, 1}), 1).to_vector<int32_t>() ==
        std::vector<int32_t>{in[3], in[1], in[7], in[5], in[11], in[9]});
  const Tensor source = Tensor::ones({2, 4}, DType::I32);
  std::vector<int32_t> sums(12), last(12);
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      const int64_t k = at[r * 4 + c] < 0 ? at[r * 4 + c] + 3 : at[r * 4 + c];
      if (k < 3) sums[k * 4 + c] += 1, last[k * 4 + c] = 1;
    }
  CHECK(Tensor::zeros({3, 4}, DType::I32).scatter_add(0, i, source).to_vector<int32_t>() == sums);
  CHECK(Tensor::zeros({3, 4}, DType::I32).scatter(0, i, source).to_vector<int32_t>() == last);
}

template <class T> void check_combined_at_places() {
  const auto base = noise<T>(5 * 3, 7), source = noise<T>(40 * 3, 8);
  const auto rows = noise<int32_t>(40 * 3, 9);
  std::vector<int64_t> at(rows.size());
  for (size_t i = 0; i < at.size(); ++i) at[i] = std::abs(rows[i]) % 11 - 5; // 5 is out of range
  auto product = base, largest = base, least = base;
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] == 5) continue;
    const size_t to = static_cast<size_t>(at[i] + (at[i] < 0 ? 5 : 0)) * 3 + i % 3;
    if constexpr (std::is_integral_v<T>)
      product[to] = static_cast<T>(static_cast<uint64_t>(product[to]) * static_cast<uint64_t>(source[i]));
    else
      product[to] *= source[i];
    largest[to] = std::max(largest[to], source[i]), least[to] = std::min(least[to], source[i]);
  }
  const Tensor x = Tensor::from(base, {5, 3}), index = Tensor::from(at, {40, 3}),
               values = Tensor::from(source, {40, 3});
  CHECK(x.scatter_max(0, index, values).template to_vector<T>() == largest);
  CHECK(x.scatter_min(0, index, values).template to_vector<T>() == least);
  CHECK(x.scatter_mul(0, index, values).template to_vector<T>() == product);
}

TEST_CASE("what falls on one place is multiplied, or the largest or least is kept") {
  check_combined_at_places<float>();
  check_combined_at_places<double>();
  check_combined_at_places<int8_t>();
  check_combined_at_places<uint8_t>();
  check_combined_at_places<int64_t>();
  const Tensor x = Tensor::from({1.f, 2.f}), at = Tensor::from({0, 1});
  CHECK_THROWS_WITH_AS(x.scatter_min(0, at, x.cast(DType::F64)), doctest::Contains("scatter_min"), Error);
  CHECK_THROWS_WITH_AS((x < 1.5f).scatter_max(0, at, x < 1.f), doctest::Contains("scatter_max: dtype bool"),
                       Error);
  const Tensor least = Tensor::from({std::numeric_limits<int32_t>::min(), 3});
  CHECK(least.scatter_min(0, at, Tensor::from({5, 4})).to_vector<int32_t>() ==
        std::vector<int32_t>{std::numeric_limits<int32_t>::min(), 3});
}

TEST_CASE("indices outside of an inner axis reach no neighbouring row") {
  const auto in = noise<int32_t>(2 * 3 * 4, 5);
  const Tensor x = Tensor::from(in, {2, 3, 4});
  const std::vector<int64_t> at{0, 2, 3, -1, -3, -4, 4, 7};
  const auto place = [](int64_t k) { return k < 0 ? k + 3 : k; };
  const auto inside = [&](int64_t k) { return 0 <= place(k) && place(k) < 3; };
  const auto element = [&](int64_t a, int64_t k, int64_t c) {
    return inside(k) ? in[static_cast<size_t>((a * 3 + place(k)) * 4 + c)] : 0;
  };
  const int64_t count = static_cast<int64_t>(at.size());
  const Tensor index = Tensor::from(at).reshape({1, count, 1}).expand({2, count, 4});
  const Tensor source = Tensor::arange(2 * count * 4).reshape({2, count, 4}).cast(DType::I32);
  std::vector<int32_t> taken, sums(in), last(in);
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < 4; ++c) {
        taken.push_back(element(a, at[r], c));
        if (!inside(at[r])) continue;
        const size_t to = static_cast<size_t>((a * 3 + place(at[r])) * 4 + c);
        const auto value = static_cast<int32_t>((a * count + r) * 4 + c);
        sums[to] += value, last[to] = value;
      }
  CHECK(x.gather(1, index).to_vector<int32_t>() == taken);
  CHECK(x.take(Tensor::from(at), 1).to_vector<int32_t>() == taken);
  CHECK(x.scatter_add(1, index, source).to_vector<int32_t>() == sums);
  CHECK(x.scatter(1, index, source).to_vector<int32_t>() == last);
}
