#include "onnx/ops/counted_loop.hpp"

#include "lathe/scan.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// The bound of the symbols that stand for integers while the body is looked at. Up to 2^24 - 1 a counter is
/// exact also where it is compared in f32.
constexpr int64_t kMost = (int64_t{1} << 24) - 2;

bool may_count(const Value& value) {
  const auto& known = value.integers();
  return value.is_tensor() && is_integer(value.dtype()) && known && known->size() == 1 &&
         known->front().lo() >= 0;
}

/// The first iteration, counted from 0, after which the condition fails; `iteration` is its variable. Nothing
/// if that can't be said.
std::optional<Expr> first_failure(Expr condition, Expr iteration) {
  if (condition.is_const(0)) return Expr(0);
  switch (condition.kind()) {
  case ExprKind::And: {
    const auto a = first_failure(condition.lhs(), iteration), b = first_failure(condition.rhs(), iteration);
    return a && b ? std::optional(min(*a, *b)) : std::nullopt;
  }
  case ExprKind::Lt:
  case ExprKind::Le: {
    const Expr difference =
        condition.lhs() - condition.rhs(); // the condition says that it is below 0, or at most 0
    const std::optional<Expr> slope = stride_of(difference, iteration);
    if (!slope || !slope->is_const() || slope->value() <= 0) return {};
    const Expr start = substitute(difference, {{iteration, Expr(0)}});
    const Expr missing = condition.kind() == ExprKind::Lt ? -start : 1 - start;
    return max(Expr(0), ceildiv(missing, *slope));
  }
  default: return {};
  }
}

} // namespace

std::optional<CountedLoop> count_iterations(Call& call, const std::vector<Value>& initial,
                                            std::optional<Expr> most) {
  std::vector<std::optional<Expr>> symbols;
  std::vector<Tensor> tensors;
  for (size_t k = 0; k < initial.size(); ++k) {
    if (!initial[k].is_tensor()) return {};
    tensors.push_back(initial[k].tensor());
    symbols.emplace_back();
    if (may_count(initial[k])) symbols[k] = Var("loop_state_" + std::to_string(k), 0, kMost).expr();
  }
  const Expr iteration = Var("loop_iteration", 0, kMost);
  std::vector<Value> made;
  const auto look = [&](const std::vector<Tensor>& state, const std::vector<Tensor>&) -> ScanStep {
    std::vector<Value> arguments{known_integer(iteration), known_integer(1, DType::Bool)};
    for (size_t k = 0; k < state.size(); ++k)
      arguments.push_back(symbols[k] ? known_integers({*symbols[k]}, initial[k].shape(), initial[k].dtype())
                                     : Value(state[k]));
    made = call.run_body("body", arguments, Looks::Refused);
    return {state, {}};
  };
  try {
    (void)scan(look, tensors, {}, {Expr(2), false});
  } catch (const Error&) {
    return {}; // of the model, or a look: whoever unrolls the loop meets it again
  }

  CountedLoop out{0, {}};
  Substitution at_iteration;
  for (size_t k = 0; k < initial.size(); ++k) {
    out.steps.emplace_back();
    const auto& next = made[1 + k].integers();
    if (!symbols[k]) continue;
    const Expr step = next && next->size() == 1 ? next->front() - *symbols[k] : *symbols[k];
    if (!step.is_const()) return {}; // the condition may depend on it
    out.steps[k] = step.value();
    at_iteration.emplace_back(*symbols[k], initial[k].integers()->front() + iteration * step);
  }
  const auto& condition = made[0].integers();
  if (!condition || condition->size() != 1) return {};
  std::optional<Expr> trips = most;
  if (const Expr holds = substitute(condition->front(), at_iteration);
      !holds.is_const() || holds.value() == 0) {
    const auto failure = first_failure(holds, iteration);
    if (!failure) return {};
    trips = trips ? min(*trips, *failure + 1) : *failure + 1;
  }
  if (!trips || depends_on(*trips, iteration)) return {};
  out.trips = *trips;
  return out;
}

} // namespace lathe::onnx
