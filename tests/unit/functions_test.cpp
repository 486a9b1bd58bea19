// Free functions, numbers beside tensors, assignment with an operator, and the ways to make, index, read and print tensors.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <sstream>

#include "lathe/functions.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

template <class F> std::string message_of(F&& f, ErrorKind kind) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  return "no error";
}

std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

} // namespace

TEST_CASE("numbers stand beside tensors and take their dtypes") {
  const Tensor x = Tensor::from({-1.5f, 0.0f, 2.0f}), i = Tensor::from<int32_t>({-3, 0, 7});
  CHECK(maximum(x, 0.5).to_vector<float>() == std::vector<float>{0.5f, 0.5f, 2});
  CHECK(maximum(1, i).to_vector<int32_t>() == std::vector<int32_t>{1, 1, 7});
  CHECK(minimum(x, 0).to_vector<float>() == std::vector<float>{-1.5f, 0, 0});
  CHECK(where(x > 0, x, 0.0).to_vector<float>() == std::vector<float>{0, 0, 2});
  CHECK(where(i == 0, 5, i).to_vector<int32_t>() == std::vector<int32_t>{-3, 5, 7});
  CHECK(where(i == 0, 0.5, i).to_vector<double>() == std::vector<double>{-3, 0.5, 7});
  CHECK(where(i == 0, 1, 2).to_vector<int32_t>() == std::vector<int32_t>{2, 1, 2});
  CHECK(where(i == 0, 1, 0.5).to_vector<double>() == std::vector<double>{0.5, 1, 0.5});
  CHECK(where(i == 0, 1.f, 2).to_vector<float>() == std::vector<float>{2, 1, 2});
  CHECK(where(i == 0, true, false).dtype() == DType::Bool);
  CHECK(where(i == 0, int64_t{1} << 40, 0).dtype() == DType::I64);
  CHECK(pow(x, 2).to_vector<float>() == std::vector<float>{2.25f, 0, 4});
  CHECK(pow(2, i).to_vector<int32_t>() == std::vector<int32_t>{0, 1, 128});
  CHECK(floor_divide(i, 2).to_vector<int32_t>() == std::vector<int32_t>{-2, 0, 3});
  const std::string message = message_of([] { (void)maximum(Tensor::from<uint8_t>({1}), 300); }, ErrorKind::Value);
  CHECK(message.starts_with("maximum: 300 is no u8"));
}

TEST_CASE("free functions are the members") {
  const Tensor x = random({3, 4}, 5);
  CHECK(exp(x).to_vector<float>() == x.exp().to_vector<float>());
  CHECK(sum(x, 1, true).shape() == Shape{3, 1});
  CHECK(max(x).item<float>() == x.max().item<float>());
  CHECK(var(x, {0, 1}, 1).item<float>() == x.var({0, 1}, 1).item<float>());
  CHECK(matmul(x, x.transpose()).to_vector<float>() == x.matmul(x.transpose()).to_vector<float>());
  CHECK(std::exp(0.0) == 1); // the C library's are not hidden
  using std::max;
  CHECK(max(1, 2) == 2);
}

TEST_CASE("assignment with an operator gives a tensor another value, of the same dtype and shape") {
  Tensor x = Tensor::from({1.0f, 2.0f});
  const Tensor before = x;
  x += 1;
  x *= x;
  (x -= Tensor::from({4.0f, 0.0f})) /= 2;
  CHECK(x.to_vector<float>() == std::vector<float>{0, 4.5f});
  CHECK(before.to_vector<float>() == std::vector<float>{1, 2});
  Tensor i = Tensor::from<int32_t>({7, 8});
  i %= 4;
  i |= 1;
  i ^= Tensor::from<int32_t>({1, 1});
  i &= 3;
  CHECK(i.to_vector<int32_t>() == std::vector<int32_t>{2, 0});
  CHECK(message_of([&] { i += 0.5; }, ErrorKind::DType).starts_with("operator+=: i32 becomes f64"));
  CHECK(message_of([&] { i /= 2; }, ErrorKind::DType).starts_with("operator/="));
  CHECK(message_of([&] { x += Tensor::zeros({3, 2}); }, ErrorKind::Shape).starts_with("operator+=: [2] becomes [3, 2]"));
  CHECK(i.to_vector<int32_t>() == std::vector<int32_t>{2, 0}); // as before the errors
}

TEST_CASE("tensors are made from spans and nested lists, with sizes of any integer type") {
  const std::array<int32_t, 6> memory{1, 2, 3, 4, 5, 6};
  const std::span<const int32_t> span(memory);
  CHECK(Tensor::from(span).shape() == Shape{6});
  CHECK(Tensor::from(span, {memory.size() / 3, 3u}).to_vector<int32_t>() == std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  const Tensor rows = Tensor::from({{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}});
  CHECK(rows.shape() == Shape{3, 2});
  CHECK(rows.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor planes = Tensor::from({{{1, 2}}, {{3, 4}}});
  CHECK(planes.shape() == Shape{2, 1, 2});
  CHECK(planes.dtype() == DType::I32);
  CHECK(Tensor::from({{true, false}, {false, true}}).dtype() == DType::Bool);
  CHECK(message_of([] { (void)Tensor::from({{1, 2}, {3}}); }, ErrorKind::Shape).starts_with("from: rows of shapes [2] and [1]"));
  CHECK(Tensor::zeros({int8_t{2}, uint64_t{3}, 4L}).shape() == Shape{2, 3, 4});
  CHECK(message_of([] { (void)Tensor::zeros({-2}); }, ErrorKind::Shape).starts_with("zeros: shape [-2]"));
  CHECK_FALSE(std::is_convertible_v<double, Expr>);
  CHECK_FALSE(std::is_convertible_v<bool, Expr>);
}

TEST_CASE("tensors are indexed by operators") {
  const Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  const auto v = [](const Tensor& t) { return t.to_vector<int64_t>(); };
  CHECK(v(x[1][2]) == std::vector<int64_t>{20, 21, 22, 23});
  CHECK(x(1, 2, -1).item<int64_t>() == 23);
  CHECK(v(x(Ellipsis{}, Slice{1, 3}, 0)) == v(x.index({Ellipsis{}, Slice{1, 3}, 0})));
  CHECK(x(0, NewAxis{}).shape() == Shape{1, 3, 4});
  CHECK(message_of([&] { (void)x[2]; }, ErrorKind::Value).starts_with("index: position 2"));
}

TEST_CASE("data shows the values in place") {
  const Tensor x = random({2, 3}, 3) + 1.0;
  const std::span<const float> values = x.data<float>();
  CHECK(std::vector<float>(values.begin(), values.end()) == x.to_vector<float>());
  CHECK(x.data<float>().data() == values.data()); // computed once
  const Tensor positive = x > -10;
  CHECK(positive.data<bool>()[5]);
  CHECK(positive.data<uint8_t>()[0] == 1);
  CHECK(message_of([&] { (void)x.data<double>(); }, ErrorKind::DType).starts_with("data: dtype f32 as f64"));
}

TEST_CASE("small tensors are printed whole, large ones by their edges") {
  CHECK(printed(Tensor::from({{1.5f, 2.0f}, {3.0f, -4.0f}})) == "1.5 2\n3 -4");
  CHECK(printed(Tensor::arange(8).reshape({2, 2, 2})) == "0 1\n2 3\n\n4 5\n6 7");
  CHECK(printed(Tensor::full({}, 2.5)) == "2.5");
  CHECK(printed(Tensor::arange(1000)).ends_with("998 999"));
  CHECK(printed(Tensor::arange(1001)) == "0 1 2 ... 998 999 1000");
  CHECK(printed(Tensor::arange(4000).reshape({500, 8})) ==
        "0 1 2 ... 5 6 7\n8 9 10 ... 13 14 15\n16 17 18 ... 21 22 23\n...\n3976 3977 3978 ... 3981 3982 3983\n"
        "3984 3985 3986 ... 3989 3990 3991\n3992 3993 3994 ... 3997 3998 3999");
  CHECK(printed(Tensor::zeros({600, 2, 1})).find("\n\n...\n\n") != std::string::npos);
}

TEST_CASE("a seed that is a tensor draws the numbers of an equal seed") {
  for (const int64_t seed : {0, 7, -1}) {
    const auto number = static_cast<uint64_t>(seed);
    const Tensor t = Tensor::full({1, 1}, seed);
    CHECK(Tensor::rand({5, 3}, t).to_vector<float>() == Tensor::rand({5, 3}, number).to_vector<float>());
    CHECK(Tensor::randn({17}, t, DType::F64).to_vector<double>() == Tensor::randn({17}, number, DType::F64).to_vector<double>());
    CHECK(Tensor::randint(-5, 9, {31}, t).to_vector<int64_t>() == Tensor::randint(-5, 9, {31}, number).to_vector<int64_t>());
  }
  CHECK(message_of([] { (void)Tensor::rand({2}, Tensor::zeros({})); }, ErrorKind::DType).starts_with("rand: seed of dtype f32"));
  CHECK(message_of([] { (void)Tensor::randint(0, 2, {2}, Tensor::arange(2)); }, ErrorKind::Shape).starts_with("randint: seed of shape [2]"));
}
