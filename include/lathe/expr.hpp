// Expr: a symbolic integer. Shapes, strides, loop extents, indices and guards are all Exprs.
//
// An Expr is an interned immutable node, held by a handle of one pointer: equal expressions are the same pointer,
// copies are free, and nodes live until the process ends, but for those that a compilation makes for itself
// (docs/decisions/scopes-of-expressions.md). Construction canonicalises, so most simplification has happened by the time
// an Expr exists. All functions are thread-safe.
//
//   Var n("n", 1, 4096);
//   Expr e = floordiv(n * 64 + 7, 64);   // == n
//   e.lo(), e.hi();                      // 1, 4096
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/arguments.hpp"

namespace lathe {

struct ExprNode;
class Var;

/// Comparisons and And give 0 or 1. FloorDiv rounds towards minus infinity and Mod takes the sign of the divisor.
enum class ExprKind : uint8_t { Const, Var, Add, Mul, FloorDiv, Mod, Min, Max, Lt, Le, Eq, And };

class Expr {
 public:
  Expr() : Expr(Whole(0)) {}
  /// Any integer; a float or a bool does not convert.
  template <WholeNumber T> Expr(T value) : Expr(Whole(value)) {}
  explicit Expr(Whole value);
  Expr(const Var& var);
  explicit Expr(const ExprNode* node) : node_(node) {}

  ExprKind kind() const;
  bool is_const() const { return kind() == ExprKind::Const; }
  bool is_const(int64_t v) const { return is_const() && value() == v; }
  bool is_var() const { return kind() == ExprKind::Var; }
  int64_t value() const;                 ///< of a Const
  const std::string& name() const;       ///< of a Var
  int id() const;                        ///< of a Var: -1 for a shape variable, else the loop's id in its kernel
  std::optional<Expr> extent() const;    ///< of a loop Var: its exclusive upper bound, which may be symbolic
  Expr lhs() const;                      ///< first operand of a binary kind
  Expr rhs() const;
  int64_t lo() const;                    ///< inclusive bounds over all values of the variables
  int64_t hi() const;
  int64_t typical() const;               ///< of a Var: the value that schedules are chosen for
  size_t hash() const;                   ///< structural: the same in every process
  const ExprNode* node() const { return node_; }

  /// Same expression (pointer identity).
  friend bool operator==(Expr a, Expr b) { return a.node_ == b.node_; }
  friend bool operator!=(Expr a, Expr b) { return a.node_ != b.node_; }

 private:
  const ExprNode* node_;
};

/// A shape variable with inclusive bounds. `typical` is the value that schedules are chosen, and timed, for: 256 if it is left out,
/// or the bound next to that. Two Vars of equal name, bounds and typical value are the same variable.
/// Throws Error(Value) if lo > hi, lo < 0, the typical value is out of bounds, or the name is not an identifier.
class Var {
 public:
  Var(std::string_view name, int64_t lo, int64_t hi, std::optional<int64_t> typical = {});
  const std::string& name() const { return expr_.name(); }
  Expr expr() const { return expr_; }

 private:
  Expr expr_;
};

/// A loop variable over [0, extent). `id` tells loops of one kernel apart; the name is for printing and moves.
Expr loop_var(int id, std::string_view name, Expr extent);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator*(Expr a, Expr b);
Expr floordiv(Expr a, Expr b);   // throws Error(Value) for a constant zero divisor
Expr ceildiv(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr lt(Expr a, Expr b);         // a < b
Expr le(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr land(Expr a, Expr b);       // both, of 0/1 values

/// True only if it holds for every value of the variables.
bool proves_lt(Expr a, Expr b);
bool proves_le(Expr a, Expr b);

/// Replaces variables; the result is canonical again.
using Substitution = std::vector<std::pair<Expr, Expr>>;
Expr substitute(Expr e, const Substitution& vars);
/// Value under an assignment; throws Error(Name) for a variable that is not bound.
int64_t evaluate(Expr e, const std::function<int64_t(Expr var)>& value_of);
/// Appends the distinct variables of e in first-seen order.
void collect_vars(Expr e, std::vector<Expr>& out);
bool depends_on(Expr e, Expr var);
/// e(var + 1) - e(var) if that difference does not depend on var, else nothing. This is an access's stride.
std::optional<Expr> stride_of(Expr e, Expr var);
/// e = first + second, where `second` holds every additive term in which one of `vars` occurs and `first` none.
std::pair<Expr, Expr> separate(Expr e, const std::vector<Expr>& vars);

std::string to_string(Expr e);   // "(i * 64 + j) // 8", parses back
/// `lookup` resolves variable names. Throws Error(Syntax).
Expr parse_expr(std::string_view text, const std::function<std::optional<Expr>(std::string_view)>& lookup);
std::ostream& operator<<(std::ostream&, Expr);

using Shape = std::vector<Expr>;
std::string to_string(const Shape&);            // "[n, 64]"
Expr num_elements(const Shape&);
bool is_static(const Shape&);
std::vector<int64_t> static_sizes(const Shape&);  // InternalError unless static

}  // namespace lathe

template <> struct std::hash<lathe::Expr> {
  size_t operator()(lathe::Expr e) const { return e.hash(); }
};
