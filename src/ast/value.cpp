#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ast/ast.hpp"
#include "ast/value_rules.hpp"
#include "ast/verify.hpp"
#include "core/hash.hpp"
#include "lathe/error.hpp"

namespace lathe::ast {

size_t Value::hash_value() const {
  uint64_t h = mix(static_cast<uint64_t>(op), static_cast<uint64_t>(dtype));
  for (const ValueRef& source : sources) h = mix(h, source.hash());
  if (const auto* scalar = std::get_if<Scalar>(&attr)) return mix(h, scalar->bits());
  if (const auto* expr = std::get_if<Expr>(&attr)) return mix(h, expr->hash());
  if (std::holds_alternative<Rounded>(attr)) return mix(h, 1);
  if (const auto* load = std::get_if<LoadAttr>(&attr)) {
    h = mix(h, static_cast<uint64_t>(load->buffer->id));
    for (Expr e : load->index) h = mix(h, e.hash());
    h = mix(h, load->guards.size());
    for (Expr e : load->guards) h = mix(h, e.hash());
    h = mix(h, static_cast<uint64_t>(load->ahead));
    h = mix(h, load->lanes.number());
  }
  return h;
}

bool Value::equal(const Value& o) const {
  if (op != o.op || dtype != o.dtype || sources != o.sources || attr.index() != o.attr.index()) return false;
  if (const auto* scalar = std::get_if<Scalar>(&attr)) return *scalar == std::get<Scalar>(o.attr);
  if (const auto* expr = std::get_if<Expr>(&attr)) return *expr == std::get<Expr>(o.attr);
  if (const auto* load = std::get_if<LoadAttr>(&attr)) {
    const auto& other = std::get<LoadAttr>(o.attr);
    return load->buffer == other.buffer && load->index == other.index && load->guards == other.guards &&
           load->ahead == other.ahead && load->lanes == other.lanes;
  }
  return true;
}

namespace {

ValueRef node(Op op, DType dtype, std::vector<ValueRef> sources, decltype(Value::attr) attr) {
  Value value;
  value.op = op;
  value.dtype = dtype;
  value.sources = std::move(sources);
  value.attr = std::move(attr);
  return intern(std::move(value));
}

/// The Expr that equals integer value `v`; nothing if `v` is no constant or Index, or may have wrapped.
std::optional<Expr> as_index(const ValueRef& v) {
  if (!is_integer(v->dtype)) return {};
  Expr e;
  if (v->op == Op::Const)
    e = std::get<Scalar>(v->attr).as_int();
  else if (v->op == Op::Index)
    e = std::get<Expr>(v->attr);
  else
    return {};
  const auto is_kept = [&](int64_t n) {
    return Scalar::of_int(v->dtype, n).as_int() == n && (n >= 0 || is_signed(v->dtype));
  };
  return is_kept(e.lo()) && is_kept(e.hi()) ? std::optional(e) : std::nullopt;
}

/// Adds the guards to `out`: splits conjunctions, and drops guards that always hold or are there already.
/// Returns false if a guard never holds.
bool tidy_guards(const std::vector<Expr>& guards, std::vector<Expr>& out) {
  std::vector<Expr> open(guards.rbegin(), guards.rend());
  while (!open.empty()) {
    const Expr guard = open.back();
    open.pop_back();
    if (guard.kind() == ExprKind::And) {
      open.push_back(guard.rhs());
      open.push_back(guard.lhs());
    } else if (guard.is_const()) {
      if (guard.value() == 0) return false;
    } else if (std::find(out.begin(), out.end(), guard) == out.end()) {
      out.push_back(guard);
    }
  }
  return true;
}

} // namespace

std::string operand_fault(Op op, DType dtype, const std::vector<ValueRef>& sources) {
  if (!is_elementwise(op)) return "expected an elementwise op";
  if (static_cast<int>(sources.size()) != info(op).arity) return "wrong number of operands";
  for (const ValueRef& s : sources)
    if (!s) return "an operand is null";
  if (op == Op::Cast) return "";
  if (op == Op::Bitcast)
    return size_of(dtype) == size_of(sources[0]->dtype) ? "" : "a bitcast keeps the width";
  const size_t first = op == Op::Where ? 1 : 0;
  if (op == Op::Where && sources[0]->dtype != DType::Bool) return "the condition must be bool";
  for (size_t i = first + 1; i < sources.size(); ++i)
    if (sources[i]->dtype != sources[first]->dtype) return "operands of different dtypes";
  if (!accepts(info(op).dtypes, sources[first]->dtype)) return "the op does not take this dtype";
  return dtype == result_dtype(op, sources[first]->dtype) ? "" : "the result's dtype is another";
}

namespace {

void check_operands(Op op, DType dtype, const std::vector<ValueRef>& sources) {
  const std::string fault = operand_fault(op, dtype, sources);
  if (fault.empty()) return;
  std::string operands;
  for (const ValueRef& s : sources) operands += fmt::format(" {}", s ? to_string(s->dtype) : "null");
  throw InternalError(
      fmt::format("value {} of {} with operands{}: {}", to_string(op), to_string(dtype), operands, fault));
}

} // namespace

ValueRef constant(Scalar value) {
  // All NaNs become one constant, so that a kernel's text and hash describe it completely.
  if (is_float(value.dtype()) && std::isnan(value.as_float()))
    value = Scalar::of_float(value.dtype(), std::numeric_limits<double>::quiet_NaN());
  return node(Op::Const, value.dtype(), {}, value);
}

ValueRef index_value(Expr expr, DType dtype) {
  if (expr.is_const()) return constant(Scalar::of_int(dtype, expr.value()));
  return node(Op::Index, dtype, {}, expr);
}

ValueRef load(BufferRef buffer, std::vector<Expr> index, std::vector<Expr> guards, int64_t ahead,
              LaneAccess lanes) {
  if (index.size() != buffer->shape.size())
    throw InternalError(
        fmt::format("load of {}: {} indices, expected {}", buffer->name, index.size(), buffer->shape.size()));
  const DType dtype = buffer->dtype;
  std::vector<Expr> kept;
  if (!tidy_guards(guards, kept)) return constant(Scalar::zero(dtype));
  return node(Op::Load, dtype, {},
              LoadAttr{std::move(buffer), std::move(index), std::move(kept), ahead, lanes});
}

ValueRef gather(BufferRef buffer, ValueRef flat_index, std::vector<Expr> guards) {
  if (!flat_index || !is_integer(flat_index->dtype))
    throw InternalError(fmt::format("gather from {}: the flat index must be an integer", buffer->name));
  const DType dtype = buffer->dtype;
  std::vector<Expr> kept;
  if (!tidy_guards(guards, kept)) return constant(Scalar::zero(dtype));
  return node(Op::Gather, dtype, {std::move(flat_index)}, LoadAttr{std::move(buffer), {}, std::move(kept)});
}

ValueRef rounded(const ValueRef& product) {
  if (!is_float(product->dtype)) return product;
  if (product->op == Op::Mul) return node(Op::Mul, product->dtype, product->sources, Rounded{});
  if (product->op == Op::Neg) return make(Op::Neg, product->dtype, rounded(product->sources[0]));
  return product;
}

ValueRef make_exact(Op op, DType dtype, std::vector<ValueRef> sources) {
  check_operands(op, dtype, sources);
  return node(op, dtype, std::move(sources), std::monostate{});
}

ValueRef make(Op op, DType dtype, std::vector<ValueRef> sources) {
  check_operands(op, dtype, sources);
  const auto is_constant = [](const ValueRef& v) { return v->op == Op::Const; };
  if (std::all_of(sources.begin(), sources.end(), is_constant)) {
    std::array<Scalar, 3> args;
    for (size_t i = 0; i < sources.size(); ++i) args[i] = std::get<Scalar>(sources[i]->attr);
    return constant(evaluate(op, dtype, std::span(args.data(), sources.size())));
  }
  if (op == Op::CmpLt) // as an Expr: bounds may decide it, and passes can cut loops where it changes
    if (const auto a = as_index(sources[0]), b = as_index(sources[1]); a && b)
      return index_value(lt(*a, *b), DType::Bool);
  if (is_commutative(op) && is_constant(sources[0])) std::swap(sources[0], sources[1]);
  return value_rules().rewrite(node(op, dtype, std::move(sources), std::monostate{}));
}

} // namespace lathe::ast
