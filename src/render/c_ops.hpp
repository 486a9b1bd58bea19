// Writes one elementwise op, on scalars and on vectors. The op table gives the spelling. Special cases are
// the ops for which C has no operator or one with another meaning (wrapping, shifts, division by zero, NaN,
// saturation).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "render/c_dialect.hpp"

namespace lathe::render {

struct Operand {
  std::string text; // an expression that can be an operand of any operator
  DType dtype = DType::F32;
  int lanes = 1;
  int mask_bytes = 0;               // of a Bool with lanes: width of the mask's integers
  std::optional<Scalar> constant{}; // the value, if known; then the operand is a scalar
  /// Set if the operand is a mask made by comparing two vectors. A selection can then compare and select in
  /// one step.
  struct Comparison {
    Op op;
    DType dtype;
    std::string x, y;
  };
  std::optional<Comparison> comparison{};
};

/// A number as a literal, or by the name of the coefficient that it is (core/coefficients.hpp).
std::string literal(const Dialect& dialect, const Scalar& value);
/// A finite number as a literal of double or float.
std::string digits(double value, bool is_double);

class OpPrinter {
public:
  /// `local(type, expression)` declares a constant in the source and returns its name.
  using Local = std::function<std::string(const std::string& type, const std::string& expression)>;
  OpPrinter(const Dialect& dialect, Local local) : dialect_(dialect), local_(std::move(local)) {}

  /// Scalars among the arguments are repeated where another has lanes.
  Operand apply(Op op, DType result, std::vector<Operand> args) const;
  /// y * 2^n. Only if the dialect has_scale.
  Operand scale(const Operand& y, const Operand& n) const;
  /// Floats: a > b ? a : b (larger) or a < b ? a : b.
  Operand extreme(bool larger, const Operand& a, const Operand& b) const;
  /// Part of a cast to half precision: `from` as floats that round to the same halves as `from` itself.
  Operand unrounded(DType half, const Operand& from) const;
  /// `value` with `lanes` lanes. A Bool becomes a mask of integers of `mask_bytes`.
  Operand widen(const Operand& value, int lanes, int mask_bytes) const;
  /// A C condition: whether any lane of the Bool is true.
  std::string any(const Operand& value) const;
  std::string type_of(const Operand& value) const;

  /// Whether `op` has a form on vectors.
  static bool has_vector_form(const Dialect& dialect, Op op);

private:
  Operand scalar(Op op, DType result, const std::vector<Operand>& args) const;
  Operand scalar_cast(DType to, const Operand& from) const;
  Operand vector(Op op, DType result, const std::vector<Operand>& args, int lanes) const;
  Operand vector_bool(Op op, const std::vector<Operand>& args, int lanes) const;
  static bool rounds_twice(DType half, DType from);
  std::string odd_float(DType half, const Operand& from) const;
  Operand vector_cast(DType to, const Operand& from) const;
  Operand vector_odd_floats(const Operand& from) const;
  Operand rounded(const Operand& floats, DType half) const;
  Operand vector_max(const Operand& a, const Operand& b) const;
  Operand vector_shift(Op op, const Operand& value, const Operand& count) const;
  Operand saturate(DType to, const Operand& from) const;
  Operand wrapping(Op op, DType result, const std::vector<Operand>& args, int lanes) const;
  Operand make_local(Operand value) const;

  const Dialect& dialect_;
  Local local_;
};

} // namespace lathe::render
