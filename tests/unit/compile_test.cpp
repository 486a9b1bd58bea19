// Programs compiled and run as a whole, without leaning on the search for anything but legal plans.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "compile/front/front.hpp"
#include "compile/measure/measure.hpp"
#include "compile/measure/test_data.hpp"
#include "compile/run/assemble.hpp"
#include "compile/run/program_cache.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/executable.hpp"
#include "lathe/lathe.hpp"
#include "lower/program.hpp"
#include "runtime/device.hpp"
#include "runtime/object_cache.hpp"
#include "search/beam/measurement.hpp"
#include "search/moves/plan.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"
#include "support/patience.hpp"

using namespace lathe;

namespace {

std::vector<float> counting_up(int64_t n, float start = 1) {
  std::vector<float> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), start);
  return v;
}

/// The plan with one kernel per stage: what the pipeline does without any search.
Executable unscheduled(const NamedTensors& outputs, const CompileOptions& options) {
  const pipeline::Front front = pipeline::take_in(outputs, {.takes_moved = false});
  return pipeline::build(search::initial_plan(front.lowered()), options);
}

template <class F> std::optional<ErrorKind> kind_of(F&& f, std::string_view mentions = "") {
  try {
    f();
  } catch (const Error& e) {
    CHECK_MESSAGE(std::string(e.what()).find(mentions) != std::string::npos, e.what());
    return e.kind();
  }
  return {};
}

} // namespace

TEST_CASE("the seed case on every device") {
  const std::vector<float> v{-1, 4, -2, 5, 1, 5, 7, 9};
  const Tensor a = Tensor::input("a", {8}), b = Tensor::input("b", {8}), c = Tensor::input("c", {8}),
               d = Tensor::input("d", {8});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"y", ((a + b) * c).relu() + d}}, on(device));
    CHECK(f.kernel_count() == 1);
    const Tensor x = Tensor::from(v);
    CHECK(f({{"a", x}, {"b", x}, {"c", x}, {"d", x}}).at("y").to_vector<float>() ==
          std::vector<float>{1, 36, 6, 55, 3, 55, 105, 171});
  }
}

TEST_CASE("intermediates live in an arena that is reused") {
  const Tensor x = Tensor::input("x", {64});
  Tensor y = x;
  for (int k = 0; k < 10; ++k) y = (y + 1).contiguous();
  const Executable f = unscheduled({{"y", y}}, on("interp"));
  CHECK(f.kernel_count() > 5);
  CHECK(f.arena_bytes() == 2 * 256);
  CHECK(f.naive_bytes() > f.arena_bytes());
  CHECK(f({{"x", Tensor::from(counting_up(64))}}).at("y").to_vector<float>()[63] == 74);
  const std::string text = f.print();
  CHECK(text.find("alloc arena, 512 bytes\n") == 0);
  CHECK(text.find("launch ") != std::string::npos);
  CHECK(text.find("free arena") != std::string::npos);
}

TEST_CASE("several outputs, the same one twice, and one that later kernels read") {
  const Tensor x = Tensor::input("x", {2, 3});
  const Tensor s = x.sum(1, true);
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"sum", s}, {"again", s}, {"share", x / s}, {"x", x}}, on(device));
    const NamedTensors out = f({{"x", Tensor::from(counting_up(6), {2, 3})}});
    CHECK(out.at("sum").to_vector<float>() == std::vector<float>{6, 15});
    CHECK(out.at("again").to_vector<float>() == std::vector<float>{6, 15});
    CHECK(out.at("share").to_vector<float>()[5] == doctest::Approx(0.4));
    CHECK(out.at("x").to_vector<float>() == counting_up(6));
  }
}

TEST_CASE("run: the caller's memory, no copies; wrong names and null are refused") {
  const Tensor x = Tensor::input("x", {4}), y = Tensor::input("y", {4});
  const Executable f = compile({{"z", x * y}}, on("interp"));
  const std::vector<float> a = counting_up(4), b = counting_up(4, 2);
  std::vector<float> z(4);
  f.run({{"x", a.data()}, {"y", b.data()}}, {{"z", z.data()}});
  CHECK(z == std::vector<float>{2, 6, 12, 20});
  CHECK(kind_of([&] { f.run({{"x", a.data()}}, {{"z", z.data()}}); }, "\"y\" is missing") == ErrorKind::Name);
  CHECK(kind_of([&] { f.run({{"x", a.data()}, {"y", b.data()}, {"w", b.data()}}, {{"z", z.data()}}); },
                "\"w\"") == ErrorKind::Name);
  CHECK(kind_of([&] { f.run({{"x", a.data()}, {"xx", b.data()}, {"y", b.data()}}, {{"z", z.data()}}); },
                "\"xx\"") == ErrorKind::Name);
  CHECK(kind_of([&] { f.run({{"x", a.data()}, {"y", b.data()}}, {}); }, "\"z\"") == ErrorKind::Name);
  CHECK(kind_of([&] { f.run({{"x", a.data()}, {"y", nullptr}}, {{"z", z.data()}}); }, "null") ==
        ErrorKind::Value);
  CHECK(kind_of([&] { f.run({{"x", a.data()}, {"y", b.data()}}, {{"z", z.data()}}, {{"n", 3}}); }, "n") ==
        ErrorKind::Name);
}

TEST_CASE("sizes that are computed from variables tell what these are") {
  const Var n("n", 1, 9), m("m", 1, 9);
  const auto twice = [&](const Shape& shape) {
    return compile({{"y", Tensor::input("x", shape) * 2.f}}, on("interp"));
  };
  const auto shape_of = [](const Executable& f, const Shape& given) {
    return f({{"x", Tensor::ones(given)}}).at("y").shape();
  };
  CHECK(shape_of(twice({n * Expr(2) + 1}), {7}) == Shape{7});
  CHECK(shape_of(twice({Expr(n) - 1}), {0}) == Shape{0});
  CHECK(shape_of(twice({Expr(m) + n, n}), {6, 4}) == Shape{6, 4});
  CHECK(shape_of(twice({Expr(m) + n * Expr(2), n * Expr(3) - 1}), {9, 5}) == Shape{9, 5});
  CHECK(kind_of([&] { shape_of(twice({n * Expr(2) + 1}), {6}); }, "input \"x\": shape [6]") ==
        ErrorKind::Shape);
  CHECK(kind_of([&] { shape_of(twice({n * Expr(2) + 1}), {21}); }, "expected 1 to 9") == ErrorKind::Value);
  CHECK(kind_of([&] { shape_of(twice({Expr(m) + n}), {6}); }, "has no value") == ErrorKind::Name);
  Executable f = twice({n});
  const Executable g = std::move(f);
  CHECK(kind_of([&] { f({{"x", Tensor::ones({2})}}); }, "Executable: it was moved from") == ErrorKind::Value);
}

TEST_CASE("a call checks names, dtypes and shapes") {
  const Var n("n", 2, 8);
  const Tensor x = Tensor::input("x", {n, 2}), y = Tensor::input("y", {n * 2});
  const Executable f = compile({{"z", x.reshape({n * 2}) + y}}, on("interp"));
  const auto f32 = [](int64_t count, const Shape& shape) { return Tensor::from(counting_up(count), shape); };
  CHECK(f({{"x", f32(6, {3, 2})}, {"y", f32(6, {6})}}).at("z").to_vector<float>() ==
        std::vector<float>{2, 4, 6, 8, 10, 12});
  CHECK(kind_of([&] { f({{"x", f32(6, {3, 2})}}); }, "\"y\" is missing") == ErrorKind::Name);
  CHECK(kind_of([&] { f({{"x", f32(6, {3, 2})}, {"z", f32(6, {6})}}); }, "\"y\"") == ErrorKind::Name);
  CHECK(kind_of([&] { f({{"x", f32(6, {3, 2})}, {"y", f32(5, {5})}}); }, "input \"y\"") == ErrorKind::Shape);
  CHECK(kind_of([&] { f({{"x", f32(6, {6})}, {"y", f32(6, {6})}}); }, "input \"x\"") == ErrorKind::Shape);
  CHECK(kind_of([&] { f({{"x", f32(6, {2, 3})}, {"y", f32(4, {4})}}); }, "input \"x\"") == ErrorKind::Shape);
  CHECK(kind_of([&] { f({{"x", f32(2, {1, 2})}, {"y", f32(2, {2})}}); }, "out of bounds") ==
        ErrorKind::Value);
  CHECK(kind_of([&] { f({{"x", f32(18, {9, 2})}, {"y", f32(18, {18})}}); }, "expected 2 to 8") ==
        ErrorKind::Value);
  CHECK(kind_of([&] { f({{"x", f32(6, {3, 2}).cast(DType::I32)}, {"y", f32(6, {6})}}); }, "dtype i32") ==
        ErrorKind::DType);
  const Tensor w = Tensor::input("w", {n});
  const Executable g = compile({{"z", x.sum(1) + w}}, on("interp"));
  CHECK(kind_of([&] { g({{"x", f32(6, {3, 2})}, {"w", f32(4, {4})}}); }, "expected one value") ==
        ErrorKind::Shape);
  std::vector<float> memory(64);
  CHECK(kind_of([&] { g.run({{"x", memory.data()}, {"w", memory.data()}}, {{"z", memory.data()}}); },
                "n has no value") == ErrorKind::Name);
  CHECK(kind_of(
            [&] { g.run({{"x", memory.data()}, {"w", memory.data()}}, {{"z", memory.data()}}, {{"n", 9}}); },
            "expected 2 to 8") == ErrorKind::Value);
}

TEST_CASE("an input that simplification drops is still an input") {
  const Tensor x = Tensor::input("x", {4}), unused = Tensor::input("unused", {3});
  const Executable f = compile({{"y", x + 1}, {"n", (unused - unused).cast(DType::I32) * 0}}, on("interp"));
  CHECK(f.inputs().size() == 2);
  CHECK(f({{"x", Tensor::from(counting_up(4))}, {"unused", Tensor::from(counting_up(3))}})
            .at("n")
            .to_vector<int32_t>() == std::vector<int32_t>{0, 0, 0});
  CHECK(kind_of([&] { f({{"x", Tensor::from(counting_up(4))}}); }) == ErrorKind::Name);
}

TEST_CASE("one executable serves every size, on every device, in any order") {
  const Var n("n", 1, 64);
  const Tensor x = Tensor::input("x", {n, 8}), w = Tensor::input("w", {8, 5});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"p", x.matmul(w).softmax(-1)}}, on(device));
    for (const int rows : {1, 64, 7, 7, 33}) {
      const auto out = f({{"x", Tensor::randn({rows, 8}, 1)}, {"w", Tensor::randn({8, 5}, 2)}});
      CHECK(out.at("p").shape() == Shape{rows, 5});
      const std::vector<float> p = out.at("p").to_vector<float>();
      CHECK(std::accumulate(p.begin(), p.end(), 0.0) == doctest::Approx(rows));
    }
  }
}

TEST_CASE("a schedule is chosen for the typical sizes, and serves all") {
  const auto product = [](const Var& n) {
    return Tensor::input("x", {n, 64}).matmul(Tensor::input("w", {64, 64}));
  };
  const Var few("n", 1, 4096, 1), many("n", 1, 4096, 2048);
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const CompileOptions options{.device = device, .threads = 1, .use_database = false};
    const Executable for_few = compile({{"y", product(few).relu() + 1.0}}, options);
    const Executable for_many = compile({{"y", product(many).relu() + 1.0}}, options);
    CHECK(for_few.predicted_seconds() < for_many.predicted_seconds());
    for (const int64_t n : {1, 2, 7, 64, 65}) {
      const NamedTensors inputs{{"x", Tensor::randn({n, 64}, 1).realise()},
                                {"w", Tensor::randn({64, 64}, 2).realise()}};
      const auto a = for_few(inputs).at("y").to_vector<float>(),
                 b = for_many(inputs).at("y").to_vector<float>();
      REQUIRE(a.size() == b.size());
      for (size_t k = 0; k < a.size(); ++k) REQUIRE(std::abs(a[k] - b[k]) < 1e-4);
    }
  }
  const auto room = [&](const Var& n) {
    return unscheduled({{"y", product(n).softmax(-1)}}, {.device = "interp"}).naive_bytes();
  };
  CHECK(room(few) * 100 < room(many)); // by its bound, 4096 rows, both would have the same
}

TEST_CASE("realised tensors are bound without being inputs") {
  const Tensor w = Tensor::from(counting_up(4)), x = Tensor::input("x", {4});
  for (const std::string& device : present_devices()) {
    const Executable f = compile({{"y", x * w}}, on(device));
    CHECK(f.inputs().size() == 1);
    CHECK(f({{"x", Tensor::from(counting_up(4))}}).at("y").to_vector<float>() ==
          std::vector<float>{1, 4, 9, 16});
  }
}

TEST_CASE("a kernel launches on memory bound by name") {
  const Var n("n", 1, 100);
  const Tensor x = Tensor::input("x", {n});
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"y", x * 3}}, on(device));
    const Kernel k = f.kernels().at(0);
    REQUIRE(k.params().size() == 2);
    CHECK(!k.name().empty());
    CHECK(!k.source().empty());
    CHECK(k.ast().find("for") != std::string::npos);
    REQUIRE(k.shape_vars().size() == 1);
    const std::string in = k.params()[0].name, out = k.params()[1].name;
    const std::vector<float> from = counting_up(5);
    std::vector<float> to(5);
    const size_t bytes = 20;
    const void* data = from.data();
    k.launch(Query().bind(in, data, bytes).bind(out, to.data(), bytes).set("n", 5));
    CHECK(to == std::vector<float>{3, 6, 9, 12, 15});
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).set("n", 5)); }, "not bound") ==
          ErrorKind::Name);
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).bind(in, data, bytes).set("n", 5)); },
                  "twice") == ErrorKind::Name);
    CHECK(kind_of([&] { k.launch(Query().bind("no", data, bytes).set("n", 5)); }, "no parameter no") ==
          ErrorKind::Name);
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).bind(out, to.data(), bytes)); },
                  "n has no value") == ErrorKind::Name);
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).bind(out, to.data(), bytes).set("m", 5)); },
                  "m") == ErrorKind::Name);
    CHECK(kind_of(
              [&] {
                k.launch(Query().bind(in, data, bytes).bind(out, to.data(), bytes).set("n", 5).set("n", 5));
              },
              "twice") == ErrorKind::Name);
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).bind(out, to.data(), bytes).set("n", 500)); },
                  "expected 1 to 100") == ErrorKind::Value);
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).bind(out, to.data(), bytes).set("n", 4)); },
                  "20 bytes, expected 16") == ErrorKind::Value);
    CHECK(kind_of([&] { k.launch(Query().bind(in, data, bytes).bind(out, data, bytes).set("n", 5)); },
                  "const memory") == ErrorKind::Value);
    CHECK(kind_of(
              [&] {
                k.launch(
                    Query().bind(in, data, bytes).bind(out, static_cast<void*>(nullptr), bytes).set("n", 5));
              },
              "null") == ErrorKind::Value);
  }
}

TEST_CASE("options that make no sense are refused") {
  const Tensor y = Tensor::input("x", {4}) + 1;
  const auto with = [&](auto&& change) {
    CompileOptions options = on("interp");
    change(options);
    return kind_of([&] { compile({{"y", y}}, options); });
  };
  CHECK(with([](CompileOptions& o) { o.device = "tpu"; }) == ErrorKind::Device);
  CHECK(with([](CompileOptions& o) { o.threads = -1; }) == ErrorKind::Value);
  CHECK(with([](CompileOptions& o) { o.cpu = "z80"; }) == ErrorKind::Value);
  CHECK(with([](CompileOptions& o) { o.moves = {"jump(t0)"}; }) == ErrorKind::Syntax);
  CHECK(with([](CompileOptions& o) { o.moves = {"split(t9.i0, 4)"}; }) == ErrorKind::Schedule);
  TuneOptions tune;
  tune.beam = 0;
  CHECK(with([&](CompileOptions& o) { o.tune = tune; }) == ErrorKind::Value);
  tune = {};
  tune.budget_seconds = std::nan("");
  CHECK(with([&](CompileOptions& o) { o.tune = tune; }) == ErrorKind::Value);
  CHECK(kind_of([] { compile({}, {}); }) == ErrorKind::Value);
  CHECK(kind_of([&] { emit(y, {.target = "cobol"}); }, "cobol") == ErrorKind::Name);
  CHECK(kind_of([] { set_default_device("abacus"); }) == ErrorKind::Device);
}

TEST_CASE("the moves of an executable rebuild it") {
  const Tensor x = Tensor::input("x", {32, 48}), w = Tensor::input("w", {48, 16});
  const Tensor y = x.matmul(w).relu();
  const Executable f = compile({{"y", y}}, on("interp"));
  CompileOptions again = on("interp");
  again.moves = f.moves();
  REQUIRE(!again.moves.empty());
  const Executable g = compile({{"y", y}}, again);
  REQUIRE(f.kernel_count() == g.kernel_count());
  for (size_t k = 0; k < f.kernel_count(); ++k) CHECK(f.kernels()[k].ast() == g.kernels()[k].ast());
}

TEST_CASE("measuring: a right candidate is timed, a wrong one is found out") {
  const Tensor x = Tensor::input("x", {64}), y = Tensor::input("y", {64});
  auto program = std::make_shared<const lower::Program>(lower::lower({{"z", graph::node_of(x * y)}}));
  const search::Plan plan = search::initial_plan(program);
  const search::Measure measure = pipeline::make_measure(program, on("interp")).measure;
  const search::Measurement right = measure(plan.kernels[0], 10);
  CHECK_MESSAGE(right.ok, right.error);
  CHECK(right.seconds > 0);

  search::KernelPlan wrong = *plan.kernels[0];
  ast::Rewriter add_for_mul;
  add_for_mul.on_value = [](const ast::ValueRef& v) {
    return v->op == Op::Mul ? ast::make(Op::Add, v->dtype, v->sources) : v;
  };
  wrong.kernel.body = ast::rewrite(wrong.kernel.body, add_for_mul);
  const search::Measurement found = measure(std::make_shared<const search::KernelPlan>(wrong), 10);
  CHECK(!found.ok);
  CHECK(found.error.find("wrong result in t0") == 0);

  wrong.kernel.body.clear(); // writes nothing: the poison must show
  CHECK(!measure(std::make_shared<const search::KernelPlan>(wrong), 10).ok);
}

TEST_CASE("a tuned schedule is stored, and the next compile uses it without searching") {
  const test::CacheDir cache;
  const Tensor x = Tensor::input("x", {24, 40}), w = Tensor::input("w", {40, 8});
  const Tensor y = x.matmul(w).relu();
  CompileOptions options = on("interp");
  options.use_database = true;
  CHECK(!compile({{"y", y}}, options).tuned());
  int reports = 0;
  TuneOptions tune;
  tune.budget_seconds = 0.5 * kPatience;
  TuneProgress last;
  tune.progress = [&](const TuneProgress& p) {
    reports += p.budget_seconds == tune.budget_seconds;
    last = p;
  };
  const Executable tuned = lathe::tune({{"y", y}}, tune, options);
  CHECK(tuned.tuned());
  CHECK(reports > 0);
  CHECK((last.untuned_seconds > 0) == (last.tuned_seconds > 0)); // none if nothing else was found
  CHECK(last.tuned_seconds <= last.untuned_seconds);
  const Executable again = compile({{"y", y}}, options);
  CHECK(again.tuned());
  CHECK(again.moves() == tuned.moves());
  options.use_database = false;
  CHECK(!compile({{"y", y}}, options).tuned());
}

TEST_CASE("emit: one text per target") {
  const Tensor x = Tensor::input("x", {4, 4}), w = Tensor::from(counting_up(4));
  const Tensor y = (x * w).sum(1);
  const auto text = [&](const char* target) { return emit(y, {.target = target, .compile = on("interp")}); };
  CHECK(text("c").find("void lathe_program(const float* x, float* out)") != std::string::npos);
  CHECK(text("ast").find("for ") != std::string::npos);
  CHECK(text("graph").find("Reduce") != std::string::npos);
  CHECK(text("dot").find("digraph") != std::string::npos);
  // Several kernels in one file share one copy of the helpers that they use.
  const std::string opencl = emit({{"y", y.contiguous().sort()}, {"z", y.cast(DType::F64).exp()}},
                                  {.target = "opencl", .compile = on("interp")});
  const auto times = [&](std::string_view what) {
    size_t n = 0;
    for (size_t at = 0; (at = opencl.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  CHECK(times("__kernel") > 1);
  CHECK(times("typedef char int8_t;") == 1);
  CHECK(times("#pragma OPENCL EXTENSION cl_khr_fp64") == 1);
  CHECK(times("lathe_floordiv") == 0);
  text("moves");
  if (has_device("cpu")) {
    CHECK(text("llvm").find("define") != std::string::npos);
    CHECK(!text("asm").empty());
  }
}

TEST_CASE("emitted C compiles alone and computes the same") {
  if (!has_device("c")) return;
  const Var n("n", 1, 16);
  const Tensor x = Tensor::input("x", {n, 4}), w = Tensor::from(counting_up(12, -3), {4, 3}),
               m = Tensor::from(std::vector<int64_t>{1, -2, 3});
  const Tensor y = x.matmul(w).contiguous(), s = (y.softmax(-1) * 100).cast(DType::I64) + m;
  const std::string source = emit({{"y", y}, {"s", s}, {"y2", y}}, {.target = "c", .compile = on("c")});
  const test::TemporaryDir folder;
  const std::string dir = folder.path.string();
  std::ofstream(dir + "/p.c") << source;
  std::ofstream(dir + "/main.c") << R"(#include <stdint.h>
#include <stdio.h>
void lathe_program(const float* x, int64_t* s, float* y, float* y2, int64_t n);
int main(void) {
  float x[20], y[15], y2[15]; int64_t s[15];
  for (int i = 0; i < 20; ++i) x[i] = (float)(i % 7) - 3;
  lathe_program(x, s, y, y2, 5);
  for (int i = 0; i < 15; ++i) printf("%g %g %lld\n", y[i], y2[i], (long long)s[i]);
  return 0;
})";
  REQUIRE(
      std::system(("cd " + dir + " && cc -std=c11 -O2 -Wall -Werror p.c main.c -lm -o p 2> log && ./p > out")
                      .c_str()) == 0);
  std::ifstream out(dir + "/out");
  std::vector<float> input(20);
  for (int i = 0; i < 20; ++i) input[static_cast<size_t>(i)] = static_cast<float>(i % 7) - 3;
  const auto expected = compile({{"y", y}, {"s", s}}, on("interp"))({{"x", Tensor::from(input, {5, 4})}});
  const auto ey = expected.at("y").to_vector<float>();
  const auto es = expected.at("s").to_vector<int64_t>();
  for (size_t k = 0; k < 15; ++k) {
    float a = 0, b = 0;
    long long c = 0;
    out >> a >> b >> c;
    CHECK(a == doctest::Approx(ey[k]));
    CHECK(a == b);
    CHECK(c == es[k]);
  }
}

TEST_CASE("the default device can be chosen, and tensors realise on it") {
  const std::string before = default_device();
  set_default_device("interp");
  CHECK(default_device() == "interp");
  const Tensor a = Tensor::from({-1.f, 4.f});
  CHECK(((a + a) * a).relu().to_vector<float>() == std::vector<float>{2, 32});
  set_default_device(before);
  CHECK((a * 3).sum().item<float>() == 9);
}

TEST_CASE("constants that meet in registers") { // LLVM 19 made wrong code of this plan for AVX2
  CompileOptions options;
  options.device = default_device();
  options.moves = {"fuse_at(t2, t3.i0, register)",
                   "fuse_at(t1, t3.i0, register)",
                   "fuse_at(t0, t3.i0, register)",
                   "split(t0.i1, 4)",
                   "vectorise(t0.i1.i)",
                   "split(t1.i1, 4)",
                   "vectorise(t1.i1.i)",
                   "vectorise(t2.i1)",
                   "vectorise(t3.i1)",
                   "unroll(t0.i1.o)",
                   "unroll(t1.i1.o)",
                   "unroll(t3.i0)"};
  const Tensor lower = Tensor::tri(2, 10, -1, DType::I8);
  std::vector<int8_t> want(20, 0);
  want[10] = 1;
  CHECK(compile({{"y", lower}}, options)({}).at("y").to_vector<int8_t>() == want);
}

TEST_CASE("a plan found by the model is remembered on disk, and a damaged one forgotten") {
  const std::vector<search::Move> moves{search::parse_move("split(t3.i0, 6)"),
                                        search::parse_move("unroll(t3.i0.i)")};
  const std::vector<search::TriedFusion> fusions{
      {{3, 4}, {1}, {search::parse_move("fuse_at(t1, t4.i0, packed)")}, true, "", 1.5e-6, 2.25e-6, true},
      {{4},
       {2, 3},
       {search::parse_move("inline(t2)"), search::parse_move("inline(t3)")},
       false,
       "inline(t2): no,\tnot\nhere",
       0,
       0,
       false,
       true}};
  const auto found = [](const auto& moves, const auto& fusions) {
    return pipeline::FoundBySearch{moves, std::make_shared<const std::vector<search::TriedFusion>>(fusions)};
  };
  pipeline::remember_search("plan of this test", found(moves, fusions));
  for (int k = 0; k < 1100; ++k) // out of memory
    pipeline::remember_search("another " + std::to_string(k),
                              found(std::vector<search::Move>{}, std::vector<search::TriedFusion>{}));
  const auto known = pipeline::remembered_search("plan of this test");
  REQUIRE(known);
  CHECK(known->moves == moves);
  std::vector<search::TriedFusion> want = fusions;
  want[1].reason = "inline(t2): no, not here"; // a fusion is a line, and its fields end at tabs
  CHECK(*known->fusions == want);
  runtime::ObjectCache("plans", ".moves").keep("a plan of nonsense", "split(t3.i0\n");
  CHECK_FALSE(pipeline::remembered_search("a plan of nonsense"));
  runtime::ObjectCache("plans", ".moves").keep("a fusion of nonsense", "fusion\t1,2\t3\tlegal\n");
  CHECK_FALSE(pipeline::remembered_search("a fusion of nonsense"));
}
