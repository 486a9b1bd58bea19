// Every pass keeps what a kernel computes: the interpreter runs it before and after, on odd sizes.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "ast/passes/prepare.hpp"
#include "lathe/error.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

struct Shape3 {
  int64_t m, n, k;
};

/// c = a @ b, tiled by (tm, tn, tk) with a register accumulator and ragged tails everywhere.
std::string matmul(const Shape3& s, int tm, int tn, int tk, const char* kind, const char* inner) {
  const auto tiles = [](int64_t n, int t) { return (n + t - 1) / t; };
  return fmt::format(R"(kernel mm(a: f32[{m}, {k}] in, b: f32[{k}, {n}] in, c: f32[{m}, {n}] out) {{
  for i.o in {mo}{kind} {{
    for j.o in {no} {{
      alloc acc: f32[{tm}, {tn}] register {{
        for i.z in {tm}{inner} {{
          for j.z in {tn} vector({tn}) {{
            acc[i.z, j.z] = 0:f32
          }}
        }}
        for r.o in {ko} {{
          for r.i in min({tk}, {k} - r.o * {tk}) {{
            for i.i in min({tm}, {m} - i.o * {tm}){inner} {{
              for j.i in min({tn}, {n} - j.o * {tn}) vector({tn}) {{
                acc[i.i, j.i] += a[i.o * {tm} + i.i, r.o * {tk} + r.i] * b[r.o * {tk} + r.i, j.o * {tn} + j.i]
              }}
            }}
          }}
        }}
        for i.w in min({tm}, {m} - i.o * {tm}){inner} {{
          for j.w in min({tn}, {n} - j.o * {tn}) vector({tn}) {{
            c[i.o * {tm} + i.w, j.o * {tn} + j.w] = acc[i.w, j.w]
          }}
        }}
      }}
    }}
  }}
}}
)",
                     fmt::arg("m", s.m), fmt::arg("n", s.n), fmt::arg("k", s.k), fmt::arg("tm", tm),
                     fmt::arg("tn", tn), fmt::arg("tk", tk), fmt::arg("mo", tiles(s.m, tm)),
                     fmt::arg("no", tiles(s.n, tn)), fmt::arg("ko", tiles(s.k, tk)), fmt::arg("kind", kind),
                     fmt::arg("inner", inner));
}

/// Extents of the loops that hold only Stores.
std::vector<Expr> innermost(const Kernel& k) {
  std::vector<Expr> out;
  visit(k.body, [&](const Stmt& s, const std::vector<const For*>&) {
    const auto* loop = std::get_if<For>(&s.node);
    if (!loop) return;
    for (const Stmt& inner : loop->body)
      if (!std::holds_alternative<Store>(inner.node)) return;
    out.push_back(loop->extent);
  });
  return out;
}

void check_passes(const Kernel& k, const std::vector<std::vector<int64_t>>& sizes) {
  verify(k);
  const Kernel partitioned = partition_tails(k);
  verify(partitioned);
  const Kernel unrolled = expand_unrolled(partitioned);
  verify(unrolled);
  const Kernel directly = expand_unrolled(k);
  verify(directly);
  for (const auto& size : sizes) {
    const auto expected = run(k, size, 7);
    CHECK(run(partitioned, size, 7) == expected);
    CHECK(run(unrolled, size, 7) == expected);
    CHECK(run(directly, size, 7) == expected);
  }
  for (const Kernel* each : {&k, &partitioned, &unrolled}) {
    const Kernel again = parse(print(*each));
    CHECK(print(again) == print(*each));
    CHECK(structural_hash(again) == structural_hash(*each));
  }
}

} // namespace

TEST_CASE("matmul tiles, serial and parallel, ragged in every dimension") {
  for (const Shape3& s : {Shape3{7, 9, 5}, {8, 16, 4}, {1, 1, 1}, {13, 33, 17}, {12, 31, 8}})
    for (const Shape3& tile : {Shape3{4, 8, 3}, {3, 16, 4}, {5, 4, 64}})
      for (const char* kind : {"", " parallel"})
        for (const char* inner : {"", " unroll"}) {
          CAPTURE(s.m);
          CAPTURE(s.n);
          CAPTURE(s.k);
          CAPTURE(tile.m);
          check_passes(parse(matmul(s, tile.m, tile.n, tile.k, kind, inner)), {{}});
        }
}

TEST_CASE("the main part of a partitioned loop has constant extents") {
  const Kernel k = partition_tails(parse(R"(kernel k(x: f32[127] in, y: f32[127] out) {
  for o in 4 {
    for i in min(32, 127 - o * 32) {
      y[o * 32 + i] = x[o * 32 + i]
    }
  }
})"));
  CHECK(print(k) == R"(kernel k(x: f32[127] in, y: f32[127] out) {
  for o in 3 {
    for i in 32 {
      y[o*32 + i] = x[o*32 + i]
    }
  }
  for i in 31 {
    y[i + 96] = x[i + 96]
  }
}
)");
  for (const char* kind : {"", " parallel"}) {
    const Kernel mm = partition_tails(parse(matmul({127, 65, 33}, 6, 32, 8, kind, "")));
    const auto extents = innermost(mm);
    CHECK(extents.size() >= 6);
    for (Expr e : extents) CHECK_MESSAGE(e.is_const(), to_string(e));
  }
}

TEST_CASE("symbolic sizes: the main part is constant, the tail ragged") {
  const Kernel k = parse(R"(kernel k(x: f32[n] in, y: f32[n] out; n in [1, 4096]) {
  for o in (n + 15) // 16 {
    for i in min(16, n - o * 16) vector(16) {
      y[o * 16 + i] = x[o * 16 + i] * x[o * 16 + i]
    }
  }
})");
  check_passes(k, {{1}, {15}, {16}, {17}, {160}, {1000}});
  const auto extents = innermost(partition_tails(k));
  REQUIRE(extents.size() == 2);
  CHECK(extents[0] == Expr(16));
  CHECK(!extents[1].is_const());
  const Kernel p = parse(R"(kernel k(x: f32[n] in, y: f32[n] out; n in [1, 4096]) {
  for o in (n + 15) // 16 parallel {
    for i in min(16, n - o * 16) vector(16) {
      y[o * 16 + i] = x[o * 16 + i] * x[o * 16 + i]
    }
  }
})");
  check_passes(p, {{1}, {15}, {16}, {17}, {160}, {1000}});
  CHECK(innermost(partition_tails(p))[0] == Expr(16));
}

TEST_CASE("two levels of splitting") {
  for (int n : {127, 128, 97, 33, 31, 1}) {
    const Kernel k = parse(fmt::format(R"(kernel k(x: f32[{0}] in, y: f32[{0}] out) {{
  for o in {1} {{
    for m in (min(32, {0} - o * 32) + 3) // 4 {{
      for i in min(4, min(32, {0} - o * 32) - m * 4) vector(4) {{
        y[o * 32 + m * 4 + i] = x[o * 32 + m * 4 + i] + 1:f32
      }}
    }}
  }}
}})",
                                       n, (n + 31) / 32));
    check_passes(k, {{}});
    for (Expr e : innermost(partition_tails(k))) CHECK_MESSAGE(e.is_const(), to_string(e));
  }
}

TEST_CASE("a tail of several iterations does each of them") {
  // The first minimum is decided from o = 1 on, the second at o = 3 alone.
  const Kernel k = parse(R"(kernel k(x: i32[16] in, y: i32[16] out, z: i32[16] out) {
  for i in 16 {
    y[i] = 0:i32
    z[i] = 0:i32
  }
  for o in 4 {
    for i in min(4, 7 - o * 4) {
      z[o * 4 + i] = x[o * 4 + i]
    }
    for i in min(4, 15 - o * 4) {
      y[o * 4 + i] = x[o * 4 + i]
    }
  }
})");
  const Kernel parts = partition_tails(k);
  const auto* tail = std::get_if<For>(&parts.body.back().node);
  REQUIRE(tail);
  CHECK(tail->extent.is_const(3));
  check_passes(k, {{}});
}

TEST_CASE("copies are bounded and keep ids apart") {
  std::string text = "kernel k(y: f32[7, 7, 7, 7, 7, 7] out) {\n", index;
  for (int d = 0; d < 6; ++d) {
    text += fmt::format("for o{0} in 3 {{\nfor i{0} in min(3, 7 - o{0} * 3) {{\n", d);
    index += fmt::format("{}o{} * 3 + i{}", d ? ", " : "", d, d);
  }
  text += fmt::format("y[{}] = f32(o0 + i5)\n", index);
  for (int d = 0; d < 12; ++d) text += "}\n";
  const Kernel k = parse(text + "}\n");
  const Kernel p = partition_tails(k);
  verify(p);
  int stores = 0;
  visit(p.body, [&](const Stmt& s, const std::vector<const For*>&) {
    stores += std::holds_alternative<Store>(s.node);
  });
  CHECK(stores > 1);
  CHECK(stores <= 16);
}

TEST_CASE("padded convolution, gather and scatter survive the passes") {
  check_passes(parse(R"(kernel conv(x: f32[3, 11] in, w: f32[2, 3, 3] in, y: f32[2, 6] out) {
  for c.z in 2 {
    for i.z in 6 {
      y[c.z, i.z] = 0:f32
    }
  }
  for c in 2 parallel {
    for r in 3 {
      for k in 3 unroll {
        for i.o in 2 {
          for i.i in min(4, 6 - i.o * 4) vector(4) {
            y[c, i.o * 4 + i.i] += w[c, r, k] * x[r, (i.o * 4 + i.i) * 2 + k - 1; 0 <= (i.o * 4 + i.i) * 2 + k - 1; (i.o * 4 + i.i) * 2 + k - 1 < 11]
          }
        }
      }
    }
  }
})"),
               {{}});
  check_passes(parse(R"(kernel gs(x: f32[n] in, at: i64[n] in, y: f32[n] out, z: f32[n] out; n in [1, 100]) {
  for i.o in (n + 7) // 8 {
    for i.i in min(8, n - i.o * 8) unroll {
      alloc t: f32[1] register {
        t[0] = x[@at[i.o * 8 + i.i]]
        y[i.o * 8 + i.i] = t[0] * t[0]
      }
    }
  }
  for j in n {
    z[j] = 1:f32
  }
  for k in n {
    z[@at[k] * 2:i64] += x[k]
  }
})"),
               {{1}, {7}, {8}, {23}});
}

TEST_CASE("loops of one iteration vanish, unless they are bound to threads") {
  const Kernel k = parse(R"(kernel k(y: f32[4] out) {
  for a in 1 parallel {
    for b in 1 {
      for c in 1 vector(4) {
        y[a + b + c] = 1:f32
      }
    }
  }
  for z in 0 {
    y[z] = 2:f32
  }
})");
  CHECK(print(partition_tails(k)) ==
        "kernel k(y: f32[4] out) {\n  for a in 1 parallel {\n    y[a] = 1:f32\n  }\n}\n");
}

TEST_CASE("group and local loops stay whole") {
  const Kernel k = parse(R"(kernel k(x: f32[100] in, y: f32[100] out) {
  for g in 7 group(0) {
    for l in min(16, 100 - g * 16) local(0) {
      y[g * 16 + l] = x[g * 16 + l]
    }
  }
})");
  CHECK(structural_hash(partition_tails(k)) == structural_hash(k));
  check_passes(k, {{}});
}

TEST_CASE("a copy of an unrolled loop leaves out the inner loops that never run in it") {
  const Kernel k = parse(R"(kernel k(x: f32[5] in, y: f32[8] out) {
  for i in 8 unroll {
    y[i] = 0:f32
    for j in min(5, i + 1) - max(0, i - 1) {
      y[i] += x[j + max(0, i - 1)]
    }
  }
})");
  const Kernel unrolled = expand_unrolled(k);
  int loops = 0;
  ast::visit(unrolled.body,
             [&](const Stmt& stmt, const auto&) { loops += std::holds_alternative<For>(stmt.node); });
  CHECK(loops == 6); // of i = 6 and 7 nothing is left
  verify(unrolled);
}

TEST_CASE("a tail leaves out the inner loops that never run in it") {
  const Kernel k = parse(R"(kernel k(x: f32[5] in, y: f32[8] out) {
  for o in 2 {
    for i in min(6, 8 - o * 6) {
      y[o * 6 + i] = 0:f32
      for j in min(5, o * 6 + i + 1) - max(0, o * 6 + i - 1) {
        y[o * 6 + i] += x[j + max(0, o * 6 + i - 1)]
      }
    }
  }
})");
  verify(k);
  const Kernel parts = partition_tails(k);
  verify(parts); // the index lies beyond x where o is 1
  int loops = 0;
  ast::visit(parts.body,
             [&](const Stmt& stmt, const auto&) { loops += std::holds_alternative<For>(stmt.node); });
  CHECK(loops == 3);
  check_passes(k, {{}});
}

TEST_CASE("ragged unroll loops become serial") {
  const Kernel k = expand_unrolled(parse(R"(kernel k(y: f32[n] out; n in [1, 9]) {
  for i in n unroll {
    for j in 2 unroll {
      y[i] = f32(j)
    }
  }
})"));
  CHECK(print(k) == R"(kernel k(y: f32[n] out; n in [1, 9]) {
  for i in n {
    y[i] = 0:f32
    y[i] = 1:f32
  }
}
)");
}

TEST_CASE("what a loop combines into one element is kept in registers over the loop") {
  // Integers: any order of the sum gives the same bits.
  const Kernel k =
      parse(R"(kernel k(x: i32[n, 40] in, s: i32[n] out, most: i32[n] out, c: i32[16] out; n in [1, 9]) {
  for i in n {
    s[i] = 0:i32
    most[i] = -100:i32
    for r in 2 {
      for l in 16 vector(16) {
        s[i] += x[i, r * 16 + l]
      }
      for l in 16 vector(16) {
        s[i] += x[i, r * 8 + l] * 3:i32
      }
    }
    for r in 40 {
      most[i] max= x[i, r]
    }
    for r in 3 {
      for l in min(16, 40 - r * 16) vector(16) {
        s[i] += x[i, r * 16 + l]
      }
    }
  }
  for l in 16 vector(16) {
    c[l] = 1:i32
  }
  for i in n {
    for l in 16 vector(16) {
      c[l] += x[i, l]
    }
  }
})");
  const Kernel kept = keep_accumulators(k);
  verify(kept);
  for (int64_t n : {1, 4, 9}) CHECK(run(kept, {n}, 7) == run(k, {n}, 7));
  size_t in_loops = 0;
  visit(kept.body, [&](const Stmt& stmt, const std::vector<const For*>& loops) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store || !store->combine || store->buffer->scope == Scope::Register) return;
    // Into memory once an iteration of the rows, or once in all.
    in_loops += loops.size() - (loops.back()->kind == LoopKind::Vector);
  });
  CHECK(in_loops == 3); // the two sums and the maximum of a row; the columns' in none
  CHECK(print(keep_accumulators(kept)) == print(kept));
}

TEST_CASE("what a loop also reads, or moves with it, is not kept") {
  for (const char* text :
       {"kernel k(x: f32[8] in, y: f32[8] out) {\nfor i in 8 {\ny[i] += x[i]\n}\n}",
        "kernel k(x: f32[8] in, y: f32[8] out) {\nfor i in 8 {\ny[0] += x[i] + y[0]\n}\n}",
        "kernel k(x: f32[8] in, y: f32[8] out) {\nfor i in 8 {\ny[0] += x[i]\ny[0] max= x[i]\n}\n}",
        // How many lanes there are changes.
        "kernel k(x: f32[16, 16] in, y: f32[16] out) {\nfor i in 16 {\n"
        "for l in i + 1 vector(16) {\ny[l] += x[i, l]\n}\n}\n}",
        "kernel k(x: f32[8] in, y: f32[8] out) {\nfor g in 2 group(0) {\nfor i in 4 local(0) {\n"
        "for r in 4 {\ny[g * 4 + i] += x[r]\n}\n}\n}\n}"}) {
    const Kernel k = parse(text);
    CHECK(print(keep_accumulators(k)) == print(k));
  }
}
