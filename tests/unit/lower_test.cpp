// Lowering against plain C++: every program is interpreted as lowered, without any schedule.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "graph/tensor_impl.hpp"
#include "lower/access.hpp"
#include "lower/program.hpp"

using namespace lathe;
using lower::Program;
using lower::Stage;

namespace {

Program lowered(const std::vector<Tensor>& outputs) {
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < outputs.size(); ++k)
    named.push_back({"out" + std::to_string(k), graph::node_of(outputs[k])});
  return lower::lower(named);
}

/// All stages as one kernel.
ast::Kernel whole(const Program& program) {
  ast::Kernel kernel;
  kernel.name = "whole";
  for (const auto& input : program.inputs) kernel.params.push_back({input.buffer, false});
  for (const Stage& stage : program.stages) {
    kernel.params.push_back({stage.buffer, true});
    kernel.body.insert(kernel.body.end(), stage.nests.begin(), stage.nests.end());
  }
  kernel.shape_vars = program.shape_vars;
  return kernel;
}

using Bytes = std::vector<unsigned char>;
int64_t bytes_of(const ast::Buffer& b, const std::map<std::string, int64_t>& vars) {
  int64_t bytes = size_of(b.dtype);
  for (Expr e : b.shape) bytes *= evaluate(e, [&](Expr v) { return vars.at(v.name()); });
  return bytes;
}

/// Interprets a program; inputs by name (realised ones bring their data). One result per output.
std::vector<Bytes> run(const Program& program, const std::map<std::string, const void*>& inputs = {},
                       const std::map<std::string, int64_t>& vars = {}) {
  const ast::Kernel kernel = whole(program);
  ast::verify(kernel);
  std::vector<Bytes> memory;
  for (const auto& param : kernel.params)
    memory.emplace_back(static_cast<size_t>(bytes_of(*param.buffer, vars)), 0xCD);
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const auto& attr = std::get<graph::InputAttr>(program.inputs[k].node->attr);
    const void* from = attr.data ? attr.data->data() : inputs.at(attr.name);
    std::memcpy(memory[k].data(), from, memory[k].size());
  }
  std::vector<ast::Bytes> bound;
  for (Bytes& m : memory) bound.push_back({m.data(), m.size()});
  std::vector<int64_t> values;
  for (Expr v : program.shape_vars) values.push_back(vars.at(v.name()));
  ast::interpret(kernel, bound, values);
  std::vector<Bytes> results;
  for (const auto& output : program.outputs)
    results.push_back(memory[program.inputs.size() + static_cast<size_t>(output.stage)]);
  return results;
}

template <class T> std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
template <class T = float> std::vector<T> run_one(const Tensor& t) {
  return values_of<T>(run(lowered({t}))[0]);
}

std::vector<float> ramp(int64_t n, float start = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), start);
  return v;
}

bool has_division(Expr e) {
  if (e.kind() == ExprKind::FloorDiv || e.kind() == ExprKind::Mod) return true;
  if (e.is_const() || e.is_var()) return false;
  return has_division(e.lhs()) || has_division(e.rhs());
}

} // namespace

TEST_CASE("elementwise: one stage per op, one nest each, named as moves name them") {
  const Tensor a = Tensor::from(ramp(6), {2, 3});
  const Program program = lowered({(a + a) * a});
  REQUIRE(program.stages.size() == 2);
  const Stage& stage = program.stages[1];
  CHECK(stage.buffer->name == "t1");
  CHECK(stage.reads == std::vector<int>{0});
  CHECK(program.stages[0].users == std::vector<int>{1});
  CHECK(stage.is_output);
  REQUIRE(stage.nests.size() == 1);
  const auto& outer = std::get<ast::For>(stage.nests[0].node);
  CHECK(outer.var.name() == "t1.i0");
  CHECK(std::get<ast::For>(outer.body[0].node).var.name() == "t1.i1");
  CHECK(run_one((a + a) * a) == std::vector<float>{2, 8, 18, 32, 50, 72});
}

TEST_CASE("reductions: an initialising and an updating nest, no loop over axes of size 1") {
  const Tensor a = Tensor::from(ramp(6), {2, 1, 3});
  const Program program = lowered({a.sum(2, true)});
  const Stage& stage = program.stages[0];
  CHECK(stage.is_reduction);
  REQUIRE(stage.nests.size() == 2);
  CHECK(std::get<ast::For>(stage.nests[0].node).var.name() == "t0.z0");
  const auto& kept = std::get<ast::For>(stage.nests[1].node);
  CHECK(kept.var.name() == "t0.i0");
  CHECK(std::get<ast::For>(kept.body[0].node).var.name() == "t0.r2");
  CHECK(run_one(a.sum(2)) == std::vector<float>{6, 15});
  CHECK(run_one(a.sum(0)) == std::vector<float>{5, 7, 9});
  CHECK(run_one(a.sum()) == std::vector<float>{21});
  CHECK(run_one(a.max(0)) == std::vector<float>{4, 5, 6});
  CHECK(run_one(a.prod(Axes{2})) == std::vector<float>{6, 120});
}

TEST_CASE("views fold into indices") {
  const Tensor a = Tensor::from(ramp(6), {2, 3});
  CHECK(run_one(a.transpose() + 0.5) == std::vector<float>{1.5, 4.5, 2.5, 5.5, 3.5, 6.5});
  CHECK(lowered({a.transpose() + 0.5}).stages.size() == 1);
  CHECK(run_one(a.flip({1}) * 2) == std::vector<float>{6, 4, 2, 12, 10, 8});
  CHECK(run_one(a.transpose().reshape({2, 3}) * 1.5f) == std::vector<float>{1.5, 6, 3, 7.5, 4.5, 9});
  CHECK(run_one(a.pad({{1, 0}, {0, 1}}) + 1) == std::vector<float>{1, 1, 1, 1, 2, 3, 4, 1, 5, 6, 7, 1});
  CHECK(run_one(a.pad({{0, 1}, {1, 0}}).reshape({12}).flip({0}).reshape({4, 3}).transpose() * 1) ==
        std::vector<float>{0, 0, 4, 2, 0, 6, 0, 1, 0, 5, 3, 0});
  CHECK(run_one(a.window(1, 2).sum(-1)) == std::vector<float>{3, 5, 9, 11});
  // Nothing but padding, of one axis or of a place that is fixed.
  const Tensor padded = a.pad({{2, 1}, {0, 3}});
  CHECK(run_one(padded.shrink({{0, 2}, {1, 4}}) + 1) == std::vector<float>(6, 1));
  CHECK(run_one(padded.shrink({{2, 4}, {3, 6}}).transpose() + 1) == std::vector<float>(6, 1));
  CHECK(run_one(padded.index({0}) + 1) == std::vector<float>(6, 1));
  CHECK(run_one((padded * padded).pad({{0, 0}, {1, 0}}).index({Ellipsis{}, 0}) + 1) ==
        std::vector<float>(5, 1));
  CHECK(run_one(Tensor::arange(3).cast(DType::F32).pad({{2, 2}}).shrink({{5, 7}}) + 1) ==
        std::vector<float>(2, 1));
}

TEST_CASE("a view over a computed value loads that value's buffer") {
  const Tensor a = Tensor::from(ramp(6), {2, 3});
  CHECK(run_one((a * a).pad({{0, 0}, {1, 1}}).window(1, 3).sum(-1)) ==
        std::vector<float>{5, 14, 13, 41, 77, 61});
}

TEST_CASE("a padded convolution's indices have no division") {
  const Tensor x = Tensor::input("x", {2, 3, 8, 8}), w = Tensor::input("w", {4, 3, 3, 3});
  ConvOptions options;
  options.padding = {1};
  const Program program = lowered({x.conv2d(w, {}, options)});
  int loads = 0;
  for (const Stage& stage : program.stages)
    ast::visit(stage.nests, [&](const ast::Stmt& stmt, const auto&) {
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      if (!store) return;
      ast::visit(store->value, [&](const ast::ValueRef& v) {
        const auto* load = std::get_if<ast::LoadAttr>(&v->attr);
        if (!load || load->buffer->name != "x") return;
        ++loads;
        CHECK(!load->guards.empty());
        for (Expr e : load->index) CHECK_MESSAGE(!has_division(e), to_string(e));
      });
    });
  CHECK(loads > 0);
}

TEST_CASE("convolution against the plain loops") {
  const int n = 2, c = 3, h = 6, wd = 5, o = 4;
  std::vector<float> x = ramp(n * c * h * wd), w = ramp(o * c * 9, -20);
  ConvOptions options;
  options.padding = {1};
  options.stride = {2};
  const Tensor y = Tensor::from(x, {n, c, h, wd}).conv2d(Tensor::from(w, {o, c, 3, 3}), {}, options);
  const std::vector<float> got = run_one(y);
  size_t at = 0;
  for (int b = 0; b < n; ++b)
    for (int f = 0; f < o; ++f)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j, ++at) {
          float sum = 0;
          for (int k = 0; k < c; ++k)
            for (int p = 0; p < 3; ++p)
              for (int q = 0; q < 3; ++q) {
                const int r = 2 * i + p - 1, s = 2 * j + q - 1;
                if (r < 0 || r >= h || s < 0 || s >= wd) continue;
                sum += x[static_cast<size_t>(((b * c + k) * h + r) * wd + s)] *
                       w[static_cast<size_t>(((f * c + k) * 3 + p) * 3 + q)];
              }
          REQUIRE(got[at] == doctest::Approx(sum));
        }
  CHECK(at == got.size());
}

TEST_CASE("constants, iota and their views have no stages; as outputs they are copied") {
  CHECK(run_one<int64_t>(Tensor::arange(4)) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(run_one(Tensor::ones({2, 2})) == std::vector<float>{1, 1, 1, 1});
  CHECK(run_one(Tensor::ones({2}).pad({{1, 1}})) == std::vector<float>{0, 1, 1, 0});
  CHECK(run_one<int64_t>((Tensor::arange(3) + 1).flip({0})) == std::vector<int64_t>{3, 2, 1});
  CHECK(run_one(Tensor::eye(2) + 1) == std::vector<float>{2, 1, 1, 2});
  const Tensor x = Tensor::from(ramp(4), {2, 2});
  const Program copy = lowered({x.transpose()});
  REQUIRE(copy.stages.size() == 1);
  CHECK(copy.stages[0].node->op == Op::Contiguous);
  CHECK(run_one(x.transpose()) == std::vector<float>{1, 3, 2, 4});
  CHECK(run_one(x) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("what index alone compares has no stage, however many read it") {
  const Tensor a = Tensor::from(ramp(6), {2, 3}), b = Tensor::from(ramp(4), {2, 2});
  const Tensor joined = concat({a, b}, 1), again = concat({a + 1, b}, 1);
  const Program program = lowered({joined, again});
  for (const Stage& stage : program.stages) CHECK(stage.node->op != Op::CmpLt);
  CHECK(run_one(joined) == std::vector<float>{1, 2, 3, 1, 2, 4, 5, 6, 3, 4});
  const Tensor mask = Tensor::arange(4) < 2;
  CHECK(run_one<uint8_t>(mask) == std::vector<uint8_t>{1, 1, 0, 0});
  CHECK(run_one<uint8_t>(mask.flip({0})) == std::vector<uint8_t>{0, 0, 1, 1});
  CHECK(run_one<uint8_t>(mask.pad({{0, 1}})) == std::vector<uint8_t>{1, 1, 0, 0, 0});
  CHECK(run_one(where(mask.pad({{1, 0}}), Tensor::ones({5}), Tensor::zeros({5}))) ==
        std::vector<float>{0, 1, 1, 0, 0});
  CHECK(lowered({Tensor::from(ramp(4)) < 2}).stages.size() == 1); // compares data
}

TEST_CASE("half precision is computed in f32 and rounded after each op") {
  // 2048 + 1 is not an f16: the sum is rounded before the next addition, so it stays 2048 twice.
  const Tensor a = Tensor::from(std::vector<float>{2048, 1, 0.1f}).cast(DType::F16);
  const Tensor one = Tensor::full({3}, Scalar::of_float(DType::F16, 1));
  const std::vector<float> got = run_one(((a + one) + one).cast(DType::F32));
  CHECK(got[0] == 2048);
  CHECK(got[1] == 3);
  const float tenth = f16_to_f32(f32_to_f16(0.1f));
  CHECK(got[2] == f16_to_f32(f32_to_f16(f16_to_f32(f32_to_f16(tenth + 1)) + 1)));
}

TEST_CASE("gather from inputs, from views and from computed values; scatter") {
  const Tensor x = Tensor::from(ramp(6), {2, 3});
  const Tensor rows = Tensor::from(std::vector<int64_t>{1, 0, 1});
  CHECK(run_one(x.take(rows, 0)) == std::vector<float>{4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK(run_one(x.transpose().take(rows, 0)) == std::vector<float>{2, 5, 1, 4, 2, 5});
  CHECK(run_one((x + 1).take(rows, 0)) == std::vector<float>{5, 6, 7, 2, 3, 4, 5, 6, 7});
  CHECK(run_one<int64_t>(Tensor::arange(5).take(rows, 0)) == std::vector<int64_t>{1, 0, 1});
  const Tensor base = Tensor::zeros({3});
  const Tensor index = Tensor::from(std::vector<int64_t>{2, 0, 2, 2});
  const Tensor values = Tensor::from(ramp(4));
  CHECK(run_one(base.scatter_add(0, index, values)) == std::vector<float>{2, 0, 8});
  CHECK(run_one(base.scatter(0, index, values)) == std::vector<float>{2, 0, 4});
  const Program program = lowered({base.scatter_add(0, index, values)});
  CHECK(program.stages.back().is_scatter);
}

TEST_CASE("one lowered program serves every value of its variables") {
  const Var n("n", 1, 100);
  const Tensor x = Tensor::input("x", {n, 3});
  const Program program = lowered({(x.pad({{1, 0}, {0, 0}}) * 2).sum(1), x.sum(0)});
  REQUIRE(program.shape_vars.size() == 1);
  for (const int64_t rows : {1, 2, 7}) {
    const std::vector<float> data = ramp(rows * 3);
    const auto out = run(program, {{"x", data.data()}}, {{"n", rows}});
    const auto sums = values_of<float>(out[0]);
    REQUIRE(sums.size() == static_cast<size_t>(rows + 1));
    CHECK(sums[0] == 0);
    float total = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float row = 3 * static_cast<float>(3 * r + 2);
      total += row;
      CHECK(sums[static_cast<size_t>(r + 1)] == 2 * row);
    }
    const auto columns = values_of<float>(out[1]);
    CHECK(columns[0] + columns[1] + columns[2] == total);
  }
}

TEST_CASE("two outputs of the same node share a stage") {
  const Tensor x = Tensor::from(ramp(4));
  const Program program = lowered({x + 1, x + 1});
  CHECK(program.stages.size() == 1);
  CHECK(program.outputs[0].stage == program.outputs[1].stage);
}

TEST_CASE("an output that is a reshape of what is computed is that stage's buffer") {
  const Tensor x = Tensor::from(ramp(12), {3, 4});
  const Program sum = lowered({x.sum(1), x.sum(1, true)});
  REQUIRE(sum.stages.size() == 1);
  CHECK(sum.outputs[0].stage == sum.outputs[1].stage);
  CHECK(sum.outputs[0].shape == Shape{3});
  CHECK(sum.outputs[1].shape == Shape{3, 1});
  CHECK(values_of<float>(run(sum)[0]) == std::vector<float>{10, 26, 42});
  // In another order it is a copy.
  CHECK(lowered({(x + 1).transpose()}).stages.size() == 2);
  CHECK(lowered({(x + 1).reshape({2, 6})}).stages.size() == 1);
}

TEST_CASE("buffer names are identifiers, unique and no stage's") {
  const Program program =
      lowered({Tensor::input("t0", {4}) + Tensor::input("t0_", {4}) + Tensor::from(ramp(4))});
  std::vector<std::string> names;
  for (const auto& input : program.inputs) names.push_back(input.buffer->name);
  for (const Stage& stage : program.stages) names.push_back(stage.buffer->name);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("what can't be one program is refused by name") {
  const auto kind_of = [](auto&& f) -> std::optional<ErrorKind> {
    try {
      f();
    } catch (const Error& e) {
      return e.kind();
    }
    return {};
  };
  CHECK(kind_of([] {
          lowered({Tensor::input("x", {4}) + 1, Tensor::input("x", {5}) + 1});
        }) == ErrorKind::Name);
  CHECK(kind_of([] {
          lowered({Tensor::input("x", {Var("n", 1, 4)}) + 1, Tensor::input("y", {Var("n", 1, 5)}) + 1});
        }) == ErrorKind::Name);
  CHECK(kind_of([] { lowered({}); }) == ErrorKind::Value);
}

TEST_CASE("a long chain of additions lowers without recursion") {
  graph::NodeRef sum = graph::node_of(Tensor::input("x", {4}));
  const graph::NodeRef one = graph::node_of(Tensor::input("y", {4}));
  for (int k = 0; k < 200'000; ++k) sum = graph::binary(Op::Add, sum, one);
  const Program program = lower::lower({{"out", sum}});
  CHECK(program.stages.size() == 200'000);
  CHECK(program.stages.back().reads == std::vector<int>{199'998});
}
