// Constants computed one by one, beside the evaluator of tests: elementwise ops of every dtype, views with
// and without padding, look-ups, odd sizes. And what is not small.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "graph/folding/small_constants.hpp"
#include "graph/tensor_impl.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

void check(const Tensor& t) {
  const NodeRef node = node_of(t);
  const StorageRef got = small_constant(node), expected = test::evaluate_graph({node}, {})[0];
  REQUIRE(got);
  REQUIRE(got->bytes() == expected->bytes());
  CHECK(std::memcmp(std::as_const(*got).data(), std::as_const(*expected).data(), got->bytes()) == 0);
}

template <class T> Tensor random(const Shape& shape) {
  static std::mt19937 bits(7);
  std::vector<T> values(static_cast<size_t>(num_elements(shape).value()));
  for (T& value : values) value = static_cast<T>(static_cast<int>(bits() % 256) - 100);
  return Tensor::from(values, shape);
}

} // namespace

TEST_CASE("small constants are what the ops make of them") {
  for (const int64_t n : {0, 1, 5, 17, 256}) {
    CAPTURE(n);
    const Tensor x = random<float>({Expr(n)}), y = random<int32_t>({Expr(n)});
    check((x * 0.37f + y.cast(DType::F32)).sqrt());
    check((x / 3.0f).cast(DType::F16).cast(DType::F32));
    check((y * y - 7).cast(DType::I8));
    check(y.bitcast(DType::F32));
    check(where(x > 0.0f, x, -x));
    check((x + 1.0f).pad({{2, 3}}) * 2.0f);
    check((x + 1.0f).reshape({1, Expr(n)}).expand({3, Expr(n)}).transpose() - 1.0f);
    check(Tensor::arange(n).cast(DType::F32) * x);
  }
  const Tensor table = random<int8_t>({256});
  check(table.take(random<int32_t>({40})) + 1); // places before the first, too
  check((random<float>({4, 6}) + 1.0f).flip({1}).shrink({{1, 3}, {0, 5}}).contiguous() * 2.0f);
}

TEST_CASE("what combines elements, or has many, is not small") {
  CHECK(!small_constant(node_of(random<float>({9}).sum(0))));
  CHECK(!small_constant(node_of(random<float>({300, 300}) + 1.0f)));
  CHECK(!small_constant(node_of(Tensor::zeros({1 << 30}) + random<float>({1}))));
}
