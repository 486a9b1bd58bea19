// Sums over blocks of floats times small integers as sums of products of bytes: which sums are read, their
// values beside sums in f64, the move that unpacks an operand, and when the search takes them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compile/run/assemble.hpp"
#include "graph/forms/three_bytes.hpp"
#include "lathe/block_formats.hpp"
#include "search/beam/form_search.hpp"
#include "support/devices.hpp"
#include "support/moves.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using FoldedRef = std::shared_ptr<const lower::Program>;

FoldedRef with_folded_constants(const Tensor& y) { return pipeline::lowered({{"y", y}}); }

/// The stages that can be computed by bytes.
std::vector<std::string> sums_of(const lower::Program& program) {
  std::vector<std::string> names;
  for (const lower::Stage& stage : program.stages)
    if (graph::read_block_of_bytes(stage.node)) names.push_back(stage.buffer->name);
  return names;
}
bool is_read(const Tensor& y) { return !sums_of(*with_folded_constants(y)).empty(); }

std::vector<uint8_t> random_bytes(int64_t count) {
  std::mt19937 random(5);
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  return bytes;
}

/// Sums over `terms` numbers of 4 bits, two to a byte, of so many columns.
struct Sums {
  int64_t vectors, blocks, terms, columns;
  std::vector<uint8_t> bytes; // [columns, blocks, terms / 2]

  Sums(int64_t vectors, int64_t blocks, int64_t terms, int64_t columns)
      : vectors(vectors), blocks(blocks), terms(terms), columns(columns),
        bytes(random_bytes(columns * blocks * terms / 2)) {}

  int number(int64_t column, int64_t block, int64_t k) const {
    const int64_t half = terms / 2;
    const uint8_t byte = bytes[static_cast<size_t>((column * blocks + block) * half + k % half)];
    return k < half ? byte & 15 : byte >> 4;
  }
  size_t x_count() const { return static_cast<size_t>(vectors * blocks * terms); }
  size_t y_count() const { return static_cast<size_t>(vectors * blocks * columns); }

  Tensor result() const { // [vectors, blocks, columns]
    const Tensor stored =
        Tensor::from_memory(bytes.data(), bytes.size(), DType::U8, {1, columns, blocks, 1, terms / 2});
    const Tensor shift = Tensor::iota({2, 1}, 0, DType::I32) * 4;
    const Tensor numbers = ((stored.cast(DType::I32) >> shift) & 15).cast(DType::F32);
    const Tensor x = Tensor::input("x", {vectors, 1, blocks, 2, terms / 2});
    return (x * numbers).sum({3, 4}).permute({0, 2, 1});
  }
  FoldedRef program() const { return with_folded_constants(result()); }
};

/// Compares with sums in f64. The bound is that of three_bytes.hpp, and the roundings of five operations.
void check(const Sums& s, const std::vector<float>& x, const std::vector<float>& y) {
  for (int64_t v = 0; v < s.vectors; ++v)
    for (int64_t b = 0; b < s.blocks; ++b)
      for (int64_t n = 0; n < s.columns; ++n) {
        const float got = y[static_cast<size_t>((v * s.blocks + b) * s.columns + n)];
        double sum = 0, largest = 0, integers = 0, magnitude = 0;
        bool is_finite = true;
        for (int64_t k = 0; k < s.terms; ++k) {
          const float value = x[static_cast<size_t>((v * s.blocks + b) * s.terms + k)];
          const int q = s.number(n, b, k);
          is_finite &= std::isfinite(value);
          sum += static_cast<double>(value) * q;
          magnitude += std::fabs(static_cast<double>(value)) * q;
          largest = std::max(largest, std::fabs(static_cast<double>(value)));
          integers += q;
        }
        CAPTURE(v);
        CAPTURE(b);
        CAPTURE(n);
        if (!is_finite) {
          CHECK(std::isnan(got));
          continue;
        }
        const double bound = 0x1p-23 * largest * integers + 5 * 0x1p-24 * magnitude + 0x1p-123 * integers;
        CHECK(std::fabs(got - sum) <= bound);
      }
}

Executable by_bytes(const Sums& s, const std::string& device) {
  const std::vector<std::string> names = sums_of(*s.program());
  REQUIRE(names.size() == 1);
  CompileOptions options = on(device);
  options.moves = {"three_bytes(" + names[0] + ")"};
  return compile({{"y", s.result()}}, options);
}

std::vector<float> run(const Executable& f, const Sums& s, const std::vector<float>& x) {
  std::vector<float> y(s.y_count(), std::numeric_limits<float>::quiet_NaN());
  f.run({{"x", x.data()}}, {{"y", y.data()}});
  return y;
}

} // namespace

TEST_CASE("which sums are read") {
  CHECK(is_read(Sums(1, 3, 32, 64).result()));
  CHECK(!is_read(Sums(1, 3, 32, 63).result())); // too few uses of x
  CHECK(is_read(Sums(2, 1, 256, 64).result()));
  CHECK(!is_read(Sums(1, 2, 264, 64).result()));
  CHECK(!is_read(Sums(1, 2, 12, 64).result())); // 6 numbers of either half

  const std::vector<uint8_t> data = random_bytes(64 * 4 * 16);
  const Tensor bytes = Tensor::from_memory(data.data(), data.size(), DType::U8, {64, 4, 16});
  const auto sum_with = [](const Tensor& integers, DType dtype = DType::F32) {
    const Tensor x = Tensor::input("x", {1, 4, 16}, dtype);
    return (x * integers.cast(dtype)).sum({2});
  };
  CHECK(is_read(sum_with(bytes)));
  CHECK(!is_read(sum_with(bytes, DType::F64)));
  CHECK(!is_read(sum_with(bytes.bitcast(DType::I8))));
  CHECK(!is_read(sum_with(bytes.cast(DType::I32) + 1))); // up to 256
  const Tensor wide = bytes.cast(DType::I32);
  CHECK(is_read(sum_with((wide & 15) | ((wide >> 6) << 4))));
  CHECK(is_read(sum_with((wide & 3) * 5 + 7)));
  CHECK(!is_read(sum_with((wide << 1) >> 1))); // the sum has bits beyond a byte
  CHECK(is_read(sum_with(((wide << 1) & 255) >> 1)));
  CHECK(!is_read((Tensor::input("x", {64, 4, 16}) * bytes.cast(DType::F32)).sum({2}))); // x is not shared
  CHECK(!is_read((Tensor::input("x", {1, 4, 16}) * bytes.cast(DType::F32)).max({2})));
}

TEST_CASE("values beside sums in f64, on each device") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const Sums& s : {Sums(1, 3, 32, 67), Sums(3, 2, 8, 64), Sums(2, 1, 256, 70), Sums(1, 40, 16, 65)}) {
    CAPTURE(s.terms);
    std::vector<float> x(s.x_count());
    for (float& v : x) v = std::ldexp(normal(random), static_cast<int>(random() % 24) - 12);
    for (const std::string& device : present_devices()) {
      CAPTURE(device);
      check(s, x, run(by_bytes(s, device), s, x));
    }
  }
}

TEST_CASE("blocks of one number, of zeros, of the largest and of the smallest numbers") {
  const Sums s(14, 1, 32, 64);
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const float all[] = {0.f,       1.f,       -1.f,        0x1.fffffep0f, -0x1.fffffep-70f,
                       1e-35f,    least,     most / 1024, -3.f,          8355583.f,
                       8355584.f, 8355585.f, -8355711.f,  8355712.f}; // about where the scale doubles
  std::vector<float> x;
  for (const float value : all)
    for (int k = 0; k < 32; ++k) x.push_back(k % 5 == 4 ? value / 3 : value);
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const std::vector<float> y = run(by_bytes(s, device), s, x);
    check(s, x, y);
    for (int n = 0; n < 64; ++n) CHECK(y[static_cast<size_t>(n)] == 0);
  }
}

TEST_CASE("sums of whole numbers are exact") {
  const Sums s(3, 2, 32, 64);
  std::mt19937 random(13);
  std::vector<float> x(s.x_count());
  for (size_t k = 0; k < x.size(); ++k) { // up to 7, 15 and 15 bits with a sign, and as many after the point
    const int bits = k / 64 == 0 ? 7 : 15;
    x[k] = std::ldexp(static_cast<float>(static_cast<int>(random() % (2u << bits)) - (1 << bits)),
                      k / 64 == 2 ? -20 : 0);
  }
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const std::vector<float> y = run(by_bytes(s, device), s, x);
    for (int64_t v = 0; v < s.vectors; ++v)
      for (int64_t b = 0; b < s.blocks; ++b)
        for (int64_t n = 0; n < s.columns; ++n) {
          float sum = 0;
          for (int64_t k = 0; k < s.terms; ++k)
            sum += x[static_cast<size_t>((v * s.blocks + b) * s.terms + k)] *
                   static_cast<float>(s.number(n, b, k));
          CHECK(y[static_cast<size_t>((v * s.blocks + b) * s.columns + n)] == sum);
        }
  }
}

TEST_CASE("an infinity and a NaN make the sums of their block NaN, and no others") {
  const Sums s(4, 2, 32, 64);
  std::vector<float> x(s.x_count(), 1.5f);
  x[3] = kInfinity;
  x[2 * 32 + 7] = -kInfinity;
  x[4 * 32 + 31] = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    check(s, x, run(by_bytes(s, device), s, x));
  }
}

namespace {

using namespace lathe::search;

Target with_dot_products() {
  Target target = test::target();
  target.instructions = {Instruction::DotI8U8};
  return target;
}

/// A product of vectors with a matrix in blocks of the format.
Tensor product(BlockFormat format, int64_t vectors, int64_t columns, int64_t terms) {
  const int64_t row = terms / block_elements(format) * block_bytes(format);
  std::vector<uint8_t> bytes = random_bytes(columns * row);
  for (size_t k = 0; k < bytes.size(); k += static_cast<size_t>(block_bytes(format)))
    for (const size_t half : {size_t{1}, size_t{3}, size_t{209}}) // the scales are finite
      if (half < static_cast<size_t>(block_bytes(format))) bytes[k + half] = (bytes[k + half] & 0x83) | 0x30;
  const Tensor matrix = Tensor::from_memory(bytes.data(), bytes.size(), DType::U8, {columns, row});
  return Tensor::input("x", {vectors, terms}).matmul(dequantise(matrix, format).transpose());
}

Plan found(const FoldedRef& program, const Target& target) {
  CostModel model(target, test::machine());
  return search_forms(initial_plan(program), model, {}, {}, {}).plan;
}
bool has(const Plan& plan, MoveKind kind) {
  const std::vector<Move> moves = plan.moves();
  return std::any_of(moves.begin(), moves.end(), [&](const Move& m) { return m.kind == kind; });
}

/// What the plan makes of x on the device, or in the interpreter of loops if it is null.
std::vector<float> run(const Plan& plan, const std::vector<float>& x, runtime::Device* device,
                       const ast::VectorForms* forms = nullptr) {
  test::Memory memory = test::random_inputs(*plan.program, 1);
  auto& bytes = memory.at("x");
  REQUIRE(bytes.size() == x.size() * sizeof(float));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  test::run_plan(plan, memory, device, nullptr, forms);
  const auto& made = memory.at(plan.program->stages[plan.program->outputs[0].stage].buffer->name);
  std::vector<float> y(made.size() / sizeof(float));
  std::memcpy(y.data(), made.data(), made.size());
  return y;
}

void check_near(const std::vector<float>& got, const std::vector<float>& want) {
  REQUIRE(got.size() == want.size());
  float largest = 0;
  for (const float v : want) largest = std::max(largest, std::fabs(v));
  for (size_t k = 0; k < got.size(); ++k) CHECK(std::fabs(got[k] - want[k]) <= 4e-6f * largest);
}

runtime::Device* cpu_with_dot_products() {
  runtime::Device& cpu = runtime::device("cpu");
  const Instructions present = cpu.instructions("native");
  return std::count(present.begin(), present.end(), Instruction::DotI8U8) > 0 ? &cpu : nullptr;
}

} // namespace

TEST_CASE("the search computes a vector times unpacked blocks by an instruction, where there is one") {
  for (const BlockFormat format :
       {BlockFormat::Q4_0, BlockFormat::Q4_1, BlockFormat::Q4_K, BlockFormat::Q5_K, BlockFormat::Q6_K})
    for (const int64_t vectors : {1, 2}) {
      if (format == BlockFormat::Q5_K && vectors == 2) continue; // floats are faster, says the model
      INFO(std::string(to_string(format)), ", vectors: ", vectors);
      const FoldedRef program = with_folded_constants(product(format, vectors, 512, 1024));
      CHECK(!has(found(program, test::target()), MoveKind::ThreeBytes));
      const Plan plan = found(program, with_dot_products());
      REQUIRE(has(plan, MoveKind::ThreeBytes));
      CHECK(has(plan, MoveKind::Unpack));
      CHECK(has(plan, MoveKind::Tensorise));

      std::mt19937 random(7);
      std::normal_distribution<float> normal;
      std::vector<float> x(static_cast<size_t>(vectors * 1024));
      for (float& v : x) v = normal(random);
      const std::vector<float> want = run(initial_plan(program), x, nullptr);
      ast::VectorForms forms;
      forms.instructions.push_back(Instruction::DotI8U8);
      check_near(run(plan, x, nullptr), want);
      check_near(run(plan, x, &runtime::device("interp"), &forms), want);
      if (runtime::Device* cpu = cpu_with_dot_products()) check_near(run(plan, x, cpu), want);
    }
}

TEST_CASE("of several products those that pay are computed by bytes") {
  const Tensor first = product(BlockFormat::Q4_0, 1, 512, 1024);
  const Tensor bytes = Tensor::from(random_bytes(512 * 288), {512, 288});
  const Tensor second = first.relu().matmul(dequantise(bytes, BlockFormat::Q4_K).transpose());
  const Tensor plain = second.matmul(Tensor::input("w", {512, 64}));
  const Plan plan = found(with_folded_constants(plain), with_dot_products());
  const std::vector<Move> moves = plan.moves();
  REQUIRE(moves[0].kind == MoveKind::ThreeBytes);
  CHECK(moves[0].arguments.size() == 2);
  CHECK(to_string(parse_move("three_bytes(t3, t9)")) == "three_bytes(t3, t9)");
}

TEST_CASE("unpack copies what a product multiplies by") {
  const Tensor bytes = Tensor::from(random_bytes(64 * 32), {64, 32});
  const Tensor numbers = (bytes.bitcast(DType::U8) & Tensor::full({}, uint8_t{15})).cast(DType::I32);
  const Tensor y = Tensor::input("a", {4, 32}, DType::I8).cast(DType::I32).matmul(numbers.transpose());
  Plan plain = initial_plan(test::lowered(y));
  for (const auto& stage : plain.program->stages)
    if (!stage.is_reduction) {
      Applied applied = apply(plain, {{MoveKind::Inline, {StageHandle(stage.id)}}}, with_dot_products());
      if (applied.plan) plain = std::move(*applied.plan);
    }
  REQUIRE(plain.kernels.size() == 1);
  const ast::Kernel& kernel = plain.kernels[0]->kernel;
  const std::string t = kernel.params.back().buffer->name, w = kernel.params[1].buffer->name;
  const auto applied = [&](const std::vector<std::string>& texts) {
    std::vector<Move> moves;
    for (const std::string& text : texts) moves.push_back(parse_move(text));
    return apply(plain, moves, with_dot_products());
  };
  const auto refused = [&](const std::vector<std::string>& texts, const char* why) {
    INFO(applied(texts).reason);
    CHECK(applied(texts).reason.find(why) != std::string::npos);
  };
  const std::string at = t + ".i0";
  refused({"unpack(" + t + ", a, " + at + ", register)"}, "a is multiplied as it is");
  refused({"unpack(" + t + ", q, " + at + ", register)"}, "multiplies by nothing that is computed from q");
  refused({"unpack(" + t + ", " + w + ", " + t + ".i7, register)"}, "there is no loop");
  refused({"unpack(" + t + ", " + w + ", " + t + ".r2, register)"}, "does not move along any loop");

  test::Memory memory = test::random_inputs(*plain.program, 3), want = memory;
  test::run_plan(plain, want, nullptr);
  const std::string row = t + ".i1", k = t + ".r2";
  for (const char* scope : {"packed", "register"}) {
    const Applied made = applied(
        {"split(" + row + ", 16)", "split(" + k + ", 4)",
         "reorder(" + at + ", " + row + ".o, " + k + ".o, " + row + ".i, " + k + ".i)",
         "accumulate(" + t + ", " + k + ".o)", "unpack(" + t + ".a0, " + w + ", " + k + ".o, " + scope + ")",
         "tensorise(" + t + ".a0, " + row + ".i, " + k + ".i)",
         "tensorise(" + t + ".a0.p1, " + t + ".a0.p1.c0, " + t + ".a0.p1.c1)"});
    REQUIRE_MESSAGE(made.plan, made.reason);
    ast::verify(made.plan->kernels[0]->kernel);
    test::Memory got = memory;
    test::run_plan(*made.plan, got, nullptr);
    CHECK(test::exact_difference(*plain.program, got, want) == "");
    ast::VectorForms forms;
    forms.instructions.push_back(Instruction::DotI8U8);
    for (runtime::Device* device : {&runtime::device("interp"), cpu_with_dot_products()}) {
      if (!device) continue;
      test::Memory ran = memory;
      test::run_plan(*made.plan, ran, device, nullptr, device->name() == "interp" ? &forms : nullptr);
      CHECK(test::exact_difference(*plain.program, ran, want) == "");
    }
  }
}
