// Bad calls of the Tensor functions: each is a typed error whose message begins with the function's name and
// says what was expected.
#pragma GCC diagnostic ignored "-Wunused-result" // the calls throw
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "graph/tensor_impl.hpp"
#include "lathe/lathe.hpp"

using namespace lathe;

namespace {

struct BadCall {
  ErrorKind kind;
  const char* op;
  std::function<void()> call;
};

constexpr int64_t kHuge = int64_t{1} << 40;

void check(const std::vector<BadCall>& calls) {
  for (const BadCall& bad : calls) {
    INFO(bad.op);
    try {
      bad.call();
      FAIL_CHECK("no error");
    } catch (const Error& e) {
      INFO(e.what());
      CHECK(e.kind() == bad.kind);
      CHECK(std::string(e.what()).rfind(std::string(bad.op) + ":", 0) == 0);
      CHECK(std::string(e.what()).find("expected") != std::string::npos);
    }
  }
}

const Tensor a = Tensor::input("a", {3, 4}), b = Tensor::input("b", {5, 6}), v = Tensor::input("v", {4});
const Tensor i32 = Tensor::input("i32", {3, 4}, DType::I32),
             flags = Tensor::input("flags", {3, 4}, DType::Bool);
const Tensor scalar = Tensor::scalar(1.0f);

} // namespace

TEST_CASE("what was moved from") {
  Tensor from = Tensor::ones({3}), to = std::move(from);
  check({
      {ErrorKind::Value, "Tensor", [&] { from.shape(); }},
      {ErrorKind::Value, "Tensor", [&] { from + to; }},
      {ErrorKind::Value, "Tensor", [&] { from.item<float>(); }},
      {ErrorKind::Value, "Tensor", [&] { concat({to, from}); }},
  });
  from = to;
  CHECK(from.shape() == Shape{3});
}

TEST_CASE("padding and functions that are none") {
  check({
      {ErrorKind::Value, "pad", [] { pad(Tensor::zeros({0, 4}), {{1, 0}, {0, 0}}, PadMode::Wrap); }},
      {ErrorKind::Value, "pad", [] { pad(Tensor::zeros({4, 0}), {{0, 0}, {0, 2}}, PadMode::Edge); }},
      {ErrorKind::Value, "pad", [] { Tensor::ones({1}, DType::U8).pad({{1, 0}}, 300); }},
      {ErrorKind::Value, "pad", [] { Tensor::ones({1}, DType::I32).pad({{1, 0}}, 0.5); }},
      {ErrorKind::Value, "interpolate", [] { interpolate(Tensor::ones({0}), {2}); }},
      {ErrorKind::Value, "scan", [] { scan(nullptr, {Tensor::ones({3})}, {Tensor::ones({2})}); }},
      {ErrorKind::Value, "while_loop", [] { while_loop(nullptr, nullptr, {Tensor::ones({3})}, 4); }},
      {ErrorKind::Value, "vmap", [] { vmap(nullptr); }},
      {ErrorKind::DType, "all_bits", [] { a.all_bits(); }},
  });
  CHECK(pad(Tensor::zeros({0, 4}), {{0, 0}, {1, 0}}, PadMode::Wrap).shape() == Shape{0, 5});
  CHECK(Tensor::arange(-8, 8, 1, DType::I4).shape() == Shape{16}); // all values, and no more
}

TEST_CASE("creation") {
  check({
      {ErrorKind::Shape, "from",
       [] {
         Tensor::from(std::vector<float>{1, 2, 3}, {2, 2});
       }},
      {ErrorKind::Shape, "from", [] { Tensor::from(std::vector<float>{}, {1}); }},
      {ErrorKind::Shape, "from", [] { Tensor::from(std::vector<float>{1}, {Var("n", 1, 4)}); }},
      {ErrorKind::Value, "from", [] { Tensor::from_memory(nullptr, 3, DType::F32, {3}); }},
      {ErrorKind::Value, "from_shared", [] { Tensor::from_shared(nullptr, DType::F32, {3}); }},
      {ErrorKind::Value, "arange", [] { Tensor::arange(254, 258, 1, DType::U8); }},
      {ErrorKind::Value, "arange", [] { Tensor::arange(0, -2, -1, DType::U64); }},
      {ErrorKind::Value, "arange", [] { Tensor::arange(-129, 0, 1, DType::I8); }},
      {ErrorKind::Value, "randint", [] { Tensor::randint(250, 300, {6}, 1, DType::U8); }},
      {ErrorKind::Value, "randint", [] { Tensor::randint(-9, 8, {6}, 1, DType::I4); }},
      {ErrorKind::Name, "input", [] { Tensor::input("", {2}); }},
      {ErrorKind::Name, "input", [] { Tensor::input("a b", {2}); }},
      {ErrorKind::Name, "input", [] { Tensor::input("2x", {2}); }},
      {ErrorKind::Shape, "input", [] { Tensor::input("x", {-3}); }},
      {ErrorKind::Shape, "input", [] { Tensor::input("x", {Var("n", 0, 4).expr() - 1}); }},
      {ErrorKind::Limit, "input",
       [] {
         Tensor::input("x", {kHuge, kHuge});
       }},
      {ErrorKind::Limit, "input",
       [] {
         Tensor::input("x", {Var("n", 1, kHuge), kHuge});
       }},
      {ErrorKind::Limit, "full",
       [] {
         Tensor::full({INT64_MAX, 2}, 1.0f);
       }},
      {ErrorKind::Limit, "zeros", [] { Tensor::zeros({INT64_MAX}); }},
      {ErrorKind::Shape, "ones",
       [] {
         Tensor::ones({2, -1});
       }},
      {ErrorKind::Value, "arange", [] { Tensor::arange(0, 5, 0); }},
      {ErrorKind::DType, "arange", [] { Tensor::arange(0, 5, 1, DType::Bool); }},
      {ErrorKind::Limit, "arange", [] { Tensor::arange(INT64_MIN, INT64_MAX, 1); }},
      {ErrorKind::Value, "linspace", [] { Tensor::linspace(0, 1, -1); }},
      {ErrorKind::Shape, "eye", [] { Tensor::eye(-2); }},
      {ErrorKind::DType, "rand", [] { Tensor::rand({2}, 1, DType::I32); }},
      {ErrorKind::DType, "randn", [] { Tensor::randn({2}, 1, DType::Bool); }},
      {ErrorKind::Value, "randint", [] { Tensor::randint(5, 5, {2}, 1); }},
      {ErrorKind::DType, "randint", [] { Tensor::randint(0, 5, {2}, 1, DType::F32); }},
  });
}

TEST_CASE("elementwise") {
  check({
      {ErrorKind::Shape, "operator+", [] { a + b; }},
      {ErrorKind::Shape, "operator<", [] { a < b; }},
      {ErrorKind::Shape, "operator*", [] { a* Tensor::input("c", {3}); }},
      {ErrorKind::DType, "operator&", [] { a& a; }},
      {ErrorKind::DType, "operator<<", [] { a << a; }},
      {ErrorKind::DType, "operator-", [] { flags - flags; }},
      {ErrorKind::DType, "operator%", [] { flags % flags; }},
      {ErrorKind::Shape, "where", [] { where(flags, a, b); }},
      {ErrorKind::Shape, "maximum", [] { maximum(a, b); }},
      {ErrorKind::Shape, "minimum", [] { minimum(a, b); }},
      {ErrorKind::DType, "pow", [] { pow(flags, flags); }},
      {ErrorKind::DType, "neg", [] { flags.neg(); }},
      {ErrorKind::DType, "bitwise_not", [] { a.bitwise_not(); }},
      {ErrorKind::DType, "bitcast", [] { a.bitcast(DType::F64); }},
      {ErrorKind::Value, "clamp", [] { a.clamp(NAN, 1); }},
      {ErrorKind::Value, "clamp", [] { a.clamp(0, NAN); }},
      {ErrorKind::Value, "clamp", [] { a.clamp(2, 1); }},
      {ErrorKind::Value, "clamp", [] { a.clamp({}, {}); }},
      {ErrorKind::Limit, "operator+",
       [] {
         Tensor::input("r", {kHuge, 1}) + Tensor::input("c", {1, kHuge});
       }},
  });
}

TEST_CASE("reductions") {
  check({
      {ErrorKind::Axis, "sum", [] { a.sum(2); }},
      {ErrorKind::Axis, "sum", [] { a.sum(-3); }},
      {ErrorKind::Axis, "max",
       [] {
         a.max({0, 0});
       }},
      {ErrorKind::Axis, "min",
       [] {
         a.min({1, -1});
       }},
      {ErrorKind::Axis, "mean", [] { scalar.mean(0); }},
      {ErrorKind::Axis, "prod", [] { a.prod({5}); }},
      {ErrorKind::Axis, "any", [] { a.any({7}); }},
      {ErrorKind::Value, "var", [] { a.var({0}, 3); }},
      {ErrorKind::Value, "std", [] { a.std({1}, 4); }},
      {ErrorKind::Axis, "argmax", [] { a.argmax(2); }},
      {ErrorKind::Axis, "argmin", [] { a.argmin(-9); }},
      {ErrorKind::Axis, "softmax", [] { a.softmax(2); }},
      {ErrorKind::Axis, "log_softmax", [] { scalar.log_softmax(0); }},
      {ErrorKind::Axis, "logsumexp", [] { a.logsumexp({3}); }},
      {ErrorKind::Axis, "cumsum", [] { a.cumsum(2); }},
      {ErrorKind::Axis, "sort", [] { a.sort(2); }},
      {ErrorKind::Shape, "sort", [] { scalar.sort(); }},
      {ErrorKind::Value, "topk", [] { a.topk(5); }},
      {ErrorKind::Value, "topk", [] { a.topk(-1); }},
  });
}

TEST_CASE("movement") {
  const Var n("n", 1, 16);
  check({
      {ErrorKind::Axis, "size", [] { a.size(2); }},
      {ErrorKind::Shape, "reshape",
       [] {
         a.reshape({5, 2});
       }},
      {ErrorKind::Shape, "reshape",
       [] {
         a.reshape({-1, -1});
       }},
      {ErrorKind::Shape, "reshape",
       [] {
         a.reshape({5, -1});
       }},
      {ErrorKind::Shape, "reshape",
       [] {
         a.reshape({-2, -6});
       }},
      {ErrorKind::Limit, "reshape",
       [] {
         a.reshape({INT64_MAX, INT64_MAX});
       }},
      {ErrorKind::Shape, "reshape",
       [&] {
         Tensor::input("x", {n, 4}).reshape({n});
       }},
      {ErrorKind::Axis, "flatten", [] { a.flatten(0, 4); }},
      {ErrorKind::Axis, "flatten", [] { a.flatten(1, 0); }},
      {ErrorKind::Axis, "permute", [] { a.permute({0}); }},
      {ErrorKind::Axis, "permute",
       [] {
         a.permute({0, 0});
       }},
      {ErrorKind::Axis, "transpose", [] { v.transpose(); }},
      {ErrorKind::Shape, "expand",
       [] {
         a.expand({3, 5});
       }},
      {ErrorKind::Shape, "expand", [] { a.expand({4}); }},
      {ErrorKind::Shape, "expand",
       [] {
         a.expand({-1, 3, 4});
       }},
      {ErrorKind::Limit, "expand",
       [] {
         scalar.expand({kHuge, kHuge});
       }},
      {ErrorKind::Shape, "squeeze", [] { a.squeeze(0); }},
      {ErrorKind::Axis, "unsqueeze", [] { a.unsqueeze(4); }},
      {ErrorKind::Shape, "pad",
       [] {
         a.pad({{1, 1}});
       }},
      {ErrorKind::Value, "pad",
       [] {
         a.pad({{1, 1}, {-1, 0}});
       }},
      {ErrorKind::Limit, "pad",
       [] {
         a.pad({{INT64_MAX, 1}, {0, 0}});
       }},
      {ErrorKind::Value, "shrink",
       [] {
         a.shrink({{0, 3}, {3, 2}});
       }},
      {ErrorKind::Value, "shrink",
       [] {
         a.shrink({{0, 4}, {0, 4}});
       }},
      {ErrorKind::Axis, "iota",
       [] {
         Tensor::iota({2, 3}, 2);
       }},
      {ErrorKind::DType, "iota", [] { Tensor::iota({2}, 0, DType::Bool); }},
      {ErrorKind::DType, "scalar", [] { Tensor::scalar(Expr(3), DType::F32); }},
      {ErrorKind::Axis, "flip", [] { a.flip({2}); }},
      {ErrorKind::Axis, "roll", [] { a.roll(1, 2); }},
      {ErrorKind::Value, "repeat",
       [] {
         a.repeat({2, -1});
       }},
      {ErrorKind::Value, "index", [] { a.index({3}); }},
      {ErrorKind::Value, "index", [] { a.index({-4}); }},
      {ErrorKind::Axis, "index",
       [] {
         a.index({0, 0, 0});
       }},
      {ErrorKind::Value, "index",
       [] {
         a.index({Slice{0, 2, 0}});
       }},
      {ErrorKind::Value, "index",
       [] {
         a.index({Ellipsis{}, Ellipsis{}});
       }},
      {ErrorKind::Shape, "index",
       [&] {
         Tensor::input("x", {n}).index({Slice{0, 9}});
       }},
      {ErrorKind::Shape, "window", [] { v.window(0, 5); }},
      {ErrorKind::Value, "window", [] { v.window(0, 2, 0); }},
      {ErrorKind::Shape, "split",
       [] {
         a.split({1, 1}, 0);
       }},
      {ErrorKind::Value, "split",
       [] {
         a.split(std::vector<int64_t>{4, -1}, 0);
       }},
      {ErrorKind::Value, "split", [] { a.split(0, 0); }},
      {ErrorKind::Shape, "concat",
       [] {
         concat({a, b});
       }},
      {ErrorKind::Value, "concat", [] { concat({}); }},
      {ErrorKind::Axis, "concat",
       [] {
         concat({a, a}, 2);
       }},
      {ErrorKind::Shape, "stack",
       [] {
         stack({a, b});
       }},
      {ErrorKind::DType, "gather", [] { a.gather(0, a); }},
      {ErrorKind::Shape, "gather", [] { a.gather(0, Tensor::input("i", {3}, DType::I64)); }},
      {ErrorKind::Shape, "gather",
       [] {
         a.gather(0, Tensor::input("i", {3, 9}, DType::I64));
       }},
      {ErrorKind::DType, "take", [] { a.take(v); }},
      {ErrorKind::Shape, "take", [] { scalar.take(i32); }},
      {ErrorKind::Shape, "scatter_add", [] { a.scatter_add(0, i32, b); }},
      {ErrorKind::DType, "scatter_add", [] { a.scatter_add(0, i32, i32); }},
      {ErrorKind::Axis, "scatter", [] { a.scatter(3, i32, a); }},
  });
}

TEST_CASE("linear algebra and layers") {
  const Tensor image = Tensor::input("image", {1, 4, 8, 8}), kernel = Tensor::input("kernel", {6, 4, 3, 3});
  check({
      {ErrorKind::Shape, "matmul", [] { a.matmul(b); }},
      {ErrorKind::Shape, "matmul", [] { a.matmul(scalar); }},
      {ErrorKind::Shape, "matmul",
       [] {
         Tensor::input("x", {2, 3, 4}).matmul(Tensor::input("y", {3, 4, 5}));
       }},
      {ErrorKind::Limit, "matmul",
       [] {
         Tensor::input("x", {kHuge, 4}).matmul(Tensor::input("y", {4, kHuge}));
       }},
      {ErrorKind::Value, "einsum",
       [] {
         einsum("ij", {a, a});
       }},
      {ErrorKind::Value, "einsum", [] { einsum("", {}); }},
      {ErrorKind::Shape, "einsum", [] { einsum("ijk->i", {a}); }},
      {ErrorKind::Shape, "einsum",
       [] {
         einsum("ij,jk->ik", {a, b});
       }},
      {ErrorKind::Shape, "einsum", [] { einsum("ii->i", {a}); }},
      {ErrorKind::Syntax, "einsum", [] { einsum("i!->i", {a}); }},
      {ErrorKind::Value, "einsum", [] { einsum("ij->ik", {a}); }},
      {ErrorKind::Value, "einsum", [] { einsum("ij->ii", {a}); }},
      {ErrorKind::Shape, "layer_norm", [] { a.layer_norm({1}, b); }},
      {ErrorKind::Axis, "layer_norm", [] { a.layer_norm({2}); }},
      {ErrorKind::Value, "rms_norm", [] { a.rms_norm({1}, {}, -1); }},
      {ErrorKind::Shape, "batch_norm", [] { a.batch_norm(a, a); }},
      {ErrorKind::Shape, "batch_norm", [] { v.batch_norm(v, v); }},
      {ErrorKind::Value, "group_norm", [&] { image.group_norm(3); }},
      {ErrorKind::Shape, "conv2d", [&] { image.conv2d(a); }},
      {ErrorKind::Shape, "conv2d",
       [&] {
         image.conv2d(Tensor::input("k", {6, 3, 3, 3}));
       }},
      {ErrorKind::Shape, "conv2d",
       [&] {
         image.conv2d(Tensor::input("k", {6, 4, 9, 9}));
       }},
      {ErrorKind::Shape, "conv2d", [&] { image.conv2d(kernel, v); }},
      {ErrorKind::Value, "conv2d", [&] { image.conv2d(kernel, {}, {.stride = {0}}); }},
      {ErrorKind::Value, "conv2d",
       [&] {
         image.conv2d(kernel, {}, {.padding = {1, 1, 1}});
       }},
      {ErrorKind::Shape, "conv2d", [&] { image.conv2d(kernel, {}, {.groups = 2}); }},
      {ErrorKind::Shape, "conv1d", [&] { image.conv1d(kernel); }},
      {ErrorKind::Shape, "conv3d", [&] { image.conv3d(kernel); }},
      {ErrorKind::Shape, "conv_transpose2d", [&] { image.conv_transpose2d(kernel); }},
      {ErrorKind::Value, "conv_transpose2d",
       [&] {
         image.conv_transpose2d(Tensor::input("k", {4, 6, 3, 3}), {}, {.output_padding = {1}});
       }},
      {ErrorKind::Shape, "max_pool2d", [] { a.max_pool2d({2}); }},
      {ErrorKind::Value, "max_pool2d", [&] { image.max_pool2d({2}, {.padding = {2}}); }},
      {ErrorKind::Value, "avg_pool2d",
       [&] {
         image.avg_pool2d({2, 2, 2});
       }},
      {ErrorKind::Shape, "avg_pool2d", [&] { image.avg_pool2d({9}); }},
      {ErrorKind::Shape, "scaled_dot_product_attention", [] { scaled_dot_product_attention(a, b, b); }},
      {ErrorKind::DType, "scaled_dot_product_attention", [] { scaled_dot_product_attention(i32, i32, i32); }},
      {ErrorKind::Shape, "scaled_dot_product_attention", [] { scaled_dot_product_attention(a, a, a, b); }},
  });
}

TEST_CASE("values") {
  check({
      {ErrorKind::Shape, "item",
       [] {
         Tensor::from({1.f, 2.f}).item<float>();
       }},
      {ErrorKind::DType, "read",
       [] {
         Tensor::from({1.f, 2.f}).to_vector<double>();
       }},
      {ErrorKind::Name, "realise", [] { a.realise(); }},
      {ErrorKind::Name, "item", [] { a.sum().item<float>(); }},
      {ErrorKind::Shape, "realise", [] { Tensor::input("x", {Var("n", 1, 4)}).realise(); }},
      {ErrorKind::Shape, "item", [] { Tensor::full({Var("n", 1, 4)}, 1.0f).sum().item<float>(); }},
      {ErrorKind::Shape, "element_count", [] { Tensor::input("x", {Var("n", 1, 4)}).element_count(); }},
  });
}
