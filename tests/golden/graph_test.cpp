// The printed form of graphs, and that it parses back to the same nodes.
#include <doctest/doctest.h>

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "graph/node.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/gradient.hpp"
#include "lathe/scan.hpp"
#include "lathe/tensor.hpp"

using namespace lathe;
using graph::NodeRef;

namespace {

std::string text_of(const Tensor& t) { return graph::print({graph::node_of(t)}); }

void check_round_trip(const std::vector<Tensor>& tensors) {
  std::vector<NodeRef> nodes;
  for (const Tensor& t : tensors) nodes.push_back(graph::node_of(t));
  const std::string text = graph::print(nodes);
  std::map<uint64_t, NodeRef> realised;
  for (const NodeRef& n : graph::topological_order(nodes))
    if (const auto* a = std::get_if<graph::InputAttr>(&n->attr)) realised[a->id] = n;
  const auto parsed = graph::parse(text, [&](uint64_t id) { return realised.at(id); });
  CHECK_MESSAGE(parsed == nodes, text);
  CHECK(graph::print(parsed) == text);
}

std::string syntax_error(std::string_view text) {
  try {
    graph::parse(text);
  } catch (const Error& e) {
    CHECK(e.kind() != ErrorKind::File);
    return e.what();
  }
  return "";
}

} // namespace

TEST_CASE("one node a line") {
  const Tensor a = Tensor::input("a", {2, 3}), b = Tensor::input("b", {2, 3});
  CHECK(text_of((a + b).sum(1)) == "%0 = Input(a) : f32[2, 3]\n"
                                   "%1 = Input(b) : f32[2, 3]\n"
                                   "%2 = Add(%0, %1) : f32[2, 3]\n"
                                   "%3 = Reduce(%2, Add, axes [1]) : f32[2, 1]\n"
                                   "%4 = View(%3, view([2], strides [1], offset 0)) : f32[2]\n"
                                   "return %4\n");
}

TEST_CASE("shape variables are declared with their bounds") {
  const Var n("n", 1, 4096);
  const Tensor x = Tensor::input("x", {n, 64});
  CHECK(text_of(x * 2.0f) == "var n in [1, 4096]\n"
                             "%0 = Input(x) : f32[n, 64]\n"
                             "%1 = Const(2) : f32[n, 64]\n"
                             "%2 = Mul(%0, %1) : f32[n, 64]\n"
                             "return %2\n");
  CHECK(text_of(Tensor::input("x", {Var("n", 1, 4096, 8)}).neg()) == "var n in [1, 4096, 8]\n"
                                                                     "%0 = Input(x) : f32[n]\n"
                                                                     "%1 = Neg(%0) : f32[n]\n"
                                                                     "return %1\n");
}

TEST_CASE("printed graphs parse back to the same nodes") {
  const Var n("n", 1, 4096);
  const Tensor x = Tensor::input("x", {n, 64}), w = Tensor::input("w", {64, 10});
  check_round_trip({x.matmul(w).softmax(-1), x.mean(0)});
  check_round_trip({Tensor::input("x", {Var("n", 1, 4096, 8), 3}).sum(1)});
  const Tensor a = Tensor::input("a", {5, 7}), i = Tensor::input("i", {5, 7}, DType::I32);
  check_round_trip({a.transpose().reshape({35}).flip({0}).pad({{1, 2}}, 3)});
  check_round_trip({a.gelu(), a.tanh(), a.round(), a.cumsum(1), a.sort(0), a.argmax(1)});
  check_round_trip({a.gather(0, i), a.scatter_add(1, i, a), a.scatter(1, i, a), a.take(i, 0)});
  check_round_trip(
      {a.cast(DType::F16), a.bitcast(DType::U32), a.isnan(), a.contiguous(), a.clamp(-1, INFINITY)});
  check_round_trip({Tensor::from({1, 2, 3}) + Tensor::arange(3).cast(DType::I32), Tensor::randn({3, 5}, 7)});
  check_round_trip(
      {a.reshape({1, 5, 7}).unsqueeze(0).conv2d(Tensor::input("k", {2, 1, 3, 3}), {}, {.padding = {1}})});
}

TEST_CASE("text that is no graph is an error that names the line") {
  CHECK(syntax_error("").find("return") != std::string::npos);
  CHECK(syntax_error("%0 = Input(a) : f32[2]\n").find("return") != std::string::npos);
  CHECK(syntax_error("%0 = Input(a) : f32[2]\nreturn %1").rfind("graph text: line 2", 0) == 0);
  CHECK(syntax_error("%1 = Input(a) : f32[2]\nreturn %1").rfind("graph text: line 1", 0) == 0);
  CHECK(syntax_error("%0 = Input(#3) : f32[2]\nreturn %0").find("realised") != std::string::npos);
  for (const char* text :
       {"%0 = Nothing(a) : f32[2]", "%0 = Load() : f32[2]", "%0 = Input(a) : f99[2]", "%0 = Input(a) f32[2]",
        "%0 = Input(a) : f32[m]", "%0 = Input() : f32[2]", "%0 = Const(x) : f32[2]", "%0 = Iota(0) : i32[2]",
        "var n in [3]", "var n [1, 3]", "var n in [5, 1]", "nonsense", "%0 = Input(a) : f32"})
    CHECK_MESSAGE(!syntax_error(std::string(text) + "\nreturn %0").empty(), text);
  const std::string head = "%0 = Input(a) : f32[2]\n";
  for (const char* line :
       {"%1 = Add(%0) : f32[2]", "%1 = Add(%0, %0) : f32[3]", "%1 = Add(%0, %0) : f64[2]",
        "%1 = Add(%0, %7) : f32[2]", "%1 = Reduce(%0, Sin, axes [0]) : f32[1]",
        "%1 = Reduce(%0, Add, axes [9]) : f32[1]", "%1 = View(%0, view([3], strides [1], offset 0)) : f32[3]",
        "%1 = View(%0, view([2], strides [1], offset 1)) : f32[2]",
        "%1 = View(%0, view([2], strides [-1], offset 0)) : f32[2]",
        "%1 = View(%0, view([2], strides [1], offset 99999999999999)) : f32[2]",
        "%1 = View(%0, nonsense) : f32[2]"})
    CHECK_MESSAGE(!syntax_error(head + line + "\nreturn %1").empty(), line);
}

TEST_CASE("text cut anywhere or with a byte changed never crashes") {
  const Tensor a = Tensor::input("a", {5, 7});
  const std::string text = text_of(a.transpose().pad({{1, 1}, {0, 2}}, 2).softmax(1));
  int failures = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>("()[]%,9-x "[i % 10]);
    for (const std::string& t : {text.substr(0, i), changed}) {
      try {
        graph::parse(t);
      } catch (const Error&) {
        ++failures;
      }
    }
  }
  CHECK(failures > static_cast<int>(text.size()));
}

TEST_CASE("Graphviz") {
  const Tensor a = Tensor::input("a", {2});
  CHECK(graph::to_graphviz({graph::node_of(a.sqrt())}) ==
        "digraph program {\n"
        "  rankdir=TB;\n"
        "  node [shape=box, fontname=\"monospace\"];\n"
        "  n0 [label=\"Input\\na\\nf32[2]\", shape=ellipse];\n"
        "  n1 [label=\"Sqrt\\nf32[2]\", peripheries=2];\n"
        "  n0 -> n1;\n"
        "}\n");
}

TEST_CASE("bodies of recurrences, and what says which steps run") {
  const Tensor x = Tensor::input("x", {4}, DType::F64), rows = Tensor::input("rows", {5, 4}, DType::F64);
  const auto step = [](const std::vector<Tensor>& s, const std::vector<Tensor>& r) -> ScanStep {
    return {{s[0] + r[0]}, {s[0]}};
  };
  const Tensor sums = scan(step, {x}, {rows}, {{}, true}).stacked[0];
  const auto is_low = [](const std::vector<Tensor>& s) { return s[0].sum() < 9.0; };
  const auto doubled = [](const std::vector<Tensor>& s) { return std::vector<Tensor>{s[0] * 2.0}; };
  const Tensor last = while_loop(is_low, doubled, {x}, 7)[0];
  check_round_trip({sums, last, gradients(last.sum(), {x})[0]});
  const std::string text = text_of(last);
  const std::string head = "body 0: states 2, scanned 0, parameters 2, backward [0, 0], when 1\n";
  REQUIRE(text.starts_with(head));
  const auto with_head = [&](const std::string& other) { return other + text.substr(head.size()); };
  CHECK(syntax_error(with_head(head)).empty());
  for (const char* when : {"when 0", "when 2", "when x", "where 1", "when 1, when 1"}) {
    CAPTURE(when);
    const std::string other = head.substr(0, head.find("when")) + when + "\n";
    CHECK(syntax_error(with_head(other)).find("expected") != std::string::npos);
  }
}
