// Values of a program's shape variables, and what they make of its shapes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::pipeline {

class ShapeValues {
public:
  explicit ShapeValues(const std::vector<Expr>& vars) : vars_(&vars), values_(vars.size()) {}

  /// Error(Value) out of bounds; Error(Shape) if the variable has another value already. `where` names the
  /// input.
  void bind(Expr var, int64_t value, const std::string& where);
  /// Error(Name) by the variable's name if one has no value yet.
  const std::vector<int64_t>& complete(const std::string& where);

  int64_t evaluate(Expr e) const;
  std::vector<int64_t> sizes(const Shape& shape) const;
  int64_t bytes(const ast::Buffer& buffer) const;

private:
  const std::vector<Expr>* vars_;
  std::vector<std::optional<int64_t>> values_;
  std::vector<int64_t> complete_;
};

/// Bytes of a buffer at the upper bounds of its sizes. Error(Limit) naming it if that is 2^46 or more.
int64_t largest_bytes(const ast::Buffer& buffer);

} // namespace lathe::pipeline
