// Every value rule is evaluated on both sides over a range of operands, whatever it says.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ast/value_rules.hpp"

using namespace lathe;
using namespace lathe::ast;

namespace {

using Values = std::array<Scalar, kLetterCount>;

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

/// These rules round once where the ops rounded twice.
bool rounds_once(const ValueRule& rule) { return std::string_view(rule.name).starts_with("round-"); }

bool agree(const Scalar& a, const Scalar& b, bool zero_sign_matters, double scale) {
  if (a == b) return true;
  if (!is_float(a.dtype())) return false;
  const double x = a.as_float(), y = b.as_float();
  if (std::isnan(x) && std::isnan(y)) return true;
  if (!zero_sign_matters && x == 0 && y == 0) return true;
  return scale > 0 && std::abs(x - y) <= scale;
}

/// The letters of a side; those in the condition of a Where are bool.
void find_letters(const RuleSide& side, size_t at, bool condition, std::vector<int>& slots, Values& kinds) {
  const RuleTerm& t = side.terms[at];
  if (t.kind == RuleTerm::Any || t.kind == RuleTerm::Constant) {
    if (std::find(slots.begin(), slots.end(), t.letter) == slots.end()) slots.push_back(t.letter);
    kinds[t.letter] = Scalar::of_int(DType::Bool, condition);
  }
  if (t.kind != RuleTerm::Apply) return;
  size_t child = at + 1;
  for (int i = 0; i < t.arity; ++i) {
    find_letters(side, child, condition || (t.op == Op::Where && i == 0), slots, kinds);
    child = side.terms[child].end;
  }
}

/// Tries all combinations of specimens for the letters that the rule uses.
int64_t check_rule(const ValueRule& rule, DType dtype) {
  std::vector<int> slots;
  Values is_condition;
  find_letters(rule.left, 0, false, slots, is_condition);
  const auto values = specimens(dtype), bools = specimens(DType::Bool);
  std::vector<size_t> pick(slots.size(), 0);
  int64_t checked = 0;
  for (;;) {
    Values bound;
    for (size_t s = 0; s < slots.size(); ++s) {
      const auto& from = is_condition[slots[s]].as_bool() ? bools : values;
      bound[slots[s]] = from[pick[s] % from.size()];
    }
    const std::string_view name = rule.name;
    if (name == "add-minus-zero") bound[letter_slot('A')] = Scalar::of_float(dtype, -0.0);
    if (name == "div-exact") { // holds for powers of two alone
      Scalar& divisor = bound[letter_slot('A')];
      int exponent = 0;
      std::frexp(divisor.as_float(), &exponent);
      divisor =
          Scalar::of_float(dtype, std::ldexp(divisor.as_float() < 0 ? -1 : 1, std::clamp(exponent, -14, 14)));
    }
    if (name == "bits-down" || name == "bits-up") { // for distances within the dtype, in this order
      Scalar &down = bound[letter_slot('A')], &up = bound[letter_slot('C')];
      const int64_t bits = 8 * size_of(dtype), a = down.as_int() & (bits - 1), c = up.as_int() & (bits - 1);
      down = Scalar::of_int(dtype, name == "bits-down" ? std::max(a, c) : std::min(a, c));
      up = Scalar::of_int(dtype, name == "bits-down" ? std::min(a, c) : std::max(a, c));
    }
    // A number in a condition is bool; one that is the whole replacement has the dtype of the result.
    const DType number =
        rule.left.terms[0].op == Op::Where && rule.left.terms[1].kind != RuleTerm::Any ? DType::Bool : dtype;
    const Scalar left = evaluate(rule.left, bound, number);
    const bool literal = rule.right.terms[0].kind == RuleTerm::Number;
    const Scalar right = evaluate(rule.right, bound, literal ? left.dtype() : dtype);
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
      for (int s : slots) at.append(" ").append(to_string(bound[s]));
      FAIL_CHECK(std::string(rule.name), " on ", std::string(to_string(dtype)), ":", at, ": ",
                 to_string(left), " but ", to_string(right));
      return checked;
    }
    ++checked;
    size_t s = 0;
    for (; s < slots.size(); ++s) {
      const auto& from = is_condition[slots[s]].as_bool() ? bools : values;
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
  for (const ValueRule& rule : value_rules().rules()) {
    const Op root = rule.left.terms[0].op;
    if (root == Op::Cast || root == Op::Bitcast) continue; // below
    ++rules;
    bool any = false;
    for (int d = 0; d < kDTypeCount; ++d) {
      const DType dtype = static_cast<DType>(d);
      if (!in_domain(rule.domain, dtype)) continue;
      if (rounds_once(rule) && rule.when && dtype != DType::F32 && dtype != DType::F64) continue;
      bool accepted = true;
      for (const RuleSide* side : {&rule.left, &rule.right})
        for (int t = 0; t < side->count; ++t)
          if (side->terms[t].kind == RuleTerm::Apply) {
            const bool in_condition = side->terms[t].op == Op::Xor && rule.left.terms[0].op == Op::Where;
            accepted = accepted && (in_condition || accepts(info(side->terms[t].op).dtypes, dtype));
          }
      if (!accepted) continue;
      any = true;
      checked += check_rule(rule, dtype);
    }
    CHECK_MESSAGE(any, rule.name);
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
