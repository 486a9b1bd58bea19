#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <limits>

#include "ast/interpret_ops.hpp"
#include "lathe/error.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

BufferRef buffer(int id, const char* name, DType dtype, Shape shape, Scope scope = Scope::Global) {
  return std::make_shared<const Buffer>(Buffer{id, name, dtype, std::move(shape), scope});
}

struct Fixture {
  BufferRef x = buffer(0, "x", DType::F32, {8});
  Expr i = loop_var(0, "i", 8);
  ValueRef a = load(x, {i});
  ValueRef b = load(x, {7 - i});
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "equal values are one object") {
  CHECK(load(x, {i}) == a);
  CHECK(make(Op::Add, DType::F32, {a, b}) == make(Op::Add, DType::F32, {a, b}));
  CHECK(make(Op::Add, DType::F32, {a, b}) != make(Op::Add, DType::F32, {b, a}));
  CHECK(load(buffer(0, "x", DType::F32, {8}), {i}) != a);
  CHECK(constant(Scalar::of_float(DType::F32, -0.0)) != f32(0));
  CHECK(constant(Scalar::of_float(DType::F32, -std::numeric_limits<double>::quiet_NaN())) ==
        f32(std::numeric_limits<double>::quiet_NaN()));
}

TEST_CASE_FIXTURE(Fixture, "make folds constants and applies the rules") {
  CHECK(make(Op::Add, DType::F32, {f32(2), f32(3)}) == f32(5));
  CHECK(make(Op::Add, DType::F32, {a, make(Op::Neg, DType::F32, b)})->op == Op::Sub);
  CHECK(make(Op::Div, DType::F32, {a, f32(3)})->op == Op::Div);
  CHECK(make(Op::Div, DType::F32, {a, f32(-4)}) == make(Op::Mul, DType::F32, {a, f32(-0.25)}));
  CHECK(make(Op::Div, DType::F32, {a, f32(-1)}) == make(Op::Neg, DType::F32, a));
  CHECK(make(Op::Div, DType::F32, {a, f32(0x1p127)})->op == Op::Div); // its inverse is subnormal
  const ValueRef product = make(Op::Mul, DType::F32, {a, b});
  const ValueRef fma = make(Op::Add, DType::F32, {f32(1), product});
  REQUIRE(fma->op == Op::Fma);
  CHECK(fma->sources == std::vector<ValueRef>{a, b, f32(1)});
  const ValueRef minus = make(Op::Add, DType::F32, {product, make(Op::Neg, DType::F32, a)});
  REQUIRE(minus->op == Op::Fma);
  CHECK(minus->sources[2] == make(Op::Neg, DType::F32, a));
  const ValueRef from = make(Op::Add, DType::F32, {a, make(Op::Neg, DType::F32, product)});
  CHECK(from->op == Op::Fma);
  CHECK(make(Op::Add, DType::F32, {a, f32(0)})->op == Op::Add); // -0 + 0 is 0
  CHECK(make(Op::Add, DType::F32, {a, f32(-0.0)}) == a);
  CHECK(make(Op::Mul, DType::F32, {f32(1), a}) == a);
}

TEST_CASE("a comparison of indices is one index, which bounds decide, where nothing wraps") {
  const Expr i = loop_var(0, "i", 300);
  const auto less = [](Expr e, DType dtype, int64_t than) {
    return make(Op::CmpLt, DType::Bool, {index_value(e, dtype), constant(Scalar::of_int(dtype, than))});
  };
  CHECK(less(i, DType::I64, 16) == index_value(lt(i, 16), DType::Bool));
  CHECK(less(i, DType::I32, 300) == constant(Scalar::of_int(DType::Bool, 1)));
  CHECK(less(i, DType::I16, 0) == constant(Scalar::of_int(DType::Bool, 0)));
  CHECK(less(i, DType::U8, 16)->op == Op::CmpLt);  // 256 is 0
  CHECK(less(i, DType::U64, -1)->op == Op::CmpLt); // the largest there is
  CHECK(less(i - 1, DType::U64, 5)->op == Op::CmpLt);
}

TEST_CASE("half precision is rounded after every op, so it is never fused") {
  for (DType d : {DType::F16, DType::BF16}) {
    const BufferRef h = buffer(0, "h", d, {3});
    const ValueRef product = make(Op::Mul, d, {load(h, {0}), load(h, {1})});
    CHECK(make(Op::Add, d, {product, load(h, {2})})->op == Op::Add);
  }
}

TEST_CASE_FIXTURE(Fixture, "guards are taken apart, tidied, and decide") {
  const ValueRef guarded = load(x, {i}, {land(le(2, i), lt(i, 5)), le(0, i), le(2, i)});
  REQUIRE(guarded->op == Op::Load);
  CHECK(std::get<LoadAttr>(guarded->attr).guards.size() == 2);
  CHECK(load(x, {i}, {lt(i, 0)}) == f32(0));
  CHECK(index_value(3, DType::I32) == constant(Scalar::of_int(DType::I32, 3)));
}

TEST_CASE_FIXTURE(Fixture, "a wrong operand is refused") {
  const ValueRef one = constant(Scalar::of_int(DType::I32, 1));
  CHECK_THROWS_WITH_AS(make(Op::Add, DType::F32, {a, one}), doctest::Contains("operands of different dtypes"),
                       InternalError);
  CHECK_THROWS_WITH_AS(make(Op::Add, DType::F32, {a}), doctest::Contains("wrong number of operands"),
                       InternalError);
  CHECK_THROWS_WITH_AS(make(Op::Sqrt, DType::I32, {one}), doctest::Contains("does not take this dtype"),
                       InternalError);
  CHECK_THROWS_WITH_AS(make(Op::CmpLt, DType::F32, {a, b}), doctest::Contains("result's dtype"),
                       InternalError);
  CHECK_THROWS_WITH_AS(make(Op::Where, DType::F32, {a, a, b}), doctest::Contains("must be bool"),
                       InternalError);
  CHECK_THROWS_WITH_AS(make(Op::Bitcast, DType::I64, {a}), doctest::Contains("keeps the width"),
                       InternalError);
  CHECK_THROWS_WITH_AS(load(x, {i, i}), doctest::Contains("2 indices, expected 1"), InternalError);
}

TEST_CASE_FIXTURE(Fixture, "a chain of a million values is built, visited, rewritten and freed") {
  ValueRef v = a;
  for (int k = 0; k < 1000000; ++k) v = make_exact(Op::Max, DType::F32, {v, b});
  int64_t seen = 0;
  visit(v, [&](const ValueRef&) { ++seen; });
  CHECK(seen == 1000002);
  const ValueRef moved = substitute(v, {{i, 3}});
  CHECK(moved == make_exact(Op::Max, DType::F32, {load(x, {3}), load(x, {4})})); // max(max(a, b), b)
}

TEST_CASE("visit sees statements outermost first with their loops") {
  const Kernel k = parse(R"(kernel k(x: f32[4, 3] out) {
  for i in 4 {
    alloc t: f32[3] register {
      for j in 3 {
        t[j] = 1:f32
      }
      barrier
      x[i, 0] = t[2]
    }
  }
})");
  std::string trace;
  visit(k.body, [&](const Stmt& s, const std::vector<const For*>& loops) {
    trace += "FASB"[s.node.index()];
    trace += static_cast<char>('0' + loops.size());
  });
  CHECK(trace == "F0A1F1S2B1S1");
}

TEST_CASE("substitution keeps loop variables and their bounds in step") {
  const Kernel k = parse(R"(kernel k(x: f32[100] out) {
  for o in 4 {
    for i in min(32, 100 - o * 32) {
      x[o * 32 + i] = f32(i)
    }
  }
})");
  const auto& outer = std::get<For>(k.body[0].node);
  const Block tail = substitute(outer.body, {{outer.var, 3}});
  const auto& inner = std::get<For>(tail[0].node);
  CHECK(inner.extent == Expr(4));
  CHECK(inner.var.extent() == Expr(4));
  CHECK(inner.var.id() == std::get<For>(outer.body[0].node).var.id());
  CHECK(std::get<Store>(inner.body[0].node).index[0] == inner.var + 96);
}

TEST_CASE("rewrite replaces values, buffers and statements") {
  const Kernel k = parse(R"(kernel k(x: f32[4] in, y: f32[4] out) {
  for i in 4 {
    y[i] = x[i] + 1:f32
  }
})");
  const BufferRef z = buffer(9, "z", DType::F32, {4});
  Rewriter r;
  r.on_value = [](const ValueRef& v) {
    return v->op == Op::Const ? constant(Scalar::of_float(DType::F32, 2)) : v;
  };
  r.on_buffer = [&](const BufferRef& b) { return b->name == "x" ? z : b; };
  r.on_stmt = [](Stmt s) {
    const size_t copies = std::holds_alternative<Store>(s.node) ? 2 : 1;
    return Block(copies, s);
  };
  const Block out = rewrite(k.body, r);
  const auto& body = std::get<For>(out[0].node).body;
  REQUIRE(body.size() == 2);
  const auto& store = std::get<Store>(body[1].node);
  CHECK(std::get<LoadAttr>(store.value->sources[0]->attr).buffer == z);
  CHECK(store.value->sources[1] == f32(2));
}

TEST_CASE("interpret: a matmul with a ragged register tile") {
  const Kernel k = parse(R"(kernel mm(a: f32[7, 5] in, b: f32[5, 9] in, c: f32[7, 9] out) {
  for i.o in 2 {
    for j in 9 {
      alloc acc: f32[4] register {
        for i.z in 4 {
          acc[i.z] = 0:f32
        }
        for r in 5 {
          for i.i in min(4, 7 - i.o * 4) {
            acc[i.i] += a[i.o * 4 + i.i, r] * b[r, j]
          }
        }
        for i.w in min(4, 7 - i.o * 4) {
          c[i.o * 4 + i.w, j] = acc[i.w]
        }
      }
    }
  }
})");
  verify(k);
  const auto memory = run(k);
  const auto a = as<float>(memory[0]), b = as<float>(memory[1]), c = as<float>(memory[2]);
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 9; ++j) {
      float sum = 0;
      for (int r = 0; r < 5; ++r) sum += a[i * 5 + r] * b[r * 9 + j];
      CHECK(c[i * 9 + j] == sum);
    }
}

TEST_CASE("interpret: guards, gather, scatter, symbolic sizes, poisoned scratch") {
  const Kernel pad = parse(R"(kernel pad(x: f32[n] in, y: f32[n] out; n in [1, 64]) {
  for i in n {
    y[i] = 0:f32
  }
  for i in n {
    for k in 3 {
      y[i] += x[i + k - 1; 1 <= i + k; i + k <= n]
    }
  }
})");
  verify(pad);
  for (int64_t n : {1, 2, 13}) {
    const auto m = run(pad, {n});
    const auto x = as<float>(m[0]), y = as<float>(m[1]);
    for (int64_t i = 0; i < n; ++i) CHECK(y[i] == (i ? x[i - 1] : 0) + x[i] + (i + 1 < n ? x[i + 1] : 0));
  }
  const Kernel gather = parse(R"(kernel g(x: i32[6] in, at: i32[8] in, y: i32[8] out, z: i32[4] out) {
  for i in 8 {
    y[i] = x[@at[i]]
  }
  for i in 4 {
    z[i] = 0:i32
  }
  for i in 8 {
    z[@at[i]] += 1:i32
  }
})");
  verify(gather);
  const auto m = run(gather);
  const auto x = as<int32_t>(m[0]), at = as<int32_t>(m[1]), y = as<int32_t>(m[2]), z = as<int32_t>(m[3]);
  std::array<int, 4> counts{};
  for (int i = 0; i < 8; ++i) {
    CHECK(y[i] == (at[i] < 6 ? x[at[i]] : 0));
    if (at[i] < 4) ++counts[at[i]];
  }
  for (int i = 0; i < 4; ++i) CHECK(z[i] == counts[i]);

  const auto poison = as<float>(run(parse(R"(kernel p(y: f32[2] out) {
  for i in 2 {
    alloc t: f32[2] packed {
      t[i] = 1:f32
      y[i] = t[1]
    }
  }
})"))[0]);
  CHECK(std::isnan(poison[0]));
  CHECK(poison[1] == 1);
}

TEST_CASE("interpret: faults name the statement") {
  CHECK_THROWS_WITH_AS(
      run(parse("kernel k(x: f32[4] in, y: f32[5] out) {\n  for i in 5 {\n    y[i] = x[i]\n  }\n}")),
      doctest::Contains("index 4 of dimension 0 of x is outside [0, 4), in: y[i] = x[i]"), InternalError);
  const Kernel k = parse("kernel k(y: f32[4] out) {\n  y[0] = 0:f32\n}");
  float small[2];
  CHECK_THROWS_WITH_AS(interpret(k, {{small, sizeof small}}, {}),
                       doctest::Contains("y has 8 bytes, expected 16"), InternalError);
  CHECK_THROWS_WITH_AS(interpret(k, {}, {}),
                       doctest::Contains("0 buffers and 0 shape values, expected 1 and 0"), InternalError);
}

TEST_CASE("interpret: every op on every dtype is core's evaluate") {
  const auto specimens = [](DType d) {
    std::vector<Scalar> out;
    for (double v : {0.0, -0.0, 1.0, -1.0, 2.5, -3.75, 7.0, 100.0, 1e9, -1e300,
                     std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      if (is_float(d)) out.push_back(Scalar::of_float(d, v));
    for (int64_t v : {0l, 1l, -1l, 2l, 7l, 31l, 64l, 200l, INT64_MIN, INT64_MAX, INT64_MIN >> 32})
      if (!is_float(d)) out.push_back(Scalar::of_int(d, v));
    return out;
  };
  int64_t compared = 0;
  for (int o = 0; o < op_count(); ++o) {
    const Op op = static_cast<Op>(o);
    if (!is_elementwise(op)) continue;
    for (int f = 0; f < kDTypeCount; ++f) {
      const DType from = static_cast<DType>(f);
      const bool converts = op == Op::Cast || op == Op::Bitcast;
      if (!accepts(info(op).dtypes, from)) continue;
      for (int t = 0; t < (converts ? kDTypeCount : 1); ++t) {
        const DType to = converts ? static_cast<DType>(t) : result_dtype(op, from);
        if (op == Op::Bitcast && size_of(to) != size_of(from)) continue;
        const auto values = specimens(from);
        for (size_t i = 0; i < values.size(); ++i)
          for (size_t j = 0; j < values.size(); ++j) {
            const Scalar third = values[(i + j) % values.size()];
            std::array<Scalar, 3> args{values[i], values[j], third};
            if (op == Op::Where)
              args = {Scalar::of_int(DType::Bool, static_cast<int64_t>(i % 2)), values[j], third};
            interpreter::Frame frame;
            for (const Scalar& s : args) frame.slots.push_back(interpreter::slot_of(s));
            frame.slots.push_back({});
            interpreter::Operation in{
                interpreter::elementwise(op, to, from), 3, 0, 1, 2, nullptr, op, to, from};
            in.run(in, frame);
            const interpreter::Slot expected = interpreter::slot_of(
                evaluate(op, to, std::span(args.data(), static_cast<size_t>(info(op).arity))));
            const interpreter::Slot& got = frame.slots[3];
            const bool same =
                to == DType::F64 ? std::bit_cast<int64_t>(got.f) == std::bit_cast<int64_t>(expected.f) ||
                                       (std::isnan(got.f) && std::isnan(expected.f))
                : is_float(to) ? std::bit_cast<int32_t>(got.s) == std::bit_cast<int32_t>(expected.s) ||
                                     (std::isnan(got.s) && std::isnan(expected.s))
                               : got.i == expected.i;
            if (!same)
              FAIL_CHECK(std::string(to_string(op)), " ", std::string(to_string(from)), " -> ",
                         std::string(to_string(to)), " of ", to_string(args[0]), ", ", to_string(args[1]),
                         ", ", to_string(args[2]));
            ++compared;
          }
      }
    }
  }
  CHECK(compared > 20000);
}

TEST_CASE("interpret: combines on every dtype") {
  for (int d = 0; d < kDTypeCount; ++d) {
    const DType dtype = static_cast<DType>(d);
    for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Or, Op::And}) {
      if (!accepts(info(op).dtypes, dtype)) continue;
      const BufferRef x = buffer(0, "x", dtype, {6}), y = buffer(1, "y", dtype, {1});
      const Expr i = loop_var(0, "i", 6);
      Kernel k{"k", {{x, false}, {y, true}}, {}, {}};
      k.body.push_back({Store{y, {0}, constant(identity(op, dtype)), {}, {}}});
      k.body.push_back({For{i, 6, LoopKind::Serial, 0, {{Store{y, {0}, load(x, {i}), op, {}}}}}});
      verify(k);
      const auto memory = run(k);
      Scalar expected = identity(op, dtype);
      for (int e = 0; e < 6; ++e) {
        const Scalar args[] = {expected, Scalar::from_memory(dtype, memory[0].data() + e * size_of(dtype))};
        expected = evaluate(op, dtype, args);
      }
      CHECK(Scalar::from_memory(dtype, memory[1].data()) == expected);
    }
  }
}
