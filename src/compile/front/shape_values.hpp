// Values of a program's shape variables, and the sizes that follow from them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::pipeline {

class ShapeValues {
public:
  explicit ShapeValues(const std::vector<Expr>& vars) : vars_(&vars), values_(vars.size()) {}

  /// Gives the variable a value. Error(Value) if it is out of bounds; Error(Shape) if the variable has
  /// another value already. `where` names the input.
  void bind(Expr var, int64_t value, const std::string& where);
  /// Gives a value to the one variable of `size` that has none, if `size` is linear in it. False if `value`
  /// is the size at no whole number. Errors as of bind().
  bool solve(Expr size, int64_t value, const std::string& where);
  bool is_complete() const;
  /// Returns the values of all variables. Error(Name) naming a variable that has no value yet.
  const std::vector<int64_t>& complete(const std::string& where);

  int64_t evaluate(Expr e) const;
  std::vector<int64_t> sizes(const Shape& shape) const;
  int64_t bytes(const ast::Buffer& buffer) const;

private:
  const std::vector<Expr>* vars_;
  std::vector<std::optional<int64_t>> values_;
  std::vector<int64_t> complete_;
};

/// Returns a buffer's bytes at the upper bounds of its sizes. Error(Limit) naming the buffer if these are
/// 2^46 or more.
int64_t largest_bytes(const ast::Buffer& buffer);
/// Returns a buffer's bytes at the typical values of its sizes. Error(Limit) as largest_bytes().
int64_t typical_bytes(const ast::Buffer& buffer);

} // namespace lathe::pipeline
