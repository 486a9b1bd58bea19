// Transform, small matrices along axes: its graph node, its nest, and what may be done with that.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ast/ast.hpp"
#include "graph/node.hpp"
#include "lathe/error.hpp"
#include "search/moves/plan.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

const SmallMatrix kSumAndDifference{2, 2, {1, 1, 1, -1}};
const SmallMatrix kThreeOfTwo{3, 2, {0.5, 0, 0, -3, 2, 1}};

std::vector<float> ramp(size_t count) {
  std::vector<float> v(count);
  for (size_t k = 0; k < count; ++k) v[k] = static_cast<float>(k % 17) - 8;
  return v;
}

/// Every kernel of a plan, interpreted one after the other.
std::vector<float> interpreted(const search::Plan& plan, std::vector<float> x) {
  std::map<int, std::vector<float>> buffers;
  for (const lower::InputBuffer& input : plan.program->inputs) buffers[input.buffer->id] = x;
  for (const auto& kernel : plan.kernels) {
    ast::verify(kernel->kernel);
    std::vector<ast::Bytes> bound;
    for (const ast::Param& param : kernel->kernel.params) {
      auto& data = buffers[param.buffer->id];
      data.resize(static_cast<size_t>(num_elements(param.buffer->shape).value()));
      bound.push_back({data.data(), data.size() * sizeof(float)});
    }
    ast::interpret(kernel->kernel, bound, {});
  }
  return buffers.at(plan.program->stages[plan.program->outputs[0].stage].buffer->id);
}

std::vector<float> evaluated(const NodeRef& node, const std::vector<float>& x) {
  test::Bindings b;
  b.bind("x", x);
  const StorageRef y = test::evaluate_graph({node}, b)[0];
  const auto* data = static_cast<const float*>(y->data());
  return {data, data + num_elements(node->shape).value()};
}

search::Plan plan_of(const NodeRef& node) {
  return search::initial_plan(
      std::make_shared<const lower::Program>(lower::lower({lower::NamedOutput{"y", node}})));
}

} // namespace

TEST_CASE("shape, text and identity") {
  const NodeRef x = input("x", DType::F32, {2, 5, 2});
  const NodeRef y = transform(x, {{0, 2}, {kSumAndDifference, kThreeOfTwo}});
  CHECK(y->shape == Shape{2, 5, 3});
  CHECK(y == transform(x, {{0, 2}, {kSumAndDifference, kThreeOfTwo}}));
  CHECK(y != transform(x, {{0, 2}, {kSumAndDifference, {3, 2, {0.5, 0, 0, -3, 2, 7}}}}));
  const std::string text = print({y});
  CHECK(text.find("Transform(%0, axes [0, 2], [[1, 1], [1, -1]], [[0.5, 0], [0, -3], [2, 1]])") !=
        std::string::npos);
  CHECK(parse(text)[0] == y);
}

TEST_CASE("a matrix that doesn't fit its axis, an axis that isn't there") {
  const NodeRef x = input("x", DType::F32, {3, 5});
  CHECK_THROWS_AS(transform(x, {{0}, {kSumAndDifference}}), Error);
  CHECK_THROWS_AS(transform(x, {{2}, {kSumAndDifference}}), Error);
  CHECK_THROWS_AS(transform(input("i", DType::I32, {2}), {{0}, {kSumAndDifference}}), Error);
  CHECK_THROWS_AS(
      parse("%0 = Input(x) : f32[2]\n%1 = Transform(%0, axes [0], [[1, 2], [3]]) : f32[2]\nreturn %1\n"),
      Error);
}

TEST_CASE("the nest computes what the definition says") {
  for (const Shape& shape : {Shape{2, 5, 2}, Shape{2, 1, 2}}) {
    const NodeRef x = input("x", DType::F32, shape);
    const std::vector<float> data = ramp(static_cast<size_t>(num_elements(shape).value()));
    for (const TransformAttr& attr : {TransformAttr{{0, 2}, {kSumAndDifference, kThreeOfTwo}},
                                      TransformAttr{{0}, {kThreeOfTwo}}, TransformAttr{{2}, {kThreeOfTwo}}}) {
      const NodeRef y = transform(x, attr);
      const search::Plan plan = plan_of(y);
      CHECK(plan.kernels.size() == 1);
      CHECK(interpreted(plan, data) == evaluated(y, data));
    }
  }
}

TEST_CASE("a coefficient of 0 leaves an infinity out") {
  const NodeRef x = input("x", DType::F32, {2, 1});
  const NodeRef y = transform(x, {{0}, {kThreeOfTwo}});
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(interpreted(plan_of(y), {1, infinity}) == std::vector<float>{0.5f, -infinity, infinity});
}

TEST_CASE(
    "under a loop of its reader a transform computes what one iteration needs, all of its places at once") {
  const NodeRef x = input("x", DType::F32, {2, 6, 4});
  const NodeRef t = transform(x, {{0}, {kThreeOfTwo}});
  const NodeRef y = unary(Op::Neg, view(t, View::contiguous(t->shape).permute({1, 0, 2})));
  const std::vector<float> data = ramp(48);
  const search::Plan plan = plan_of(y);
  REQUIRE(plan.kernels.size() == 2);
  const search::Target target;
  const std::vector<float> expected = evaluated(y, data);
  CHECK(interpreted(plan, data) == expected);
  const auto moved = [&](std::vector<std::string> moves) {
    std::vector<search::Move> parsed;
    for (const std::string& m : moves) parsed.push_back(search::parse_move(m));
    return search::apply(plan, parsed, target);
  };
  for (const auto& moves : std::vector<std::vector<std::string>>{
           {"fuse_at(t0, t1.i0, packed)"},
           {"split(t1.i0, 4)", "fuse_at(t0, t1.i0.o, packed)"},
           {"fuse_at(t0, t1.i0, register)", "vectorise(t0.i2)", "vectorise(t1.i2)", "unroll(t1.i1)"},
           {"reorder(t0.i2, t0.i1)", "split(t0.i1, 2)"}}) {
    const search::Applied applied = moved(moves);
    REQUIRE_MESSAGE(applied.plan, applied.reason);
    CHECK(interpreted(*applied.plan, data) == expected);
  }
  // One iteration of t1.i1 reads a single place of the transformed axis.
  CHECK(moved({"fuse_at(t0, t1.i1, packed)"}).reason.find("at once") != std::string::npos);
  CHECK(moved({"inline(t0)"}).reason.find("not elementwise") != std::string::npos);
}
