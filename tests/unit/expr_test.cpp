// Expr: canonical forms, bounds, proofs, printing and parsing.
#include <doctest/doctest.h>

#include <map>
#include <thread>

#include "lathe/error.hpp"
#include "lathe/expr.hpp"

using namespace lathe;

namespace {

Expr loop(int id, const char* name, Expr extent) { return loop_var(id, name, extent); }

Expr parse_with(const std::string& text, const std::vector<Expr>& vars) {
  return parse_expr(text, [&](std::string_view name) -> std::optional<Expr> {
    for (Expr v : vars)
      if (v.name() == name) return v;
    return std::nullopt;
  });
}

} // namespace

TEST_CASE("sums of products are canonical") {
  Expr i = loop(0, "i", 100), j = loop(1, "j", 64), n = Var("n", 1, 4096);
  CHECK(i + j == j + i);
  CHECK(i * 64 + j - i * 64 == j);
  CHECK((i + j) * (i - j) == i * i - j * j);
  CHECK(n * (i + 1) == i * n + n);
  CHECK((i + j) + (n + 5) == (5 + n) + (j + i));
  CHECK(to_string(i * 64 + j) == "i*64 + j");
  CHECK(to_string(127 - i * 32) == "127 - i*32");
  CHECK((i - i) == 0);
  CHECK((i * 64 + j).lo() == 0);
  CHECK((i * 64 + j).hi() == 99 * 64 + 63);
  CHECK((i * 64 + j).lhs() == i * 64);
  CHECK((i * 64 + j).rhs() == j);
  CHECK((i * 64).rhs() == 64);
}

TEST_CASE("quotients and remainders of mixed radix indices") {
  Expr i = loop(0, "i", 100), j = loop(1, "j", 64), k = loop(2, "k", 4), n = Var("n", 1, 4096);
  CHECK(floordiv(i * 64 + j, 64) == i);
  CHECK(mod(i * 64 + j, 64) == j);
  CHECK(floordiv(n * 64 + 7, 64) == n);
  CHECK(floordiv(floordiv(i, 3), 5) == floordiv(i, 15));
  CHECK(mod(mod(i, 24), 6) == mod(i, 6));
  CHECK(floordiv(i, 7) * 7 + mod(i, 7) == i);
  CHECK(n * (floordiv(i, 7) * 7 + mod(i, 7)) == n * i);
  CHECK(floordiv(i * 4 + j * 8 + k, 4) == i + j * 2);
  CHECK(floordiv(i * 12 + j * 4 + k, 4) == i * 3 + j);
  CHECK(floordiv(i * 12 + j * 8 + k, 16) == floordiv(i * 3 + j * 2, 4));
  CHECK(mod(i, 4) + mod(floordiv(i, 4), 8) * 4 == mod(i, 32));
  CHECK(floordiv(mod(i, 32), 4) == mod(floordiv(i, 4), 8));
  CHECK(floordiv(-i, -3) == floordiv(i, 3));
  CHECK(floordiv(Expr(-7), 2) == -4);
  CHECK(mod(Expr(-7), 2) == 1);
  CHECK(mod(Expr(7), -2) == -1);
  CHECK_THROWS_AS(floordiv(i, 0), Error);
  CHECK_THROWS_AS(mod(i, 0), Error);
}

TEST_CASE("symbolic divisors and extents") {
  Expr n = Var("n", 1, 4096), m = Var("m", 1, 512);
  Expr i = loop(0, "i", m), j = loop(1, "j", n);
  CHECK(floordiv(i * n + j, n) == i);
  CHECK(mod(i * n + j, n) == j);
  CHECK(floordiv(j, n) == 0);
  CHECK(floordiv(i * n + j, n * 64) == floordiv(i, 64));
  CHECK(mod(i * n + j, n * 64) == mod(i, 64) * n + j);
  Expr x = loop(5, "x", m * n);
  CHECK(floordiv(x, n) * n + mod(x, n) == x);
  CHECK(floordiv(i * (n + 1) + j, n + 1) == i);

  Expr o = loop(2, "o", 4), t = loop(3, "t", min(32, 127 - o * 32));
  CHECK(proves_lt(o * 32 + t, 127));
  CHECK_FALSE(proves_lt(o * 32 + t, 126));
  CHECK(floordiv(o * 32 + t, 127) == 0);
  CHECK(mod(o * 32 + t, 127) == o * 32 + t);
  CHECK(floordiv(i * 127 + o * 32 + t, 127) == i);
  Expr p = loop(2, "p", ceildiv(n, 32)), q = loop(3, "q", min(32, n - p * 32));
  CHECK(proves_lt(p * 32 + q, n));
  CHECK(proves_lt(j, n));
  CHECK_FALSE(proves_lt(j, n - 1));
  CHECK(floordiv(i * n + p * 32 + q, n) == i);
  CHECK(lt(p * 32 + q, n) == 1);
  Expr s = loop(4, "s", 32);
  CHECK(proves_lt(p * 32 + s, ceildiv(n, 32) * 32));
  CHECK_FALSE(lt(p * 32 + s, n).is_const());
}

TEST_CASE("minima and maxima fold by bounds") {
  Expr n = Var("n", 1, 4096);
  Expr i = loop(0, "i", 4), o = loop(1, "o", 3);
  CHECK(min(32, 127 - o * 32) == 32);
  CHECK(to_string(min(4, n - i * 4)) == "min(4, n - i*4)");
  CHECK(min(n, n + 5) == n);
  CHECK(max(n, n + 5) == n + 5);
  CHECK(min(n, min(i, n)) == min(i, n));
  CHECK(min(max(n, i), n) == n);
  CHECK(floordiv(min(32, 127 - i * 32) + 7, 8) == min(4, 16 - i * 4));
}

TEST_CASE("text parses back to the same node") {
  Expr n = Var("n", 1, 4096);
  Expr i = loop(0, "i", n), j = loop(1, "j", 7);
  for (Expr e :
       {i * 64 + j, floordiv(i * 5 + j, 8) * 3, 127 - i * 32, -i * 3 - 5, min(4, n - i * 4), lt(i + j, n),
        eq(mod(i, 3), 1), land(lt(i, 5), lt(j * 3, i)), Expr(INT64_MIN), mod(floordiv(i, 3) * j, 5) * n}) {
    CAPTURE(to_string(e));
    CHECK(parse_with(to_string(e), {n, i, j}) == e);
  }
  for (const char* bad :
       {"", "i +", "(i", "i)", "i i", "99999999999999999999", "q", "min(i)", "i / 2", "i // 0", "i % 0"})
    CHECK_THROWS_AS(parse_with(bad, {n, i, j}), Error);
}
