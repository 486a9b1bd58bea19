// Calls of the public API that must mean what they read as, or not compile.
#include <doctest/doctest.h>

#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

// What is asked is whether a call compiles, so that each is a template's.
#define LATHE_COMPILES(name, ...) \
  template <class T> concept name = requires(const T& t) { __VA_ARGS__; }
LATHE_COMPILES(SumOfBool, t.sum(true));
LATHE_COMPILES(SumOfFloat, t.sum(1.0));
LATHE_COMPILES(SumOfChar, t.sum('1'));
LATHE_COMPILES(SumOfTwo, t.sum(0, 1));
LATHE_COMPILES(SumOfBoolList, t.sum({true}));
LATHE_COMPILES(SumOfFloatList, t.sum({0.0}));
LATHE_COMPILES(SumKept, t.sum(0, true));
LATHE_COMPILES(SumOfLong, t.sum(int64_t{0}));
LATHE_COMPILES(SumOfSize, t.sum(size_t{0}));
LATHE_COMPILES(SumOfList, t.sum({0, -1}, true));
LATHE_COMPILES(MeanOfTwo, t.mean(0, 1));
LATHE_COMPILES(MaxOfBool, t.max(false));
LATHE_COMPILES(VarOfBool, t.var(0, true));
LATHE_COMPILES(VarKept, t.var(0, 1, true));
LATHE_COMPILES(VarOfThree, t.var(0, 1, 1));
LATHE_COMPILES(StdOfFloat, t.std({0}, 0.5));
LATHE_COMPILES(ArgmaxOfBool, t.argmax(true));
LATHE_COMPILES(ArgmaxOfTwo, t.argmax(0, 1));
LATHE_COMPILES(ArgmaxOfAll, t.argmax({}, true));
LATHE_COMPILES(SoftmaxOfNone, t.softmax({}));
LATHE_COMPILES(SoftmaxOfBool, t.softmax(true));
LATHE_COMPILES(CumsumOfNone, t.cumsum({}));
LATHE_COMPILES(SortDown, t.sort(true));
LATHE_COMPILES(SortAxisDown, t.sort(-1, true));
LATHE_COMPILES(TopkSmallest, t.topk(1, false));
LATHE_COMPILES(TopkOfFloat, t.topk(1.5));
LATHE_COMPILES(GeluByName, t.gelu("none"));
LATHE_COMPILES(GeluByTanh, t.gelu(true));
LATHE_COMPILES(UnsqueezeNone, t.unsqueeze({}));
LATHE_COMPILES(SqueezeBool, t.squeeze(true));
LATHE_COMPILES(TransposeBool, t.transpose(true, false));
LATHE_COMPILES(FlipBool, t.flip(true));
LATHE_COMPILES(RollFloat, t.roll(0.5, 0));
LATHE_COMPILES(TakeAxisNone, t.take(t, {}));
LATHE_COMPILES(SplitFloat, t.split(1.5));
LATHE_COMPILES(SplitBool, t.split(true));
LATHE_COMPILES(IndexBool, t.index({true}));
LATHE_COMPILES(IndexFloat, t.index({1.5}));
LATHE_COMPILES(IndexSize, t.index({size_t{1}, -1}));
LATHE_COMPILES(ArangeOfFloats, T::arange(0.0, 1.0));
LATHE_COMPILES(ArangeByFloat, T::arange(0, 1, 0.25));
LATHE_COMPILES(RandintOfFloats, T::randint(0.0, 1.0, {2}, 1));
LATHE_COMPILES(LinspaceByStep, T::linspace(0, 1, 0.1));
LATHE_COMPILES(AttentionByScale, scaled_dot_product_attention(t, t, t, {}, 0.125));
LATHE_COMPILES(LayerNormByEps, t.layer_norm({-1}, 1e-5));
#undef LATHE_COMPILES

static_assert(!SumOfBool<Tensor> && !SumOfFloat<Tensor> && !SumOfChar<Tensor> && !SumOfTwo<Tensor>);
static_assert(!SumOfBoolList<Tensor> && !SumOfFloatList<Tensor> && !MeanOfTwo<Tensor> && !MaxOfBool<Tensor>);
static_assert(SumKept<Tensor> && SumOfLong<Tensor> && SumOfSize<Tensor> && SumOfList<Tensor>);
static_assert(!VarOfBool<Tensor> && !VarOfThree<Tensor> && !StdOfFloat<Tensor> && VarKept<Tensor>);
static_assert(!ArgmaxOfBool<Tensor> && !ArgmaxOfTwo<Tensor> && ArgmaxOfAll<Tensor>);
static_assert(!SoftmaxOfNone<Tensor> && !SoftmaxOfBool<Tensor> && !CumsumOfNone<Tensor> && !UnsqueezeNone<Tensor>);
static_assert(!SortDown<Tensor> && SortAxisDown<Tensor> && !TopkSmallest<Tensor> && !TopkOfFloat<Tensor>);
static_assert(!GeluByName<Tensor> && GeluByTanh<Tensor> && !AttentionByScale<Tensor> && !LayerNormByEps<Tensor>);
static_assert(!SqueezeBool<Tensor> && !TransposeBool<Tensor> && !FlipBool<Tensor> && !RollFloat<Tensor> && !TakeAxisNone<Tensor>);
static_assert(!SplitFloat<Tensor> && !SplitBool<Tensor> && !IndexBool<Tensor> && !IndexFloat<Tensor> && IndexSize<Tensor>);
static_assert(!ArangeOfFloats<Tensor> && !ArangeByFloat<Tensor> && !RandintOfFloats<Tensor> && !LinspaceByStep<Tensor>);

const Shape kNone{}, kOnes{1, 1, 1};

} // namespace

TEST_CASE("{} is all axes, a number one axis, a list the axes in it") {
  const Tensor t = Tensor::input("t", {2, 3, 4});
  const auto check = [&](const char* name, auto&& reduce) {
    CAPTURE(name);
    CHECK(reduce(Axes{}, false).shape() == kNone);
    CHECK(reduce(Axes{}, true).shape() == kOnes);
    CHECK(reduce(Axes(1), false).shape() == Shape{2, 4});
    CHECK(reduce(Axes{-1, 0}, true).shape() == Shape{1, 3, 1});
  };
#define LATHE_CHECK(name)                                                 \
  check(#name, [&](const Axes& axes, bool keep) { return t.name(axes, keep); }); \
  CHECK(t.name({}).shape() == kNone);                                     \
  CHECK(t.name({}, true).shape() == kOnes);                               \
  CHECK(t.name({0}).shape() == Shape{3, 4});                              \
  CHECK(t.name(0, true).shape() == Shape{1, 3, 4});                       \
  CHECK(t.name({0, 2}).shape() == Shape{3})
  LATHE_CHECK(sum);
  LATHE_CHECK(prod);
  LATHE_CHECK(max);
  LATHE_CHECK(min);
  LATHE_CHECK(mean);
  LATHE_CHECK(any);
  LATHE_CHECK(all);
  LATHE_CHECK(logsumexp);
#undef LATHE_CHECK
  CHECK(t.var({}).shape() == kNone);
  CHECK(t.std({}, 1, true).shape() == kOnes);
  CHECK(t.var(1).shape() == Shape{2, 4});
  CHECK(t.argmax({}).shape() == kNone);
  CHECK(t.argmax({}, true).shape() == kOnes);
  CHECK(t.argmin(-1, true).shape() == Shape{2, 3, 1});
  CHECK(t.layer_norm(-1).shape() == t.shape());
  CHECK(t.rms_norm({1, 2}).shape() == t.shape());
  CHECK_THROWS_AS(t.sum(int64_t{1} << 40), Error);
  CHECK_THROWS_AS(t.sum(static_cast<size_t>(-1)), Error);
}

TEST_CASE("flip of {} is of all axes, split by a list and by a size") {
  const Tensor t = Tensor::arange(6).reshape({2, 3});
  CHECK(t.flip({}).to_vector<int64_t>() == std::vector<int64_t>{5, 4, 3, 2, 1, 0});
  CHECK(t.flip(0).to_vector<int64_t>() == std::vector<int64_t>{3, 4, 5, 0, 1, 2});
  CHECK(Tensor::arange(4).split(2).size() == 2);
  CHECK(Tensor::arange(2).split({2}).size() == 1);
  CHECK_THROWS_AS(Tensor::arange(4).split({2}), Error); // a list of one part
}

TEST_CASE("numbers beside tensors keep their value or are refused") {
  const Tensor u8 = Tensor::from(std::vector<uint8_t>{0, 44, 255}), u32 = Tensor::from(std::vector<uint32_t>{2, 3, 4000000000u});
  const Tensor u64 = Tensor::from(std::vector<uint64_t>{0, UINT64_MAX}), flags = Tensor::from({true, false});
  CHECK_THROWS_WITH_AS(u8 + 300, "operator+: 300 is no u8, expected a number that is, or a tensor of a wider dtype", Error);
  CHECK_THROWS_AS(-1 * u32, Error);
  CHECK_THROWS_AS(Tensor::from({1, 2}) & 0xFFFFFFFFu, Error);
  CHECK((u8 + 255).dtype() == DType::U8);
  CHECK((u64 + UINT64_MAX).to_vector<uint64_t>() == std::vector<uint64_t>{UINT64_MAX, UINT64_MAX - 1});
  CHECK((flags & true).dtype() == DType::Bool);
  CHECK((flags + 1).to_vector<int64_t>() == std::vector<int64_t>{2, 1});
  CHECK((u8 + true).dtype() == DType::U8);
  CHECK((Tensor::from({1, 2}) * 0.5).to_vector<double>() == std::vector<double>{0.5, 1});
  CHECK((Tensor::from({1.f}) * 2).dtype() == DType::F32);
  CHECK((Tensor::from({1.f}).cast(DType::F16) * 2.5).dtype() == DType::F16);
}

TEST_CASE("comparisons with numbers that an integer dtype does not hold") {
  using Bytes = std::vector<uint8_t>;
  const int64_t large = (int64_t{1} << 53) + 1;
  const Tensor u8 = Tensor::from(std::vector<uint8_t>{0, 44, 255}), i8 = Tensor::from(std::vector<int8_t>{-128, 0, 127});
  const Tensor i64 = Tensor::from(std::vector<int64_t>{INT64_MIN, large - 1, large, large + 1, INT64_MAX});
  const Tensor u64 = Tensor::from(std::vector<uint64_t>{0, uint64_t{1} << 63, UINT64_MAX});
  const auto bytes = [](const Tensor& t) { return t.to_vector<uint8_t>(); };
  CHECK(bytes(u8 < 300) == Bytes{1, 1, 1});
  CHECK(bytes(300 > u8) == Bytes{1, 1, 1});
  CHECK(bytes(u8 == 300) == Bytes{0, 0, 0});
  CHECK(bytes(u8 != -1) == Bytes{1, 1, 1});
  CHECK(bytes(u8 > -1) == Bytes{1, 1, 1});
  CHECK(bytes(u8 <= 44.5) == Bytes{1, 1, 0});
  CHECK(bytes(u8 < 44.5) == Bytes{1, 1, 0});
  CHECK(bytes(u8 >= 43.5) == Bytes{0, 1, 1});
  CHECK(bytes(43.5 < u8) == Bytes{0, 1, 1});
  CHECK(bytes(u8 == 44.0) == Bytes{0, 1, 0});
  CHECK(bytes(u8 == 44.5) == Bytes{0, 0, 0});
  CHECK(bytes(u8 < static_cast<double>(NAN)) == Bytes{0, 0, 0});
  CHECK(bytes(u8 != static_cast<double>(NAN)) == Bytes{1, 1, 1});
  CHECK(bytes(u8 < static_cast<double>(INFINITY)) == Bytes{1, 1, 1});
  CHECK(bytes(i8 >= -128.5) == Bytes{1, 1, 1});
  CHECK(bytes(i8 > -128.0) == Bytes{0, 1, 1});
  CHECK(bytes(i8 < 128) == Bytes{1, 1, 1});
  CHECK(bytes(i8 < 127.0) == Bytes{1, 1, 0});
  CHECK(bytes(i64 == 9007199254740992.0) == Bytes{0, 1, 0, 0, 0});
  CHECK(bytes(i64 > 9007199254740992.0) == Bytes{0, 0, 1, 1, 1});
  CHECK(bytes(i64 == large) == Bytes{0, 0, 1, 0, 0});
  CHECK(bytes(i64 < 0x1p63) == Bytes{1, 1, 1, 1, 1});
  CHECK(bytes(i64 >= -0x1p63) == Bytes{1, 1, 1, 1, 1});
  CHECK(bytes(i64 < UINT64_MAX) == Bytes{1, 1, 1, 1, 1});
  CHECK(bytes(u64 > INT64_MAX) == Bytes{0, 1, 1});
  CHECK(bytes(u64 == UINT64_MAX) == Bytes{0, 0, 1});
  CHECK(bytes(u64 >= 0x1p63) == Bytes{0, 1, 1});
  CHECK(bytes(u64 < -1) == Bytes{0, 0, 0});
  CHECK(bytes(Tensor::from(std::vector<uint32_t>{2, 3}) < 3u) == Bytes{1, 0});
  CHECK(bytes(Tensor::from({true, false}) == true) == Bytes{1, 0});
}
