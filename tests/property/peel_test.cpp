// Guards are left to the iterations that need them, and nothing changes in what a kernel computes.
#include <algorithm>

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "ast/passes/prepare.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

struct Loads {
  int guarded = 0, free = 0;
};

Loads loads_of(const Kernel& kernel) {
  Loads out;
  visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    visit(store->value, [&](const ValueRef& value) {
      const auto* load = std::get_if<LoadAttr>(&value->attr);
      if (!load || load->buffer->name != "x") return;
      const bool open =
          std::any_of(load->guards.begin(), load->guards.end(), [](Expr g) { return !g.is_const(1); });
      ++(open ? out.guarded : out.free);
    });
  });
  return out;
}

/// Sums over windows of 3 x 3 of [height, width], moved on by `step`, with a border of zeros.
Kernel windows(int height, int width, int step, const char* kind = "") {
  return parse(fmt::format(R"(kernel k(x: f32[{0}, {1}] in, w: f32[3, 3] in, y: f32[{2}, {3}] out) {{
  for i in {2}{4} {{
    for j in {3} {{
      alloc a: f32[1] register {{
        a[0] = 0:f32
        for r in 3 {{
          for s in 3 {{
            a[0] += x[i*{5} + r - 1, j*{5} + s - 1; 0 < i*{5} + r; i*{5} + r < {0} + 1; 0 < j*{5} + s; j*{5} + s < {1} + 1] * w[r, s]
          }}
        }}
        y[i, j] = a[0]
      }}
    }}
  }}
}})",
                           height, width, (height - 1) / step + 1, (width - 1) / step + 1, kind, step));
}

} // namespace

TEST_CASE("windows over a border: five parts, one of them without guards") {
  const Kernel k = windows(9, 12, 1), peeled = peel_guards(k);
  CAPTURE(print(peeled));
  verify(peeled);
  CHECK(run(peeled) == run(k));
  // First and last rows, first and last columns of the rows between, and the inside.
  CHECK(loads_of(k).guarded == 1);
  CHECK(loads_of(peeled).guarded == 4);
  CHECK(loads_of(peeled).free == 1);
}

TEST_CASE("of any size and step it computes the same") {
  for (int height : {1, 2, 3, 4, 7})
    for (int width : {1, 2, 3, 5, 8})
      for (int step : {1, 2, 3}) {
        const Kernel k = windows(height, width, step), peeled = peel_guards(k);
        CAPTURE(print(peeled));
        verify(peeled);
        CHECK(run(peeled) == run(k));
        CHECK(run(prepare(k)) == run(k));
      }
}

TEST_CASE("a parallel loop stays whole") {
  const Kernel k = windows(9, 12, 1, " parallel"), peeled = peel_guards(k);
  verify(peeled);
  CHECK(run(peeled) == run(k));
  int parallel = 0;
  visit(peeled.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    const auto* loop = std::get_if<For>(&stmt.node);
    parallel += loop && loop->kind == LoopKind::Parallel;
  });
  CHECK(parallel == 1);
}

TEST_CASE("a guard that is not linear, or of unknown size, stays") {
  for (const char* guard : {"0 < i % 2", "i // 4 < 1", "n < i"}) {
    const Kernel k = parse(fmt::format("kernel k(x: f32[16] in, y: f32[16] out; n in [0, 16]) {{\n"
                                       "for i in 16 {{\ny[i] = x[i; {}]\n}}\n}}",
                                       guard));
    CAPTURE(guard);
    CHECK(print(peel_guards(k)) == print(k));
    CHECK(run(peel_guards(k), {5}) == run(k, {5}));
  }
}

TEST_CASE("what is joined from several values reads one of them in each section of the loop") {
  // Three values along j, in tiles of 4, one of which the second joint cuts in two.
  const char* text = R"(kernel k(x: f32[5, 8] in, u: f32[5, 10] in, v: f32[5, 10] in, y: f32[5, 28] out) {
  for i in 5 {
    for j in 7 {
      for l in 4 %s {
        y[i, j*4 + l] = where(bool(j*4 + l < 8), x[i, j*4 + l; j*4 + l < 8], where(bool(j*4 + l < 18), u[i, j*4 + l - 8; 7 < j*4 + l; j*4 + l < 18], v[i, j*4 + l - 18; 17 < j*4 + l]))
      }
    }
  }
})";
  const auto choices = [](const Kernel& kernel) {
    int n = 0;
    visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
      if (const auto* store = std::get_if<Store>(&stmt.node))
        visit(store->value, [&](const ValueRef& v) { n += v->op == Op::Where; });
    });
    return n;
  };
  for (const std::string kind : {"", "unroll", "vector(4)"}) {
    const Kernel k = parse(std::string(text).replace(std::string(text).find("%s"), 2, kind));
    const Kernel peeled = peel_guards(k);
    CAPTURE(print(peeled));
    verify(peeled);
    CHECK(run(peeled) == run(k));
    CHECK(run(prepare(k)) == run(k));
    CHECK(loads_of(peeled).guarded == 0);
    CHECK(choices(k) == 2);
    // The tile that is cut: a loop by itself, copies as they are made, a vector not at all.
    CHECK(choices(peeled) == (kind.empty() ? 0 : 1));
    CHECK(choices(prepare(k)) == (kind == "vector(4)" ? 1 : 0));
  }
}

TEST_CASE("of many sections copies are limited") {
  std::string value = "x[i]";
  for (int k = 15; k > 0; --k) value = fmt::format("where(bool(i < {}), {}:f32, {})", 4 * k, k, value);
  const Kernel k = parse(
      fmt::format("kernel k(x: f32[64] in, y: f32[64] out) {{\nfor i in 64 {{\ny[i] = {}\n}}\n}}", value));
  const Kernel peeled = peel_guards(k);
  int copies = 0;
  visit(peeled.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    copies += std::holds_alternative<Store>(stmt.node);
  });
  CHECK(copies <= 8);
  CHECK(run(peeled) == run(k));
}

TEST_CASE("a copy of the first or last iterations leaves out the inner loops that never run in it") {
  // Of x, only what y[i] may need is copied: beyond the border nothing.
  const Kernel k = parse(R"(kernel k(x: f32[5] in, y: f32[8] out) {
  for i in 8 {
    alloc t: f32[1] packed {
      for j in min(5, i) - max(0, i - 1) {
        t[j] = x[j + max(0, i - 1)]
      }
      y[i] = t[i - 1 - max(0, i - 1); 0 < i; i < 6]
    }
  }
})");
  verify(k);
  const Kernel peeled = peel_guards(k);
  CAPTURE(print(peeled));
  verify(peeled); // the index lies beyond x where i is 6 or 7
  CHECK(print(peeled) != print(k));
  CHECK(run(peeled) == run(k));
}
