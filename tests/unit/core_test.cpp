// The op table, dtypes and scalars, interning, storage and the rule engine.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "core/hash.hpp"
#include "core/intern.hpp"
#include "core/op.hpp"
#include "core/pointer_map.hpp"
#include "core/rules.hpp"
#include "core/storage.hpp"
#include "lathe/error.hpp"

using namespace lathe;

namespace {

constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::I16, DType::I32,  DType::I64, DType::U8, DType::U16,
                          DType::U32,  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};
const double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Scalar run(Op op, DType dtype, std::initializer_list<Scalar> args) {
  return evaluate(op, dtype, std::span(args.begin(), args.size()));
}
int64_t ints(Op op, DType dtype, int64_t a, int64_t b) {
  return run(op, result_dtype(op, dtype), {Scalar::of_int(dtype, a), Scalar::of_int(dtype, b)}).as_int();
}
double floats(Op op, DType dtype, double a, double b) {
  return run(op, result_dtype(op, dtype), {Scalar::of_float(dtype, a), Scalar::of_float(dtype, b)})
      .as_float();
}

} // namespace

TEST_CASE("the op table is complete and small") {
  CHECK(op_count() <= 38);
  for (int i = 0; i < op_count(); i++) {
    const Op op = static_cast<Op>(i);
    CAPTURE(to_string(op));
    CHECK(parse_op(to_string(op)) == op);
    CHECK(!info(op).meaning.empty());
  }
  CHECK_THROWS_AS(parse_op("Nope"), Error);
  CHECK(is_elementwise(Op::Where));
  CHECK(is_elementwise(Op::Fma));
  CHECK_FALSE(is_elementwise(Op::Reduce));
}

TEST_CASE("dtype names, promotion") {
  for (DType d : kAll) CHECK(parse_dtype(to_string(d)) == d);
  CHECK_THROWS_AS(parse_dtype("f8"), Error);
  for (DType a : kAll)
    for (DType b : kAll) {
      CHECK(promote(a, b) == promote(b, a));
      CHECK(promote(a, promote(a, b)) == promote(a, b));
    }
  CHECK(promote(DType::Bool, DType::U8) == DType::U8);
  CHECK(promote(DType::I8, DType::U8) == DType::I16);
  CHECK(promote(DType::I32, DType::U32) == DType::I64);
  CHECK(promote(DType::U64, DType::I8) == DType::F64);
  CHECK(promote(DType::U8, DType::I64) == DType::I64);
  CHECK(promote(DType::I8, DType::F16) == DType::F16);
  CHECK(promote(DType::I16, DType::BF16) == DType::F32);
  CHECK(promote(DType::I32, DType::F32) == DType::F64);
  CHECK(promote(DType::U16, DType::F32) == DType::F32);
  CHECK(promote(DType::I64, DType::F16) == DType::F64);
  CHECK(promote(DType::F16, DType::BF16) == DType::F32);
}

TEST_CASE("every half precision value survives; rounding is to nearest even") {
  int same = 0;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    const auto h = static_cast<uint16_t>(bits);
    if (!std::isnan(f16_to_f32(h)))
      same += f32_to_f16(f16_to_f32(h)) == h;
    else
      same += std::isnan(f16_to_f32(f32_to_f16(f16_to_f32(h))));
    if (!std::isnan(bf16_to_f32(h)))
      same += f32_to_bf16(bf16_to_f32(h)) == h;
    else
      same += std::isnan(bf16_to_f32(f32_to_bf16(bf16_to_f32(h))));
  }
  CHECK(same == 2 * 65536);
  // Half way between neighbours goes to the even one; a hair above goes up.
  for (uint32_t bits = 0; bits < 0x7BFF; bits++) {
    const double low = f16_to_f32(static_cast<uint16_t>(bits)),
                 high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    const uint16_t even = static_cast<uint16_t>(bits + (bits & 1));
    if (f32_to_f16(middle) != even || f32_to_f16(std::nextafter(middle, 1e9f)) != bits + 1 ||
        f32_to_f16(std::nextafter(middle, -1e9f)) != bits)
      FAIL_CHECK("f16 rounding at " << bits);
  }
  CHECK(f32_to_f16(65519.f) == 0x7BFF);
  CHECK(f32_to_f16(65520.f) == 0x7C00);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
}

TEST_CASE("floats saturate at the bounds of every integer dtype") {
  for (DType d :
       {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64}) {
    CAPTURE(to_string(d));
    const int bits = 8 * size_of(d) - is_signed(d);
    const double above = std::ldexp(1.0, bits), below = is_signed(d) ? -above : 0.0;
    const Scalar most = Scalar::of_int(d, static_cast<int64_t>((uint64_t{1} << (bits - 1)) * 2 - 1));
    const Scalar least = Scalar::of_int(d, is_signed(d) ? -1 - most.as_int() : 0);
    const auto of = [&](double v) { return Scalar::of_float(d, v); };
    for (const double v : {above, std::nextafter(above, kInf), 2 * above, kInf}) CHECK(of(v) == most);
    for (const double v : {below, std::nextafter(below, -kInf), 2 * below - 1, -kInf}) CHECK(of(v) == least);
    // The last doubles inside are themselves, or cut to an integer.
    CHECK(of(std::nextafter(above, 0)).as_float() == std::trunc(std::nextafter(above, 0)));
    CHECK(of(std::nextafter(below, 1)).as_float() == std::trunc(std::nextafter(below, 1)));
    CHECK(Scalar::of_float(DType::F32, above).cast(d) == most);
    CHECK(of(kNan) == Scalar::of_int(d, 0));
    CHECK(of(-0.9) == Scalar::of_int(d, 0));
  }
}

TEST_CASE("scalars convert, print and parse") {
  CHECK(Scalar::of_int(DType::I8, 200).as_int() == -56);
  CHECK(Scalar::of_float(DType::U8, 300).as_int() == 255);
  CHECK(Scalar::of_float(DType::I8, -300).as_int() == -128);
  CHECK(Scalar::of_float(DType::I32, kNan).as_int() == 0);
  CHECK(Scalar::of_float(DType::I64, 1e30).as_int() == INT64_MAX);
  CHECK(Scalar::of_float(DType::I64, -1e30).as_int() == INT64_MIN);
  CHECK(Scalar::of_float(DType::U64, 1e30).bits() == UINT64_MAX);
  CHECK(Scalar::of_float(DType::U64, -1).bits() == 0);
  CHECK(Scalar::of_float(DType::U32, 4294967295.0).as_int() == 4294967295);
  CHECK(Scalar::of_float(DType::I32, -2.9).as_int() == -2);
  CHECK(Scalar::of_float(DType::Bool, kNan).as_bool());
  CHECK(Scalar::of_int(DType::U64, -1).as_float() == 18446744073709551616.0);
  CHECK(Scalar::of_int(DType::U64, -1).cast(DType::F32).as_float() == 18446744073709551616.0);
  CHECK(Scalar::of_int(DType::I64, (1ll << 53) + 1).cast(DType::F64).as_float() == 9007199254740992.0);
  // 2^24+1 + a bit that f64 keeps and a second rounding would lose
  CHECK(Scalar::of_int(DType::I64, (1ll << 60) + (1ll << 36) + 1).cast(DType::F32).as_float() ==
        0x1.000002p60);
  CHECK(Scalar::of_float(DType::F32, -0.0) != Scalar::of_float(DType::F32, 0.0));
  CHECK(Scalar::of_float(DType::F32, kNan) == Scalar::of_float(DType::F32, kNan));
  CHECK(to_string(Scalar::of_float(DType::F32, 0.1)) == "0.1");
  CHECK(to_string(Scalar::of_int(DType::U64, -1)) == "18446744073709551615");
  for (DType d : kAll)
    for (double v : {0.0, 1.0, -0.5, 3.14159265358979, 1e-7, 6e4, -kInf, kInf, -1.0}) {
      const Scalar s = Scalar::of_float(d, v);
      CAPTURE(to_string(s));
      CHECK(parse_scalar(d, to_string(s)) == s);
      unsigned char memory[8] = {};
      s.to_memory(memory);
      CHECK(Scalar::from_memory(d, memory) == s);
    }
  CHECK(std::isnan(parse_scalar(DType::F16, to_string(Scalar::of_float(DType::F16, kNan))).as_float()));
  CHECK_THROWS_AS(parse_scalar(DType::U8, "256"), Error);
  CHECK_THROWS_AS(parse_scalar(DType::I8, "x"), Error);
  CHECK_THROWS_AS(parse_scalar(DType::F32, "1.0f"), Error);
  CHECK_THROWS_AS(parse_scalar(DType::Bool, "2"), Error);
}

TEST_CASE("integer ops wrap and never trap") {
  CHECK(ints(Op::Add, DType::I8, 127, 1) == -128);
  CHECK(ints(Op::Mul, DType::I64, INT64_MAX, 2) == -2);
  CHECK(ints(Op::Sub, DType::U8, 0, 1) == 255);
  CHECK(ints(Op::IDiv, DType::I32, -7, 2) == -3);
  CHECK(ints(Op::Mod, DType::I32, -7, 2) == -1);
  CHECK(ints(Op::IDiv, DType::I32, 5, 0) == 0);
  CHECK(ints(Op::Mod, DType::I32, 5, 0) == 0);
  CHECK(ints(Op::IDiv, DType::I64, INT64_MIN, -1) == INT64_MIN);
  CHECK(ints(Op::IDiv, DType::I8, -128, -1) == -128);
  CHECK(ints(Op::Mod, DType::I64, INT64_MIN, -1) == 0);
  CHECK(ints(Op::IDiv, DType::U64, -1, 2) == INT64_MAX);
  CHECK(ints(Op::CmpLt, DType::U64, 1, -1) == 1);
  CHECK(ints(Op::CmpLt, DType::I64, 1, -1) == 0);
  CHECK(ints(Op::Max, DType::U64, 1, -1) == -1);
  CHECK(ints(Op::Shl, DType::I32, 1, 31) == INT32_MIN);
  CHECK(ints(Op::Shl, DType::I32, 1, 32) == 0);
  CHECK(ints(Op::Shl, DType::I32, 1, -1) == 0);
  CHECK(ints(Op::Shr, DType::I32, -8, 1) == -4);
  CHECK(ints(Op::Shr, DType::I32, -8, 40) == -1);
  CHECK(ints(Op::Shr, DType::I32, 8, -1) == 0);
  CHECK(ints(Op::Shr, DType::U64, -1, 63) == 1);
  CHECK(ints(Op::Xor, DType::Bool, 1, 1) == 0);
}

TEST_CASE("float ops follow the table") {
  CHECK(std::isnan(floats(Op::Max, DType::F32, kNan, 1)));
  CHECK(std::isnan(floats(Op::Max, DType::F32, 1, kNan)));
  CHECK(floats(Op::Max, DType::F32, -kInf, 1) == 1);
  CHECK(floats(Op::CmpLt, DType::F32, kNan, 1) == 0);
  CHECK(floats(Op::CmpNe, DType::F32, kNan, kNan) == 1);
  CHECK(floats(Op::Add, DType::F32, 16777216, 1) == 16777216); // computed in f32
  CHECK(floats(Op::Add, DType::F16, 2048, 1) == 2048);         // rounded to f16
  CHECK(floats(Op::Mul, DType::F16, 300, 300) == kInf);
  CHECK(floats(Op::Div, DType::F32, 1, -0.0) == -kInf);
  CHECK(floats(Op::Div, DType::F32, 2440, 61) == 40);
  CHECK(std::isnan(floats(Op::Div, DType::F32, 0, 0)));
  CHECK(std::isnan(run(Op::Sqrt, DType::F64, {Scalar::of_float(DType::F64, -1)}).as_float()));
  CHECK(run(Op::Exp2, DType::F32, {Scalar::of_float(DType::F32, 10)}).as_float() == 1024);
  CHECK(run(Op::Log2, DType::F32, {Scalar::of_float(DType::F32, 0)}).as_float() == -kInf);
  CHECK(std::signbit(run(Op::Trunc, DType::F32, {Scalar::of_float(DType::F32, -0.5)}).as_float()));
  const Scalar e = Scalar::of_float(DType::F32, 1 + 0x1p-23),
               one = Scalar::of_float(DType::F32, -1 - 0x1p-22);
  CHECK(run(Op::Fma, DType::F32, {e, e, one}).as_float() == 0x1p-46);
  CHECK(run(Op::Bitcast, DType::U32, {Scalar::of_float(DType::F32, 1)}).as_int() == 0x3F800000);
  CHECK(run(Op::Where, DType::F32, {Scalar::of_int(DType::Bool, 0), e, one}) == one);
  CHECK_THROWS_AS(run(Op::Bitcast, DType::U8, {e}), InternalError);
  CHECK_THROWS_AS(run(Op::Reduce, DType::F32, {e}), InternalError);
}

TEST_CASE("a combine's identity leaves every value alone") {
  for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Or, Op::And})
    for (DType d : kAll) {
      if (!accepts(info(op).dtypes, d)) continue;
      for (int v : {0, 1, -1, 100, -128}) {
        const Scalar x = Scalar::of_int(d, v);
        CAPTURE(to_string(op));
        CAPTURE(to_string(d));
        CHECK(run(op, d, {identity(op, d), x}) == x);
        CHECK(run(op, d, {x, identity(op, d)}) == x);
      }
    }
  CHECK_THROWS_AS(identity(Op::Shl, DType::I32), InternalError);
}

TEST_CASE("storage") {
  auto s = Storage::allocate(1000);
  CHECK(s->bytes() == 1000);
  CHECK(reinterpret_cast<uintptr_t>(s->data()) % Storage::kAlignment == 0);
  std::memset(s->data(), 1, 1000);
  CHECK(Storage::allocate(0)->data() != nullptr);
  const size_t several_pages = (size_t{5} << 20) + 100; // no multiple of a huge page
  auto large = Storage::allocate(several_pages);
  CHECK(large->bytes() == several_pages);
  std::memset(large->data(), 1, several_pages);
  CHECK_THROWS_AS(Storage::allocate(SIZE_MAX), Error);
  CHECK_THROWS_AS(Storage::allocate(size_t{1} << 62), Error);
  for (const size_t too_many : {SIZE_MAX, size_t{1} << 62, (size_t{1} << 40) + 1})
    CHECK_THROWS_AS(Storage::allocate_together(std::vector<size_t>{16, too_many, 16}), Error);
}

TEST_CASE("storages that lie together are apart, in order, and keep their memory one by one") {
  const std::vector<size_t> sizes{1000, 0, 1, 128};
  std::vector<StorageRef> parts = Storage::allocate_together(sizes);
  REQUIRE(parts.size() == sizes.size());
  const char* end = nullptr;
  for (size_t k = 0; k < sizes.size(); ++k) {
    char* data = static_cast<char*>(parts[k]->data());
    CHECK(parts[k]->bytes() == sizes[k]);
    CHECK(reinterpret_cast<uintptr_t>(data) % Storage::kAlignment == 0);
    if (end) CHECK(data >= end);
    end = data + sizes[k];
    std::fill_n(data, sizes[k], static_cast<char>(k + 1));
  }
  const StorageRef last = parts.back();
  parts.clear();
  const char* data = static_cast<const char*>(last->data());
  CHECK(std::all_of(data, data + 128, [](char c) { return c == 4; }));
}

namespace {

struct Link : Interned<Link> {
  int value = 0;
  Ref<Link> next;
  size_t hash_value() const { return mix(mix(7, static_cast<uint64_t>(value)), next.hash()); }
  bool equal(const Link& o) const { return value == o.value && next == o.next; }
  template <class F> void for_each_source(F&& f) { f(next); }
};

Ref<Link> link(int value, Ref<Link> next = {}) {
  Link n;
  n.value = value;
  n.next = std::move(next);
  return intern(std::move(n));
}

size_t live_links() { return InternTable<Link>::instance().size(); }

} // namespace

TEST_CASE("interning: equal is the same pointer, and a chain of a million is freed without recursion") {
  {
    Ref<Link> a = link(1, link(2)), b = link(1, link(2));
    CHECK(a == b);
    CHECK(live_links() == 2);
    Ref<Link> chain;
    for (int i = 0; i < 1000000; i++) chain = link(i, chain);
    CHECK(live_links() == 1000002);
  }
  CHECK(live_links() == 0);
}

TEST_CASE("interning from several threads") {
  {
    std::vector<std::thread> threads;
    std::vector<Ref<Link>> kept(4);
    for (size_t t = 0; t < 4; t++)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 2000; round++) {
          Ref<Link> chain;
          for (int i = 0; i < 20; i++) chain = link(i % 7, chain);
          kept[t] = chain;
        }
      });
    for (auto& t : threads) t.join();
    for (const auto& k : kept) CHECK(k == kept[0]);
    CHECK(live_links() == 20);
  }
  CHECK(live_links() == 0);
}

namespace {

/// A small DAG for the rule engine: constants, leaves and ops of i32.
struct Small {
  Op op;
  DType dtype;
  std::vector<std::shared_ptr<Small>> sources;
  std::optional<Scalar> value;
};
using SmallRef = std::shared_ptr<Small>;

struct SmallTraits {
  using Node = SmallRef;
  static Op op(const Node& n) { return n->op; }
  static DType dtype(const Node& n) { return n->dtype; }
  static size_t source_count(const Node& n) { return n->sources.size(); }
  static const Node& source(const Node& n, size_t i) { return n->sources[i]; }
  static const Scalar* constant(const Node& n) { return n->value ? &*n->value : nullptr; }
  static Node number(const Scalar& s, const Node&) {
    return std::make_shared<Small>(Small{Op::Const, s.dtype(), {}, s});
  }
  static Node make(Op op, DType dtype, std::vector<Node> sources, const Node&) {
    return std::make_shared<Small>(Small{op, dtype, std::move(sources), {}});
  }
};

bool is_negative(const SmallRef&, const RuleMatch<SmallTraits>& m) { return m['A']->value->as_int() < 0; }

constexpr Rule<SmallTraits> kRules[] = {
    {"add-zero", RuleDomain::Integer, "Add(a, 0)", "a"},
    {"add-neg", RuleDomain::Integer, "Add(a, Neg(a))", "0"},
    {"factor", RuleDomain::Integer, "Add(Mul(a, b), Mul(a, c))", "Mul(a, Add(b, c))"},
    {"neg-constant", RuleDomain::Integer, "Mul(a, A)", "Neg(Mul(a, Neg(A)))", is_negative},
    {"cmp-self", RuleDomain::Integer, "CmpNe(a, a)", "0"},
};
constexpr Rule<SmallTraits> kEndless[] = {{"swap", RuleDomain::Any, "IDiv(a, b)", "IDiv(b, a)"}};

} // namespace

TEST_CASE("the rule engine matches, counts hits and fails loudly at its limit") {
  auto leaf = [] { return SmallTraits::make(Op::Iota, DType::I32, {}, nullptr); };
  auto number = [](int v) { return SmallTraits::number(Scalar::of_int(DType::I32, v), nullptr); };
  auto make = [](Op op, std::vector<SmallRef> s) {
    return SmallTraits::make(op, result_dtype(op, DType::I32), std::move(s), nullptr);
  };
  RuleEngine<SmallTraits> engine("test", kRules);
  SmallRef x = leaf(), y = leaf(), z = leaf();
  CHECK(engine.rewrite(make(Op::Add, {number(0), x})) == x);
  CHECK(engine.rewrite(make(Op::Add, {make(Op::Neg, {x}), x}))->value->as_int() == 0);
  SmallRef f = engine.rewrite(make(Op::Add, {make(Op::Mul, {y, x}), make(Op::Mul, {x, z})}));
  CHECK(f->op == Op::Mul);
  CHECK(f->sources[0] == x);
  CHECK(engine.rewrite(make(Op::Mul, {x, number(-3)}))->op == Op::Neg);
  CHECK(engine.rewrite(make(Op::Mul, {x, number(3)}))->op == Op::Mul);
  CHECK(engine.rewrite(make(Op::CmpNe, {x, x}))->dtype == DType::Bool);
  CHECK_FALSE(engine.step(make(Op::Add, {x, y})).has_value());
  CHECK(engine.hits(0) == 1);
  CHECK(engine.hits(2) == 1);
  std::vector<std::string> traced;
  engine.rewrite(make(Op::Add, {x, number(0)}),
                 [&](const auto& rule, const auto&, const auto&) { traced.push_back(rule.name); });
  CHECK(traced == std::vector<std::string>{"add-zero"});
  RuleEngine<SmallTraits> endless("endless", kEndless);
  CHECK_THROWS_WITH_AS(endless.rewrite(make(Op::IDiv, {x, y})), doctest::Contains("swap swap"),
                       InternalError);
}

TEST_CASE("the sides of a rule mean the same numbers") {
  for (const auto& rule : kRules)
    for (int a = -9; a < 9; a++)
      for (int b = -9; b < 9; b++)
        for (int c = -3; c < 3; c++) {
          std::vector<Scalar> values(kLetterCount);
          values[letter_slot('a')] = Scalar::of_int(DType::I8, a * 13);
          values[letter_slot('b')] = values[letter_slot('A')] = Scalar::of_int(DType::I8, b);
          values[letter_slot('c')] = Scalar::of_int(DType::I8, c);
          CAPTURE(rule.name);
          CHECK(evaluate(rule.left, values, DType::I8).as_int() ==
                evaluate(rule.right, values, DType::I8).as_int());
        }
}

TEST_CASE("a pointer map finds what was set last, through growth and clearing") {
  const std::vector<int> keys(1000);
  PointerMap<int, size_t> map;
  CHECK(!map.contains(&keys[0]));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < keys.size(); i += 2) map.set(&keys[i], i);
    for (size_t i = 0; i < keys.size(); i += 4) map.set(&keys[i], i + 1);
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t* found = map.find(&keys[i]);
      REQUIRE((found != nullptr) == (i % 2 == 0));
      if (found) REQUIRE(*found == (i % 4 == 0 ? i + 1 : i));
    }
    map.clear();
    CHECK(!map.contains(&keys[0]));
  }
}
