// Constants laid out for the kernels that read them: once, before the first run.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "compile/front/front.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/measure.hpp"
#include "compile/run/assemble.hpp"
#include "compile/run/constants.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/measurement.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

std::vector<float> values(int64_t count, int64_t seed) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>((i * 7919 + seed * 104729) % 1009) / 512 - 1);
  return out;
}

struct Product {
  int64_t m, n, k;
  std::vector<float> x = values(m * k, 1), w = values(k * n, 2);
  Tensor constant = Tensor::from(w, {k, n});
  Tensor result = Tensor::input("x", {m, k}).matmul(constant);

  void check(const Executable& program) const {
    const Tensor y = program({{"x", Tensor::from(x, {m, k})}}).at("y");
    const std::vector<float> got = y.to_vector<float>();
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double want = 0;
        for (int64_t r = 0; r < k; ++r)
          want += static_cast<double>(x[static_cast<size_t>(i * k + r)]) * w[static_cast<size_t>(r * n + j)];
        REQUIRE(got[static_cast<size_t>(i * n + j)] == doctest::Approx(want).epsilon(1e-5));
      }
  }
};

std::shared_ptr<const lower::Program> lowered(const Tensor& y) {
  return pipeline::take_in(NamedTensors{{"y", y}}, {.takes_moved = false}).lowered();
}

std::vector<search::Move> moves(std::initializer_list<const char*> texts) {
  std::vector<search::Move> out;
  for (const char* text : texts) out.push_back(search::parse_move(text));
  return out;
}

std::string refusal(const Tensor& y, std::initializer_list<const char*> texts) {
  return search::apply(search::initial_plan(lowered(y)), moves(texts), {}).reason;
}

bool prepacks(const Executable& program) {
  for (const Kernel& kernel : program.kernels())
    for (const std::string& move : kernel.moves())
      if (move.rfind("prepack(", 0) == 0) return true;
  return false;
}

} // namespace

TEST_CASE("a search by the model alone packs a product's constant, on every device") {
  const Product p{37, 83, 61};
  for (const DeviceInfo& device : devices()) {
    if (!device.available || device.name == "interp") continue;
    CAPTURE(device.name);
    const Executable program =
        compile({{"y", p.result}}, {.device = device.name, .threads = 1, .use_database = false});
    if (device.name == "cpu") CHECK(prepacks(program));
    p.check(program);
  }
}

TEST_CASE("the copy holds the elements in the order of the loops, whatever cuts them") {
  const Product p{5, 23, 11};
  for (const char* device : {"interp", "cpu", "c", "opencl"}) {
    if (!has_device(device)) continue;
    const search::Plan plan =
        search::replay(lowered(p.result),
                       moves({"inline(t0)", "split(t1.i1, 8)", "split(t1.r2, 3)",
                              "reorder(t1.i1.o, t1.r2.o, t1.i0, t1.r2.i, t1.i1.i)", "prepack(t1, data1)"}),
                       {});
    const search::KernelPlan& kernel = *plan.kernels.front();
    REQUIRE(kernel.constants.size() == 1);
    CHECK(to_string(kernel.constants[0].params[1].buffer->shape) == "[3, 4, 3, 8]");
    p.check(pipeline::build(plan, {.device = device, .threads = 1, .use_database = false}));
  }
}

TEST_CASE("the copy is made once for all programs that read it alike, and goes with them") {
  const Product p{8, 32, 16};
  const search::Plan plan =
      search::replay(lowered(p.result), moves({"inline(t0)", "prepack(t1, data1)"}), {});
  const ast::Kernel& fill = plan.kernels.front()->constants.at(0);
  const StorageRef source = Storage::allocate(32 * 16 * sizeof(float));
  std::copy(p.w.begin(), p.w.end(), static_cast<float*>(source->data()));
  const pipeline::ConstantLayout layout{&fill, source};
  // Two kernels of one program read it alike, and one of another program.
  std::vector<StorageRef> first = pipeline::laid_out_constants(std::vector{layout, layout});
  REQUIRE(first.size() == 2);
  CHECK(first[0] == first[1]);
  CHECK(pipeline::laid_out_constants(std::vector{layout}) == std::vector{first[0]});
  const std::weak_ptr<Storage> gone = first[0];
  first.clear();
  CHECK(gone.expired());
}

TEST_CASE("a constant at the address of one that is gone has a copy of its own") {
  const Product p{8, 32, 16};
  const search::Plan plan =
      search::replay(lowered(p.result), moves({"inline(t0)", "prepack(t1, data1)"}), {});
  const ast::Kernel& fill = plan.kernels.front()->constants.at(0);
  const auto constant = [](float value) {
    StorageRef made = Storage::allocate(32 * 16 * sizeof(float));
    std::fill_n(static_cast<float*>(made->data()), 32 * 16, value);
    return made;
  };
  const auto packed = [&](const StorageRef& source) {
    return pipeline::laid_out_constants(std::vector{pipeline::ConstantLayout{&fill, source}})[0];
  };
  // Programs hold copies; no one holds the constants that they are of.
  std::vector<StorageRef> gone, copies;
  for (int k = 0; k < 32; ++k) gone.push_back(constant(1));
  for (const StorageRef& source : gone) copies.push_back(packed(source));
  std::set<const Storage*> addresses;
  for (const StorageRef& source : gone) addresses.insert(source.get());
  gone.clear();
  // An allocator gives an address again soon.
  std::vector<StorageRef> fresh;
  size_t again = 0;
  for (int k = 0; k < 1000; ++k) {
    fresh.push_back(constant(2));
    if (!addresses.count(fresh.back().get())) continue;
    ++again;
    const StorageRef copy = packed(fresh.back());
    CHECK(*static_cast<const float*>(copy->data()) == 2);
  }
  if (again == 0) MESSAGE("the allocator gave no address again");
  for (const StorageRef& copy : copies) CHECK(*static_cast<const float*>(copy->data()) == 1);
}

TEST_CASE("the target knows how many constants make up nearly all of their bytes") {
  const Tensor bias = Tensor::from(values(64, 5), {64});
  const Tensor first = Tensor::from(values(32 * 64, 6), {32, 64}),
               second = Tensor::from(values(64 * 48, 7), {64, 48});
  const auto program = lowered((Tensor::input("x", {8, 32}).matmul(first) + bias).relu().matmul(second));
  const search::Target target = pipeline::target_for({.threads = 1}, *program);
  CHECK(target.constant_bytes == 4 * (64 + 32 * 64 + 64 * 48));
  CHECK(target.constants == 2);
}

TEST_CASE("what can't be packed beforehand says why") {
  const Tensor w = Tensor::from(values(12, 3), {3, 4});
  const Tensor x = Tensor::input("x", {2, 3});
  CHECK(refusal(x.matmul(w), {"inline(t0)", "prepack(t1, x)"}) == "prepack(t1, x): x is no constant");
  CHECK(refusal(x.matmul(w), {"inline(t0)", "prepack(t2, data1)"}) ==
        "prepack(t2, data1): no kernel computes t2");
  const Tensor twice = w + w.permute({1, 0}).reshape({3, 4}) + Tensor::input("a", {3, 4});
  CHECK(refusal(twice, {"inline(t0)", "prepack(t1, data0)"}).find("several places") != std::string::npos);
  const Tensor taken = w.take(Tensor::input("i", {5}, DType::I64)) + 1.0;
  std::string computed;
  for (size_t stage = 0; stage < lowered(taken)->stages.size(); ++stage)
    computed += refusal(taken, {("prepack(t" + std::to_string(stage) + ", data1)").c_str()}) +
                refusal(taken, {("prepack(t" + std::to_string(stage) + ", data0)").c_str()});
  CHECK_MESSAGE(computed.find("computed index") != std::string::npos, computed);
}

TEST_CASE("a candidate with a packed constant is measured against the constant as it was") {
  const Product p{7, 19, 13};
  const auto program = lowered(p.result);
  const search::Measure measure =
      pipeline::make_measure(program, {.threads = 1, .use_database = false}).measure;
  const search::Plan plan =
      search::replay(program,
                     moves({"inline(t0)", "split(t1.i1, 16)", "reorder(t1.i1.o, t1.i0, t1.r2, t1.i1.i)",
                            "prepack(t1, data1)"}),
                     {});
  const search::Measurement good = measure(plan.kernels.front(), 5);
  CHECK_MESSAGE(good.ok, good.error);
  // The same kernel reading a copy of the wrong elements is caught.
  auto wrong = std::make_shared<search::KernelPlan>(*plan.kernels.front());
  auto& fill = wrong->constants.at(0);
  ast::Rewriter transposed;
  transposed.on_value = [](const ast::ValueRef& value) {
    const auto* attr = std::get_if<ast::LoadAttr>(&value->attr);
    if (!attr) return value;
    return ast::load(attr->buffer, {Expr(12) - attr->index[0], attr->index[1]}, attr->guards);
  };
  fill.body = ast::rewrite(fill.body, transposed);
  const search::Measurement bad = measure(wrong, 5);
  CHECK_FALSE(bad.ok);
  CHECK(bad.error.find("wrong result") != std::string::npos);
}

TEST_CASE("in a program with more constants, each run of a candidate reads another copy, all of them right") {
  const Tensor small = Tensor::from(values(13 * 19, 3), {19, 13}),
               large = Tensor::from(values(13 * 5000, 4), {13, 5000});
  const auto program = lowered(Tensor::input("x", {7, 19}).matmul(small).matmul(large));
  const search::Measure measure =
      pipeline::make_measure(program, {.threads = 1, .use_database = false}).measure;
  const search::Plan plain = search::replay(program, moves({"inline(t0)", "inline(t2)"}), {});
  const search::Plan packed =
      search::replay(program,
                     moves({"inline(t0)", "inline(t2)", "split(t1.i1, 4)",
                            "reorder(t1.i1.o, t1.i0, t1.r2, t1.i1.i)", "prepack(t1, data1)"}),
                     {});
  // What is read first goes on from where the run before ended.
  for (int round = 0; round < 4; ++round)
    for (const search::Plan* plan : {&plain, &packed}) {
      REQUIRE(plan->kernels.size() == 2);
      for (const auto& kernel : plan->kernels) {
        const search::Measurement m = measure(kernel, 5);
        CHECK_MESSAGE(m.ok, m.error);
      }
    }
}

TEST_CASE("emitted C holds the packed constant and not the other one") {
  const Product p{16, 64, 32};
  const std::string text = emit({{"y", p.result}}, {.target = "c"});
  CHECK(text.find("t1_k0") != std::string::npos);
  CHECK(text.find("} data1 ") == std::string::npos);
}
