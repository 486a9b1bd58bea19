// Values of the C family: leaves (constants, gathers, indices) and the walk over a statement's DAG.
#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "ast/passes/detour.hpp"
#include "lathe/error.hpp"
#include "render/c_family.hpp"

namespace lathe::render {
Expr at_lane(Expr e, const Chunk& chunk, int lane) { return substitute(e, {{chunk.var, Expr(lane)}}); }

const std::string& CFamily::pointer(const ast::BufferRef& buffer) {
  used_buffers_.emplace(buffer->id, buffer);
  return names_.buffer(*buffer);
}

const Slices* CFamily::slices_of(const ast::BufferRef& buffer) const {
  const auto it = slices_.find(buffer->id);
  return it == slices_.end() ? nullptr : &it->second;
}

std::string CFamily::element_at(const ast::BufferRef& buffer, const std::string& index) {
  const std::string& name = pointer(buffer);
  if (is_half(buffer->dtype)) return dialect_.half_load(name, index, buffer->dtype);
  const std::string text = fmt::format("{}[{}]", name, index);
  return buffer->dtype == DType::Bool ? fmt::format("({} != 0)", text) : text;
}

std::string CFamily::element(const ast::BufferRef& buffer, Expr flat) {
  if (const Slices* slices = slices_of(buffer)) {
    const auto slice = std::prev(slices->upper_bound(flat.value()));
    return slice->second.lanes == 1
               ? slice->second.name
               : dialect_.lane(slice->second.name, static_cast<int>(flat.value() - slice->first));
  }
  return element_at(buffer, expr(flat));
}

std::string CFamily::conjunction(const std::vector<Expr>& guards) {
  std::string out;
  for (Expr g : guards) out += (out.empty() ? "" : " && ") + expr(g, Level::Comparison);
  return out;
}

namespace {
/// The larger of two floats, Where(p < q, q, p), or the lesser, Where(p < q, p, q). Both have instructions.
struct Extreme {
  bool larger;
  ast::ValueRef a, b; // a > b ? a : b, or a < b ? a : b
};
std::optional<Extreme> as_extreme(const ast::Value& v) {
  if (v.op != Op::Where || (v.dtype != DType::F32 && v.dtype != DType::F64)) return {};
  const ast::ValueRef& condition = v.sources[0];
  if (condition->op != Op::CmpLt) return {};
  const ast::ValueRef &p = condition->sources[0], &q = condition->sources[1];
  if (v.sources[1] == q && v.sources[2] == p) return Extreme{true, q, p};
  if (v.sources[1] == p && v.sources[2] == q) return Extreme{false, p, q};
  return {};
}

/// A comparison of index values and constants as an Expr, a condition on the position; else nothing.
std::optional<Expr> as_position_condition(const ast::Value& v) {
  if (v.op != Op::CmpLt || v.sources[0]->dtype != DType::I64) return {};
  const auto position = [](const ast::Value& side) -> std::optional<Expr> {
    if (side.op == Op::Index) return std::get<Expr>(side.attr);
    if (side.op == Op::Const) return Expr(std::get<Scalar>(side.attr).as_int());
    return {};
  };
  const auto a = position(*v.sources[0]), b = position(*v.sources[1]);
  return a && b ? std::optional(lt(*a, *b)) : std::nullopt;
}
} // namespace

std::optional<ast::math::Scaled> CFamily::as_scaled(const ast::Value& v) const {
  return dialect_.has_scale() ? ast::math::as_scaled(v) : std::nullopt;
}

Operand CFamily::value(const ast::ValueRef& root, const Chunk* chunk) {
  std::vector<ast::ValueRef> order;
  ast::visit(root, [&](const ast::ValueRef& v) { order.push_back(v); });
  std::unordered_set<const ast::Value*> needed{root.get()};
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    if (!needed.count(v->get())) continue;
    if (const auto extreme = as_extreme(**v))
      needed.insert({extreme->a.get(), extreme->b.get()});
    else if (const auto scaled = as_scaled(**v))
      needed.insert({scaled->y.get(), scaled->n.get(), (*v)->sources.back().get()});
    else if (!as_position_condition(**v))
      for (const ast::ValueRef& s : (*v)->sources) needed.insert(s.get());
  }
  const std::vector<ast::Detour> detours = ast::find_detours(root);
  std::unordered_map<const ast::Value*, const ast::Detour*> detour_of; // by its Where
  std::unordered_set<const ast::Value*> aside;
  for (const ast::Detour& detour : detours) {
    detour_of[detour.where.get()] = &detour;
    for (const ast::ValueRef& v : detour.values) aside.insert(v.get());
  }
  Memo memo;
  const auto add_value = [&](const ast::ValueRef& v) {
    if (!needed.count(v.get())) return;
    Operand operand = leaf_or_op(v, chunk, memo);
    if (!operand.constant && !operand.comparison && is_elementwise(v->op))
      operand.text = local(ops_.type_of(operand), operand.text);
    memo.emplace(v.get(), std::move(operand));
  };
  for (const ast::ValueRef& v : order) {
    if (aside.count(v.get())) continue;
    const auto detour = detour_of.find(v.get());
    if (detour == detour_of.end()) {
      add_value(v);
      continue;
    }
    // A detour: the code computes the first choice of this Where only if some lane takes it.
    Operand condition = memo.at(v->sources[0].get());
    if (condition.comparison) condition.text = local(ops_.type_of(condition), condition.text);
    // Writes the block before the result's declaration: the first choice may have more lanes or a wider mask
    // than the condition and the other choice.
    std::string before = std::exchange(text_, {});
    ++indent_;
    for (const ast::ValueRef& inner : detour->second->values) add_value(inner);
    const Operand chosen = memo.at(v->sources[1].get());
    const std::string block = std::exchange(text_, std::move(before));
    --indent_;
    const Operand otherwise = memo.at(v->sources[2].get());
    const int lanes = std::max({condition.lanes, otherwise.lanes, chosen.lanes});
    const int mask_bytes = std::max({condition.mask_bytes, otherwise.mask_bytes, chosen.mask_bytes});
    Operand out = ops_.widen(otherwise, lanes, mask_bytes);
    const std::string name = names_.fresh_value();
    add(fmt::format("{} {} = {};", ops_.type_of(out), name, out.text));
    out = {name, v->dtype, lanes, out.mask_bytes};
    add(fmt::format("if ({}) {{", ops_.any(condition)));
    text_ += block;
    ++indent_;
    add(fmt::format("{} = {};", name, ops_.apply(Op::Where, v->dtype, {condition, chosen, out}).text));
    --indent_;
    add("}");
    columns_.clear(); // columns made in the block have no names after it
    memo.emplace(v.get(), std::move(out));
  }
  return memo.at(root.get());
}

Operand CFamily::leaf_or_op(const ast::ValueRef& v, const Chunk* chunk, const Memo& memo) {
  switch (v->op) {
  case Op::Const: {
    const Scalar& s = std::get<Scalar>(v->attr);
    return {literal(dialect_, s), v->dtype, 1, 0, s};
  }
  case Op::Index: return index_number(std::get<Expr>(v->attr), v->dtype, chunk);
  case Op::Load: return load(*v, chunk);
  case Op::Gather: return gather(*v, memo.at(v->sources[0].get()));
  default: break;
  }
  if (const auto condition = as_position_condition(*v)) return position_condition(*condition, chunk);
  if (const auto extreme = as_extreme(*v))
    return ops_.extreme(extreme->larger, memo.at(extreme->a.get()), memo.at(extreme->b.get()));
  if (const auto scaled = as_scaled(*v)) {
    // If a load from a register gives the shifted n, only another statement may have computed n itself.
    const auto n = memo.find(scaled->n.get());
    const Operand product =
        ops_.scale(memo.at(scaled->y.get()), n == memo.end() ? value(scaled->n, chunk) : n->second);
    if (v->op == Op::Mul) return scaled->negated ? ops_.apply(Op::Neg, v->dtype, {product}) : product;
    return ops_.apply(scaled->negated ? Op::Sub : Op::Add, v->dtype, {memo.at(v->sources[2].get()), product});
  }
  std::vector<Operand> args;
  for (const ast::ValueRef& s : v->sources) args.push_back(memo.at(s.get()));
  return ops_.apply(v->op, v->dtype, std::move(args));
}

namespace {
bool fits_in_i32(Expr e) {
  return e.lo() >= std::numeric_limits<int32_t>::min() && e.hi() <= std::numeric_limits<int32_t>::max();
}
} // namespace

Operand CFamily::index_number(Expr e, DType dtype, const Chunk* chunk) {
  const auto number = [&](Expr at) {
    const std::string text = fmt::format("(({}){})", dialect_.type(dtype, 1), expr(at, Level::Primary));
    if (dtype == DType::Bool) return fmt::format("({} != 0)", expr(at, Level::Primary));
    return is_half(dtype) ? fmt::format("{}({})", helper("round", dtype), text) : text;
  };
  if (!chunk || !depends_on(e, chunk->var)) return {local(dialect_.type(dtype, 1), number(e)), dtype};
  if (dtype == DType::Bool) return index_condition(e, *chunk);
  Operand out{"", dtype, chunk->lanes};
  std::vector<std::string> lanes;
  const auto stride = stride_of(e, chunk->var);
  if (stride && stride->is_const() && (dtype == DType::I64 || (dtype == DType::I32 && fits_in_i32(e)))) {
    const Operand first{number(at_lane(e, *chunk, 0)), dtype};
    for (int i = 0; i < chunk->lanes; ++i)
      lanes.push_back(literal(dialect_, Scalar::of_int(dtype, i * stride->value())));
    out.text =
        fmt::format("{} + {}", ops_.widen(first, chunk->lanes, 0).text, dialect_.from_lanes(lanes, dtype));
  } else {
    for (int i = 0; i < chunk->lanes; ++i) lanes.push_back(number(at_lane(e, *chunk, i)));
    out.text = dialect_.from_lanes(lanes, dtype);
  }
  out.text = local(ops_.type_of(out), out.text);
  return out;
}

/// A condition on the position; a scalar if it is the same in all lanes, else a mask.
Operand CFamily::position_condition(Expr e, const Chunk* chunk) {
  if (chunk && depends_on(e, chunk->var)) {
    const auto range = range_of({e}, *chunk);
    const bool same = range && range->lo.is_const(0) && range->hi.is_const(chunk->active);
    if (!same) return index_condition(e, *chunk);
    e = range->always.empty() ? Expr(1) : range->always[0];
  }
  return {parens(expr(e)), DType::Bool};
}

/// A condition on the position as a mask.
Operand CFamily::index_condition(Expr e, const Chunk& chunk) {
  Operand out{"", DType::Bool, chunk.lanes, 1};
  if (e.kind() == ExprKind::Lt || e.kind() == ExprKind::Le) {
    const Expr a = e.lhs(), b = e.kind() == ExprKind::Le ? e.rhs() + 1 : e.rhs();
    const DType dtype = fits_in_i32(a) && fits_in_i32(b) ? DType::I32 : DType::I64;
    out =
        ops_.apply(Op::CmpLt, DType::Bool, {index_number(a, dtype, &chunk), index_number(b, dtype, &chunk)});
  } else if (e.kind() == ExprKind::And) {
    out =
        ops_.apply(Op::And, DType::Bool,
                   {index_number(e.lhs(), DType::Bool, &chunk), index_number(e.rhs(), DType::Bool, &chunk)});
  } else {
    std::vector<std::string> lanes;
    for (int i = 0; i < chunk.lanes; ++i)
      lanes.push_back(fmt::format("(signed char)(({}) != 0 ? -1 : 0)", expr(at_lane(e, chunk, i))));
    out.text = dialect_.from_lanes(lanes, DType::I8);
  }
  if (!out.comparison) out.text = local(ops_.type_of(out), out.text);
  return out;
}

Operand CFamily::gather(const ast::Value& v, const Operand& index) {
  const auto& attr = std::get<ast::LoadAttr>(v.attr);
  if (index.lanes > 1) throw InternalError("renderer: a gather with lanes");
  const std::string at =
      local(dialect_.index_type(), fmt::format("({}){}", dialect_.index_type(), index.text));
  std::string condition =
      fmt::format("{0} >= 0 && {0} < {1}", at, expr(num_elements(attr.buffer->shape), Level::Sum));
  if (!attr.guards.empty()) condition = conjunction(attr.guards) + " && " + condition;
  const std::string text = fmt::format("({}) ? {} : {}", condition, element_at(attr.buffer, at),
                                       literal(dialect_, Scalar::zero(v.dtype)));
  return {local(dialect_.type(v.dtype, 1), text), v.dtype};
}

} // namespace lathe::render
