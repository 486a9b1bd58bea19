#include "ast/computed_index.hpp"

#include "ast/flat_index.hpp"

namespace lathe::ast {
namespace {

bool is_negative_number(const Value& v) {
  const auto* number = v.op == Op::Const ? std::get_if<Scalar>(&v.attr) : nullptr;
  return number && number->as_int() < 0;
}

/// How far the integer goes from one iteration to the next. Sums are of 64 bits, so that none wraps into
/// range. `left`: values that may still be looked at; an index of a row has few.
std::optional<int64_t> step_of_value(const Value& v, Expr loop, int& left) {
  if (--left < 0) return {};
  if (v.op == Op::Index) {
    const auto stride = is_integer(v.dtype) ? stride_of(std::get<Expr>(v.attr), loop) : std::nullopt;
    return stride && stride->is_const() ? std::optional(stride->value()) : std::nullopt;
  }
  std::vector<std::optional<int64_t>> steps;
  bool still = true;
  for (size_t k = 0; k < v.sources.size(); ++k) {
    steps.push_back(step_of_value(*v.sources[k], loop, left));
    still &= steps.back() == 0;
  }
  if (const auto* attr = std::get_if<LoadAttr>(&v.attr))
    still &= !depend_on(attr->guards, loop) && !depend_on(attr->index, loop);
  if (still) return 0;
  if (v.op == Op::Cast && v.dtype == DType::I64 && v.sources[0]->op == Op::Index) return steps[0];
  if (v.dtype != DType::I64) return {};
  if (v.op == Op::Add && steps[0] && steps[1]) return *steps[0] + *steps[1];
  if (v.op != Op::Mul) return {};
  for (const size_t k : {0, 1}) { // by a number
    const auto* number = v.sources[k]->op == Op::Const ? std::get_if<Scalar>(&v.sources[k]->attr) : nullptr;
    if (number && steps[1 - k]) return *steps[1 - k] * number->as_int();
  }
  return {};
}

} // namespace

std::optional<int64_t> computed_step(const Value& index, Expr loop) {
  int left = 64;
  if (index.op != Op::Where || !is_negative_number(*index.sources[2]))
    return step_of_value(index, loop, left);
  if (step_of_value(*index.sources[0], loop, left) != 0) return {};
  return step_of_value(*index.sources[1], loop, left);
}

} // namespace lathe::ast
