#include "compile/front/shape_values.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "lathe/error.hpp"

namespace lathe::pipeline {

void ShapeValues::bind(Expr var, int64_t value, const std::string& where) {
  for (size_t k = 0; k < vars_->size(); ++k) {
    if ((*vars_)[k] != var) continue;
    if (value < var.lo() || value > var.hi())
      throw Error(ErrorKind::Value, fmt::format("{}: {} = {} is out of bounds, expected {} to {}", where,
                                                var.name(), value, var.lo(), var.hi()));
    if (values_[k] && *values_[k] != value)
      throw Error(ErrorKind::Shape, fmt::format("{}: {} = {} here but {} elsewhere, expected one value",
                                                where, var.name(), value, *values_[k]));
    values_[k] = value;
    return;
  }
  // The program does not use this variable: simplification dropped its input.
}

bool ShapeValues::solve(Expr size, int64_t value, const std::string& where) {
  Substitution known;
  std::optional<Expr> open;
  size_t count = 0;
  for (size_t k = 0; k < vars_->size(); ++k) {
    const Expr var = (*vars_)[k];
    if (!depends_on(size, var)) continue;
    if (values_[k])
      known.emplace_back(var, Expr(*values_[k]));
    else
      open = var, ++count;
  }
  if (count != 1) return true;
  const Expr rest = substitute(size, known);
  const std::optional<Expr> step = stride_of(rest, *open);
  if (!step || !step->is_const() || step->is_const(0)) return true;
  const int64_t beyond = value - substitute(rest, {{*open, Expr(0)}}).value();
  if (beyond % step->value() != 0) return false;
  bind(*open, beyond / step->value(), where);
  return true;
}

bool ShapeValues::is_complete() const {
  return std::all_of(values_.begin(), values_.end(), [](const auto& value) { return value.has_value(); });
}

const std::vector<int64_t>& ShapeValues::complete(const std::string& where) {
  complete_.clear();
  for (size_t k = 0; k < vars_->size(); ++k) {
    if (!values_[k])
      throw Error(
          ErrorKind::Name,
          fmt::format("{}: shape variable {} has no value, expected it as a size of an input or among "
                      "the shape values",
                      where, (*vars_)[k].name()));
    complete_.push_back(*values_[k]);
  }
  return complete_;
}

int64_t ShapeValues::evaluate(Expr e) const {
  if (e.is_const()) return e.value();
  return lathe::evaluate(e, [this](Expr var) {
    for (size_t k = 0; k < vars_->size(); ++k)
      if ((*vars_)[k] == var && values_[k]) return *values_[k];
    throw Error(ErrorKind::Name,
                fmt::format("call: shape variable {} has no value, expected one", var.name()));
  });
}

std::vector<int64_t> ShapeValues::sizes(const Shape& shape) const {
  std::vector<int64_t> sizes;
  for (const Expr e : shape) sizes.push_back(evaluate(e));
  return sizes;
}

int64_t ShapeValues::bytes(const ast::Buffer& buffer) const {
  int64_t bytes = size_of(buffer.dtype);
  for (const Expr e : buffer.shape) bytes *= evaluate(e);
  return bytes;
}

int64_t largest_bytes(const ast::Buffer& buffer) {
  int64_t bytes = size_of(buffer.dtype);
  bool too_large = false;
  for (const Expr size : buffer.shape) too_large |= __builtin_mul_overflow(bytes, size.hi(), &bytes);
  if (too_large || bytes >= int64_t{1} << 46)
    throw Error(ErrorKind::Limit,
                fmt::format("compile: {} of shape {} may need 2^46 bytes or more, expected fewer",
                            buffer.name, to_string(buffer.shape)));
  return bytes;
}

int64_t typical_bytes(const ast::Buffer& buffer) {
  (void)largest_bytes(buffer);
  int64_t bytes = size_of(buffer.dtype);
  for (const Expr size : buffer.shape)
    bytes *= lathe::evaluate(size, [](Expr var) { return var.typical(); });
  return bytes;
}

} // namespace lathe::pipeline
