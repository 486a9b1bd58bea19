// Models whose shapes depend on what they are fed: a number that differs from call to call becomes a
// variable, and later calls compile nothing. Values are those of programs that have seen no other numbers.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "lathe/program_file.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_builder.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Program;
using onnx::Value;
using Integers = std::vector<int64_t>;

namespace {

Tensor list_of(const Integers& values) { return Tensor::from(values); }
Tensor scalar_of(int64_t value) { return Tensor::full({}, value); }

struct Calls {
  std::string bytes; // of the model
  std::vector<NamedValues> inputs{};
};

/// Calls the program with each of these, and compares with the interpreter, which has seen nothing else.
void check_calls(const Program& program, const Calls& sample) {
  for (size_t k = 0; k < sample.inputs.size(); ++k) {
    CAPTURE(k);
    const NamedValues got = program(sample.inputs[k]),
                      want = load(sample.bytes).compile({.compile = {.device = "interp"}})(sample.inputs[k]);
    REQUIRE(got.size() == want.size());
    for (const auto& [name, value] : want) {
      CAPTURE(name);
      CHECK(got.at(name).shape() == value.shape());
      CHECK(onnx::compare(got.at(name), value, 1e-5).why == "");
    }
  }
}

/// The calls are right, and those behind the first `settled` of them compile nothing.
void check_settles(const Calls& sample, size_t settled) {
  const Program program = load(sample.bytes).compile();
  Calls first = sample, rest = sample;
  first.inputs.resize(settled);
  rest.inputs.erase(rest.inputs.begin(), rest.inputs.begin() + static_cast<long>(settled));
  check_calls(program, first);
  const size_t segments = program.segments().size();
  check_calls(program, rest);
  CHECK(program.segments().size() == segments);
}

/// The rows of x whose mark is true, times weights.
Calls chosen_rows(const std::vector<Integers>& marks) {
  Graph g;
  g.input("x", DType::F32, {9, 3}).input("marks", DType::I64, {9});
  g.initialiser<float>("w", {3, 2}, numbers(6, 1)).initialiser<int64_t>("axes", {1}, {0});
  g.node("NonZero", {"marks"}, {"found"}).node("Squeeze", {"found", "axes"}, {"rows"});
  g.node("Gather", {"x", "rows"}, {"chosen"}).node("MatMul", {"chosen", "w"}, {"y"});
  g.node("Shape", {"y"}, {"sizes"}).node("ReduceSum", {"y"}, {"sum"}, {attribute("keepdims", 0)});
  Calls sample{model(g.output("y").output("found", DType::I64).output("sizes", DType::I64).output("sum")),
               {}};
  for (const Integers& mark : marks)
    sample.inputs.push_back(
        {{"x", Tensor::from(numbers(27, static_cast<unsigned>(sample.inputs.size())), {9, 3})},
         {"marks", list_of(mark)}});
  return sample;
}

Integers marks(int64_t count) {
  Integers all(9, 0);
  for (int64_t k = 0; k < count; ++k) all[static_cast<size_t>(k * 4 % 9)] = k + 1;
  return all;
}

} // namespace

TEST_CASE("numbers of elements that differ get one segment, none and one their own") {
  std::vector<Integers> all;
  for (const int64_t count : {3, 0, 5, 1, 2, 9, 4, 0, 1, 3, 7, 8}) all.push_back(marks(count));
  check_settles(chosen_rows(all), 4);
}

TEST_CASE("a model that first sees no element at all") {
  check_settles(chosen_rows({marks(0), marks(1), marks(4), marks(6), marks(2), marks(5), marks(9)}), 4);
}

TEST_CASE("distinct numbers of a named size: neither size compiles anew") {
  Graph g;
  g.input("ids", DType::I64, {"n"}).initialiser<float>("table", {7, 2}, numbers(14, 1));
  g.node("Unique", {"ids"}, {"values", "first", "which", "counts"}, {attribute("sorted", 1)});
  g.node("Gather", {"table", "values"}, {"rows"}).node("Gather", {"rows", "which"}, {"back"});
  g.output("values", DType::I64).output("which", DType::I64).output("counts", DType::I64).output("back");
  Calls sample{model(g)};
  for (const Integers& ids : std::vector<Integers>{{1, 2, 1},
                                                   {3, 3, 5, 6, 0},
                                                   {0, 1, 2, 3},
                                                   {6, 5, 4, 6, 5, 4},
                                                   {2, 1},
                                                   {4, 5, 6, 4, 4, 5, 6, 3, 3},
                                                   {1, 2, 1}})
    sample.inputs.push_back({{"ids", list_of(ids)}});
  check_settles(sample, 2);
}

TEST_CASE("a number that is as far from another in each call is made of it") {
  // Two ranges, one a step longer: their sum needs one size.
  Graph g;
  g.input("n", DType::I64, {}).initialiser<int64_t>("zero", {}, {0}).initialiser<int64_t>("one", {}, {1});
  g.initialiser<int64_t>("ones", {1}, {1}).initialiser<int64_t>("last", {1}, {INT64_MAX});
  g.node("Add", {"n", "one"}, {"more"});
  g.node("Range", {"zero", "n", "one"}, {"short"}).node("Range", {"zero", "more", "one"}, {"long"});
  g.node("Slice", {"long", "ones", "last"}, {"rest"}).node("Mul", {"short", "rest"}, {"y"});
  Calls sample{model(g.output("y", DType::I64).output("long", DType::I64))};
  for (const int64_t n : {4, 7, 2, 3, 11, 6, 5}) sample.inputs.push_back({{"n", scalar_of(n)}});
  check_settles(sample, 2);
}

TEST_CASE("a number that is the negative of a size") {
  // As many of the last rows as x has; which the importer is told, or sees.
  for (const bool is_seen : {false, true}) {
    Graph g;
    g.input("x", DType::F32, {"n", 2}).input("table", DType::F32, {"m", 2}).input("one", DType::I64, {1});
    g.initialiser<int64_t>("zero", {1}, {0}).initialiser<int64_t>("end", {1}, {INT64_MAX});
    g.initialiser<int64_t>("axis", {1}, {0});
    g.node("Shape", {"x"}, {"sizes"}).node("Gather", {"sizes", "zero"}, {"n"});
    g.node(is_seen ? "Mul" : "Identity", is_seen ? Names{"n", "one"} : Names{"n"}, {"count"});
    g.node("Neg", {"count"}, {"from"}).node("Slice", {"table", "from", "end", "axis"}, {"rows"});
    g.node("Add", {"x", "rows"}, {"y"});
    Calls calls{model(g.output("y").output("one", DType::I64))};
    for (const auto& [n, m] :
         std::vector<std::pair<int64_t, int64_t>>{{4, 9}, {6, 9}, {5, 7}, {3, 8}, {7, 7}})
      calls.inputs.push_back({{"x", Tensor::from(numbers(n * 2, 1), {n, 2})},
                              {"table", Tensor::from(numbers(m * 2, 2), {m, 2})},
                              {"one", list_of({1})}});
    check_calls(load(calls.bytes).compile(), calls);
  }
}

TEST_CASE("numbers that were equal by chance part later") {
  Graph g;
  g.input("shape", DType::I64, {2}).initialiser<float>("x", {1, 1}, {3});
  g.node("Expand", {"x", "shape"}, {"wide"}).node("ReduceSum", {"wide"}, {"y"}, {attribute("keepdims", 0)});
  Calls sample{model(g.output("wide").output("y"))};
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 2}, {3, 3}, {4, 4}, {2, 5}, {5, 3}, {1, 7}, {6, 1}, {4, 9}, {3, 2}})
    sample.inputs.push_back({{"shape", list_of({a, b})}});
  const Program program = load(sample.bytes).compile();
  check_calls(program, sample);
  const size_t segments = program.segments().size();
  sample.inputs = {{{"shape", list_of({8, 8})}}, {{"shape", list_of({9, 4})}}};
  check_calls(program, sample);
  CHECK(program.segments().size() == segments);
}

TEST_CASE("parts of an axis from and to numbers that are fed: empty, negative, beyond the end") {
  Graph g;
  g.input("x", DType::F32, {10, 2}).input("from", DType::I64, {1}).input("to", DType::I64, {1});
  g.node("Slice", {"x", "from", "to"}, {"part"}).node("Relu", {"part"}, {"y"});
  Calls sample{model(g.output("y"))};
  const Tensor x = Tensor::from(numbers(20, 1), {10, 2});
  for (const auto& [from, to] : std::vector<std::pair<int64_t, int64_t>>{{0, 4},
                                                                         {0, 6},
                                                                         {2, 7},
                                                                         {3, 9},
                                                                         {5, 8},
                                                                         {7, 3},
                                                                         {4, 4},
                                                                         {2, 50},
                                                                         {40, 60},
                                                                         {-3, 9},
                                                                         {-4, -1},
                                                                         {3, -2},
                                                                         {8, 10},
                                                                         {10, 5}})
    sample.inputs.push_back({{"x", x}, {"from", list_of({from})}, {"to", list_of({to})}});
  check_calls(load(sample.bytes).compile(), sample);
  std::reverse(sample.inputs.begin(), sample.inputs.end());
  check_calls(load(sample.bytes).compile(), sample);
}

TEST_CASE("a model that variables can't describe is traced with the numbers") {
  // How many elements a reshape has can't be told of two variables.
  Graph g;
  g.input("x", DType::F32, {"n"}).input("shape", DType::I64, {2});
  g.node("Reshape", {"x", "shape"}, {"y"}).node("Transpose", {"y"}, {"z"});
  Calls sample{model(g.output("z"))};
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 3}, {3, 2}, {4, 5}, {5, -1}, {-1, 7}, {3, 4}, {2, 6}, {1, 8}})
    sample.inputs.push_back({{"x", Tensor::from(numbers(std::abs(a * b) * (b < 0   ? 2
                                                                           : a < 0 ? 3
                                                                                   : 1),
                                                        1))},
                             {"shape", list_of({a, b})}});
  check_calls(load(sample.bytes).compile(), sample);
}

TEST_CASE("an axis of one element is dropped, one of more is not") {
  Graph g;
  g.input("n", DType::I64, {1}).initialiser<float>("x", {1, 3}, {1, 2, 3});
  g.initialiser<int64_t>("three", {1}, {3}).node("Concat", {"n", "three"}, {"shape"}, {attribute("axis", 0)});
  g.node("Expand", {"x", "shape"}, {"wide"}).node("Squeeze", {"wide"}, {"y"});
  Calls sample{model(g.output("y"))};
  for (const int64_t n : {3, 1, 4, 2, 1, 5}) sample.inputs.push_back({{"n", list_of({n})}});
  check_settles(sample, 3);
}

TEST_CASE("the best of a number that is fed, and too many of them are an error") {
  Graph g;
  g.input("x", DType::F32, {3, 12}).input("marks", DType::I64, {12}).input("k", DType::I64, {1});
  g.node("Cast", {"marks"}, {"mask"}, {attribute("to", onnx_dtype(DType::Bool))});
  g.node("Compress", {"x", "mask"}, {"some"}, {attribute("axis", 1)});
  g.node("Shape", {"some"}, {"sizes"}, {attribute("start", 1)}).node("Min", {"sizes", "k"}, {"most"});
  g.node("TopK", {"some", "most"}, {"best", "which"});
  const std::string bytes = model(g.output("best").output("which", DType::I64));
  Calls sample{bytes};
  for (const auto& [count, k] :
       std::vector<std::pair<int64_t, int64_t>>{{5, 4}, {9, 4}, {3, 4}, {7, 4}, {12, 4}}) {
    Integers all(12, 0);
    std::fill_n(all.begin() + (12 - count) / 2, count, 1);
    sample.inputs.push_back({{"x", Tensor::from(numbers(36, static_cast<unsigned>(count)), {3, 12})},
                             {"marks", list_of(all)},
                             {"k", list_of({k})}});
  }
  check_calls(load(bytes).compile(), sample);

  Graph wrong;
  wrong.input("x", DType::F32, {12}).input("k", DType::I64, {1});
  wrong.node("TopK", {"x", "k"}, {"best", "which"}).output("best");
  const Program program = load(model(wrong)).compile();
  const Tensor x = Tensor::from(numbers(12, 3));
  for (const int64_t k : {3, 5, 7})
    CHECK(program({{"x", x}, {"k", list_of({k})}}).at("best").shape() == Shape{k});
  for (const int64_t k : {13, 14})
    CHECK(message_of([&] { program({{"x", x}, {"k", list_of({k})}}); }).find("TopK") != std::string::npos);
  CHECK(program({{"x", x}, {"k", list_of({6})}}).at("best").shape() == Shape{6});
}

TEST_CASE("boxes that are kept, behind a number of candidates that differs") {
  Graph g;
  g.input("boxes", DType::F32, {"n", 4}).input("scores", DType::F32, {"n"});
  g.initialiser<float>("least", {}, {0.2f}).initialiser<int64_t>("most", {}, {20});
  g.initialiser<float>("shared", {}, {0.3f}).initialiser<int64_t>("axis", {1}, {0});
  g.initialiser<int64_t>("axes", {2}, {0, 1}).initialiser<int64_t>("two", {1}, {2});
  g.initialiser<int64_t>("three", {1}, {3}).initialiser<int64_t>("one", {1}, {1});
  g.node("Greater", {"scores", "least"}, {"good"}).node("NonZero", {"good"}, {"found"});
  g.node("Squeeze", {"found", "axis"}, {"rows"});
  g.node("Gather", {"boxes", "rows"}, {"b"}).node("Gather", {"scores", "rows"}, {"s"});
  g.node("Unsqueeze", {"b", "axis"}, {"b3"}).node("Unsqueeze", {"s", "axes"}, {"s3"});
  g.node("NonMaxSuppression", {"b3", "s3", "most", "shared"}, {"kept"});
  g.node("Slice", {"kept", "two", "three", "one"}, {"box"}).node("Squeeze", {"box", "one"}, {"which"});
  g.node("Gather", {"b", "which"}, {"result"}).node("GatherND", {"s3", "kept"}, {"of"});
  Calls sample{model(g.output("kept", DType::I64).output("result").output("of"))};
  for (const int64_t n : {40, 40, 60, 25, 33, 50, 50, 70})
    sample.inputs.push_back(
        {{"boxes", Tensor::from(numbers(n * 4, static_cast<unsigned>(n)), {n, 4})},
         {"scores", Tensor::from(numbers(n, static_cast<unsigned>(sample.inputs.size() + 7)))}});
  check_settles(sample, 7);
}

TEST_CASE("texts that are cut into as many pieces as there are") {
  Graph g;
  g.input_strings("texts", {"n"});
  g.node("StringSplit", {"texts"}, {"pieces", "counts"}, {attribute("delimiter", ",")});
  g.node("StringConcat", {"pieces", "pieces"}, {"twice"});
  Calls sample{model(g.output("twice").output("counts", DType::I64), 20)};
  for (const std::vector<std::string>& texts :
       std::vector<std::vector<std::string>>{{"a,b", "c"},
                                             {"a,b,c", "d", "e,f"},
                                             {"x,y,z,u", "v"},
                                             {"a", "b", "c"},
                                             {"a,b,c,d,e", "", "f", "g"}})
    sample.inputs.push_back({{"texts", Value::strings(texts)}});
  check_calls(load(sample.bytes).compile(), sample);
}

TEST_CASE("a saved program keeps its open branches, and makes others") {
  std::vector<Integers> all;
  for (const int64_t count : {3, 5, 0, 4, 2, 6}) all.push_back(marks(count));
  const Calls sample = chosen_rows(all);
  const TemporaryDir folder;
  const Program program = load(sample.bytes).compile();
  Calls two = sample;
  two.inputs.resize(2);
  check_calls(program, two);
  onnx::save(program, folder.file("p.lathe"));
  const Program loaded = onnx::load_program(folder.file("p.lathe"));
  CHECK(loaded.print() == program.print());
  CHECK(loaded.print().find(" = 2 to ") != std::string::npos);
  check_calls(loaded, sample);
  CHECK(loaded.segments().size() == program.segments().size() + 1); // for none
  onnx::save(loaded, folder.file("again.lathe"));
  check_calls(onnx::load_program(folder.file("again.lathe")), sample);
}

TEST_CASE("a call that fails, or is of another kind, leaves later ones their branch") {
  // Two numbers of elements, which are added: equal ones, or one of them 1.
  Graph g;
  g.input("x", DType::F32, {9}).input("a", DType::I64, {9}).input("b", DType::I64, {9});
  g.initialiser<int64_t>("axis", {1}, {0});
  for (const std::string mark : {"a", "b"})
    g.node("NonZero", {mark}, {"found_" + mark})
        .node("Squeeze", {"found_" + mark, "axis"}, {"rows_" + mark})
        .node("Gather", {"x", "rows_" + mark}, {"part_" + mark});
  g.node("Add", {"part_a", "part_b"}, {"y"});
  const std::string bytes = model(g.output("y"));
  const auto inputs = [&](int64_t a, int64_t b) {
    return NamedValues{
        {"x", Tensor::from(numbers(9, 2))}, {"a", list_of(marks(a))}, {"b", list_of(marks(b))}};
  };
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{{5, 1}, {4, 7}, {1, 5}, {3, 4}}) {
    CAPTURE(a);
    CAPTURE(b);
    for (const bool good_first : {false, true}) {
      const Program program = load(bytes).compile();
      if (good_first) check_calls(program, {bytes, {inputs(5, 5)}});
      const bool fits = a == b || a == 1 || b == 1;
      const std::string message = message_of([&] { program(inputs(a, b)); });
      CHECK(message.empty() == fits);
      if (!fits) mentions(message, "Add");
      check_calls(program, {bytes, {inputs(6, 6), inputs(3, 3), inputs(4, 4)}});
      const size_t segments = program.segments().size();
      check_calls(program, {bytes, {inputs(7, 7), inputs(8, 8), inputs(2, 2), inputs(9, 9)}});
      CHECK(program.segments().size() == segments);
    }
  }
}

TEST_CASE("the last row of a part, which is a view at a place that differs") {
  Graph g;
  g.input("x", DType::F32, {9, 2}).input("n", DType::I64, {1}).initialiser<int64_t>("zero", {1}, {0});
  g.initialiser<int64_t>("last", {1}, {-1}).initialiser<int64_t>("end", {1}, {INT64_MAX});
  g.node("Slice", {"x", "zero", "n"}, {"part"}).node("Slice", {"part", "last", "end"}, {"y"});
  Calls calls{model(g.output("y"))};
  for (const int64_t n : {5, 7, 2, 9, 3, 1})
    calls.inputs.push_back({{"x", Tensor::from(numbers(18, 3), {9, 2})}, {"n", list_of({n})}});
  check_calls(load(calls.bytes).compile(), calls);
}

TEST_CASE("new variables of a loaded program are others than those that it has") {
  Graph g;
  g.input("x", DType::F32, {20}).input("k", DType::I64, {1}).input("j", DType::I64, {1});
  g.initialiser<int64_t>("zero", {1}, {0});
  g.node("Slice", {"x", "zero", "k"}, {"part"}).node("Slice", {"part", "zero", "j"}, {"y"});
  Calls calls{model(g.output("y"))};
  for (const auto& [k, j] : std::vector<std::pair<int64_t, int64_t>>{{5, 1}, {9, 2}, {7, 3}, {8, 6}, {4, 4}})
    calls.inputs.push_back({{"x", Tensor::from(numbers(20, 3))}, {"k", list_of({k})}, {"j", list_of({j})}});
  const TemporaryDir folder;
  const Program program = load(calls.bytes).compile();
  check_calls(program, {calls.bytes, {calls.inputs[0], calls.inputs[1]}});
  onnx::save(program, folder.file("p.lathe"));
  check_calls(onnx::load_program(folder.file("p.lathe")), calls);
}

TEST_CASE("numbers that only a check makes sizes: of the best, of parts, of classes, from the end") {
  const Tensor x = Tensor::from(numbers(12, 4));
  const auto calls_of = [&](Graph& g, const std::vector<Integers>& fed) {
    Calls calls{model(g)};
    for (const Integers& n : fed) calls.inputs.push_back({{"x", x}, {"n", list_of(n)}});
    return calls;
  };
  Graph best, parts, classes, rest;
  for (Graph* g : {&best, &classes, &rest}) g->input("x", DType::F32, {12}).input("n", DType::I64, {1});
  parts.input("x", DType::F32, {12}).input("n", DType::I64, {2});
  best.node("TopK", {"x", "n"}, {"y", "which"}).output("y").output("which", DType::I64);
  check_settles(calls_of(best, {{3}, {5}, {7}, {2}, {12}, {4}}), 2);
  parts.node("Split", {"x", "n"}, {"a", "b"}).output("a").output("b");
  check_settles(calls_of(parts, {{3, 9}, {5, 7}, {7, 5}, {2, 10}, {4, 8}}), 2);
  classes.initialiser<float>("values", {2}, {-1, 1}).initialiser<int64_t>("indices", {3}, {0, 2, -1});
  classes.node("OneHot", {"indices", "n", "values"}, {"y"})
      .node("Add", {"y", "y"}, {"z"})
      .output("z")
      .output("x");
  check_settles(calls_of(classes, {{3}, {5}, {7}, {4}, {12}, {6}}), 2);
  rest.initialiser<int64_t>("end", {1}, {INT64_MAX}).node("Slice", {"x", "n", "end"}, {"y"}).output("y");
  check_settles(calls_of(rest, {{-3}, {-5}, {-2}, {-7}, {-12}, {-20}}), 2);

  Graph tail, halves; // of the elements of x that are chosen
  for (Graph* g : {&tail, &halves}) {
    g->input("x", DType::F32, {12}).input("n", DType::I64, {12});
    g->node("Cast", {"n"}, {"mask"}, {attribute("to", onnx_dtype(DType::Bool))});
    g->node("Compress", {"x", "mask"}, {"some"}, {attribute("axis", 0)});
  }
  tail.initialiser<int64_t>("from", {1}, {-3}).initialiser<int64_t>("end", {1}, {INT64_MAX});
  tail.node("Slice", {"some", "from", "end"}, {"y"}).output("y");
  halves.initialiser<int64_t>("two", {1}, {2}).node("Shape", {"some"}, {"size"});
  halves.node("Div", {"size", "two"}, {"half"}).node("Sub", {"size", "half"}, {"other"});
  halves.node("Concat", {"half", "other"}, {"sizes"}, {attribute("axis", 0)});
  halves.node("Split", {"some", "sizes"}, {"a", "b"}).output("a").output("b");
  for (Graph* g : {&tail, &halves}) {
    std::vector<Integers> masks;
    for (const int64_t count : {5, 8, 3, 2, 7, 12, 6, 4}) {
      masks.emplace_back(12, 0);
      std::fill_n(masks.back().begin() + (12 - count) / 2, count, 1);
    }
    check_settles(calls_of(*g, masks), 2);
  }

  const Program split = load(model(parts)).compile();
  for (const Integers& n : std::vector<Integers>{{3, 9}, {5, 7}}) split({{"x", x}, {"n", list_of(n)}});
  mentions(message_of([&] { split({{"x", x}, {"n", list_of({5, 8})}}); }), "Split");
  CHECK(split({{"x", x}, {"n", list_of({4, 8})}}).at("b").shape() == Shape{8});
}

TEST_CASE("sizes that are 0 leave the others open") {
  Graph g;
  g.input("x", DType::F32, {"n", 2}).input("rows", DType::I64, {"k"});
  g.node("Gather", {"x", "rows"}, {"y"}).node("ReduceSum", {"y"}, {"sum"}, {attribute("keepdims", 0)});
  Calls calls{model(g.output("y").output("sum"))};
  for (const auto& [n, k] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 2}, {5, 3}, {3, 0}, {6, 0}, {8, 0}, {7, 1}, {9, 0}})
    calls.inputs.push_back(
        {{"x", Tensor::from(numbers(n * 2, 5), {n, 2})}, {"rows", Tensor::zeros({k}, DType::I64).realise()}});
  check_settles(calls, 3);

  const Program fixed = load(calls.bytes).compile({.sizes = {{"n", 4}}});
  CHECK(fixed(calls.inputs[0]).at("y").shape() == Shape{2, 2});
  const std::string message = message_of([&] { fixed(calls.inputs[1]); });
  mentions(message, "input 'x'");
  mentions(message, "n = 4");
}

TEST_CASE("distinct values of what is known before the model runs") {
  Graph g;
  g.input("x", DType::F32, {4, 2, 4}).initialiser<float>("numbers", {3}, {2, 1.5f, 2});
  g.node("Shape", {"x"}, {"sizes"}).node("Unique", {"sizes"}, {"u"}).node("Unique", {"numbers"}, {"v"});
  const NamedValues out = load(model(g.output("u", DType::I64).output("v")))
                              .compile()({{"x", Tensor::from(numbers(32, 1), {4, 2, 4})}});
  CHECK(out.at("u").tensor().to_vector<int64_t>() == Integers{2, 4});
  CHECK(floats(out.at("v")) == std::vector<float>{1.5f, 2});
}

TEST_CASE("threads that call at once with different numbers") {
  std::vector<Integers> all;
  for (int64_t count = 0; count <= 9; ++count) all.push_back(marks(count));
  const Calls sample = chosen_rows(all);
  std::vector<std::vector<float>> want;
  for (const NamedValues& inputs : sample.inputs)
    want.push_back(floats(load(sample.bytes).compile({.compile = {.device = "interp"}})(inputs).at("y")));
  const Program program = load(sample.bytes).compile();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < 60; ++k) {
        const size_t which = (t * 3 + k * 7) % sample.inputs.size();
        const std::vector<float> got = floats(program(sample.inputs[which]).at("y"));
        wrong += got.size() != want[which].size();
        for (size_t i = 0; i < got.size() && i < want[which].size(); ++i)
          wrong += !(std::abs(got[i] - want[which][i]) < 1e-5f);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
