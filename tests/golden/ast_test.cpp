// Printed kernels: what they look like, and that they parse back to the same thing.
#include <doctest/doctest.h>

#include <map>

#include "lathe/error.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

void round_trip(const std::string& text) {
  const Kernel k = parse(text);
  CHECK(print(k) == text);
  const Kernel again = parse(print(k));
  CHECK(structural_hash(again) == structural_hash(k));
}

} // namespace

TEST_CASE("kernels print as they were written") {
  round_trip(R"(kernel k(x: f32[n, m] in, y: f32[n, m] out; m in [0, 9], n in [1, 4096, 8]) {
  for i in n {
    for j in m {
      y[i, j] = x[i, j]
    }
  }
}
)");
  round_trip(R"(kernel k0(x: f32[n, 64] in, w: f32[64, 10] in, t3: f32[n, 10] out; n in [1, 4096]) {
  for t3.i0 in n parallel {
    alloc acc: f32[10] register {
      for t3.z1 in 10 unroll {
        acc[t3.z1] = 0:f32
      }
      for t3.r in 64 {
        for t3.i1 in 10 vector(16) {
          acc[t3.i1] += x[t3.i0, t3.r] * w[t3.r, t3.i1]
        }
      }
      for t3.w1 in 10 {
        stream t3[t3.i0, t3.w1] = acc[t3.w1]
      }
    }
  }
}
)");
  round_trip(R"(kernel products(a: f32[8] in, b: f32[8] out, c: f32[8] out) {
  for i in 8 {
    let %1 = a[i]
    b[i] = rounded(%1 * (%1 + 1:f32)) - %1
    c[i] = fma(rounded(a[i] * 3:f32), 2:f32, 1:f32)
  }
}
)");
  round_trip(R"(kernel tiles(a: f32[127] in, b: f32[127] out) {
  for o in 4 {
    for i in min(32, 127 - o*32) {
      b[o*32 + i] max= a[o*32 + i; 0 < o*32 + i]
    }
  }
}
)");
  round_trip(R"(kernel gpu(x: f16[64, 16] in, y: f16[64, 16] out) {
  for g in 64 group(0) {
    alloc tile: f16[16] local {
      for l in 16 local(0) {
        tile[l] = x[g, l]
      }
      barrier
      for l in 16 local(0) {
        y[g, l] = tile[15 - l]
      }
    }
  }
}
)");
}

TEST_CASE("shared values have names, in the order in which they are needed") {
  round_trip(R"(kernel k(x: f32[8] in, n: i64[8] in, y: f32[8] out, h: i32[4] out) {
  for i in 8 {
    let %1 = x[i]
    let %2 = %1 - 1.5:f32
    let %3 = %2 * %2
    y[i] = fma(%3, %3, where(%1 < %2, -inf:f32, cast_f32(i64(i*3))))
    h[@n[i] & 3:i64] |= bitcast_i32(x[i]) ^ 7:i32
    let %1 = n[i]
    h[@%1] &= cast_i32(x[@idiv(%1, 2:i64); 2 < i; i < 7] != nan:f32) | shl(1:i32, mod(9:i32, 4:i32))
  }
}
)");
}

TEST_CASE("the text is linear in the DAG") {
  const auto x = std::make_shared<const Buffer>(Buffer{0, "x", DType::F32, {1}, Scope::Global});
  const auto y = std::make_shared<const Buffer>(Buffer{1, "y", DType::F32, {1}, Scope::Global});
  ValueRef v = load(x, {0});
  for (int k = 0; k < 60; ++k) v = make(Op::Add, DType::F32, {v, v});
  Kernel k{"doubling", {{x, false}, {y, true}}, {}, {{Store{y, {0}, v, {}, {}}}}};
  CHECK(print(k).size() < 3000);
  CHECK(structural_hash(parse(print(k))) == structural_hash(k));

  // A deep chain is cut into lines, so neither printing nor parsing nests deeply.
  v = load(x, {0});
  for (int i = 0; i < 20000; ++i) v = make(Op::Max, DType::F32, {make(Op::Sqrt, DType::F32, v), f32(i)});
  k.body = {{Store{y, {0}, v, {}, {}}}};
  const std::string text = print(k);
  const Kernel again = parse(text);
  CHECK(print(again) == text);
  CHECK(structural_hash(again) == structural_hash(k));
}

TEST_CASE("the hash sees structure, not names or ids") {
  const auto build = [](const char* x, const char* i, const char* n, int first_id, Op op, int hi) {
    const Expr size = Var(n, 1, hi).expr();
    const auto in = std::make_shared<const Buffer>(Buffer{first_id, x, DType::F32, {size, 4}, Scope::Global});
    const auto out =
        std::make_shared<const Buffer>(Buffer{first_id + 1, "out", DType::F32, {size, 4}, Scope::Global});
    const Expr a = loop_var(first_id + 7, i, size), b = loop_var(first_id + 3, "b", 4);
    const ValueRef v = make(op, DType::F32, {load(in, {a, b}), f32(2)});
    return Kernel{i,
                  {{in, false}, {out, true}},
                  {size},
                  {{For{a,
                        size,
                        LoopKind::Serial,
                        0,
                        {{For{b, 4, LoopKind::Serial, 0, {{Store{out, {a, b}, v, {}, {}}}}}}}}}}};
  };
  const Kernel k = build("x", "i", "n", 0, Op::Add, 64);
  CHECK(structural_hash(k) == structural_hash(build("input", "row", "batch", 40, Op::Add, 64)));
  CHECK(structural_hash(k) != structural_hash(build("x", "i", "n", 0, Op::Mul, 64)));
  CHECK(structural_hash(k) != structural_hash(build("x", "i", "n", 0, Op::Add, 65)));
  Kernel parallel = k;
  std::get<For>(parallel.body[0].node).kind = LoopKind::Parallel;
  CHECK(structural_hash(k) != structural_hash(parallel));
  Kernel read_write = k;
  read_write.params[0].written = true;
  CHECK(structural_hash(k) != structural_hash(read_write));
  Kernel twice = k;
  twice.body.push_back(twice.body[0]);
  CHECK(structural_hash(k) != structural_hash(twice));
  CHECK(structural_hash(k) == structural_hash(parse(print(k))));
}

TEST_CASE("whatever a kernel says counts in its hash") {
  // Each differs from the first in one thing, or in one more than its neighbour.
  std::map<uint64_t, std::string> seen;
  for (const char* text :
       {"kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] += x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] *= x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] max= x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\nstream y[i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 1]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0; i < 5]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0; i < 6]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0; ahead: 8]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[7 - i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 7 {\ny[i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 vector(8) {\ny[i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 vector(16) {\ny[i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 unroll {\ny[i] = x[i, 0]\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = sqrt(x[i, 0])\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0] + 1:f32\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0] + 2:f32\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = cast_f32(cast_i8(x[i, 0]))\n}\n}",
        "kernel k(x: f32[8, 4] in, y: f32[8] out) {\nfor i in 8 {\ny[i] = cast_f32(cast_u8(x[i, 0]))\n}\n}",
        "kernel k(x: i32[8, 4] in, y: i32[8] out) {\nfor i in 8 {\ny[i] = x[i, 0]\n}\n}",
        "kernel k(x: i32[8, 4] in, y: i32[8] out) {\nfor i in 8 {\ny[@x[i, 1]] = x[i, 0]\n}\n}",
        "kernel k(x: i32[8, 4] in, y: i32[8] out) {\nfor i in 8 {\ny[@x[i, 1]] += x[i, 0]\n}\n}",
        "kernel k(x: i32[8, 4] in, y: i32[8] out) {\nfor i in 8 {\ny[@x[i, 2]] += x[i, 0]\n}\n}"}) {
    const auto other = seen.emplace(structural_hash(parse(text)), text);
    CHECK_MESSAGE(other.second, text, " has the hash of ", other.first->second);
  }
}

TEST_CASE("the hash does not see in which order ids and names sort terms") {
  const auto build = [](int row_id, int column_id, const char* n, const char* m, int moved) {
    const Expr rows = Var(n, 2, 64).expr(), columns = Var(m, 2, 64).expr();
    const auto in = std::make_shared<const Buffer>(Buffer{0, "x", DType::F32, {256}, Scope::Global});
    const auto out = std::make_shared<const Buffer>(Buffer{1, "y", DType::F32, {256}, Scope::Global});
    const Expr a = loop_var(row_id, "i", rows), b = loop_var(column_id, "j", columns);
    const std::vector<Expr> guards{eq(a + moved, b + 2), lt(a, b), land(lt(a, 9), lt(b, 8))};
    const ValueRef v =
        load(in, {min(a * rows + b * columns, floordiv(a + 2 * b, 3) + mod(b - a + 64, 5))}, guards);
    return Kernel{"k",
                  {{in, false}, {out, true}},
                  {rows, columns},
                  {{For{a,
                        rows,
                        LoopKind::Serial,
                        0,
                        {{For{b, columns, LoopKind::Serial, 0, {{Store{out, {max(a, b)}, v, {}, {}}}}}}}}}}};
  };
  const uint64_t hash = structural_hash(build(1, 2, "n", "m", 0));
  CHECK(hash == structural_hash(build(2, 1, "n", "m", 0)));
  CHECK(hash == structural_hash(build(1, 2, "m", "n", 0)));
  CHECK(hash == structural_hash(build(8, 3, "a", "b", 0)));
  CHECK(hash != structural_hash(build(1, 2, "n", "m", 4))); // a + 2 == b is not a == b + 2
}

TEST_CASE("names that can't be told apart or written are made so") {
  const auto x = std::make_shared<const Buffer>(Buffer{0, "my input", DType::F32, {4, 4}, Scope::Global});
  const auto y = std::make_shared<const Buffer>(Buffer{1, "my_input", DType::F32, {4, 4}, Scope::Global});
  const Expr a = loop_var(5, "i", 4), b = loop_var(9, "i", 4);
  const Kernel k{"2nd",
                 {{x, false}, {y, true}},
                 {},
                 {{For{a,
                       4,
                       LoopKind::Serial,
                       0,
                       {{For{b, 4, LoopKind::Unroll, 0, {{Store{y, {b, a}, load(x, {a, b}), {}, {}}}}}}}}}}};
  CHECK(print(k) == R"(kernel _2nd(my_input: f32[4, 4] in, my_input_2: f32[4, 4] out) {
  for i in 4 {
    for i_2 in 4 unroll {
      my_input_2[i_2, i] = my_input[i, i_2]
    }
  }
}
)");
  CHECK(structural_hash(parse(print(k))) == structural_hash(k));
}
