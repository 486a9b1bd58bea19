// Forms of models that other runtimes take: orders, names, opsets and sizes as exporters write them.
#include <doctest/doctest.h>

#include "lathe/program_file.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;

/// The model of a graph that imports these opsets, in this order.
std::string with_opsets(const Graph& graph, const std::vector<std::pair<std::string, int>>& opsets) {
  lathe_onnx::ModelProto proto;
  REQUIRE(proto.ParseFromString(model(graph)));
  proto.clear_opset_import();
  for (const auto& [domain, version] : opsets) {
    auto& entry = *proto.add_opset_import();
    entry.set_domain(domain);
    entry.set_version(version);
  }
  return proto.SerializeAsString();
}

Value vector_of(const Floats& values) { return Tensor::from(values); }

} // namespace

TEST_CASE("nodes may stand in any order, in bodies as well") {
  Graph way;
  way.node("Neg", {"inner"}, {"way"}).node("Add", {"d", "d"}, {"inner"}).output("way");
  Graph graph;
  graph.input("x", DType::F32, {2}).input("c", DType::Bool, {});
  graph.node("Add", {"w", "d"}, {"y"})
      .node("If", {"c"}, {"w"}, {attribute("then_branch", way), attribute("else_branch", way)});
  graph.node("Mul", {"x", "x"}, {"d"}).output("y");
  const onnx::NamedValues y =
      load(model(graph)).compile()({{"x", vector_of({1, 3})}, {"c", Tensor::scalar(true)}});
  CHECK(floats(y.at("y")) == Floats{-1, -9});
}

TEST_CASE("of an opset that is imported twice the last counts; domains without nodes do not") {
  // Before opset 13 a softmax is over all axes from the first on.
  Graph graph;
  graph.input("x", DType::F32, {1, 2, 2}).node("Softmax", {"x"}, {"y"}).output("y");
  const Value zeros = Tensor::zeros({1, 2, 2});
  const auto first = [&](const std::vector<std::pair<std::string, int>>& opsets) {
    return floats(load(with_opsets(graph, opsets)).compile()({{"x", zeros}}).at("y"))[0];
  };
  CHECK(first({{"", 17}, {"", 11}}) == 0.25f);
  CHECK(first({{"", 11}, {"", 17}}) == 0.5f);
  CHECK(first({{"", 11}, {"ai.onnx", 17}}) == 0.5f);
  CHECK(first({{"ai.onnx", 17}, {"", 11}}) == 0.25f);
  CHECK(first({{"", 17}, {"far.away", 3}, {"com.microsoft", 1}, {"ai.onnx.ml", 5}}) == 0.5f);
}

TEST_CASE("names hold any characters") {
  const std::string names[] = {"a.b", "a_b", "while", "/layer/0:1", "größe", "a b\"c\\\n", "0", "x0"};
  Graph graph;
  Names all;
  for (const std::string& name : names) {
    graph.input(name, DType::F32, {2});
    all.push_back(name);
  }
  graph.node("Sum", all, {"%sum%"}).node("Neg", {"%sum%"}, {"-"}).output("-").output("%sum%");
  onnx::NamedValues fed;
  float next = 1;
  for (const std::string& name : names) fed[name] = vector_of({next++, 1});
  const onnx::NamedValues y = load(model(graph)).compile()(fed);
  CHECK(floats(y.at("-")) == Floats{-36, -8});
  CHECK(floats(y.at("%sum%")) == Floats{36, 8});
}

TEST_CASE("sizes whose names differ in characters that no identifier holds") {
  Graph graph;
  graph.input("x", DType::F32, {"a.b"}).input("y", DType::F32, {"a_b"});
  graph.node("Concat", {"x", "y"}, {"z"}, {attribute("axis", 0)}).output("z");
  const onnx::Program program = load(model(graph)).compile();
  CHECK(floats(program({{"x", vector_of({1})}, {"y", vector_of({2, 3})}}).at("z")) == Floats{1, 2, 3});
}

TEST_CASE("a size of -1 is one that is not known") {
  Graph graph;
  graph.input("x", DType::F32, {-1, 2}).input("y", DType::F32, {-1});
  graph.node("ReduceSum", {"x"}, {"s"})
      .node("ReduceSum", {"y"}, {"t"})
      .node("Add", {"s", "t"}, {"z"})
      .output("z");
  const onnx::Program program = load(model(graph)).compile();
  for (const int64_t rows : {1, 3})
    CHECK(floats(program({{"x", Tensor::ones({rows, 2})}, {"y", Tensor::ones({5})}}).at("z"))[0] ==
          static_cast<float>(2 * rows + 5));
}

TEST_CASE("sizes of one name that differ are taken as they are fed") {
  Graph graph;
  graph.input("x", DType::F32, {"n", 2}).input("y", DType::F32, {"n", 2});
  graph.node("ReduceSum", {"x"}, {"s"})
      .node("ReduceSum", {"y"}, {"t"})
      .node("Sub", {"s", "t"}, {"z"})
      .output("z");
  graph.node("Shape", {"y"}, {"sizes"}).output("sizes", DType::I64);
  const onnx::Program program = load(model(graph)).compile();
  const auto fed = [](int64_t x, int64_t y) {
    return onnx::NamedValues{{"x", Tensor::ones({x, 2})}, {"y", Tensor::ones({y, 2})}};
  };
  const auto check = [&](const onnx::Program& p, int64_t x, int64_t y) {
    const onnx::NamedValues out = p(fed(x, y));
    CHECK(floats(out.at("z"))[0] == static_cast<float>(2 * (x - y)));
    CHECK(integers(out.at("sizes")) == std::vector<int64_t>{y, 2});
  };
  check(program, 3, 3);
  check(program, 3, 5);
  check(program, 1, 4);
  check(program, 7, 7);
  // A saved program goes on where it was, and makes what is missing.
  const TemporaryDir folder;
  const std::string path = folder.file("program.lathe");
  onnx::save(program, path);
  const onnx::Program loaded = onnx::load_program(path);
  check(loaded, 3, 5);
  check(loaded, 2, 6);
  check(loaded, 4, 4);
  mentions(loaded.print(), "sizes of one name are equal");
}

TEST_CASE("weights in a file of their own may leave their length out, or at 0") {
  const TemporaryDir folder;
  const Floats weights{1, 2, 3, 4};
  write_file(folder.file("weights.bin"), {reinterpret_cast<const char*>(weights.data()), sizeof(float) * 4});
  const auto external = [&](const std::optional<std::string>& length) {
    lathe_onnx::TensorProto proto;
    proto.set_data_type(onnx_dtype(DType::F32));
    proto.add_dims(3);
    proto.set_data_location(lathe_onnx::TensorProto::EXTERNAL);
    const auto add = [&](const char* key, const std::string& value) {
      auto& entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    add("location", "weights.bin");
    add("offset", "4");
    if (length) add("length", *length);
    Graph graph;
    graph.input("x", DType::F32, {3}).initialiser("w", proto).node("Mul", {"x", "w"}, {"y"}).output("y");
    const std::string bytes = model(graph);
    const onnx::Model made = onnx::load(bytes.data(), bytes.size(), folder.path.string());
    return floats(made.compile()({{"x", vector_of({1, 1, 1})}}).at("y"));
  };
  for (const std::optional<std::string>& length :
       {std::optional<std::string>(), std::optional<std::string>("0"), std::optional<std::string>("12")})
    CHECK(external(length) == Floats{2, 3, 4});
  mentions(message_of([&] { external("8"); }), "has 8 bytes of external data, expected 12");
}

TEST_CASE("names that become one identifier are told apart") {
  Graph g;
  g.input("a.b", DType::F32, {2}).input("a_b", DType::F32, {2}).input("a/b", DType::F32, {2});
  g.node("Sub", {"a.b", "a_b"}, {"y.1"}).node("Sub", {"a/b", "a_b"}, {"y_1"}).output("y.1").output("y_1");
  const NamedTensors tensors = load(model(g)).tensors();
  const Executable run = compile(tensors);
  const NamedTensors got = run({{"a_b_2", Tensor::from({5.f, 6.f})},
                                {"a_b", Tensor::from({1.f, 2.f})},
                                {"a_b_3", Tensor::from({9.f, 9.f})}});
  CHECK(got.at("y_1_2").to_vector<float>() == std::vector<float>{4, 4});
  CHECK(got.at("y_1").to_vector<float>() == std::vector<float>{8, 7});
}
