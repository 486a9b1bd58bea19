// The versions of ops that are known, and ops that move elements, whose rules changed with an opset: each is
// computed by the rules of the model's own, and refused where nobody here has read them.
#include <doctest/doctest.h>

#include "onnx/op_versions.hpp"
#include "onnx/registry.hpp"
#include "support/messages.hpp"
#include "support/onnx_node.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

} // namespace

// ---- what is not known ----

TEST_CASE("an opset that is newer than the table is refused by op, node and opset") {
  const int later = onnx::kNewestOpset + 1;
  const Tensor x = counting({2});
  for (const char* op : {"Relu", "Softmax", "Transpose"}) {
    CHECK_NOTHROW(one(op, {x}, {}, onnx::kNewestOpset));
    const std::string message = message_of([&] { one(op, {x}, {}, later); });
    mentions(message, op);
    mentions(message, "opset " + std::to_string(later));
    mentions(message, "expected opset " + std::to_string(onnx::kNewestOpset) + " or earlier");
  }
  // Shapes are folded without an importer, by the same rules.
  mentions(message_of([&] { one("Shape", {x}, {}, later); }), "Shape");
  Graph graph;
  graph.input("x", DType::F32, {2}).node("Relu", {"x"}, {"y"}).output("y");
  CHECK(load(model(graph, onnx::kNewestOpset)).problems().empty());
  const std::vector<onnx::Problem> problems = load(model(graph, later)).problems();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].op == "Relu");
  mentions(problems[0].message, "opset " + std::to_string(later));
}

TEST_CASE("an op of a user's own serves every opset from its first on") {
  onnx::register_op("", "OpsetsTestTwice", 3,
                    [](onnx::Call& call) -> std::vector<Value> { return {call.tensor(0) + call.tensor(0)}; });
  Graph graph;
  graph.input("x", DType::F32, {2}).node("OpsetsTestTwice", {"x"}, {"y"}).output("y");
  CHECK(load(model(graph, onnx::kNewestOpset + 7)).problems().empty());
  CHECK(load(model(graph, 2)).problems().size() == 1);
}

TEST_CASE("an op has no more inputs than its version") {
  const Tensor x = counting({2, 3}), pads = axes_of({0, 0, 1, 0}), zero = Tensor::scalar(0.f);
  CHECK(one("Pad", {x, pads, zero, axes_of({0, 1})}, {}, 18).shape() == Shape{3, 3});
  mentions(message_of([&] { one("Pad", {x, pads, zero, axes_of({1, 0})}, {}, 13); }),
           "4 inputs, expected at most 3");
  mentions(message_of([&] { one("ReduceMax", {x, axes_of({0})}, {}, 13); }), "2 inputs, expected at most 1");
  const Tensor signal = counting({1, 4, 2, 1});
  mentions(message_of([&] { one("DFT", {signal, Value(), Tensor::scalar(int64_t{1})}, {}, 19); }),
           "3 inputs, expected at most 2");
}

TEST_CASE("every op of ONNX's own domain has its versions in the table, in order") {
  for (const onnx::RegisteredOp& op : onnx::registered_ops()) {
    if (!op.domain.empty() || op.name == "OpsetsTestTwice") continue;
    CAPTURE(op.name);
    const std::span<const onnx::OpVersion> versions = onnx::versions_of(op.name);
    REQUIRE(!versions.empty());
    for (size_t k = 1; k < versions.size(); ++k) CHECK(versions[k - 1].since < versions[k].since);
    CHECK(versions.back().since <= onnx::kNewestOpset);
  }
}

// ---- padding ----

TEST_CASE("since opset 18 pads may be of some axes, in any order") {
  const Tensor x = counting({2, 3}), fill = Tensor::scalar(9.f);
  const auto padded = [&](const Integers& pads, const Integers& axes, const char* mode = "constant") {
    return one("Pad", {x, axes_of(pads), fill, axes_of(axes)}, {attribute("mode", mode)}, 18);
  };
  CHECK(floats(padded({1, 0}, {1})) == Floats{9, 0, 1, 2, 9, 3, 4, 5});
  CHECK(floats(padded({1, 0}, {-1})) == Floats{9, 0, 1, 2, 9, 3, 4, 5});
  CHECK(floats(padded({1, 0, 0, 1}, {1, 0})) == Floats{9, 0, 1, 2, 9, 3, 4, 5, 9, 9, 9, 9});
  CHECK(floats(padded({1, 0, 0, 1}, {-1, -2})) == floats(padded({1, 0, 0, 1}, {1, 0})));
  CHECK(floats(padded({-1, 1}, {1})) == Floats{1, 2, 9, 4, 5, 9});
  CHECK(floats(padded({2, 0}, {1}, "reflect")) == Floats{2, 1, 0, 1, 2, 5, 4, 3, 4, 5});
  CHECK(floats(padded({0, 1}, {-2}, "edge")) == Floats{0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(floats(one("Pad", {x, no_axes(), Value(), no_axes()}, {}, 18)) == floats(x));
  mentions(message_of([&] { padded({1, 0, 0, 1}, {1, -1}); }), "axis 1 twice");
  mentions(message_of([&] { padded({1, 0}, {2}); }), "axis 2 of 2 axes");
  mentions(message_of([&] { padded({1, 0}, {0, 1}); }), "2 pads for 2 axes");
}

TEST_CASE("since opset 19 padding may wrap round, more than once") {
  const Tensor x = counting({2, 3});
  const auto wrapped = [&](const Integers& pads, int opset) {
    return one("Pad", {x, axes_of(pads)}, {attribute("mode", "wrap")}, opset);
  };
  CHECK(floats(wrapped({0, 1, 0, 2}, 19)) == Floats{2, 0, 1, 2, 0, 1, 5, 3, 4, 5, 3, 4});
  CHECK(floats(wrapped({0, 4, 0, 0}, 19)) == Floats{2, 0, 1, 2, 0, 1, 2, 5, 3, 4, 5, 3, 4, 5});
  CHECK(floats(wrapped({1, 0, 2, -1}, 21)) == Floats{3, 4, 0, 1, 3, 4, 0, 1, 3, 4});
  mentions(message_of([&] { wrapped({0, 1, 0, 2}, 18); }), "mode wrap");
}

TEST_CASE("padding with integers is exact") {
  const int64_t large = (int64_t{1} << 53) + 1;
  const Tensor x = Tensor::from<int64_t>({7, large});
  CHECK(integers(one("Pad", {x, axes_of({1, 1}), Tensor::scalar(large)})) ==
        Integers{large, 7, large, large});
  CHECK(integers(one("Pad", {x, axes_of({0, 1}), Tensor::scalar(int64_t{-3})})) == Integers{7, large, -3});
}

// ---- splitting ----

TEST_CASE("since opset 18 the last part of a split may be smaller") {
  const auto sizes = [](int64_t size, size_t parts, int64_t num_outputs) {
    Integers result;
    for (const Value& part :
         run_node("Split", {counting({size, 2})}, {attribute("num_outputs", num_outputs)}, parts, 18))
      result.push_back(part.shape()[0].value());
    return result;
  };
  CHECK(sizes(7, 4, 4) == Integers{2, 2, 2, 1});
  CHECK(sizes(10, 3, 3) == Integers{4, 4, 2});
  CHECK(sizes(6, 3, 3) == Integers{2, 2, 2});
  CHECK(sizes(4, 3, 3) == Integers{2, 2, 0});
  mentions(message_of([&] { sizes(5, 4, 4); }), "axis of size 5 in 4 parts of 2");
  mentions(message_of([&] { sizes(6, 3, 2); }), "num_outputs 2");
  const std::vector<Value> parts = run_node("Split", {counting({5})}, {attribute("num_outputs", 2)}, 2, 18);
  CHECK(floats(parts[0]) == Floats{0, 1, 2});
  CHECK(floats(parts[1]) == Floats{3, 4});
  mentions(message_of([&] {
             run_node("Split", {counting({4}), axes_of({1, 3})}, {attribute("num_outputs", 2)}, 2, 18);
           }),
           "split and num_outputs");
}

// ---- others ----

TEST_CASE("a slice that begins before the axis begins with its first element, backwards too") {
  const Tensor x = counting({4});
  const auto sliced = [&](int64_t start, int64_t end, int64_t step) {
    const Value y = one("Slice", {x, axes_of({start}), axes_of({end}), axes_of({0}), axes_of({step})});
    return y.is_empty() ? Floats{} : floats(y);
  };
  CHECK(sliced(-8, INT64_MIN, -1) == Floats{0});
  CHECK(sliced(-8, -6, -2) == Floats{0});
  CHECK(sliced(-8, 0, -1) == Floats{});
  CHECK(sliced(-8, 2, 1) == Floats{0, 1});
  CHECK(sliced(8, INT64_MIN, -3) == Floats{3, 0});
  CHECK(sliced(2, -8, -1) == Floats{2, 1, 0});
  const Value none = Value(Tensor::zeros({0}, DType::F32));
  CHECK(one("Slice", {none, axes_of({-1}), axes_of({INT64_MIN}), axes_of({0}), axes_of({-1})}).shape() ==
        Shape{0});
}

TEST_CASE("since opset 28 SpaceToDepth may keep the channels together") {
  const Tensor x = counting({1, 2, 2, 2});
  const auto deep = [&](const char* mode) {
    return floats(one("SpaceToDepth", {x}, {attribute("blocksize", 2), attribute("mode", mode)}, 28));
  };
  CHECK(deep("DCR") == Floats{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(deep("CRD") == Floats{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("the op of image files is refused by name, with the reason") {
  Graph graph;
  graph.input("x", DType::U8, {2}).node("ImageDecoder", {"x"}, {"y"}).output("y", DType::U8);
  mentions(load(model(graph, 20)).problems().at(0).message, "image files are not decoded");
}
