// The identities that the simplifier knows, each as a row of text: both sides become the same node, and mean
// the same number for every value of the variables. Then random expressions against their unsimplified
// selves.
#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <random>

#include <fmt/core.h>

#include "lathe/error.hpp"
#include "lathe/expr.hpp"
#include "view/prove.hpp"

using namespace lathe;

namespace {

using Values = std::vector<std::pair<Expr, int64_t>>;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// An expression as it was written, never simplified.
struct Tree {
  ExprKind kind;
  int64_t value = 0;
  Expr var;
  std::shared_ptr<Tree> a, b;
};
using TreeRef = std::shared_ptr<Tree>;

/// Nothing for a division by zero.
std::optional<int64_t> run(const TreeRef& t, const Values& values) {
  if (t->kind == ExprKind::Const) return t->value;
  if (t->kind == ExprKind::Var) {
    for (auto& [var, n] : values)
      if (var == t->var) return n;
    return std::nullopt;
  }
  const auto a = run(t->a, values), b = run(t->b, values);
  if (!a || !b) return std::nullopt;
  switch (t->kind) {
  case ExprKind::Add: return *a + *b;
  case ExprKind::Mul: return *a * *b;
  case ExprKind::FloorDiv: return *b ? std::optional(floor_div(*a, *b)) : std::nullopt;
  case ExprKind::Mod: return *b ? std::optional(*a - floor_div(*a, *b) * *b) : std::nullopt;
  case ExprKind::Min: return std::min(*a, *b);
  case ExprKind::Max: return std::max(*a, *b);
  case ExprKind::Lt: return *a < *b;
  case ExprKind::Le: return *a <= *b;
  case ExprKind::Eq: return *a == *b;
  case ExprKind::And: return *a && *b;
  default: return std::nullopt;
  }
}

Expr simplify(const TreeRef& t) {
  if (t->kind == ExprKind::Const) return t->value;
  if (t->kind == ExprKind::Var) return t->var;
  const Expr a = simplify(t->a), b = simplify(t->b);
  switch (t->kind) {
  case ExprKind::Add: return a + b;
  case ExprKind::Mul: return a * b;
  case ExprKind::FloorDiv: return floordiv(a, b);
  case ExprKind::Mod: return mod(a, b);
  case ExprKind::Min: return min(a, b);
  case ExprKind::Max: return max(a, b);
  case ExprKind::Lt: return lt(a, b);
  case ExprKind::Le: return le(a, b);
  case ExprKind::Eq: return eq(a, b);
  case ExprKind::And: return land(a, b);
  default: throw InternalError("simplify");
  }
}

std::string text(const TreeRef& t) {
  static const char* ops[] = {"",      "",      " + ", " * ",  " // ", " % ",
                              " min ", " max ", " < ", " <= ", " == ", " && "};
  if (t->kind == ExprKind::Const) return std::to_string(t->value);
  if (t->kind == ExprKind::Var) return t->var.name();
  return fmt::format("({}{}{})", text(t->a), ops[static_cast<int>(t->kind)], text(t->b));
}

TreeRef constant(int64_t v) { return std::make_shared<Tree>(Tree{ExprKind::Const, v, {}, {}, {}}); }
TreeRef variable(Expr v) { return std::make_shared<Tree>(Tree{ExprKind::Var, 0, v, {}, {}}); }
TreeRef node(ExprKind k, TreeRef a, TreeRef b) {
  return std::make_shared<Tree>(Tree{k, 0, {}, std::move(a), std::move(b)});
}

int64_t value_at(Expr e, const Values& values) {
  return evaluate(e, [&](Expr v) {
    for (auto& [var, n] : values)
      if (var == v) return n;
    throw Error(ErrorKind::Name, "unbound");
  });
}

/// The variables of the tests: i in [0, 10), j in [0, n), t the inner loop of a split with a tail, s of one
/// without.
struct World {
  Expr n = Var("n", 1, 40), m = Var("m", 2, 9);
  Expr i = loop_var(0, "i", 10), j = loop_var(1, "j", n), k = loop_var(2, "k", 4);
  Expr o = loop_var(3, "o", ceildiv(n, 8)), t = loop_var(4, "t", min(8, n - o * 8));
  Expr p = loop_var(5, "p", 4), q = loop_var(6, "q", min(32, 127 - p * 32));
  Expr u = loop_var(7, "u", ceildiv(min(8, n - o * 8), 3)),
       v = loop_var(8, "v", min(3, min(8, n - o * 8) - u * 3));
  std::vector<Expr> all{n, m, i, j, k, o, t, p, q, u, v};

  /// A random assignment within the extents.
  Values draw(std::mt19937& random) const {
    Values values;
    for (Expr var : all) {
      int64_t lo = var.lo(), hi = var.hi();
      if (auto extent = var.extent()) hi = value_at(*extent, values) - 1;
      const int64_t pick = random() % 4;
      values.emplace_back(
          var, pick == 0   ? lo
               : pick == 1 ? hi
                           : lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1)));
    }
    return values;
  }
  std::optional<Expr> find(std::string_view name) const {
    for (Expr var : all)
      if (var.name() == name) return var;
    return std::nullopt;
  }
};

const World& world() {
  static const World w;
  return w;
}

/// Text to a tree, with the grammar of parse_expr but no thought of simplification; fully parenthesised or
/// one operator.
struct TreeParser {
  std::string_view s;
  size_t at = 0;
  void space() {
    while (at < s.size() && s[at] == ' ') at++;
  }
  bool take(std::string_view w) {
    space();
    if (s.substr(at, w.size()) != w) return false;
    at += w.size();
    return true;
  }
  TreeRef atom() {
    space();
    if (take("-")) return node(ExprKind::Mul, constant(-1), atom());
    if (take("min(")) return call(ExprKind::Min);
    if (take("max(")) return call(ExprKind::Max);
    if (take("(")) {
      auto e = parse(0);
      REQUIRE(take(")"));
      return e;
    }
    if (at < s.size() && std::isdigit(static_cast<unsigned char>(s[at]))) {
      int64_t v = 0;
      while (at < s.size() && std::isdigit(static_cast<unsigned char>(s[at]))) v = v * 10 + (s[at++] - '0');
      return constant(v);
    }
    const auto var = world().find(s.substr(at, 1));
    REQUIRE_MESSAGE(var, std::string(s.substr(at)));
    at++;
    return variable(*var);
  }
  TreeRef call(ExprKind kind) {
    auto a = parse(0);
    REQUIRE(take(","));
    auto b = parse(0);
    REQUIRE(take(")"));
    return node(kind, a, b);
  }
  TreeRef parse(int level) {
    static const std::vector<std::vector<std::pair<const char*, ExprKind>>> levels{
        {{"&&", ExprKind::And}},
        {{"==", ExprKind::Eq}},
        {{"<=", ExprKind::Le}, {"<", ExprKind::Lt}},
        {{"+", ExprKind::Add}, {"-", ExprKind::Add}},
        {{"*", ExprKind::Mul}, {"//", ExprKind::FloorDiv}, {"%", ExprKind::Mod}}};
    if (level == static_cast<int>(levels.size())) return atom();
    auto e = parse(level + 1);
    for (bool again = true; again;) {
      again = false;
      for (auto& [op, kind] : levels[static_cast<size_t>(level)]) {
        if (!take(op)) continue;
        auto r = parse(level + 1);
        e = node(kind, e, op[0] == '-' ? node(ExprKind::Mul, constant(-1), r) : r);
        again = true;
        break;
      }
    }
    return e;
  }
};

struct Identity {
  const char *from, *to;
};
constexpr Identity kIdentities[] = {
    {"(i*64 + q) // 64", "i"},
    {"(i*64 + q) % 64", "q"},
    {"(i*n + j) // n", "i"},
    {"(i*n + j) % n", "j"},
    {"(i*n + j) // (n*4)", "i // 4"},
    {"(i*n + j) % (n*4)", "(i % 4)*n + j"},
    {"((i*m + k)*n + j) // n", "i*m + k"},
    {"(i*(n + 1) + j) // (n + 1)", "i"},
    {"(i // 3) // 5", "i // 15"},
    {"(j // 3) // m", "j // (m*3)"},
    {"(j // 3 + 2) // 4", "(j + 6) // 12"},
    {"(j % 24) % 6", "j % 6"},
    {"(i*6 + j % 24) % 6", "j % 6"},
    {"(j % 24) // 6", "(j // 6) % 4"},
    {"(j // 7)*7 + j % 7", "j"},
    {"(j // 7)*m*7 + (j % 7)*m", "j*m"},
    {"(j // m)*m + j % m", "j"},
    {"j % 4 + ((j // 4) % 8)*4", "j % 32"},
    {"(i*4 + k*8 + p) // 4", "i + k*2"},
    {"(i*12 + j*4 + k) // 4", "i*3 + j"},
    {"(i*12 + j*8 + k) // 16", "(i*3 + j*2) // 4"},
    {"(i*12 + j*8 + k) % 16", "((i*3 + j*2) % 4)*4 + k"},
    {"j // -3", "(-j) // 3"},
    {"j % -3", "-((-j) % 3)"},
    {"(9 - i) // 10", "0"},
    {"(n - 1 - j) // n", "0"},
    {"(n - 1 - j) % n", "n - 1 - j"},
    {"(j - n) // n", "-1"},
    {"(-1 - i) // 10", "-1"},
    {"(p*32 + q) // 127", "0"},
    {"(i*127 + p*32 + q) // 127", "i"},
    {"(i*127 + p*32 + q) % 127", "p*32 + q"},
    {"(o*8 + t) // n", "0"},
    {"(i*n + o*8 + t) // n", "i"},
    {"(i*n + o*8 + u*3 + v) % n", "o*8 + u*3 + v"},
    {"o*8 + t < n", "1"},
    {"o*8 + u*3 + v < n", "1"},
    {"p*32 + q < 127", "1"},
    {"n <= j", "0"},
    {"j < n", "1"},
    {"j + 1 < n + 1", "1"},
    {"i*4 < k*4 + 2", "i < k + 1"},
    {"i < k && i < k + 3", "i < k"},
    {"i*2 == k*2 + 1", "0"},
    {"j == n", "0"},
    {"i == k", "k == i"},
    {"min(n, n + 5)", "n"},
    {"max(n, n + 5)", "n + 5"},
    {"min(max(n, i), n)", "n"},
    {"min(j, n)", "j"},
    {"min(min(n, i), min(i, m))", "min(m, min(i, n))"},
    {"min(32, 127 - k*32)", "min(127 - k*32, 32)"},
    {"(min(32, 127 - k*32) + 7) // 8", "min(4, 16 - k*4)"},
    {"(i + k)*(i - k)", "i*i - k*k"},
    {"(n + 1)*(m - 1) - n*m", "m - n - 1"},
    // Nearly an identity: these keep their meaning only if they are left alone.
    {"(j // 7)*8 + j % 7", "j % 7 + (j // 7)*8"},
    {"j % 4 + ((j // 4) % 8)*5", "((j // 4) % 8)*5 + j % 4"},
    {"j % 4 + ((j // 5) % 8)*4", "((j // 5) % 8)*4 + j % 4"},
    {"(j // m)*n + j % m", "j % m + (j // m)*n"},
    {"(j % 24) // 5", "(j % 24 + 5) // 5 - 1"},
    {"(j % 24) % 7", "(j % 24 + 7) % 7"},
    {"(j % 24 + 1) // 6", "(j % 24 + 7) // 6 - 1"},
    {"(i*n + j) // (n + 1)", "(j + i*n) // (n + 1)"},
    {"(i*n + j + 1) // n", "i + (j + 1) // n"},
    {"(i*64 + q*3) // 64", "i + q*3 // 64"},
    {"(i*12 + j*8 + q) // 16", "(i*12 + j*8 + q + 16) // 16 - 1"},
    {"o*8 + t < n - 1", "o*8 + t + 1 < n"},
    {"p*32 + q < 126", "p*32 + q + 1 < 127"},
    {"(p*32 + q) // 126", "(p*32 + q + 126) // 126 - 1"},
    {"(o*8 + t + 1) // n", "(o*8 + t + 1 + n) // n - 1"},
    {"(-j) // n", "(n - j) // n - 1"},
    {"i < k && i < j", "i < j && i < k"},
    {"i*4 < k*4 + 1", "i < k + 1"},
    {"i*4 <= k*4 + 3", "i <= k"},
    {"i*2 == k*4 + 2", "i == k*2 + 1"},
    {"(min(30, 127 - k*32) + 7) // 8", "min(4, 16 - k*4)"},
};

} // namespace

TEST_CASE("identities") {
  std::mt19937 random(3);
  for (const Identity& row : kIdentities) {
    CAPTURE(row.from);
    auto lookup = [](std::string_view name) { return world().find(name); };
    const Expr from = parse_expr(row.from, lookup), to = parse_expr(row.to, lookup);
    CAPTURE(to_string(from));
    CAPTURE(to_string(to));
    CHECK(from == to);
    const TreeRef a = TreeParser{row.from}.parse(0), b = TreeParser{row.to}.parse(0);
    for (int round = 0; round < 400; round++) {
      const Values values = world().draw(random);
      const auto x = run(a, values), y = run(b, values);
      REQUIRE(x == y);
      REQUIRE(value_at(from, values) == *x);
    }
  }
}

namespace {

class Generator {
public:
  explicit Generator(unsigned seed) : random_(seed) {}
  size_t pick(size_t n) { return random_() % n; }
  std::mt19937& random() { return random_; }

  TreeRef leaf() {
    if (pick(4) == 0) return constant(static_cast<int64_t>(pick(40)) - 12);
    return variable(world().all[pick(world().all.size())]);
  }
  TreeRef divisor() {
    switch (pick(8)) {
    case 0: return variable(world().n);
    case 1: return variable(world().m);
    case 2: return node(ExprKind::Mul, variable(world().n), constant(static_cast<int64_t>(1 + pick(4))));
    case 3: return node(ExprKind::Add, variable(world().m), constant(static_cast<int64_t>(pick(3))));
    case 4: return node(ExprKind::Mul, variable(world().n), variable(world().m));
    case 5: return pick(4) ? constant(127) : constant(-static_cast<int64_t>(1 + pick(5)));
    default: {
      static const int64_t common[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
      return constant(common[pick(std::size(common))]);
    }
    }
  }
  TreeRef tree(int depth) {
    if (depth == 0) return leaf();
    switch (pick(12)) {
    case 0:
    case 1:
    case 2: return node(ExprKind::Add, tree(depth - 1), tree(depth - 1));
    case 3:
    case 4: return node(ExprKind::Mul, tree(depth - 1), pick(3) ? divisor() : leaf());
    case 5:
    case 6: return node(ExprKind::FloorDiv, tree(depth - 1), divisor());
    case 7:
    case 8: return node(ExprKind::Mod, tree(depth - 1), divisor());
    case 9: return node(ExprKind::Min, tree(depth - 1), tree(depth - 1));
    case 10: return node(ExprKind::Max, tree(depth - 1), tree(depth - 1));
    default: {
      static const ExprKind compare[] = {ExprKind::Lt, ExprKind::Le, ExprKind::Eq};
      const TreeRef first = node(compare[pick(3)], tree(depth - 1), tree(depth - 1));
      if (pick(2)) return first;
      return node(ExprKind::And, first, node(compare[pick(3)], tree(depth - 1), tree(depth - 1)));
    }
    }
  }

private:
  std::mt19937 random_;
};

} // namespace

TEST_CASE("random expressions mean what they meant before simplification") {
  Generator g(1);
  auto lookup = [](std::string_view name) { return world().find(name); };
  int64_t checks = 0, provable = 0;
  for (int round = 0; round < 30000; round++) {
    const TreeRef a = g.tree(1 + static_cast<int>(g.pick(4))), b = g.tree(static_cast<int>(g.pick(3)));
    const Expr x = simplify(a), y = simplify(b);
    const bool less = proves_lt(x, y), less_equal = proves_le(x, y);
    provable += less || less_equal;
    const auto parts = separate(x, {world().i, world().t});
    if (depends_on(parts.first, world().i) || depends_on(parts.first, world().t))
      FAIL("separate " << to_string(x));
    const Expr var = world().all[2 + g.pick(4)];
    const auto stride = stride_of(x, var);
    if (parse_expr(to_string(x), lookup) != x) FAIL("does not parse back: " << to_string(x));
    for (int draw = 0; draw < 12; draw++) {
      Values values = world().draw(g.random());
      const auto expected = run(a, values);
      const auto other = run(b, values);
      if (!expected) continue;
      const int64_t got = value_at(x, values);
      if (got != *expected)
        FAIL(text(a) << " became " << to_string(x) << " and is " << got << ", not " << *expected);
      if (got < x.lo() || got > x.hi())
        FAIL(to_string(x) << " = " << got << " not in " << x.lo() << ".." << x.hi());
      if (value_at(parts.first, values) + value_at(parts.second, values) != got)
        FAIL("separate " << to_string(x));
      if (other && less && !(got < *other)) FAIL("proved " << to_string(x) << " < " << to_string(y));
      if (other && less_equal && !(got <= *other)) FAIL("proved " << to_string(x) << " <= " << to_string(y));
      checks += 4;
      if (!stride) continue;
      for (auto& [v, n] : values) // one step on, if that is in range and no inner loop's range is left
        if (v == var && (v == world().i || v == world().k || v == world().j)) {
          const int64_t last = v.extent() ? value_at(*v.extent(), values) - 1 : v.hi();
          if (n == last) continue;
          const int64_t step = value_at(*stride, values);
          n++;
          const auto next = run(a, values);
          if (next && *next - got != step) FAIL("stride of " << to_string(x) << " along " << v.name());
          n--;
          checks++;
        }
    }
  }
  std::cout << checks << " checks of random expressions, " << provable << " comparisons proved\n";
  CHECK(provable > 1000);
}

TEST_CASE("what is proved from facts is true wherever they hold") {
  Generator g(5);
  int64_t proved = 0, held = 0;
  for (int round = 0; round < 20000; round++) {
    const auto some = [&] { return g.tree(static_cast<int>(g.pick(3))); };
    const TreeRef a = some(), b = some(), c = some(), d = some();
    const auto off = [&] { return constant(static_cast<int64_t>(g.pick(3)) - 1); };
    const auto minus = [](const TreeRef& x, const TreeRef& y) {
      return node(ExprKind::Add, x, node(ExprKind::Mul, constant(-1), y));
    };
    // a <= b and c <= d, or nearly; and what may follow for a minimum or maximum of them.
    const std::vector<TreeRef> facts{minus(a, node(ExprKind::Add, b, off())),
                                     minus(c, node(ExprKind::Add, d, off()))};
    static const ExprKind arms[] = {ExprKind::Min, ExprKind::Max, ExprKind::Add};
    const ExprKind kind = arms[g.pick(3)], other = arms[g.pick(3)];
    const TreeRef claim = minus(node(kind, a, g.pick(2) ? c : some()),
                                node(ExprKind::Add, node(other, b, g.pick(2) ? d : some()), off()));
    const Expr t = simplify(claim);
    if (proves_le(t, 0) || !proves_nonpositive(t, {simplify(facts[0]), simplify(facts[1])})) continue;
    ++proved;
    for (int draw = 0; draw < 40; draw++) {
      const Values values = world().draw(g.random());
      const auto first = run(facts[0], values), second = run(facts[1], values), value = run(claim, values);
      if (!first || !second || !value || *first > 0 || *second > 0) continue;
      ++held;
      if (*value > 0)
        FAIL(text(claim) << " is " << *value << " under " << text(facts[0]) << " <= 0 and " << text(facts[1])
                         << " <= 0");
    }
  }
  std::cout << proved << " claims proved from facts, " << held << " checks\n";
  CHECK(proved > 300);
  CHECK(held > 1000);
}

TEST_CASE("splitting a loop by substitution keeps the meaning") {
  Generator g(2);
  const Expr j = world().j, n = world().n;
  for (int64_t factor : {2, 3, 5, 8}) {
    const Expr outer = loop_var(20, "jo", ceildiv(n, factor));
    const Expr inner = loop_var(21, "ji", min(factor, n - outer * factor));
    for (int round = 0; round < 1500; round++) {
      const TreeRef a = g.tree(1 + static_cast<int>(g.pick(3)));
      const Expr x = simplify(a), split = substitute(x, {{j, outer * factor + inner}});
      if (depends_on(split, j)) FAIL("still there: " << to_string(split));
      for (int draw = 0; draw < 6; draw++) {
        Values values = world().draw(g.random());
        const auto expected = run(a, values);
        if (!expected) continue;
        const int64_t at = value_at(j, values);
        values.emplace_back(outer, at / factor);
        values.emplace_back(inner, at % factor);
        if (value_at(split, values) != *expected) FAIL(to_string(x) << " split: " << to_string(split));
      }
    }
  }
}
