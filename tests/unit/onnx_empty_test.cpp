// Models that are fed tensors without elements: a decoder's first step, a batch of none, a detector that
// finds nothing. The shapes and values are ONNX's.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "lathe/program_file.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Value;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;

Tensor none(const Shape& shape, DType dtype = DType::F32) { return Tensor::zeros(shape, dtype); }
Tensor list(const std::vector<int64_t>& values) { return Tensor::from(values); }

void check_empty(const Value& value, const Shape& shape) {
  CHECK(value.is_empty());
  CHECK(to_string(value.shape()) == to_string(shape));
}

/// Attention of a new row over a past that grows: past [1, past, 2] and row [1, 1, 2] give all rows, and
/// what the row finds in them.
std::string decoder() {
  Graph g;
  g.input("past", DType::F32, {1, "past_length", 2}).input("row", DType::F32, {1, 1, 2});
  g.node("Concat", {"past", "row"}, {"present"}, {attribute("axis", 1)});
  g.node("Transpose", {"present"}, {"keys"}, {attribute("perm", {0, 2, 1})});
  g.node("MatMul", {"row", "keys"}, {"scores"});
  g.node("Softmax", {"scores"}, {"weights"}, {attribute("axis", -1)});
  g.node("MatMul", {"weights", "present"}, {"found"});
  g.output("present").output("found");
  return model(g, 17);
}

} // namespace

TEST_CASE("a decoder begins with an empty past, and goes on") {
  const onnx::Program program = load(decoder()).compile();
  const Tensor row = Tensor::from(Floats{1, 2}).reshape({1, 1, 2});
  for (int round = 0; round < 2; ++round) {
    const NamedValues first = program({{"past", none({1, 0, 2})}, {"row", row}});
    CHECK(to_string(first.at("present").shape()) == "[1, 1, 2]");
    CHECK(floats(first.at("found")) == Floats{1, 2}); // the only row there is
    const NamedValues second = program({{"past", first.at("present")}, {"row", row}});
    CHECK(to_string(second.at("present").shape()) == "[1, 2, 2]");
    CHECK(floats(second.at("found")) == Floats{1, 2}); // both rows are equal
  }
}

TEST_CASE("a saved program without versions knows what it was fed, and says what it does not know") {
  const TemporaryDir folder;
  const Tensor row = Tensor::from(Floats{1, 2}).reshape({1, 1, 2});
  const NamedValues first{{"past", none({1, 0, 2})}, {"row", row}};
  save(load(decoder()).compile(), folder.file("whole")); // with the model
  CHECK(floats(onnx::load_program(folder.file("whole"))(first).at("found")) == Floats{1, 2});
  const onnx::Program program = load(decoder()).compile({.versions = 0});
  save(program, folder.file("fresh"));
  CHECK_THROWS_WITH_AS(onnx::load_program(folder.file("fresh"))(first), doctest::Contains("past_length"),
                       Error);
  program(first);
  save(program, folder.file("used"));
  CHECK(floats(onnx::load_program(folder.file("used"))(first).at("found")) == Floats{1, 2});
}

TEST_CASE("a batch of none goes through every layer") {
  const Tensor images = none({0, 3, 8, 8});
  const auto layer = [](const std::string& op, const std::vector<Value>& inputs,
                        const Attributes& attributes = {}) {
    return one(op, inputs, attributes, 18, "batch");
  };
  check_empty(layer("Conv", {images, Tensor::ones({4, 3, 3, 3})}), {0, 4, 6, 6});
  check_empty(layer("MaxPool", {images}, {attribute("kernel_shape", {2, 2})}), {0, 3, 7, 7});
  check_empty(layer("GlobalAveragePool", {images}), {0, 3, 1, 1});
  check_empty(layer("InstanceNormalization", {images, Tensor::ones({3}), Tensor::ones({3})}), {0, 3, 8, 8});
  check_empty(layer("Flatten", {images}), {0, 192});
  check_empty(layer("Reshape", {images, list({-1, 192})}), {0, 192});
  check_empty(layer("Reshape", {images, list({0, 0, -1})}), {0, 3, 64});
  check_empty(layer("Gemm", {none({0, 5}), Tensor::ones({5, 2})}), {0, 2});
  check_empty(layer("Softmax", {none({0, 5})}), {0, 5});
  check_empty(layer("Hardmax", {none({0, 5})}), {0, 5});
  check_empty(layer("ArgMax", {none({0, 5})}, {attribute("axis", 1)}), {0, 1});
  check_empty(layer("Unique", {none({0})}), {0});
  check_empty(layer("Cast", {none({0, 5})}, {attribute("to", 7)}), {0, 5});
  const std::vector<Value> lstm =
      run_node("LSTM", {none({4, 0, 2}), Tensor::ones({1, 12, 2}), Tensor::ones({1, 12, 3})},
               {attribute("hidden_size", 3)}, 2);
  check_empty(lstm[0], {4, 1, 0, 3});
  check_empty(lstm[1], {1, 0, 3});
}

TEST_CASE("nothing found, and what is made of it") {
  const Tensor boxes = Tensor::ones({1, 3, 4}), scores = Tensor::full({1, 1, 3}, -1.f);
  const Value found =
      one("NonMaxSuppression", {boxes, scores, list({5}), Tensor::full({1}, .5f), Tensor::full({1}, .5f)});
  check_empty(found, {0, 3});
  check_empty(one("NonZero", {Tensor::zeros({2, 3})}), {2, 0});
  check_empty(
      one("Compress", {Tensor::ones({2, 3}), Tensor::zeros({2}, DType::Bool)}, {attribute("axis", 0)}),
      {0, 3});
  check_empty(one("Gather", {Tensor::ones({4, 2}), none({0}, DType::I64)}), {0, 2});
  check_empty(one("GatherND", {Tensor::ones({4, 2}), none({0, 1}, DType::I64)}), {0, 2});
  check_empty(run_node("TopK", {Tensor::ones({2, 3}), list({0})}, {}, 2)[1], {2, 0});
  const Tensor data = Tensor::from(Floats{1, 2});
  CHECK(floats(one("ScatterND", {data, none({0, 1}, DType::I64), none({0})})) == Floats{1, 2});
  CHECK(floats(one("Concat", {none({0}), data, none({0})}, {attribute("axis", 0)})) == Floats{1, 2});
  CHECK(floats(one("Pad", {none({0}), list({1, 1})}, {}, 18)) == Floats{0, 0});
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    const Attributes attributes{attribute("mode", mode)};
    check_empty(one("Pad", {none({0, 3}), list({0, 1, 0, 2})}, attributes, 19), {0, 6});
    if (std::string(mode) == "constant") continue;
    mentions(message_of([&] { one("Pad", {none({0}), list({1, 1})}, attributes, 19); }), "some");
  }
}

TEST_CASE("reductions over nothing") {
  const auto reduced = [](const std::string& op) {
    return floats(one(op, {none({0, 2}), list({0})}, {attribute("keepdims", 0)}, 18, "n"));
  };
  CHECK(reduced("ReduceSum") == Floats{0, 0});
  CHECK(reduced("ReduceProd") == Floats{1, 1});
  CHECK(reduced("ReduceMax") == Floats{-kInf, -kInf});
  CHECK(reduced("ReduceMin") == Floats{kInf, kInf});
  CHECK(reduced("ReduceL2") == Floats{0, 0});
  CHECK(reduced("ReduceLogSumExp") == Floats{-kInf, -kInf});
  CHECK(std::isnan(reduced("ReduceMean")[0]));
  const Value least = one("ReduceMax", {none({0, 2}, DType::I32), list({0})}, {attribute("keepdims", 0)}, 18);
  CHECK(least.tensor().to_vector<int32_t>() == std::vector<int32_t>(2, std::numeric_limits<int32_t>::min()));
}
