// Code for a lesser CPU than this one: its registers and instructions only, and the right results.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "lathe/lathe.hpp"

using namespace lathe;

namespace {

struct Subject {
  const char* name;
  Tensor y;
};
std::vector<Subject> subjects() {
  const Tensor a = Tensor::input("a", {37, 64}), b = Tensor::input("b", {64, 50});
  return {{"product", a.matmul(b)},
          {"softmax", a.softmax(1)},
          {"elementwise", ((a + 1.0f) * a).relu().tanh()},
          {"sums", a.sum(0)},
          {"transpose", a.transpose().contiguous()}};
}

std::string assembly(const Tensor& y, const std::string& cpu) {
  EmitOptions options;
  options.target = "asm";
  options.compile.cpu = cpu;
  options.compile.threads = 1;
  options.compile.use_database = false;
  return emit(y, options);
}

bool mentions(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

} // namespace

#if defined(__x86_64__)
TEST_CASE("code for a CPU uses the registers that it has, the widest of them too") {
  for (const Subject& s : subjects()) {
    CAPTURE(s.name);
    const std::string v2 = assembly(s.y, "x86-64-v2"), v3 = assembly(s.y, "x86-64-v3"),
                      v4 = assembly(s.y, "x86-64-v4");
    CHECK(mentions(v2, "%xmm"));
    CHECK(!mentions(v2, "%ymm"));
    CHECK(!mentions(v2, "%zmm"));
    CHECK(!mentions(v2, "vfmadd"));
    CHECK(mentions(v3, "%ymm"));
    CHECK(!mentions(v3, "%zmm"));
    CHECK(!mentions(v3, "%k1"));
    CHECK(!mentions(v3, "%xmm16"));
    CHECK(mentions(v4, "%zmm"));
  }
  CHECK(mentions(assembly(subjects()[0].y, "x86-64-v3"), "vfmadd"));
}

TEST_CASE("bytes are looked up by shuffles of the table's parts, as many at a time as a register holds") {
  const Tensor table = Tensor::input("table", {256}, DType::U8), x = Tensor::input("x", {4096}, DType::U8);
  const Tensor y = table.take(x.cast(DType::I32));
  CHECK(!mentions(assembly(y, "x86-64"), "pshufb"));
  CHECK(mentions(assembly(y, "x86-64-v3"), "vpshufb\t%ymm"));
  CHECK(mentions(assembly(y, "x86-64-v4"), "vpshufb\t%zmm"));
}

TEST_CASE("a product with a power of two is one instruction where there is one, with the same bits") {
  constexpr int64_t kCount = 40000;
  std::vector<float> x(kCount), first;
  // From where e^x is 0, by all that is subnormal, to where it is infinite.
  for (int64_t i = 0; i < kCount; ++i)
    x[static_cast<size_t>(i)] = -106 + 196 * static_cast<float>(i) / static_cast<float>(kCount - 1);
  x[0] = -INFINITY;
  x[1] = NAN;
  x[kCount - 1] = INFINITY;
  const Tensor in = Tensor::input("x", {Expr(kCount)});
  // Both functions end with such a product; a sum may follow, or many.
  const NamedTensors outputs{
      {"e", in.exp()}, {"two", in.exp2()}, {"plus", in.exp() + 1.0f}, {"less", 1.0f - in.exp()}};
  for (const auto& [name, y] : outputs) {
    CAPTURE(name);
    CHECK(mentions(assembly(y, "x86-64-v4"), "vscalefps"));
    CHECK(!mentions(assembly(y, "x86-64-v3"), "vscalef"));
  }
  CHECK(mentions(assembly(in.reshape({4, kCount / 4}).exp().sum(0), "x86-64-v4"), "vscalefps"));
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    CAPTURE(cpu);
    CompileOptions options;
    options.cpu = cpu;
    options.threads = 1;
    options.use_database = false;
    std::vector<float> got(4 * kCount, NAN);
    try {
      const Executable program = compile(outputs, options);
      program.run({{"x", x.data()}}, {{"e", got.data()},
                                      {"two", got.data() + kCount},
                                      {"plus", got.data() + 2 * kCount},
                                      {"less", got.data() + 3 * kCount}});
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Device); // this machine can't run it
      continue;
    }
    if (first.empty()) first = got;
    int different = 0;
    for (size_t i = 0; i < got.size(); ++i)
      different += got[i] != first[i] && !(std::isnan(got[i]) && std::isnan(first[i]));
    CHECK(different == 0);
    CHECK(got[0] == 0);
    CHECK(std::isnan(got[1]));
    CHECK(got[kCount - 1] == INFINITY);
    CHECK(std::count_if(got.begin(), got.begin() + kCount,
                        [](float y) { return std::fpclassify(y) == FP_SUBNORMAL; }) > 1000);
  }
}

TEST_CASE("codes of four bits are looked up where a mask would be needed") {
  constexpr int64_t kCount = 1000;
  std::vector<int32_t> codes(kCount);
  for (int64_t i = 0; i < kCount; ++i) codes[static_cast<size_t>(i)] = static_cast<int32_t>(i * 0x9E3779B1u);
  const Tensor in = Tensor::input("x", {Expr(kCount)}, DType::I32);
  const Tensor low = (in & 15).cast(DType::F32), upper = ((in >> Tensor::full({}, int32_t{28})) & 15).cast(DType::F32);
  CHECK(mentions(assembly(low, "x86-64-v4"), "vperm"));
  CHECK(!mentions(assembly(low, "x86-64-v3"), "vperm"));
  for (const char* cpu : {"native", "x86-64-v3", "x86-64-v4"}) {
    CAPTURE(cpu);
    std::vector<float> got_low(kCount, NAN), got_upper(kCount, NAN);
    try {
      CompileOptions options;
      options.cpu = cpu;
      options.threads = 1;
      options.use_database = false;
      const Executable program = compile({{"low", low}, {"upper", upper}}, options);
      program.run({{"x", codes.data()}}, {{"low", got_low.data()}, {"upper", got_upper.data()}});
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Device); // this machine can't run it
      continue;
    }
    int wrong = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      const auto bits = static_cast<uint32_t>(codes[i]);
      wrong += got_low[i] != static_cast<float>(bits & 15) || got_upper[i] != static_cast<float>(bits >> 28);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("results are the same on every CPU that this one can stand in for") {
  std::vector<float> a(37 * 64), b(64 * 50);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(std::cos(static_cast<double>(i) * 0.3));
  for (const Subject& s : subjects()) {
    CAPTURE(s.name);
    std::vector<float> first;
    for (const char* cpu : {"native", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
      CAPTURE(cpu);
      CompileOptions options;
      options.cpu = cpu;
      options.threads = 2;
      options.use_database = false;
      std::vector<float> got;
      try {
        const Executable program = compile({{"y", s.y}}, options);
        size_t elements = 1;
        const Shape shape = program.outputs()[0].shape;
        for (Expr e : shape) elements *= static_cast<size_t>(e.value());
        got.assign(elements, NAN);
        std::map<std::string, const void*> inputs;
        for (const KernelParam& p : program.inputs()) inputs[p.name] = p.name == "a" ? a.data() : b.data();
        program.run(inputs, {{"y", got.data()}});
      } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::Device); // this machine can't run it
        continue;
      }
      if (first.empty()) first = got;
      REQUIRE(got.size() == first.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(first[i]).epsilon(1e-4));
    }
  }
}
#endif

TEST_CASE("an unknown CPU is an error that lists the known ones") {
  CHECK_THROWS_WITH_AS(assembly(subjects()[0].y, "pentium"),
                       doctest::Contains("expected native, x86-64, x86-64-v2, x86-64-v3 or x86-64-v4"),
                       Error);
}
