// View: single movement ops, what composes and what does not, text, and index arithmetic.
#include <doctest/doctest.h>

#include "lathe/error.hpp"
#include "view/view.hpp"

using namespace lathe;

namespace {

const Expr n = Var("n", 1, 4096);

std::optional<Expr> lookup(std::string_view name) {
  if (name == "n") return n;
  return std::nullopt;
}

} // namespace

TEST_CASE("a contiguous view") {
  View v = View::contiguous({2, n, 4});
  CHECK(v.is_contiguous());
  CHECK_FALSE(v.has_mask());
  CHECK(v.strides() == std::vector<Expr>{n * 4, 4, 1});
  CHECK(View::contiguous({2, 1, 3}).strides()[1] == 0);
  CHECK(View::contiguous({}).is_contiguous());
  CHECK_FALSE(v.flip({true, false, false}).is_contiguous());
  CHECK(v.hash() == View::contiguous({2, n, 4}).hash());
  CHECK(v.hash() != View::contiguous({2, n, 2}).hash());
}

TEST_CASE("movement ops are edits of one view") {
  View v = View::contiguous({n, 64});
  CHECK(v.permute({1, 0}).permute({1, 0}) == v);
  CHECK(v.flip({true, true}).flip({true, true}) == v);
  CHECK(*v.reshape({n * 64}) == View::contiguous({n * 64}));
  CHECK(*View::contiguous({n * 64}).reshape({n, 64}) == v);
  CHECK(*v.reshape({n, 8, 8}) == View::contiguous({n, 8, 8}));
  CHECK_FALSE(v.permute({1, 0}).reshape({n * 64}).has_value());
  CHECK(v.pad({1, 0}, {2, 0}).shrink({1, 0}, {n + 1, 64}) == v);
  CHECK(v.pad({1, 0}, {2, 0}).has_mask());
  CHECK(v.stride({1, 4}).shape() == Shape{n, 16});
  CHECK(v.window(1, 3, 1, 1)->shape() == Shape{n, 62, 3});
  CHECK_FALSE(v.pad({0, 1}, {0, 0}).window(1, 3, 1, 1).has_value());
  CHECK(View::contiguous({1, 3}).expand({n, 3}).strides() == std::vector<Expr>{0, 1});
  CHECK_THROWS_AS(v.permute({0}), InternalError);
}

TEST_CASE("reshape keeps masks where they stay boxes") {
  View padded = View::contiguous({4, 6}).pad({1, 0}, {1, 0}); // 6 x 6, rows 1 to 4 valid
  auto flat = padded.reshape({36});
  REQUIRE(flat);
  CHECK(flat->mask()[0] == Interval{6, 30});
  CHECK(*flat->reshape({6, 6}) == padded);
  CHECK(flat->reshape({2, 18}) == std::nullopt);
  CHECK_FALSE(View::contiguous({4, 6}).pad({0, 1}, {0, 1}).reshape({32}).has_value());
  auto empty = View::contiguous({1}).pad({0}, {1}).shrink({1}, {2}); // one element, of padding
  CHECK_FALSE(empty.reshape({}).has_value());
  CHECK(empty.reshape({1, 1})->has_mask());
}

TEST_CASE("composition finds the linear view where there is one") {
  View rows = View::contiguous({n, 64});
  View t = rows.permute({1, 0});
  CHECK(*compose(t, View::contiguous({64, n}).permute({1, 0})) == rows);
  CHECK(*compose(rows, View::contiguous({n * 64}).flip({true})) == View({n * 64}, {-1}, n * 64 - 1, {}));
  CHECK(*compose(t, View::contiguous({64, n}).flip({true, true})) == t.flip({true, true}));
  CHECK(*compose(t, View::contiguous({64, n}).pad({1, 2}, {0, 1})) == t.pad({1, 2}, {0, 1}));
  CHECK(*compose(t.pad({0, 2}, {0, 0}), View::contiguous({64, n + 2}).shrink({0, 1}, {64, n + 1})) ==
        t.pad({0, 2}, {0, 0}).shrink({0, 1}, {64, n + 1}));
  CHECK_FALSE(compose(t, View::contiguous({n * 64})).has_value());
  ViewStack stack(t);
  stack.push(View::contiguous({n * 64}));
  CHECK(stack.views().size() == 2);
  CHECK(stack.shape() == Shape{n * 64});
  Expr i = loop_var(0, "i", n * 64);
  CHECK(stack.access({i}).offset == mod(i, n) * 64 + floordiv(i, n));
}

TEST_CASE("access folds the conditions that its loops imply") {
  View v = View::contiguous({n}).pad({1}, {1});
  Expr i = loop_var(0, "i", n + 2), j = loop_var(1, "j", n);
  CHECK(v.access({i}).valid.size() == 2);
  CHECK(v.access({j + 1}).valid.empty());
  CHECK(v.access({j + 1}).offset == j);
  CHECK(v.access({j}).valid.size() == 1);
  CHECK(v.access({Expr(0)}).valid == std::vector<Expr>{0});
}

TEST_CASE("delinearise and linearise") {
  Expr i = loop_var(0, "i", n), j = loop_var(1, "j", 8), k = loop_var(2, "k", 5);
  const Shape shape{n, 1, 8, 5};
  CHECK(delinearise(linearise({i, 0, j, k}, shape), shape) == std::vector<Expr>{i, 0, j, k});
  Expr x = loop_var(3, "x", n * 40);
  CHECK(linearise(delinearise(x, shape), shape) == x);
  CHECK(delinearise(7, {3, 4}) == std::vector<Expr>{1, 3});
}

TEST_CASE("text parses back") {
  for (const View& v :
       {View::contiguous({}), View::contiguous({2, n}), View::contiguous({n, 4}).pad({1, 0}, {min(3, n), 2}),
        View::contiguous({n, 6}).flip({true, false}).stride({1, 4}),
        View::contiguous({floordiv(n, 3) + 1, 2})}) {
    CAPTURE(to_string(v));
    CHECK(parse_view(to_string(v), lookup) == v);
  }
  CHECK(to_string(View::contiguous({2, 3}).permute({1, 0})) == "view([3, 2], strides [1, 3], offset 0)");
  for (const char* bad :
       {"", "view", "view([2], strides [1], offset 0", "view([2], strides [1, 2], offset 0)",
        "view([2], strides [1])", "view([2], strides [1], offset 0, mask [0:1, 0:1])",
        "view([2], strides [1], offset 0, mask [0])", "view([2], strides [1], offset 0) x",
        "view([q], strides [1], offset 0)"})
    CHECK_THROWS_AS(parse_view(bad, lookup), Error);
}
