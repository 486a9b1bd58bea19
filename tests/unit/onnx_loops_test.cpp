// Loops and sequences that become recurrences: while loops that count, Scan in every direction, and LSTM of a
// length that only a call tells.
#include <doctest/doctest.h>

#include "support/onnx_builder.hpp"
#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Program;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Sizes = std::vector<int64_t>;

/// Whole numbers, so that sums are exact.
Floats numbers(int64_t count, int from) {
  Floats values(static_cast<size_t>(count));
  for (size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<float>((static_cast<int>(k) * 5 + from) % 7 - 3);
  return values;
}

/// How a while loop says that it goes on, of "next" (the counter's next value) and "count" (i32).
struct Condition {
  const char* name;
  std::vector<std::vector<std::string>> nodes; // op, output, inputs
};

const Condition conditions[] = {
    {"Less", {{"Less", "go_on", "next", "count"}}},
    {"as floats", {{"ToFloat", "a", "next"}, {"ToFloat", "b", "count"}, {"Less", "go_on", "a", "b"}}},
    {"Greater", {{"Greater", "go_on", "count", "next"}}},
    {"Not", {{"GreaterOrEqual", "over", "next", "count"}, {"Not", "go_on", "over"}}},
    {"of two",
     {{"Less", "a", "next", "count"}, {"LessOrEqual", "b", "next", "count"}, {"And", "go_on", "a", "b"}}},
};

/// y = the last state, all = every state, of state = matrix * state + x[counter], while the condition holds.
/// The matrix and the count are states that stay.
Graph while_loop(const Condition& condition) {
  Graph body, g;
  body.input("i", DType::I64)
      .input("go", DType::Bool)
      .input("counter", DType::I32)
      .input("state", DType::F32, {3});
  body.input("count", DType::I32).input("matrix", DType::F32, {3, 3});
  body.node("Gather", {"x", "counter"}, {"row"}, {attribute("axis", 0)});
  body.node("MatMul", {"matrix", "state"}, {"product"}).node("Clip", {"product", "low", "high"}, {"held"});
  body.node("Add", {"held", "row"}, {"new"}).node("Add", {"counter", "step"}, {"next"});
  for (const auto& node : condition.nodes) {
    const bool is_cast = node[0] == "ToFloat";
    body.node(is_cast ? "Cast" : node[0], Names(node.begin() + 2, node.end()), {node[1]},
              is_cast ? Attributes{attribute("to", onnx_dtype(DType::F32))} : Attributes{});
  }
  body.node("Identity", {"new"}, {"seen"});
  body.output("go_on", DType::Bool).output("next", DType::I32).output("new").output("count", DType::I32);
  body.output("matrix").output("seen");
  g.input("x", DType::F32, {"n", 3}).input("start", DType::F32, {3}).input("m", DType::F32, {3, 3});
  g.initialiser<int32_t>("from", {}, {0}).initialiser<int32_t>("step", {}, {1});
  g.initialiser<float>("low", {}, {-20})
      .initialiser<float>("high", {}, {20})
      .initialiser<int64_t>("zero", {1}, {0});
  g.node("Shape", {"x"}, {"sizes"}, {attribute("start", 0), attribute("end", 1)});
  g.node("Squeeze", {"sizes", "zero"}, {"size"})
      .node("Cast", {"size"}, {"count"}, {attribute("to", onnx_dtype(DType::I32))});
  g.node("Less", {"from", "count"}, {"first"});
  g.node("Loop", {"", "first", "from", "start", "count", "m"}, {"end", "y", "c", "mm", "all"},
         {attribute("body", body)});
  return g.output("y").output("all").output("end", DType::I32).output("c", DType::I32).output("mm");
}

void check_while_loop(const Program& program, int64_t n) {
  CAPTURE(n);
  const Floats x = numbers(n * 3, 1), matrix = numbers(9, 2);
  Floats state = numbers(3, 4), all;
  for (int64_t k = 0; k < n; ++k) {
    Floats next(3);
    for (size_t r = 0; r < 3; ++r) {
      float sum = 0;
      for (size_t c = 0; c < 3; ++c) sum += matrix[3 * r + c] * state[c];
      next[r] = std::min(std::max(sum, -20.f), 20.f) + x[static_cast<size_t>(k) * 3 + r];
    }
    state = next;
    all.insert(all.end(), next.begin(), next.end());
  }
  const NamedValues got = program({{"x", Tensor::from(x, {n, 3})},
                                   {"start", Tensor::from(numbers(3, 4))},
                                   {"m", Tensor::from(matrix, {3, 3})}});
  CHECK(floats(got, "y") == state);
  CHECK(floats(got, "all") == all);
  CHECK(floats(got, "mm") == matrix);
  CHECK(got.at("all").shape() == Shape{n, 3});
  CHECK(got.at("end").tensor().item<int32_t>() == n);
  CHECK(got.at("c").tensor().item<int32_t>() == n);
}

} // namespace

TEST_CASE("a while loop that counts is one recurrence, for every number of iterations") {
  for (const Condition& condition : conditions) {
    INFO(condition.name);
    const Program program = load(model(while_loop(condition), 18)).compile();
    for (const int64_t n : {9, 1, 40, 2}) check_while_loop(program, n);
    CHECK(program.print().find("look at") == std::string::npos);
    CHECK(program.segments().size() == 1);
  }
}

TEST_CASE("a counter that starts later and counts by two") {
  Graph body, g;
  body.input("i", DType::I64).input("go", DType::Bool).input("counter", DType::I64).input("sum", DType::I64);
  body.node("Add", {"sum", "counter"}, {"total"}).node("Add", {"counter", "two"}, {"next"});
  body.node("LessOrEqual", {"next", "bound"}, {"go_on"}).node("Identity", {"i"}, {"seen"});
  body.output("go_on", DType::Bool)
      .output("next", DType::I64)
      .output("total", DType::I64)
      .output("seen", DType::I64);
  g.input("x", DType::F32, {"n"}).initialiser<int64_t>("two", {}, {2}).initialiser<int64_t>("three", {}, {3});
  g.node("Size", {"x"}, {"bound"})
      .initialiser<int64_t>("none", {}, {0})
      .initialiser<int64_t>("most", {}, {12});
  g.node("Loop", {"most", "", "three", "none"}, {"end", "sum", "steps"}, {attribute("body", body)});
  g.output("end", DType::I64).output("sum", DType::I64).output("steps", DType::I64);
  const Program program = load(model(g)).compile();
  for (const int64_t n : {21, 1, 26, 100}) {
    int64_t counter = 3, sum = 0;
    Sizes steps;
    do {
      steps.push_back(static_cast<int64_t>(steps.size()));
      sum += counter;
      counter += 2;
    } while (counter <= n && steps.size() < 12);
    const NamedValues got = program({{"x", Tensor::zeros({n})}});
    CHECK(got.at("end").tensor().item<int64_t>() == counter);
    CHECK(got.at("sum").tensor().item<int64_t>() == sum);
    CHECK(got.at("steps").tensor().to_vector<int64_t>() == steps);
  }
}

TEST_CASE("Scan over many rows, along other axes and backward") {
  // state += x column - z row; outputs the state and twice the state, along other axes and directions
  Graph body, g;
  body.input("state", DType::F32, {4}).input("column", DType::F32, {4}).input("row", DType::F32, {4});
  body.node("Sub", {"column", "row"}, {"difference"}).node("Add", {"state", "difference"}, {"next"});
  body.node("Add", {"next", "next"}, {"twice"}).node("Identity", {"next"}, {"seen"});
  body.output("next").output("seen").output("twice");
  g.input("x", DType::F32, {4, 11}).input("z", DType::F32, {11, 4}).input("start", DType::F32, {4});
  g.node("Scan", {"start", "x", "z"}, {"last", "seen_all", "twice_all"},
         {attribute("body", body), attribute("num_scan_inputs", 2), attribute("scan_input_axes", Sizes{1, 0}),
          attribute("scan_input_directions", Sizes{1, 0}), attribute("scan_output_axes", Sizes{-1, 0}),
          attribute("scan_output_directions", Sizes{0, 1})});
  g.output("last").output("seen_all").output("twice_all");
  const Floats x = numbers(44, 1), z = numbers(44, 3);
  Floats state = numbers(4, 2), seen(44), twice(44);
  for (size_t k = 0; k < 11; ++k)
    for (size_t i = 0; i < 4; ++i) {
      state[i] += x[i * 11 + 10 - k] - z[k * 4 + i];
      seen[i * 11 + k] = state[i];
      twice[(10 - k) * 4 + i] = 2 * state[i];
    }
  const NamedValues got = load(model(g)).compile()({{"x", Tensor::from(x, {4, 11})},
                                                    {"z", Tensor::from(z, {11, 4})},
                                                    {"start", Tensor::from(numbers(4, 2))}});
  CHECK(floats(got, "last") == state);
  CHECK(floats(got, "seen_all") == seen);
  CHECK(floats(got, "twice_all") == twice);
}

TEST_CASE("an LSTM of a length that the call tells equals one of that length") {
  const auto lstm = [](const Dim& length) {
    Graph g;
    g.input("x", DType::F32, {length, 2, 3}).input("lengths", DType::I32, {2});
    const auto small = [](int64_t count, int from) {
      Floats values = numbers(count, from);
      for (float& v : values) v *= 0.125f;
      return values;
    };
    g.initialiser<float>("w", {2, 16, 3}, small(96, 1)).initialiser<float>("r", {2, 16, 4}, small(128, 2));
    g.initialiser<float>("b", {2, 32}, small(64, 3));
    g.node("LSTM", {"x", "w", "r", "b", "lengths"}, {"y", "yh", "yc"},
           {attribute("hidden_size", 4), attribute("direction", "bidirectional")});
    return load(model(g.output("y").output("yh").output("yc"))).compile();
  };
  const Program any = lstm("n");
  for (const int64_t n : {9, 1, 30, 2}) {
    const NamedValues inputs{{"x", Tensor::from(numbers(n * 6, 5), {n, 2, 3})},
                             {"lengths", Tensor::from(std::vector<int32_t>{static_cast<int32_t>(n), 1})}};
    const NamedValues got = any(inputs), want = lstm(n)(inputs);
    for (const char* name : {"y", "yh", "yc"}) CHECK(floats(got, name) == floats(want, name));
  }
  CHECK(any.segments().size() == 1);
}

TEST_CASE("the last state of a sequence without steps is zeros") {
  for (const char* op : {"RNN", "GRU", "LSTM"})
    for (const char* direction : {"forward", "reverse"}) {
      CAPTURE(op);
      CAPTURE(direction);
      const bool has_cell = std::string(op) == "LSTM";
      const int64_t gates = has_cell ? 4 : std::string(op) == "GRU" ? 3 : 1;
      const auto filled = [](const Shape& shape, int from) {
        return Tensor::from(numbers(num_elements(shape).value(), from), shape);
      };
      std::vector<Value> inputs{filled({3, 2, 2}, 1),
                                filled({1, gates * 2, 2}, 2),
                                filled({1, gates * 2, 2}, 3),
                                Value(),
                                Tensor::from(std::vector<int32_t>{0, 2}),
                                filled({1, 2, 2}, 4)};
      if (has_cell) inputs.emplace_back(filled({1, 2, 2}, 5));
      const std::vector<Value> got = run_node(
          op, inputs, {attribute("hidden_size", 2), attribute("direction", direction)}, has_cell ? 3 : 2);
      for (size_t state = 1; state < got.size(); ++state) {
        const Floats last = floats(got[state]);
        CHECK((last[0] == 0 && last[1] == 0));
        CHECK((last[2] != 0 && last[3] != 0));
      }
    }
}

namespace {

/// steps = how many of Collatz's steps lead from x to 1: n becomes n / 2, or 3 n + 1 if it is odd. `most`:
/// the loop's trip count; empty: none.
Graph collatz(const std::string& most) {
  Graph body, g;
  body.input("i", DType::I64).input("go", DType::Bool).input("n", DType::I64).input("steps", DType::I64);
  body.node("Mod", {"n", "two"}, {"rest"}).node("Equal", {"rest", "one"}, {"odd"});
  body.node("Div", {"n", "two"}, {"half"}).node("Mul", {"n", "three"}, {"threefold"});
  body.node("Add", {"threefold", "one"}, {"up"}).node("Where", {"odd", "up", "half"}, {"next"});
  body.node("Add", {"steps", "one"}, {"count"}).node("Greater", {"next", "one"}, {"go_on"});
  body.output("go_on", DType::Bool).output("next", DType::I64).output("count", DType::I64);
  g.input("x", DType::I64).input("m", DType::I64);
  g.initialiser<int64_t>("one", {}, {1})
      .initialiser<int64_t>("two", {}, {2})
      .initialiser<int64_t>("three", {}, {3});
  g.initialiser<int64_t>("none", {}, {0}).initialiser<int64_t>("fixed", {}, {20});
  g.node("Greater", {"x", "one"}, {"first"});
  g.node("Loop", {most, "first", "x", "none"}, {"end", "steps"}, {attribute("body", body)});
  return g.output("steps", DType::I64).output("end", DType::I64);
}

std::pair<int64_t, int64_t> collatz_steps(int64_t n, int64_t most) {
  int64_t steps = 0;
  for (; n > 1 && steps < most; ++steps) n = n % 2 ? 3 * n + 1 : n / 2;
  return {steps, n};
}

} // namespace

TEST_CASE("a loop whose end the data decide is one recurrence") {
  for (const std::string most : {"", "fixed", "m"}) {
    CAPTURE(most);
    const Program program = load(model(collatz(most), 18)).compile();
    for (const int64_t n : {27, 1, 2, 97, 6})
      for (const int64_t m : {int64_t{5}, int64_t{0}, int64_t{200}}) {
        const NamedValues got = program({{"x", Tensor::full({}, Scalar::of_int(DType::I64, n))},
                                         {"m", Tensor::full({}, Scalar::of_int(DType::I64, m))}});
        const auto [steps, end] = collatz_steps(n, most == "m" ? m : most == "fixed" ? 20 : 1000);
        CHECK(got.at("steps").tensor().item<int64_t>() == steps);
        CHECK(got.at("end").tensor().item<int64_t>() == end);
      }
    CHECK(program.print().find("look at") == std::string::npos);
    CHECK(program.segments().size() == 1);
  }
}

TEST_CASE("a loop whose end the data decide, and whose state grows, still runs") {
  Graph body, g;
  body.input("i", DType::I64).input("go", DType::Bool).input("all", DType::F32, {"n"});
  body.node("ReduceSum", {"all"}, {"sum"}, {attribute("keepdims", 0)})
      .node("Unsqueeze", {"sum", "axis"}, {"part"});
  body.node("Concat", {"all", "part"}, {"more"}, {attribute("axis", 0)})
      .node("Less", {"sum", "bound"}, {"go_on"});
  body.output("go_on", DType::Bool).output("more");
  g.input("x", DType::F32, {2}).initialiser<int64_t>("axis", {1}, {0}).initialiser<float>("bound", {}, {20});
  g.node("Loop", {"", "", "x"}, {"y"}, {attribute("body", body)}).output("y");
  const Program program = load(model(g, 18)).compile();
  CHECK(floats(program({{"x", Tensor::from({1.f, 2.f})}}), "y") == Floats{1, 2, 3, 6, 12, 24});
  CHECK(floats(program({{"x", Tensor::from({9.f, 12.f})}}), "y") == Floats{9, 12, 21});
}
