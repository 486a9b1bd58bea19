// Vector loops over arrays in registers get all lanes only where no one reads what the lanes past the end
// write.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "ast/machine/full_vectors.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

/// Vector loops that do not fill their lanes, of those that write only to arrays in registers.
int partial_loops(const Kernel& kernel) {
  int count = 0;
  visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    const auto* loop = std::get_if<For>(&stmt.node);
    if (!loop || loop->kind != LoopKind::Vector || loop->extent.is_const(loop->width)) return;
    const auto* store = std::get_if<Store>(&loop->body.at(0).node);
    count += store && store->buffer->scope == Scope::Register;
  });
  return count;
}

/// Sums of three neighbours of each row, a row of `width` at a time in vectors of `lanes`.
Kernel windows(int width, int lanes) {
  return parse(fmt::format(R"(kernel k(x: f32[5, {0} + 2] in, w: f32[3] in, y: f32[5, {0}] out) {{
  for i in 5 {{
    alloc a: f32[{1}] register {{
      for z in {0} vector({1}) {{
        a[z] = 0:f32
      }}
      for r in 3 {{
        for l in {0} vector({1}) {{
          a[l] += x[i, l + r] * w[r]
        }}
      }}
      for v in {0} vector({1}) {{
        y[i, v] = a[v]
      }}
    }}
  }}
}})",
                           width, lanes));
}

/// An array of 2 x 8 that `loops` write and read, between x and y.
Kernel with_array(const std::string& loops) {
  return parse("kernel k(x: f32[64] in, y: f32[64] out) {\nalloc a: f32[2, 8] register {\n"
               "for e in 8 vector(8) {\na[0, e] = 7:f32\n}\nfor f in 8 vector(8) {\na[1, f] = 7:f32\n}\n" +
               loops + "}\n}");
}

} // namespace

TEST_CASE("rows shorter than a vector fill it, and their loads do not go past the row") {
  for (int lanes : {4, 8, 16})
    for (int width = 1; width <= lanes; ++width) {
      const Kernel k = windows(width, lanes), full = fill_vectors(k);
      CAPTURE(print(full));
      verify(full);
      CHECK(partial_loops(k) == (width < lanes ? 2 : 0));
      CHECK(partial_loops(full) == 0);
      CHECK(run(full) == run(k)); // the interpreter refuses a load outside of x
      CHECK(print(fill_vectors(full)) == print(full));
    }
}

TEST_CASE("the last vector of a row, with the others full") {
  const Kernel k = parse(R"(kernel k(x: f32[28] in, y: f32[28] out) {
  alloc a: f32[32] register {
    for p in 16 vector(16) {
      a[p] = x[p]
    }
    for q in 12 vector(16) {
      a[q + 16] = x[q + 16] * 2:f32
    }
    for u in 16 vector(16) {
      y[u] = a[u]
    }
    for v in 12 vector(16) {
      y[v + 16] = a[v + 16]
    }
  }
})");
  const Kernel full = fill_vectors(k);
  verify(full);
  CHECK(partial_loops(full) == 0);
  CHECK(run(full) == run(k));
}

TEST_CASE("what was cleared as a whole may be filled, as long as only its beginning is read") {
  const std::string update = "for l in 5 vector(8) {\na[1, l] += x[l]\n}\n";
  const auto reads = [](int lanes) {
    return fmt::format("for n in {} vector(8) {{\ny[n] = a[1, n]\n}}\n", lanes);
  };
  for (const auto& [lanes, filled] : {std::pair(4, true), std::pair(5, true), std::pair(6, false)}) {
    const Kernel k = with_array(update + reads(lanes)), full = fill_vectors(k);
    CAPTURE(print(full));
    CHECK(run(full) == run(k));
    CHECK(partial_loops(full) == (filled ? 0 : 1));
  }
  const Kernel one = with_array(update + reads(5) + "y[40] = a[1, 7]\n");
  CHECK(partial_loops(fill_vectors(one)) == 1);
  const Kernel other_row = with_array(update + reads(5) + "y[40] = a[0, 7]\n");
  CHECK(partial_loops(fill_vectors(other_row)) == 0);
}

TEST_CASE("elements that someone reads are not written") {
  const std::string read_all = "for m in 2 {\nfor n in 8 vector(8) {\ny[m * 8 + n] = a[m, n]\n}\n}\n";
  const std::vector<std::string> cases{
      // Another loop wrote more of the same row.
      "for l in 5 vector(8) {\na[0, l] = x[l]\n}\n",
      // Two ends in one row.
      "for l in 5 vector(8) {\na[1, l] = x[l]\n}\nfor l in 6 vector(8) {\na[1, l] += x[l]\n}\n",
      // The lanes past the end are another row's.
      "for l in 3 vector(8) {\na[0, l + 3] = x[l]\n}\n",
      // One by one.
      "a[0, 6] = x[3]\nfor l in 5 vector(8) {\na[0, l] = x[l]\n}\n",
      // Lanes along the other axis.
      "for l in 2 vector(8) {\na[l, 1] = x[l]\n}\nfor l in 5 vector(8) {\na[0, l] = x[l]\n}\n",
      // Past the end of the array.
      "for l in 3 vector(8) {\na[1, l + 5] = x[l]\n}\n",
  };
  for (const std::string& loops : cases) {
    const Kernel k = with_array(loops + read_all), full = fill_vectors(k);
    CAPTURE(print(k));
    CHECK(run(full) == run(k));
    CHECK(partial_loops(full) == partial_loops(k));
  }
}

TEST_CASE("a loop that also writes memory, or gathers within registers, keeps its end") {
  const std::vector<std::string> cases{
      "for l in 5 vector(8) {\nb[l] = x[l]\ny[l] = x[l]\n}\n",
      "for l in 5 vector(8) {\nb[l] = a[l % 2, 1]\n}\n",
  };
  for (const std::string& loops : cases) {
    const Kernel k = with_array("alloc b: f32[8] register {\n" + loops +
                                "for v in 5 vector(8) {\ny[v + 8] = b[v]\n}\n}\n"),
                 full = fill_vectors(k);
    CAPTURE(print(k));
    CHECK(run(full) == run(k));
    CHECK(partial_loops(full) == partial_loops(k));
  }
}

TEST_CASE(
    "rows closer together than a vector keep their ends: the next row's iteration reads what it would fill") {
  for (const auto& [apart, filled] : {std::pair(3, false), std::pair(4, true), std::pair(5, true)}) {
    const Kernel k = parse(fmt::format(R"(kernel k(x: f32[8] in, y: f32[64] out) {{
  alloc a: f32[20] register {{
    for z in 20 {{
      a[z] = 0:f32
    }}
    for r in 2 {{
      for i in 4 {{
        for l in 3 vector(4) {{
          a[i * {0} + l] += 1:f32
        }}
        for v in 3 vector(4) {{
          y[r * 32 + i * 4 + v] = a[i * {0} + v]
        }}
      }}
    }}
  }}
}})",
                                       apart)),
                 full = fill_vectors(k);
    CAPTURE(print(full));
    CHECK(run(full) == run(k));
    CHECK(partial_loops(full) == (filled ? 0 : 1));
  }
}
