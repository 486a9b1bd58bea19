#include "core/rule_text.hpp"

namespace lathe {
namespace {

Scalar evaluate_at(const RuleSide& side, size_t at, std::span<const Scalar> values, DType number_dtype) {
  const RuleTerm& t = side.terms[at];
  if (t.kind == RuleTerm::Number) return Scalar::of_int(number_dtype, t.number);
  if (t.kind != RuleTerm::Apply) return values[t.letter];
  std::array<Scalar, 3> args;
  size_t child = at + 1;
  for (size_t i = 0; i < t.arity; i++) {
    args[i] = evaluate_at(side, child, values, number_dtype);
    child = side.terms[child].end;
  }
  return evaluate(t.op, result_dtype(t.op, args[t.arity - 1u].dtype()), std::span(args).first(t.arity));
}

} // namespace

Scalar evaluate(const RuleSide& side, std::span<const Scalar> values, DType number_dtype) {
  return evaluate_at(side, 0, values, number_dtype);
}

} // namespace lathe
