// Expressions live as long as what they were made for.
#include <doctest/doctest.h>

#include <thread>

#include "lathe/error.hpp"
#include "view/expr_scope.hpp"

using namespace lathe;

namespace {

/// About the last of many expressions in a scope: what makes it and gives it back is the same code.
Expr ladder(Expr e, int steps) {
  for (int k = 0; k < steps; ++k) e = floordiv(e * 3 + 5000 + k, Expr(7)) + e;
  return e;
}

} // namespace

TEST_CASE("equal expressions of one scope are one, with those around it and constants") {
  const Var n("n", 1, 4096);
  const Expr before = n * Expr(12345);
  const InExprScope inside(new_expr_scope());
  CHECK(n * Expr(12345) == before);
  const Expr i = loop_var(0, "i", n);
  CHECK(loop_var(0, "i", n) == i);
  CHECK(i * 4 + n * 2 == n + i * 2 + i * 2 + n);
  Expr within, constant;
  {
    const InExprScope further(new_expr_scope());
    CHECK(i * 4 + n * 2 == n + i * 2 + i * 2 + n);
    CHECK(loop_var(0, "i", n) == i);
    within = outside_scopes(n * 77 + 1);
    constant = Expr(9876543);
  }
  CHECK(constant == Expr(9876543));
  CHECK(within == outside_scopes(n * 77 + 1));
  CHECK(to_string(within) == "n*77 + 1");
}

TEST_CASE("what is kept outside is what would have been made there") {
  const Var n("n", 1, 64);
  const auto make = [&] {
    const Expr i = loop_var(3, "i", n * 2), j = loop_var(4, "a_name_that_fits_in_no_small_string", i + 1);
    return land(lt(i, mod(j * n + 3, n + 1)), le(min(i, j * 2), max(floordiv(i * j, Expr(3)), n)));
  };
  Expr kept;
  {
    const InExprScope inside(new_expr_scope());
    const Expr made = make();
    kept = outside_scopes(made);
    CHECK(kept != made);
    CHECK(kept.hash() == made.hash());
    CHECK(to_string(kept) == to_string(made));
  }
  CHECK(kept == make());
}

TEST_CASE("an expression belongs to the scope of its parts, whoever makes it") {
  const Var n("n", 1, 64);
  const ExprScopeRef scope = new_expr_scope();
  Expr i;
  {
    const InExprScope inside(scope);
    i = loop_var(0, "i", n) * 3 + n;
  }
  const Expr outside = ladder(i, 20); // here and in another thread: the same
  Expr elsewhere;
  std::thread([&] { elsewhere = ladder(i, 20); }).join();
  CHECK(outside == elsewhere);
  {
    const InExprScope inside(scope);
    CHECK(ladder(i, 20) == outside);
  }
  Expr beside;
  {
    const InExprScope another(new_expr_scope()); // which knows nothing of it
    beside = ladder(i + n, 20);
    CHECK(ladder(i, 20) == outside);
    CHECK(beside.lhs() + beside.rhs() == beside);
  }
  CHECK(ladder(i + n, 20) == beside);
  CHECK(outside.lhs() + outside.rhs() == outside);
}

TEST_CASE("parts of two scopes that know nothing of each other are a fault") {
  const Var n("n", 1, 64);
  const ExprScopeRef one = new_expr_scope(), other = new_expr_scope();
  Expr i, j;
  {
    const InExprScope inside(one);
    i = loop_var(0, "i", n);
  }
  {
    const InExprScope inside(other);
    j = loop_var(1, "j", n);
    CHECK_THROWS_AS(i + j, InternalError);
    CHECK_THROWS_AS(min(j, i), InternalError);
  }
  CHECK_THROWS_AS(i * j, InternalError);
  CHECK(to_string(i + n) == "i + n");
}

TEST_CASE("a user's function inside of a compilation makes the user's expressions") {
  const Var n("n", 1, 64);
  Expr kept;
  {
    const InExprScope inside(new_expr_scope());
    CHECK(current_expr_scope() != nullptr);
    const InExprScope none(nullptr);
    CHECK(current_expr_scope() == nullptr);
    kept = loop_var(0, "mine", n) + n * 3;
  }
  CHECK(current_expr_scope() == nullptr);
  CHECK(kept == loop_var(0, "mine", n) + n * 3);
}

TEST_CASE("threads with scopes of their own do not see each other's") {
  const Var n("n", 1, 4096);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  const Expr shared = n * 3 + 1;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const InExprScope inside(new_expr_scope());
        const Expr i = loop_var(0, "i", n), made = ladder(i + n * round, 10);
        if (ladder(i + n * round, 10) != made || made.lhs() + made.rhs() != made) ++wrong;
        if (n * 3 + 1 != shared || shared.lhs() + shared.rhs() != shared) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
