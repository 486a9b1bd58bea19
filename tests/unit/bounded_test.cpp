// What is called right and what wrong: bounds of every op, sums in any order against sums that lack a part,
// and compiled kernels of many programs on every device.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "ast/passes/prepare.hpp"
#include "compile/front/target.hpp"
#include "compile/measure/output_check.hpp"
#include "compile/measure/test_data.hpp"
#include "compile/measure/tolerance.hpp"
#include "compile/realise.hpp"
#include "compile/schedule.hpp"
#include "lathe/lathe.hpp"
#include "lower/program.hpp"
#include "runtime/device.hpp"
#include "search/moves/plan.hpp"
#include "support/devices.hpp"
#include "support/programs.hpp"
#include "support/sabotage.hpp"
#include "support/walk.hpp"

using namespace lathe;
using pipeline::Bounded;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Bytes = std::vector<unsigned char>;

/// A kernel's inputs as tuning makes them, and what judges its outputs.
struct Judge {
  explicit Judge(const std::shared_ptr<const lower::Program>& program, const search::KernelPlan& kernel,
                 double seconds = 0.2)
      : canonical(search::unscheduled(*program, kernel)) {
    const pipeline::ShapeValues values(canonical->kernel.shape_vars);
    const pipeline::TestRange range = pipeline::checking_range(canonical->kernel, values);
    std::vector<const void*> inputs;
    for (const ast::Param& p : canonical->kernel.params) {
      const auto bytes = static_cast<size_t>(values.bytes(*p.buffer));
      memory.push_back(p.written ? Bytes(bytes, 0xFF) : pipeline::test_data(*p.buffer, bytes, range));
      inputs.push_back(p.written ? nullptr : memory.back().data());
    }
    check = std::make_unique<pipeline::OutputCheck>(canonical->kernel, inputs, std::vector<int64_t>{});
    check->sample(seconds);
  }
  /// What the first wrong output is; empty if there is none.
  std::string run(const search::KernelPlan& plan, runtime::Device& device) {
    std::vector<std::unique_ptr<runtime::DeviceBuffer>> buffers;
    std::vector<runtime::BufferSlice> slices;
    for (const ast::Param& p : plan.kernel.params) {
      const Bytes& bytes = memory[place_of(p)];
      buffers.push_back(device.allocate(bytes.size()));
      buffers.back()->upload(0, bytes.data(), bytes.size());
      slices.push_back({buffers.back().get(), 0, bytes.size()});
    }
    device.compile(ast::prepare(plan.kernel), {.threads = 1})->launch(slices, {});
    device.finish();
    for (size_t k = 0; k < buffers.size(); ++k) {
      if (!plan.kernel.params[k].written) continue;
      Bytes got(slices[k].bytes);
      buffers[k]->download(0, got.data(), got.size());
      if (std::string why = check->wrong(place_of(plan.kernel.params[k]), got); !why.empty()) return why;
    }
    return {};
  }
  size_t place_of(const ast::Param& param) const {
    const auto& params = canonical->kernel.params;
    return static_cast<size_t>(
        std::find_if(params.begin(), params.end(),
                     [&](const ast::Param& p) { return p.buffer->id == param.buffer->id; }) -
        params.begin());
  }
  size_t output() const {
    const auto& params = canonical->kernel.params;
    return static_cast<size_t>(
        std::find_if(params.begin(), params.end(), [](const ast::Param& p) { return p.written; }) -
        params.begin());
  }
  template <class T> std::vector<T> input(size_t k) const {
    std::vector<T> v(memory[k].size() / sizeof(T));
    std::memcpy(v.data(), memory[k].data(), memory[k].size());
    return v;
  }
  template <class T> bool accepts(const std::vector<T>& result) {
    Bytes bytes(result.size() * sizeof(T));
    std::memcpy(bytes.data(), result.data(), bytes.size());
    return check->wrong(output(), bytes).empty();
  }

  search::KernelPlanRef canonical;
  std::vector<Bytes> memory; // one per parameter
  std::unique_ptr<pipeline::OutputCheck> check;
};

std::shared_ptr<const lower::Program> lowered(const Tensor& y) { return pipeline::lowered({{"y", y}}); }

Judge judge_of(const Tensor& y, double seconds = 0.2) {
  const auto program = lowered(y);
  const search::Plan plan = search::initial_plan(program);
  // All stages in one kernel.
  search::KernelPlan whole = *plan.kernels.back();
  whole.stages.clear();
  for (const lower::Stage& stage : program->stages) whole.stages.push_back(stage.id);
  return Judge(program, whole, seconds);
}

float serial(const std::vector<float>& terms) {
  float sum = 0;
  for (const float t : terms) sum += t;
  return sum;
}
float in_lanes(const std::vector<float>& terms, size_t lanes) {
  std::vector<float> sums(lanes, 0.0f);
  for (size_t k = 0; k < terms.size(); ++k) sums[k % lanes] += terms[k];
  return serial(sums);
}
float backwards(std::vector<float> terms) {
  std::reverse(terms.begin(), terms.end());
  return serial(terms);
}

} // namespace

TEST_CASE("sums in any order are right; a part left out, a term twice and zeros are wrong") {
  for (const int64_t n : {int64_t{1000}, int64_t{1000000}, int64_t{1} << 24})
    for (const bool is_product : {false, true}) {
      CAPTURE(n);
      CAPTURE(is_product);
      const Tensor a = Tensor::input("a", {n}), b = Tensor::input("b", {n});
      Judge judge = judge_of(is_product ? (a * b).sum() : a.sum());
      REQUIRE(judge.check->sampled(judge.output()) == 1);
      std::vector<float> terms = judge.input<float>(0);
      if (is_product) {
        const std::vector<float> other = judge.input<float>(1);
        for (size_t k = 0; k < terms.size(); ++k) terms[k] *= other[k];
      }
      const auto accepts = [&](float sum) { return judge.accepts(std::vector<float>{sum}); };
      CHECK(accepts(serial(terms)));
      CHECK(accepts(backwards(terms)));
      for (const size_t lanes : {8, 1000}) CHECK(accepts(in_lanes(terms, lanes)));
      CHECK(!accepts(0));
      for (const size_t block : {1, 16, 100, 999}) {
        CAPTURE(block);
        for (const size_t at : {size_t{0}, (terms.size() - block) / 2, terms.size() - block}) {
          float part = 0;
          for (size_t k = at; k < at + block; ++k) part += terms[k];
          CHECK(!accepts(serial(terms) - part)); // exact, as these are whole numbers
        }
      }
      for (const size_t twice : {size_t{0}, terms.size() / 2, terms.size() - 1})
        CHECK(!accepts(serial(terms) + terms[twice]));
      CHECK(!accepts(NAN));
      CHECK(!accepts(static_cast<float>(kInfinity)));
    }
}

TEST_CASE("sums of real numbers: within the square root of their number of roundings") {
  // Data that a program brings is no whole numbers: the bounds by themselves.
  std::mt19937_64 random(11);
  for (const size_t n : {1000, 1000000, 1 << 24}) {
    CAPTURE(n);
    std::vector<float> terms(n);
    for (float& t : terms) t = static_cast<float>(static_cast<double>(random() >> 40) * 0x1p-24);
    pipeline::Combined sum(Op::Add, DType::F32, Bounded::of(0));
    for (const float t : terms) sum.add(Bounded::of(t));
    const auto right = [&](float got) { return pipeline::holds(DType::F32, sum.result(), &got); };
    CHECK(right(serial(terms)));
    CHECK(right(backwards(terms)));
    for (const size_t lanes : {8, 1000}) CHECK(right(in_lanes(terms, lanes)));
    CHECK(!right(0));
    const size_t block = n / 256;
    CHECK(!right(serial({terms.begin() + static_cast<long>(block), terms.end()})));
    CHECK(sum.result().error < 1e-3 * sum.result().number);
  }
}

TEST_CASE("integers and what is only moved are compared exactly") {
  Judge sums = judge_of(Tensor::input("x", {40, 100}, DType::I32).sum(1));
  std::vector<int64_t> right(40);
  const auto x = sums.input<int32_t>(0);
  for (size_t k = 0; k < x.size(); ++k) right[k / 100] += x[k];
  CHECK(sums.accepts(right));
  right[17] += 1;
  CHECK(!sums.accepts(right));

  Judge moved = judge_of(Tensor::input("x", {30, 20}).transpose().contiguous());
  const auto from = moved.input<float>(0);
  std::vector<float> to(600);
  for (size_t k = 0; k < 600; ++k) to[k] = from[k % 30 * 20 + k / 30];
  CHECK(moved.accepts(to));
  to[333] = std::nextafter(to[333], 2.0f);
  CHECK(!moved.accepts(to));
}

TEST_CASE("a wrong element outside of the sample is found by a result that has passed it") {
  const Tensor x = Tensor::input("x", {2000, 3000});
  Judge judge = judge_of(x * 0.1f + 1.0f, 0.01);
  const int64_t sampled = judge.check->sampled(judge.output());
  CHECK(sampled >= 16);
  CHECK(sampled < 6000000);
  std::vector<float> y = judge.input<float>(0);
  for (float& v : y) v = v * 0.1f + 1.0f;
  Bytes bytes(y.size() * 4);
  std::memcpy(bytes.data(), y.data(), bytes.size());
  CHECK(judge.check->trust(judge.output(), bytes) == "");
  CHECK(judge.accepts(y));
  std::mt19937_64 random(3);
  for (int k = 0; k < 20; ++k) {
    float& v = y[random() % y.size()];
    const float right = v;
    v = right * 1.0001f;
    CHECK(!judge.accepts(y));
    v = std::nextafter(right, 2.0f); // as if rounded once less
    CHECK(judge.accepts(y));
    v = right;
  }
  // What is wrong in many places is not trusted, and the sample still tells.
  std::vector<float> wrong = y;
  for (float& v : wrong) v += 0.01f;
  std::memcpy(bytes.data(), wrong.data(), bytes.size());
  CHECK(judge.check->trust(judge.output(), bytes) != "");
  CHECK(judge.accepts(y));
  CHECK(!judge.accepts(wrong));
}

TEST_CASE("bounds of ops hold what f32 gives") {
  const std::array<Op, 15> ops{Op::Neg, Op::Cos, Op::Sqrt, Op::Exp2, Op::Log2,  Op::Sin,   Op::Trunc, Op::Add,
                               Op::Sub, Op::Mul, Op::Div,  Op::Max,  Op::CmpLt, Op::CmpNe, Op::Fma};
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> real(-8, 8);
  for (int k = 0; k < 20000; ++k) {
    const Op op = ops[static_cast<size_t>(k) % ops.size()];
    // Two values near each of three exact ones: the bounds hold the results of both.
    std::array<Bounded, 3> near;
    std::array<std::array<Scalar, 3>, 2> args;
    for (size_t i = 0; i < 3; ++i) {
      const double at = k % 7 == 0 ? std::rint(real(random)) : real(random);
      const double error =
          k % 3 == 0 ? 0 : std::ldexp(std::fabs(real(random)), -static_cast<int>(random() % 24));
      for (auto& a : args)
        a[i] = Scalar::of_float(DType::F32, at + (error == 0 ? 0 : error * real(random) / 8));
      near[i] = Bounded::of(error == 0 ? args[0][i].as_float() : at, error == 0 ? 0 : error + 1e-6);
    }
    const DType result = result_dtype(op, DType::F32);
    const Bounded bounds = pipeline::apply(op, result, DType::F32, near[0], near[1], near[2]);
    for (const auto& a : args) {
      const Scalar got = evaluate(op, result, std::span(a).first(static_cast<size_t>(info(op).arity)));
      std::array<unsigned char, 8> bytes;
      got.to_memory(bytes.data());
      CHECK_MESSAGE(pipeline::holds(result, bounds, bytes.data()), to_string(op), " of ", to_string(a[0]),
                    ", ", to_string(a[1]), " is ", to_string(got), ", bounds ", bounds.number, " +- ",
                    bounds.error);
    }
  }
}

TEST_CASE("bounds are tight: few roundings are few") {
  const Bounded x = Bounded::of(1.1f), y = Bounded::of(3.3f);
  const auto f32 = [](Op op, const Bounded& a, const Bounded& b) {
    return pipeline::apply(op, DType::F32, DType::F32, a, b, b);
  };
  for (const Op op : {Op::Add, Op::Mul, Op::Div, Op::Sqrt}) CHECK(f32(op, x, y).error < 0x1p-23 * 4);
  CHECK(f32(Op::Exp2, x, y).error < 0x1p-19);
  CHECK(f32(Op::Add, Bounded::of(3), Bounded::of(4)).is_exact());
  CHECK(f32(Op::Mul, Bounded::of(3), Bounded::of(0.25)).is_exact());
  CHECK(f32(Op::Div, Bounded::of(41), Bounded::of(41)).is_exact());
  CHECK(!f32(Op::Mul, x, y).is_exact());
  // A comparison that rounding decides says nothing, any other is exact.
  const Bounded about = Bounded::of(1, 1e-6);
  CHECK(!pipeline::apply(Op::CmpLt, DType::Bool, DType::F32, about, Bounded::of(1), x).is_decided());
  CHECK(pipeline::apply(Op::CmpLt, DType::Bool, DType::F32, about, Bounded::of(2), x).whole == 1);
  const Bounded chosen = pipeline::apply(Op::Where, DType::F32, DType::F32, Bounded::of_whole(1, false),
                                         Bounded::of(2), Bounded::of(2.5));
  CHECK(chosen.error == doctest::Approx(0.5));
  // f16 stores one of two neighbours, or one where both roundings agree.
  const auto half = [](double v, double error) {
    return pipeline::apply(Op::Cast, DType::F16, DType::F32, Bounded::of(v, error), {}, {});
  };
  CHECK(half(1.00001, 1e-6).is_exact());
  CHECK(half(1.00048828125, 1e-6).error == doctest::Approx(0x1p-10));
}

namespace {

/// What small_programs() has of f32 alone.
std::vector<test::NamedProgram> of_dtype(DType dtype) {
  const auto in = [dtype](const char* name, Shape shape) {
    return Tensor::input(name, std::move(shape), dtype);
  };
  const Tensor x = in("x", {9, 70});
  const auto named = [&](const char* name, const Tensor& y) {
    return test::NamedProgram{name + std::string(" of ") + to_string(dtype), {{"y", y}}, 70};
  };
  return {named("matmul", (x.matmul(in("w", {70, 33})) + in("b", {33})).relu()),
          named("softmax", x.softmax(-1)),
          named("layernorm", x.layer_norm({-1}, in("w", {70}), in("b", {70}))),
          named("gelu", x.gelu()),
          named("mean", x.mean(0)),
          named("quotient", x / x.sum(1, true)),
          named("cumsum", x.cumsum(1))};
}

} // namespace

TEST_CASE("elements far larger than those whose bounds are known are judged by their own size") {
  constexpr size_t kRows = 20000, kTerms = 64;
  const Tensor a = Tensor::input("a", {kRows, kTerms}), scale = Tensor::input("s", {kRows, 1});
  Judge judge = judge_of((a * scale).sum(1), 0);
  std::vector<const void*> inputs;
  std::vector<float> terms(kRows * kTerms), scales(kRows);
  std::mt19937 random(5);
  for (float& t : terms) t = 0.5f + static_cast<float>(random() % 1000) / 999;
  for (size_t row = 0; row < kRows; ++row) // few are large, neither the first nor the last
    scales[row] = static_cast<float>(std::exp2(60 - std::abs(120.0 * static_cast<double>(row) / kRows - 60)));
  for (size_t k = 0; k < judge.memory.size(); ++k)
    inputs.push_back(k == judge.output() ? nullptr
                     : judge.memory[k].size() == kRows * sizeof(float)
                         ? static_cast<const void*>(scales.data())
                         : terms.data());
  judge.check =
      std::make_unique<pipeline::OutputCheck>(judge.canonical->kernel, inputs, std::vector<int64_t>{});
  judge.check->sample(0);
  std::vector<float> right(kRows), rounded(kRows);
  size_t largest = 0;
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (size_t k = 0; k < kTerms; ++k) sum += double(terms[row * kTerms + k]) * scales[row];
    right[row] = static_cast<float>(sum), rounded[row] = static_cast<float>(sum * (1 + 0x1p-21));
    if (right[row] > right[largest]) largest = row;
  }
  Bytes made(kRows * sizeof(float));
  std::memcpy(made.data(), right.data(), made.size());
  REQUIRE(judge.check->trust(judge.output(), made) == "");
  CHECK(judge.accepts(rounded));
  rounded[largest] *= 1 - 0.25f / kTerms; // a quarter of a term
  CHECK_FALSE(judge.accepts(rounded));
}

TEST_CASE("kernels of many programs are right as they are, as the model schedules them and after any moves") {
  runtime::Device& device = runtime::device(default_device());
  std::vector<test::NamedProgram> programs = test::small_programs();
  for (const DType dtype : {DType::F16, DType::BF16, DType::F64})
    for (test::NamedProgram& p : of_dtype(dtype)) programs.push_back(std::move(p));
  for (const test::NamedProgram& p : programs) {
    CAPTURE(p.name);
    const auto program = pipeline::lowered(p.outputs);
    const search::Plan scheduled = pipeline::schedule(program, on(default_device(), 1)).plan;
    const search::Plan start = search::initial_plan(program);
    test::Walker walker(p.name.size(), pipeline::target_for(on(default_device(), 1), *program));
    for (const search::Plan& plan : {start, scheduled, walker.walk(start, 30), walker.walk(start, 60)})
      for (const search::KernelPlanRef& kernel : plan.kernels) {
        if (!kernel->constants.empty()) continue; // whose copies are made elsewhere
        Judge judge(plan.program, *kernel, 0.02);
        CHECK(judge.run(*kernel, device) == "");
        CHECK(judge.check->sampled(judge.output()) > 0);
        if (test::combines(kernel->kernel.body)) CHECK(judge.run(*test::zeroed(*kernel), device) != "");
      }
  }
}
