#include "ast/value_rules.hpp"

#include "core/identities.hpp"

namespace lathe::ast {
namespace {

using Match = RuleMatch<ValueTraits>;

bool same_dtype(const ValueRef& root, const Match&) { return root->dtype == root->sources[0]->dtype; }

/// Whether the product under `root` may become part of an Fma. Only f32 and f64 may, since f16 and bf16 are
/// rounded after every op. A product marked Rounded, which other ops read too, may not.
bool fusable(const ValueRef& root, const Match& match) {
  if (root->dtype != DType::F32 && root->dtype != DType::F64) return false;
  const ValueRef& product = root->sources[0] == match['c'] ? root->sources[1] : root->sources[0];
  return !std::holds_alternative<Rounded>(product->attr);
}

/// Distances A and C of "Shl(And(Shr(x, A), B), C)".
struct Distances {
  int64_t down, up;
  bool fit; // in the dtype's bits
};
Distances distances(const ValueRef& root, const Match& m) {
  const int64_t bits = 8 * size_of(root->dtype);
  const int64_t down = ValueTraits::constant(m['A'])->as_int(), up = ValueTraits::constant(m['C'])->as_int();
  return {down, up, down >= 0 && down < bits && up >= 0 && up < bits};
}
bool goes_down(const ValueRef& root, const Match& m) {
  const Distances d = distances(root, m);
  return d.fit && d.down >= d.up;
}
bool goes_up(const ValueRef& root, const Match& m) {
  const Distances d = distances(root, m);
  return d.fit && d.down < d.up;
}

using enum RuleDomain;

constexpr ValueRule kRules[] = {
    {"add-to-sub", Integer, "Add(Sub(a, b), b)", "a"},
    {"sub-self", Integer, "Sub(a, a)", "0"},
    {"sub-0", Integer, "Sub(a, 0)", "a"},
    {"sub-of-add", Integer, "Sub(Add(a, b), b)", "a"},
    {"neg-sub", Integer, "Neg(Sub(a, b))", "Sub(b, a)"},

    // Bits that are taken from one place and put at another: one shift.
    {"bits-down", Integer, "Shl(And(Shr(x, A), B), C)", "And(Shr(x, Sub(A, C)), Shl(B, C))", goes_down},
    {"bits-up", Integer, "Shl(And(Shr(x, A), B), C)", "And(Shl(x, Sub(C, A)), Shl(B, C))", goes_up},

    {"ne-true", Bool, "CmpNe(a, 1)", "Xor(a, 1)"},
    {"false-lt", Bool, "CmpLt(0, a)", "a"},
    {"max-of-bools", Bool, "Max(a, b)", "Or(a, b)"},
    {"where-false-true", Bool, "Where(a, 0, 1)", "Xor(a, 1)"},

    // A rule of floats may not change a result that is not a NaN, not even the sign of a zero. The three
    // round-fma rules are the exception: they round once where the ops rounded twice.
    {"sub-plus-0", Float, "Sub(a, 0)", "a"},
    {"mul-minus-1", Float, "Mul(a, -1)", "Neg(a)"},
    {"round-fma", Float, "Add(Mul(a, b), c)", "Fma(a, b, c)", fusable},
    {"round-fma-minus", Float, "Sub(Mul(a, b), c)", "Fma(a, b, Neg(c))", fusable},
    {"round-fma-from", Float, "Sub(c, Mul(a, b))", "Fma(Neg(a), b, c)", fusable},

    {"add-neg", Any, "Add(a, Neg(b))", "Sub(a, b)"},
    {"sub-neg", Any, "Sub(a, Neg(b))", "Add(a, b)"},
    {"mul-neg", Any, "Mul(Neg(a), b)", "Neg(Mul(a, b))"},
    {"max-max", Any, "Max(Max(a, b), b)", "Max(a, b)"},
    {"cast-to-same", Any, "Cast(a)", "a", same_dtype},
    {"bitcast-to-same", Any, "Bitcast(a)", "a", same_dtype},
};
constexpr auto kWithIdentities = with_identities(kRules);

} // namespace

const RuleEngine<ValueTraits>& value_rules() {
  static const RuleEngine<ValueTraits> engine("value", kWithIdentities);
  return engine;
}

} // namespace lathe::ast
