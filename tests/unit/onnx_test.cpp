// ONNX models made by hand: what the ONNX project's own test data does not reach.
#include <doctest/doctest.h>

#include <cmath>

#include "support/messages.hpp"
#include "support/onnx_builder.hpp"
#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Program;
using onnx::Value;

namespace {

using Floats = std::vector<float>;

Tensor flag(bool value) { return Tensor::full({}, value); }
Tensor integer(int64_t value) { return Tensor::full({}, value); }
Tensor vector(const Floats& values) { return Tensor::from(values); }

/// The message of the Error that a model of one node is.
std::string compile_error(const std::string& op, const std::vector<Dims>& inputs,
                          const Attributes& attributes = {}) {
  Graph g;
  Names names;
  for (const Dims& dims : inputs) {
    names.push_back("x" + std::to_string(names.size()));
    g.input(names.back(), DType::F32, dims);
  }
  g.node(op, names, {"y"}, attributes);
  return message_of([&] { load(model(g)).compile(); });
}

/// A loop's inputs before its own state, named as all loops here name them.
Graph loop_body() {
  Graph body;
  body.input("i", DType::I64).input("go", DType::Bool);
  return body;
}

} // namespace

TEST_CASE("an If takes either way in one program, and reads values around it") {
  Graph then_body, else_body, g;
  then_body.node("Add", {"x", "outer"}, {"then_y"}).output("then_y");
  else_body.node("Neg", {"outer"}, {"else_y"}).output("else_y");
  g.input("c", DType::Bool).input("x", DType::F32, {2}).node("Mul", {"x", "x"}, {"outer"});
  g.node("If", {"c"}, {"y"}, {attribute("then_branch", then_body), attribute("else_branch", else_body)});
  g.output("y");
  const Program program = load(model(g)).compile();
  for (int round = 0; round < 2; ++round) {
    CHECK(floats(program({{"c", flag(true)}, {"x", vector({2, 3})}}), "y") == Floats{6, 12});
    CHECK(floats(program({{"c", flag(false)}, {"x", vector({2, 3})}}), "y") == Floats{-4, -9});
  }
}

TEST_CASE("a condition that follows from the model takes one way at once") {
  Graph then_body, else_body, g;
  then_body.node("Identity", {"x"}, {"a"}).output("a");
  else_body.node("Neg", {"x"}, {"b"}).output("b");
  g.input("x", DType::F32, {3}).initialiser<int64_t>("three", {}, {3});
  g.node("Size", {"x"}, {"size"}).node("Equal", {"size", "three"}, {"c"});
  g.node("If", {"c"}, {"y"}, {attribute("then_branch", then_body), attribute("else_branch", else_body)});
  g.output("y");
  const Program program = load(model(g)).compile();
  CHECK(floats(program({{"x", vector({1, 2, 3})}}), "y") == Floats{1, 2, 3});
  CHECK(program.print().find("look at") == std::string::npos);
}

TEST_CASE("bodies in bodies read names of every graph around them") {
  Graph inner_then, inner_else, outer_then, outer_else, g;
  inner_then.node("Add", {"middle", "x"}, {"in_then"}).output("in_then");
  inner_else.node("Sub", {"middle", "x"}, {"in_else"}).output("in_else");
  outer_then.node("Mul", {"x", "x"}, {"middle"});
  outer_then.node("If", {"inner"}, {"out_then"},
                  {attribute("then_branch", inner_then), attribute("else_branch", inner_else)});
  outer_then.output("out_then");
  outer_else.node("Neg", {"x"}, {"out_else"}).output("out_else");
  g.input("outer", DType::Bool).input("inner", DType::Bool).input("x", DType::F32, {2});
  g.node("If", {"outer"}, {"y"},
         {attribute("then_branch", outer_then), attribute("else_branch", outer_else)});
  g.output("y");
  const Program program = load(model(g)).compile();
  const auto run = [&](bool outer, bool inner) {
    return floats(program({{"outer", flag(outer)}, {"inner", flag(inner)}, {"x", vector({3, 5})}}), "y");
  };
  CHECK(run(true, true) == Floats{12, 30});
  CHECK(run(true, false) == Floats{6, 20});
  CHECK(run(false, true) == Floats{-3, -5});
}

TEST_CASE("a Loop's trip count may be fed, down to none at all") {
  Graph body = loop_body(), g;
  body.input("state", DType::F32, {2});
  body.node("Add", {"state", "step"}, {"next"}).node("Mul", {"next", "next"}, {"square"});
  body.node("Identity", {"go"}, {"go_on"});
  body.output("go_on", DType::Bool).output("next").output("square");
  g.input("trips", DType::I64).input("x", DType::F32, {2}).input("step", DType::F32, {2});
  g.node("Loop", {"trips", "", "x"}, {"last", "squares"}, {attribute("body", body)});
  g.output("last").output("squares");
  const Program program = load(model(g)).compile();
  const auto run = [&](int64_t trips) {
    return program({{"trips", integer(trips)}, {"x", vector({1, 2})}, {"step", vector({1, 10})}});
  };
  const NamedValues three = run(3);
  CHECK(floats(three, "last") == Floats{4, 32});
  CHECK(three.at("squares").shape() == Shape{3, 2});
  CHECK(floats(three, "squares") == Floats{4, 144, 9, 484, 16, 1024});
  CHECK(floats(run(1), "squares") == Floats{4, 144});
  const NamedValues none = run(0);
  CHECK(floats(none, "last") == Floats{1, 2});
  CHECK(none.at("squares").is_empty());
  CHECK(none.at("squares").shape() == Shape{0, 2});
}

TEST_CASE("a body that declares its outputs need not run for what takes no steps") {
  static int runs;
  onnx::register_op("my.domain", "Counted", 1, [](onnx::Call& call) -> std::vector<Value> {
    ++runs;
    return {call.value(0)};
  });
  for (const bool declared : {true, false}) {
    runs = 0;
    Graph body = loop_body(), g;
    const auto dims = declared ? std::optional<Dims>(Dims{2, 1}) : std::nullopt;
    body.input("state", DType::F32, {2, 1}).node("Counted", {"state"}, {"next"}, {}, "my.domain");
    body.node("Identity", {"next"}, {"seen"})
        .output("go", DType::Bool)
        .output("next")
        .output("seen", DType::F32, dims);
    g.initialiser<int64_t>("trips", {}, {0}).input("x", DType::F32, {2, 1});
    g.node("Loop", {"trips", "", "x"}, {"last", "all"}, {attribute("body", body)})
        .output("last")
        .output("all");
    const NamedValues out =
        load(model(g, 17, {}, {"my.domain"})).compile()({{"x", vector({1, 2}).reshape({2, 1})}});
    CHECK(floats(out, "last") == Floats{1, 2});
    CHECK(out.at("all").shape() == Shape{0, 2, 1});
    CHECK(out.at("all").dtype() == DType::F32);
    CHECK(runs == (declared ? 0 : 1));
  }
  Graph body, g;
  body.input("state", DType::F32, {2}).input("step", DType::F32, {2});
  body.node("Add", {"state", "step"}, {"next"}).node("Neg", {"next"}, {"seen"});
  body.output("next", DType::F32, Dims{2}).output("seen", DType::F32, Dims{2});
  g.input("x", DType::F32, {2}).initialiser<float>("steps", {0, 2}, {});
  g.node("Scan", {"x", "steps"}, {"last", "all"},
         {attribute("body", body), attribute("num_scan_inputs", 1),
          attribute("scan_output_axes", std::vector<int64_t>{1})});
  const NamedValues out = load(model(g.output("last").output("all"))).compile()({{"x", vector({1, 2})}});
  CHECK(floats(out, "last") == Floats{1, 2});
  CHECK(out.at("all").shape() == Shape{2, 0});
}

TEST_CASE("a Loop's condition may depend on what it computes") {
  Graph body = loop_body(), g;
  body.input("state", DType::F32, {2});
  body.node("Add", {"state", "state"}, {"next"});
  body.node("ReduceSum", {"next"}, {"sum"}, {attribute("keepdims", 0)});
  body.node("Less", {"sum", "bound"}, {"go_on"});
  body.output("go_on", DType::Bool).output("next").output("sum");
  g.input("x", DType::F32, {2}).input("bound", DType::F32);
  g.node("Loop", {"", "", "x"}, {"y", "sums"}, {attribute("body", body)});
  g.output("y").output("sums");
  const Program program = load(model(g)).compile();
  for (int round = 0; round < 2; ++round) {
    const NamedValues far = program({{"x", vector({1, 2})}, {"bound", Tensor::full({}, 20.f)}});
    CHECK(floats(far, "y") == Floats{8, 16});
    CHECK(floats(far, "sums") == Floats{6, 12, 24});
    CHECK(floats(program({{"x", vector({5, 6})}, {"bound", Tensor::full({}, 20.f)}}), "y") == Floats{10, 12});
  }
}

TEST_CASE("a Loop in a Loop, whose length is the outer one's step") {
  Graph inner = loop_body(), outer = loop_body(), g;
  inner.input("sum_in", DType::F32).node("Add", {"sum_in", "x"}, {"sum_out"});
  inner.node("Identity", {"go"}, {"inner_go"}).output("inner_go", DType::Bool).output("sum_out");
  outer.input("total_in", DType::F32);
  outer.node("Loop", {"outer_step", "", "total_in"}, {"total_out"}, {attribute("body", inner)});
  outer.node("Identity", {"i"}, {"outer_step"});
  outer.node("Identity", {"go"}, {"outer_go"}).output("outer_go", DType::Bool).output("total_out");
  g.input("x", DType::F32).initialiser<int64_t>("four", {}, {4}).initialiser<float>("zero", {}, {0});
  g.node("Loop", {"four", "", "zero"}, {"y"}, {attribute("body", outer)}).output("y");
  CHECK(floats(load(model(g)).compile()({{"x", Tensor::full({}, 5.f)}}), "y") ==
        Floats{30}); // 0 + 1 + 2 + 3 times
}

TEST_CASE("a Loop that never ends is stopped") {
  Graph body = loop_body(), g;
  body.input("state", DType::F32).node("Identity", {"go"}, {"go_on"}).node("Identity", {"state"}, {"next"});
  body.output("go_on", DType::Bool).output("next");
  g.input("x", DType::F32).node("Loop", {"", "", "x"}, {"y"}, {attribute("body", body)}).output("y");
  mentions(message_of([&] { load(model(g)).compile(); }), "Loop");
}

TEST_CASE("a parameter of another shape than one number a channel is an error") {
  mentions(compile_error("InstanceNormalization", {{1, 2, 3}, {}, {2}}), "[]");
  mentions(compile_error("InstanceNormalization", {{2}, {2}, {2}}), "axis");
}

TEST_CASE("what would become more nodes or constants than there is room for is an error") {
  const int64_t many = int64_t{1} << 40;
  mentions(compile_error("SplitToSequence", {{many, 2}}, {}), "at most");
  mentions(compile_error("DFT", {{1, (1 << 26) + 1, 1}}, {attribute("axis", 1)}), "points");
}

TEST_CASE("a Scan goes along any axis, either way, and reads values around it") {
  Graph body, g;
  body.input("sum", DType::F32, {2}).input("column", DType::F32, {2});
  body.node("Mul", {"column", "scale"}, {"scaled"}).node("Add", {"sum", "scaled"}, {"next"});
  body.node("Identity", {"next"}, {"seen"}).output("next").output("seen");
  g.input("x", DType::F32, {2, 3}).input("scale", DType::F32).initialiser<float>("zero", {2}, {0, 0});
  g.node("Scan", {"zero", "x"}, {"last", "sums"},
         {attribute("body", body), attribute("num_scan_inputs", 1),
          attribute("scan_input_axes", std::vector<int64_t>{1}),
          attribute("scan_input_directions", std::vector<int64_t>{1}),
          attribute("scan_output_axes", std::vector<int64_t>{-1}),
          attribute("scan_output_directions", std::vector<int64_t>{1})});
  g.output("last").output("sums");
  const NamedValues out = load(model(g)).compile()(
      {{"x", vector({1, 2, 3, 4, 5, 6}).reshape({2, 3})}, {"scale", Tensor::full({}, 10.f)}});
  CHECK(floats(out, "last") == Floats{60, 150});
  CHECK(floats(out, "sums") == Floats{60, 50, 30, 150, 110, 60});
}

TEST_CASE("functions of a model: defaults, what callers give instead, and functions in functions") {
  Function leaky("my.ops", "Leaky", {"a"}, {"b"});
  leaky.takes(attribute("slope", 0.5));
  leaky.node("LeakyRelu", {"a"}, {"b"}, {reference("alpha", "slope", Attribute::FLOAT)});
  Function twice("my.ops", "Twice", {"p"}, {"q"});
  twice.takes("inner_slope").opset("my.ops", 1);
  twice.node("Leaky", {"p"}, {"b"}, {reference("slope", "inner_slope", Attribute::FLOAT)}, "my.ops");
  twice.node("Leaky", {"b"}, {"q"}, {}, "my.ops"); // an inner name equal to another function's
  Graph g;
  g.input("x", DType::F32, {2});
  g.node("Leaky", {"x"}, {"default"}, {}, "my.ops");
  g.node("Leaky", {"x"}, {"given"}, {attribute("slope", 0.25)}, "my.ops");
  g.node("Twice", {"x"}, {"nested"}, {attribute("inner_slope", 0.125)}, "my.ops");
  g.output("default").output("given").output("nested");
  const NamedValues out = load(model(g, 17, {leaky, twice}, {"my.ops"})).compile()({{"x", vector({-16, 3})}});
  CHECK(floats(out, "default") == Floats{-8, 3});
  CHECK(floats(out, "given") == Floats{-4, 3});
  CHECK(floats(out, "nested") == Floats{-1, 3});
}

TEST_CASE("a negative size is an error where sizes are computed at import, too") {
  Graph g; // a Shape of so many sevens, which must be known for the Reshape
  g.input("x", DType::F32, {6}).initialiser<int64_t>("count", {1}, {-2});
  g.node("ConstantOfShape", {"count"}, {"shape"}, {attribute("value", tensor_proto<int64_t>({1}, {7}))});
  g.node("Reshape", {"x", "shape"}, {"y"}).output("y");
  mentions(message_of([&] { load(model(g, 17)).compile(); }), "-2");
}

TEST_CASE("a function that calls itself is an error") {
  Function f("my.ops", "Again", {"a"}, {"b"});
  f.opset("my.ops", 1).node("Again", {"a"}, {"b"}, {}, "my.ops");
  Graph g;
  g.input("x", DType::F32, {2}).node("Again", {"x"}, {"y"}, {}, "my.ops").output("y");
  mentions(message_of([&] { load(model(g, 17, {f}, {"my.ops"})).compile(); }), "Again");
}

TEST_CASE("a shape may be fed when the program runs") {
  Graph g;
  g.input("x", DType::F32, {6}).input("shape", DType::I64, {2});
  g.node("Add", {"x", "x"}, {"twice"}).node("Reshape", {"twice", "shape"}, {"y"}).output("y");
  const Program program = load(model(g)).compile();
  const auto shape_of = [&](int64_t rows, int64_t columns) {
    const NamedValues out =
        program({{"x", vector({0, 1, 2, 3, 4, 5})}, {"shape", Tensor::from({rows, columns})}});
    CHECK(floats(out, "y") == Floats{0, 2, 4, 6, 8, 10});
    return out.at("y").shape();
  };
  CHECK(shape_of(2, 3) == Shape{2, 3});
  CHECK(shape_of(3, -1) == Shape{3, 2});
  CHECK(shape_of(2, 3) == Shape{2, 3});
}

TEST_CASE("one program serves all sizes that the model names") {
  Graph g;
  g.input("x", DType::F32, {"n", 2, 3}).initialiser<float>("w", {6, 1}, {1, 1, 1, 1, 1, 1});
  g.initialiser<int64_t>("zero", {1}, {0}).initialiser<int64_t>("rest", {1}, {-1});
  g.node("Shape", {"x"}, {"sizes"}).node("Gather", {"sizes", "zero"}, {"batch"});
  g.node("Concat", {"batch", "rest"}, {"target"}, {attribute("axis", 0)});
  g.node("Reshape", {"x", "target"}, {"rows"}).node("MatMul", {"rows", "w"}, {"y"});
  g.output("y");
  const Program program = load(model(g)).compile({.versions = 0});
  for (int64_t n : {1, 4, 7}) {
    const NamedValues out = program({{"x", Tensor::ones({n, 2, 3}).realise()}});
    CHECK(out.at("y").shape() == Shape{n, 1});
    CHECK(floats(out, "y") == Floats(static_cast<size_t>(n), 6));
  }
  CHECK(program.segments().size() == 1);
  onnx::ImportOptions fixed;
  fixed.sizes["n"] = 2;
  CHECK(floats(load(model(g)).compile(fixed)({{"x", Tensor::ones({2, 2, 3}).realise()}}), "y") ==
        Floats{6, 6});
}

TEST_CASE("a size may be an output") {
  Graph g;
  g.input("x", DType::F32, {"n", 3}).node("Size", {"x"}, {"count"}).node("Shape", {"x"}, {"sizes"});
  g.output("count", DType::I64).output("sizes", DType::I64);
  const Program program = load(model(g)).compile();
  for (int64_t n : {2, 5}) {
    const NamedValues out = program({{"x", Tensor::ones({n, 3}).realise()}});
    CHECK(out.at("count").tensor().item<int64_t>() == 3 * n);
    CHECK(out.at("sizes").tensor().to_vector<int64_t>() == std::vector<int64_t>{n, 3});
  }
  CHECK(program.segments().empty());
}

TEST_CASE("a size that is an output leaves the rest of the program one for all sizes") {
  Graph g;
  g.input("x", DType::F32, {"n", 3}).node("Shape", {"x"}, {"sizes"}).node("Add", {"x", "x"}, {"y"});
  g.initialiser<int64_t>("two", {1}, {2}).node("Mul", {"sizes", "two"}, {"doubled"});
  const Program program = load(model(g.output("y").output("doubled", DType::I64))).compile({.versions = 0});
  for (int64_t n : {2, 5}) {
    const NamedValues out = program({{"x", Tensor::ones({n, 3}).realise()}});
    CHECK(floats(out, "y") == Floats(static_cast<size_t>(n) * 3, 2));
    CHECK(out.at("doubled").tensor().to_vector<int64_t>() == std::vector<int64_t>{2 * n, 6});
  }
  CHECK(program.segments().size() == 1);
}

TEST_CASE("an op of the user's own") {
  onnx::register_op("my.domain", "Scale", 1, [](onnx::Call& call) -> std::vector<Value> {
    return {call.tensor(0) * call.number("factor", 1.0)};
  });
  Graph g;
  g.input("x", DType::F32, {2});
  g.node("Scale", {"x"}, {"y"}, {attribute("factor", 3.0)}, "my.domain").output("y");
  CHECK(floats(load(model(g, 17, {}, {"my.domain"})).compile()({{"x", vector({1, 2})}}), "y") ==
        Floats{3, 6});
  Graph bad;
  bad.input("x", DType::F32, {2});
  bad.node("Scale", {"x"}, {"y"}, {attribute("facter", 3.0)}, "my.domain").output("y");
  const std::string message = message_of([&] { load(model(bad, 17, {}, {"my.domain"})).compile(); });
  mentions(message, "Scale");
  mentions(message, "facter");
}

TEST_CASE("ops that are not there are all named before anything is compiled") {
  Graph g;
  g.input("x", DType::F32, {2}).node("Nothing", {"x"}, {"a"}).node("Nobody", {"a"}, {"y"}, {}, "far.away");
  g.output("y");
  const onnx::Model loaded = load(model(g, 17, {}, {"far.away"}));
  REQUIRE(loaded.problems().size() == 2);
  CHECK(loaded.problems()[0].op == "Nothing");
  CHECK(loaded.problems()[1].domain == "far.away");
  mentions(message_of([&] { loaded.compile(); }), "Nothing");

  Graph saved;
  saved.input("x", DType::F32, {2}).node("ReorderInput", {"x"}, {"y"}, {}, "com.microsoft.nchwc").output("y");
  mentions(load(model(saved, 17, {}, {"com.microsoft.nchwc"})).problems().at(0).message, "level EXTENDED");
}

TEST_CASE("what is fed has to fit what the model declares") {
  Graph g;
  g.input("x", DType::F32, {2, 3}).node("Neg", {"x"}, {"y"}).output("y");
  const Program program = load(model(g)).compile();
  mentions(message_of([&] { program({}); }), "'x'");
  mentions(message_of([&] { program({{"x", Tensor::zeros({2, 3})}, {"z", Tensor::zeros({1})}}); }), "'z'");
  mentions(message_of([&] { program({{"x", Tensor::zeros({2, 4})}}); }), "[2, 3]");
  mentions(message_of([&] { program({{"x", Tensor::zeros({2, 3}, DType::I32)}}); }), "i32");
}

TEST_CASE("graphs that can't be ordered") {
  Graph cycle, missing, twice;
  cycle.input("x", DType::F32, {2}).node("Add", {"x", "b"}, {"a"}).node("Neg", {"a"}, {"b"}).output("b");
  mentions(message_of([&] { load(model(cycle)); }), "Add_a");
  missing.input("x", DType::F32, {2}).node("Add", {"x", "ghost"}, {"y"}).output("y");
  const std::string message = message_of([&] { load(model(missing)); });
  mentions(message, "Add_y");
  mentions(message, "ghost");
  twice.input("x", DType::F32, {2}).node("Neg", {"x"}, {"y"}).node("Abs", {"x"}, {"y"}).output("y");
  mentions(message_of([&] { load(model(twice)); }), "'y'");
}

TEST_CASE("sparse tensors of a model are those with their zeros") {
  Graph g;
  g.sparse_initialiser("w", sparse_proto<float>({2, 3}, {5, 7}, {2}, {1, 5}));
  g.sparse_initialiser("v", sparse_proto<float>({2, 3}, {2, 3, 4}, {3, 2}, {1, 0, 0, 2, 0, 0}));
  g.sparse_initialiser("none", sparse_proto<float>({2, 3}, {}, {0}, {}));
  Attribute sparse = attribute_of_type("sparse_value", Attribute::SPARSE_TENSOR);
  *sparse.mutable_sparse_tensor() = sparse_proto<float>({3}, {0.5}, {1, 1}, {1});
  g.node("Constant", {}, {"c"}, {sparse}).input("x", DType::F32, {2, 3});
  g.node("Sum", {"x", "w", "v", "none", "c"}, {"y"}).output("y");
  const Value zeros = Tensor::zeros({2, 3});
  CHECK(floats(load(model(g)).compile()({{"x", zeros}}), "y") == Floats{4, 5.5, 3, 2, 0.5, 7});

  const auto refused = [](const lathe_onnx::SparseTensorProto& tensor, const char* why) {
    Graph bad;
    bad.sparse_initialiser("w", tensor).node("Neg", {"w"}, {"y"}).output("y");
    const std::string message = message_of([&] { load(model(bad)); });
    mentions(message, "initialiser 'w'");
    mentions(message, why);
  };
  refused(sparse_proto<float>({2, 3}, {1}, {1}, {6}), "an index out of range");
  refused(sparse_proto<float>({2, 3}, {1}, {1}, {-1}), "an index out of range");
  refused(sparse_proto<float>({2, 3}, {1}, {1, 2}, {0, 3}), "an index out of range");
  refused(sparse_proto<float>({2, 3}, {1}, {1, 3}, {0, 0, 0}), "indices i64[1, 3], expected i64[1] or i64[1, 2]");
  refused(sparse_proto<float>({int64_t{1} << 40, 1 << 30}, {1}, {1}, {0}), "bytes at most in all");
  refused(sparse_proto<float>({0}, {1}, {1}, {0}), "size 0, expected at least 1");
}

TEST_CASE("an initialiser that is an input, too, is its default") {
  Graph g;
  g.input("x", DType::F32, {2, 2}).input("w", DType::F32, {2, 2}).input("shape", DType::I64, {1});
  g.initialiser<float>("w", {2, 2}, {1, 2, 3, 4}).initialiser<int64_t>("shape", {1}, {4});
  g.initialiser<float>("fixed", {1}, {10});
  g.node("MatMul", {"x", "w"}, {"product"}).node("Add", {"product", "fixed"}, {"sum"});
  g.node("Reshape", {"sum", "shape"}, {"y"}).output("y");
  const onnx::Model loaded = load(model(g));
  const auto names = [](const std::vector<onnx::Port>& ports) {
    Names all;
    for (const onnx::Port& port : ports) all.push_back(port.name);
    return all;
  };
  CHECK(names(loaded.inputs()) == Names{"x"});
  CHECK(names(loaded.defaults()) == Names{"w", "shape"});
  const NamedValues x{{"x", Tensor::from(Floats{1, 0, 0, 1}, {2, 2})}};
  CHECK(floats(loaded.compile()(x), "y") == Floats{11, 12, 13, 14});

  const onnx::Model fed = loaded.without_defaults({"w"});
  CHECK(names(fed.inputs()) == Names{"x", "w"});
  CHECK(names(fed.defaults()) == Names{"shape"});
  NamedValues both = x;
  both.emplace("w", Tensor::from(Floats{5, 6, 7, 8}, {2, 2}));
  CHECK(floats(fed.compile()(both), "y") == Floats{15, 16, 17, 18});
  mentions(message_of([&] { fed.compile()(x); }), "input 'w' is missing");
  both.emplace("shape", Tensor::from({int64_t{1}}));
  CHECK_THROWS_AS(loaded.without_defaults({"w", "shape"}).compile()(both), Error);
  CHECK(floats(loaded.compile()(x), "y") == Floats{11, 12, 13, 14});
  for (const char* name : {"x", "fixed", "none"})
    mentions(message_of([&] { loaded.without_defaults({name}); }), name);
}

TEST_CASE("nodes may stand in any order") {
  Graph g;
  g.node("Neg", {"a"}, {"y"}).node("Add", {"x", "x"}, {"a"}).input("x", DType::F32, {2}).output("y");
  CHECK(floats(load(model(g)).compile()({{"x", vector({1, 2})}}), "y") == Floats{-2, -4});
}

TEST_CASE("values are compared as ONNX's own runner does it") {
  const auto same = [](const Tensor& got, const Tensor& expected) {
    return onnx::compare(got, expected).why.empty();
  };
  const float inf = INFINITY, nan = NAN;
  CHECK(same(vector({1, nan, inf, -0.0f}), vector({1.0009f, nan, inf, 0.0f})));
  CHECK_FALSE(same(vector({1}), vector({1.0011f})));
  CHECK_FALSE(same(vector({1}), vector({inf})));
  CHECK_FALSE(same(vector({inf}), vector({-inf})));
  CHECK_FALSE(same(vector({nan}), vector({1})));
  CHECK_FALSE(same(vector({1}), vector({nan})));
  CHECK_FALSE(same(vector({1, 2}), vector({1})));
  CHECK_FALSE(same(vector({1}), vector({1}).cast(DType::F64)));
  const int64_t large = int64_t{1} << 60; // f64 does not tell it from its neighbour
  CHECK(same(integer(large), integer(large)));
  CHECK_FALSE(same(integer(large), integer(large + 1)));
  const onnx::Difference found = onnx::compare(vector({1, 2, 4}), vector({1, 2.001f, 4}));
  CHECK(found.worst == doctest::Approx(0.0005).epsilon(0.01));
  CHECK(onnx::compare(vector({1}), vector({2})).why == "element 0 is 1, expected 2");
  CHECK(onnx::compare(vector({1}), vector({2}), std::nullopt).why.empty()); // shapes alone
  CHECK_FALSE(onnx::compare(Value(), vector({1})).why.empty());
  const auto list = [](float last) { return Value::sequence(DType::F32, {vector({1}), vector({last})}); };
  CHECK(onnx::compare(list(2), list(2)).why.empty());
  CHECK(onnx::compare(list(2), list(3)).why == "element 1 element 0 is 2, expected 3");
}
