// What stages say that they compute.
#include <doctest/doctest.h>

#include "graph/tensor_impl.hpp"
#include "lathe/functions.hpp"
#include "lower/formula.hpp"

using namespace lathe;

namespace {

/// The formula of the output, with every stage before it written out.
std::string formula(const Tensor& y, const lower::FunctionCalls& calls = {}) {
  const lower::Program program = lower::lower({{"y", graph::simplify({graph::node_of(y)})[0]}});
  std::set<int> inlined;
  for (const lower::Stage& stage : program.stages)
    if (!stage.is_output) inlined.insert(stage.id);
  const std::string text = lower::Formulas(program, calls).of(program.outputs[0].stage, inlined);
  return text.substr(text.find(" = ") + 3);
}

Tensor in(const char* name, const Shape& shape, DType dtype = DType::F32) {
  return Tensor::input(name, shape, dtype);
}

} // namespace

TEST_CASE("arithmetic keeps its order by parentheses") {
  const Tensor a = in("a", {4, 5}), b = in("b", {4, 5}), c = in("c", {5});
  CHECK(formula((a + b) * c) == "(a[i0, i1] + b[i0, i1]) * c[i1]");
  CHECK(formula(a * b + c) == "a[i0, i1] * b[i0, i1] + c[i1]");
  CHECK(formula(a - (b - c)) == "a[i0, i1] - (b[i0, i1] - c[i1])");
  CHECK(formula(a / (b * c)) == "a[i0, i1] / (b[i0, i1] * c[i1])");
  CHECK(formula(-(a + b)) == "-(a[i0, i1] + b[i0, i1])");
  CHECK(formula(where(a < b, a, b + c)) == "a[i0, i1] < b[i0, i1] ? a[i0, i1] : b[i0, i1] + c[i1]");
  CHECK(formula(where(a < b, a, b) * c) == "(a[i0, i1] < b[i0, i1] ? a[i0, i1] : b[i0, i1]) * c[i1]");
  CHECK(formula(a.cast(DType::I32)) == "i32(a[i0, i1])");
  CHECK(formula(maximum(a, b).sqrt()) == "sqrt(max(a[i0, i1], b[i0, i1]))");
}

TEST_CASE("reductions name the axes that they run over") {
  const Tensor a = in("a", {4, 5}), b = in("b", {5, 6});
  CHECK(formula(a.matmul(b)) == "sum over r2 < 5 of a[i0, r2] * b[r2, i1]");
  CHECK(formula(a.max()) == "maximum over r0 < 4, r1 < 5 of a[r0, r1]");
  const Var n("n", 1, 9);
  CHECK(formula(in("x", {n, 3}).sum({0})) == "sum over r_n < n of x[r_n, i1]");
  CHECK(formula(in("x", {n, 3}) * 2) == "x[i_n, i1] * 2");
}

TEST_CASE("movement is in the indices, and what lies outside is 0") {
  const Tensor a = in("a", {4, 5});
  CHECK(formula(a.transpose() + 1) == "a[i1, i0] + 1");
  CHECK(formula(a.flip({1}) + 1) == "a[i0, 4 - i1] + 1");
  CHECK(formula(a.pad({{1, 0}, {0, 0}}) + 1) == "(0 < i0 ? a[i0 - 1, i1] : 0) + 1");
  CHECK(formula(in("t", {7, 3}).take(in("k", {2}, DType::I32), 0)) == "12 operations on k, t");
}

TEST_CASE("functions of the user's are named; without the names the formula is of primitives") {
  const Tensor a = in("a", {4}), y = a.relu() * 2;
  CHECK(formula(y).find("relu") == std::string::npos);
  const graph::NodeRef argument = graph::node_of(a), value = graph::simplify({graph::node_of(a.relu())})[0];
  const lower::FunctionCalls calls{{value.get(), {value, "relu", {argument}}}};
  CHECK(formula(y, calls) == "relu(a[i0]) * 2");
}

TEST_CASE("a formula that nobody would read is counted") {
  Tensor y = in("a", {4}), b = in("b", {4});
  for (int k = 0; k < 40; ++k) y = y * b + static_cast<float>(k + 2);
  CHECK(formula(y) == "80 operations on a, b");
  for (int k = 0; k < 4000; ++k) y = y * b + 3.0f; // deep: no recursion on the depth
  CHECK(formula(y) == "8080 operations on a, b");
}
