// Stages that read the same data are computed in one pass over it.
#include <sstream>

#include <doctest/doctest.h>

#include "lathe/lathe.hpp"
#include "search/moves/plan.hpp"
#include "support/devices.hpp"
#include "support/inlined.hpp"
#include "support/moves.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// Two values of x and what is made of both: three outputs.
NamedTensors moments(const Shape& shape, DType dtype = DType::F32) {
  const Tensor x = Tensor::input("x", shape, dtype), m = Tensor::input("m", shape, dtype);
  const Tensor first = m * 0.5 + x, second = x * x + m;
  return {{"first", first}, {"second", second}, {"both", first / (second + 1.0)}};
}

/// The outputs in the order of their names, for random inputs, by these moves.
std::vector<std::vector<float>> results(const NamedTensors& outputs, int64_t count,
                                        const std::vector<std::string>& moves = {}) {
  CompileOptions options = on("interp");
  options.moves = moves;
  const Executable program = compile(outputs, options);
  const Tensor x = Tensor::rand({count}, 1).realise(), m = Tensor::rand({count}, 2).realise();
  std::vector<std::vector<float>> out(outputs.size(), std::vector<float>(static_cast<size_t>(count), -77));
  std::map<std::string, void*> places;
  size_t i = 0;
  for (const auto& [name, tensor] : outputs) places[name] = out[i++].data();
  program.run({{"x", x.data<float>().data()}, {"m", m.data<float>().data()}}, places);
  return out;
}

size_t kernels_of(const NamedTensors& outputs) {
  return compile(outputs, on(has_device("cpu") ? "cpu" : "c", 1)).kernels().size();
}

/// Kernels that read the input x.
size_t passes_over_x(const NamedTensors& outputs) {
  std::istringstream lines(compile(outputs, on(has_device("cpu") ? "cpu" : "c", 1)).print());
  size_t passes = 0;
  for (std::string line; std::getline(lines, line);)
    passes += line.starts_with("launch") && line.find("%x", line.find("<-")) != std::string::npos;
  return passes;
}

/// The stages of `outputs`; whatever is no output is inlined.
std::string name_of(const Plan& plan, size_t kernel) {
  return plan.program->stages[static_cast<size_t>(plan.kernels.at(kernel)->stages.back())].buffer->name;
}

/// Why the first kernel's stage can't be stored in the last one's loops.
std::string refusal(const NamedTensors& outputs) {
  const Plan plan = test::inlined_plan(outputs);
  const std::string first = name_of(plan, 0), last = name_of(plan, plan.kernels.size() - 1);
  return apply(plan,
               {test::move("fuse_at({}, {}, packed)", first, last),
                test::move("store_with({}, {})", first, last)},
               test::target())
      .reason;
}

} // namespace

TEST_CASE("the search stores values where they are read, and reads an input once for all outputs") {
  const Shape large{int64_t{1} << 24};
  CHECK(kernels_of(moments(large)) == 1);
  const Tensor x = Tensor::input("x", large);
  CHECK(kernels_of({{"a", x + 1.0}, {"b", x * 2.0}, {"c", x.exp()}}) == 1);
  const Tensor y = Tensor::input("y", large);
  CHECK(kernels_of({{"a", x + 1.0}, {"b", y * 2.0}}) == 2); // nothing in common
}

TEST_CASE("reductions of the same data share a pass over it") {
  const auto three = [](const Tensor& x, const Axes& axes = {}) {
    return NamedTensors{{"least", x.min(axes)}, {"most", x.max(axes)}, {"sum", x.sum(axes)}};
  };
  const int64_t count = int64_t{1} << 26;
  CHECK(passes_over_x(three(Tensor::input("x", {count}))) == 1);
  CHECK(passes_over_x(three(Tensor::input("x", {count}, DType::I32))) == 1);
  // What fills no part is read apart.
  CHECK(passes_over_x(three(Tensor::input("x", {count + 5}))) <= 4);
  CHECK(passes_over_x(three(Tensor::input("x", {count + 5}, DType::I32))) <= 3);
  CHECK(passes_over_x(three(Tensor::input("x", {8192, 8192}))) == 1);
  const Tensor rows = Tensor::input("x", {65536, 1024});
  CHECK(passes_over_x({{"mean", rows.mean(1)}, {"most", rows.max(1)}, {"size", abs(rows).sum(1)}}) == 1);
  CHECK(passes_over_x({{"sum", rows.sum()}, {"squares", (rows * rows).sum()}}) == 1);
}

TEST_CASE("each part of a stack is computed where it is stored") {
  const Tensor x = Tensor::input("x", {720, 1280, 3}, DType::U8), wide = x.cast(DType::F32);
  const auto channel = [&](int c) { return wide.shrink({{0, 720}, {0, 1280}, {c, c + 1}}).squeeze(2); };
  const Tensor r = channel(0), g = channel(1), b = channel(2), most = maximum(maximum(r, g), b);
  const Tensor parts = stack({r * 0.3f + g * 0.6f + b * 0.1f, (r - most) / (most + 1.0f), g - b}, 0);
  CHECK(test::searched(parts).plan.kernels.size() == 1);
}

TEST_CASE("what is stored is the same") {
  for (const int64_t count : {2, 7, 64, 101}) {
    const NamedTensors outputs = moments({count});
    const Plan plan = test::inlined_plan(outputs);
    REQUIRE(plan.kernels.size() == 3);
    std::vector<std::string> moves;
    for (const Move& m : plan.moves()) moves.push_back(to_string(m));
    const std::string last = name_of(plan, 2);
    for (const size_t k : {0, 1}) {
      moves.push_back(fmt::format("fuse_at({}, {}, packed)", name_of(plan, k), last));
      moves.push_back(fmt::format("store_with({}, {})", name_of(plan, k), last));
    }
    CHECK(results(outputs, count, moves) == results(outputs, count));
  }
}

TEST_CASE("states that are stored with what is made of them are updated in place") {
  const int64_t count = int64_t{1} << 22;
  const State mean("mean", Tensor::full({count}, 1.0f)), weights("weights", Tensor::full({count}, 2.0f));
  const Tensor g = Tensor::input("g", {count}), next = mean.value() * 0.5f + g * 0.25f;
  const Executable step = compile(NamedTensors{}, on(has_device("cpu") ? "cpu" : "c", 1),
                                  {mean.assign(next), weights.assign(weights.value() - next * 0.5f)});
  CHECK(step.kernels().size() == 1);
  for (const char* name : {"mean", "weights"})
    CHECK(step.print().find(fmt::format("update {} in place", name)) != std::string::npos);
  step({{"g", Tensor::arange(0, count, 1).cast(DType::F32)}});
  const Tensor m = mean.read(), w = weights.read();
  bool same = true; // the sums are exact
  for (int64_t i = 0; i < count; ++i) {
    const float expected = 0.5f + static_cast<float>(i) * 0.25f;
    same &= m.data<float>()[static_cast<size_t>(i)] == expected;
    same &= w.data<float>()[static_cast<size_t>(i)] == 2 - expected * 0.5f;
  }
  CHECK(same);
}

TEST_CASE("stages stay apart where one pass would compute something else") {
  const Tensor x = test::in("x", {6, 6}), more = x + 1.0f, h = Tensor::input("h", {36}, DType::F16),
               square = h * h;
  CHECK(refusal({{"a", more}, {"b", more.permute({1, 0}) * more}}).find("is not read element by element") !=
        std::string::npos);
  CHECK(refusal({{"a", more}, {"b", more.flip({0}) * 2.0f}}).find("in another way") != std::string::npos);
  CHECK(refusal({{"a", square}, {"b", square + 1.0f}}).find("is rounded when it is stored") !=
        std::string::npos);
  const Tensor one = Tensor::input("one", {1}), twice = one * 2.0f;
  CHECK(refusal({{"a", twice}, {"b", twice + 1.0f}}).find("loops of its own, or none") != std::string::npos);
  CHECK(refusal({{"a", x.sum()}, {"b", x * 2.0f}}).find("is a reduction") != std::string::npos);
  CHECK(refusal({{"a", x * 2.0f}, {"b", test::in("y", {6, 5}) + 1.0f}}).find("loops of other lengths") !=
        std::string::npos);
}
