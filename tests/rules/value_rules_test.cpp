// Every value rule is evaluated on both sides over a range of operands, whatever it says.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ast/value_rules.hpp"

using namespace lathe;
using namespace lathe::ast;

namespace {

using Values = std::array<Scalar, 2 * kRuleSlots>;

/// The dtype of each term: `root` for results, Where's condition bool; casts take `via` on the inner side.
Scalar side_value(const Side& side, int at, const Values& values, DType dtype) {
  const Term& term = side.terms[at];
  switch (term.kind) {
  case Term::Any:
  case Term::Constant: return values[term.slot];
  case Term::Literal:
    return term.minus_zero ? Scalar::of_float(dtype, -0.0) : Scalar::of_int(dtype, term.literal);
  case Term::Apply: break;
  }
  std::vector<Scalar> args;
  for (int operand = at + 1; operand < at + term.size; operand += side.terms[operand].size) {
    const bool condition = term.op == Op::Where && operand == at + 1;
    args.push_back(side_value(side, operand, values, condition ? DType::Bool : dtype));
  }
  return evaluate(term.op, result_dtype(term.op, dtype), args);
}

std::vector<Scalar> specimens(DType d) {
  std::vector<Scalar> out;
  if (is_float(d)) {
    for (double v : {0.0, -0.0, 1.0, -1.0, 0.5, -2.25, 3.0, 1e6, -1e30, 1e-40})
      out.push_back(Scalar::of_float(d, v));
    out.push_back(Scalar::of_float(d, std::numeric_limits<double>::infinity()));
    out.push_back(Scalar::of_float(d, std::numeric_limits<double>::quiet_NaN()));
  } else if (d == DType::Bool) {
    out = {Scalar::of_int(d, 0), Scalar::of_int(d, 1)};
  } else {
    for (int64_t v : {0l, 1l, 2l, 3l, -1l, -2l, 5l, 100l, 127l, -128l, 255l, INT64_MAX, INT64_MIN})
      out.push_back(Scalar::of_int(d, v));
  }
  return out;
}

bool rounds_once(const Rule& rule) {
  const Op op = rule.right.terms[0].op;
  return rule.right.terms[0].kind == Term::Apply && (op == Op::Fma || op == Op::Div) &&
         rule.cls != RuleClass::Any;
}

bool agree(const Scalar& a, const Scalar& b, bool zero_sign_matters, double scale) {
  if (a == b) return true;
  if (!is_float(a.dtype())) return false;
  const double x = a.as_float(), y = b.as_float();
  if (std::isnan(x) && std::isnan(y)) return true;
  if (!zero_sign_matters && x == 0 && y == 0) return true;
  return scale > 0 && std::abs(x - y) <= scale;
}

/// Tries all combinations of specimens for the slots that the rule uses.
int64_t check_rule(const Rule& rule, DType dtype) {
  std::vector<int> slots;
  std::vector<bool> is_condition(2 * kRuleSlots);
  for (int t = 0; t < rule.left.count; ++t) {
    const Term& term = rule.left.terms[t];
    if (term.kind == Term::Any || term.kind == Term::Constant)
      if (std::find(slots.begin(), slots.end(), term.slot) == slots.end()) slots.push_back(term.slot);
    if (term.kind == Term::Apply && term.op == Op::Where) {
      // The condition's whole subtree is bool.
      for (int c = t + 1; c < t + 1 + rule.left.terms[t + 1].size; ++c)
        if (rule.left.terms[c].kind == Term::Any) is_condition[rule.left.terms[c].slot] = true;
    }
  }
  const auto values = specimens(dtype), bools = specimens(DType::Bool);
  std::vector<size_t> pick(slots.size(), 0);
  int64_t checked = 0;
  for (;;) {
    Values bound;
    for (size_t s = 0; s < slots.size(); ++s) {
      const auto& from = is_condition[slots[s]] ? bools : values;
      bound[slots[s]] = from[pick[s] % from.size()];
    }
    const Scalar left = side_value(rule.left, 0, bound, dtype);
    const bool literal = rule.right.terms[0].kind == Term::Literal; // it has the dtype of the result
    const Scalar right = side_value(rule.right, 0, bound, literal ? left.dtype() : dtype);
    double scale = 0;
    if (rounds_once(rule) && is_float(dtype)) {
      // Two roundings against one: a few units of the largest magnitude on the way.
      double largest = std::abs(left.as_float());
      for (int s : slots)
        for (int t : slots) largest = std::max(largest, std::abs(bound[s].as_float() * bound[t].as_float()));
      if (!std::isfinite(largest) || !std::isfinite(left.as_float())) largest = -1;
      const double unit = dtype == DType::F64   ? 0x1p-51
                          : dtype == DType::F32 ? 0x1p-22
                          : dtype == DType::F16 ? 0x1p-9
                                                : 0x1p-6;
      scale = largest < 0 ? -1 : largest * unit + 1e-37;
    }
    const bool max_of_zeros = rule.left.terms[0].op == Op::Max;
    if (scale >= 0 && !agree(left, right, !max_of_zeros && scale == 0, scale)) {
      std::string at;
      for (int s : slots) at += " " + to_string(bound[s]);
      FAIL_CHECK(std::string(rule.pattern), " -> ", std::string(rule.replacement), " on ",
                 std::string(to_string(dtype)), ":", at, ": ", to_string(left), " but ", to_string(right));
      return checked;
    }
    ++checked;
    size_t s = 0;
    for (; s < slots.size(); ++s) {
      const auto& from = is_condition[slots[s]] ? bools : values;
      if (++pick[s] < from.size()) break;
      pick[s] = 0;
    }
    if (s == slots.size()) return checked;
  }
}

} // namespace

TEST_CASE("every rule holds for every combination of specimens, on every dtype of its class") {
  int64_t checked = 0;
  size_t rules = 0;
  for (const Rule& rule : value_rules()) {
    const Op root = rule.left.terms[0].op;
    if (root == Op::Cast || root == Op::Bitcast) continue; // below
    ++rules;
    bool any = false;
    for (int d = 0; d < kDTypeCount; ++d) {
      const DType dtype = static_cast<DType>(d);
      if (!rule_applies(rule.cls, dtype)) continue;
      bool accepted = true;
      for (const Side* side : {&rule.left, &rule.right})
        for (int t = 0; t < side->count; ++t)
          if (side->terms[t].kind == Term::Apply) {
            const bool in_condition = side->terms[t].op == Op::Xor && rule.left.terms[0].op == Op::Where;
            accepted = accepted && (in_condition || accepts(info(side->terms[t].op).dtypes, dtype));
          }
      if (!accepted) continue;
      any = true;
      checked += check_rule(rule, dtype);
    }
    CHECK_MESSAGE(any, rule.pattern);
  }
  MESSAGE(rules, " rules, ", checked, " evaluations");
  CHECK(rules > 50);
  CHECK(checked > 50000);
}

TEST_CASE("casts of casts: all pairs of dtypes, all specimens") {
  int64_t shortened = 0;
  for (int a = 0; a < kDTypeCount; ++a)
    for (int b = 0; b < kDTypeCount; ++b)
      for (int c = 0; c < kDTypeCount; ++c) {
        const DType from = static_cast<DType>(a), via = static_cast<DType>(b), to = static_cast<DType>(c);
        const auto x = std::make_shared<const Buffer>(Buffer{0, "x", from, {1}, Scope::Global});
        const ValueRef v = make(Op::Cast, to, make(Op::Cast, via, load(x, {0})));
        const bool two = v->op == Op::Cast && v->sources[0]->op == Op::Cast;
        if (two) continue;
        ++shortened;
        for (const Scalar& s : specimens(from)) {
          const Scalar expected = s.cast(via).cast(to), got = v->op == Op::Cast ? s.cast(to) : s;
          if (!agree(got, expected, true, 0))
            FAIL_CHECK(to_string(from), " ", to_string(via), " ", to_string(to), " of ", to_string(s));
        }
      }
  CHECK(shortened > 200);
}

TEST_CASE("bitcasts") {
  const auto x = std::make_shared<const Buffer>(Buffer{0, "x", DType::F32, {1}, Scope::Global});
  const ValueRef v = load(x, {0});
  CHECK(make(Op::Bitcast, DType::F32, make(Op::Bitcast, DType::I32, v)) == v);
  CHECK(make(Op::Bitcast, DType::U32, make(Op::Bitcast, DType::I32, v))->sources[0] == v);
}

TEST_CASE("a rule's commutative operands match in either order") {
  const auto x = std::make_shared<const Buffer>(Buffer{0, "x", DType::F32, {4}, Scope::Global});
  const ValueRef a = load(x, {0}), b = load(x, {1}), c = load(x, {2});
  const ValueRef product = make(Op::Mul, DType::F32, {a, b});
  CHECK(make(Op::Add, DType::F32, {product, c}) == make(Op::Add, DType::F32, {c, product}));
  CHECK(make(Op::Max, DType::F32, {a, make(Op::Max, DType::F32, {b, a})}) ==
        make(Op::Max, DType::F32, {b, a}));
}
