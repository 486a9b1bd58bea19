// Values of the C family: leaves (constants, loads, gathers, indices) and the walk over a statement's DAG.
#include <algorithm>
#include <limits>
#include <unordered_set>

#include <fmt/format.h>

#include "ast/detour.hpp"
#include "lathe/error.hpp"
#include "render/c_family.hpp"

namespace lathe::render {
Expr at_lane(Expr e, const Chunk& chunk, int lane) {
  return substitute(e, {{chunk.var, Expr(chunk.first + lane)}});
}

Expr flat_index(const ast::Buffer& buffer, const std::vector<Expr>& index) {
  Expr flat = 0;
  for (size_t d = 0; d < index.size(); ++d) flat = flat * buffer.shape[d] + index[d];
  return flat;
}

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
/// Where(p < q, q, p) is the larger and Where(p < q, p, q) the lesser of two floats, which have instructions.
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

/// A comparison of positions and constants, as the condition on the position that it is.
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

Operand CFamily::value(const ast::ValueRef& root, const Chunk* chunk) {
  std::vector<ast::ValueRef> order;
  ast::visit(root, [&](const ast::ValueRef& v) { order.push_back(v); });
  std::unordered_set<const ast::Value*> needed{root.get()};
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    if (!needed.count(v->get())) continue;
    if (const auto extreme = as_extreme(**v))
      needed.insert({extreme->a.get(), extreme->b.get()});
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
    // A Where whose first choice is worked out only if some lane takes it.
    Operand condition = memo.at(v->sources[0].get());
    if (condition.comparison) condition.text = local(ops_.type_of(condition), condition.text);
    const Operand otherwise = memo.at(v->sources[2].get());
    const int lanes = std::max(condition.lanes, otherwise.lanes);
    Operand out = ops_.widen(otherwise, lanes, size_of(v->dtype));
    const std::string name = names_.fresh_value();
    add(fmt::format("{} {} = {};", ops_.type_of(out), name, out.text));
    out = {name, v->dtype, lanes, out.mask_bytes};
    add(fmt::format("if ({}) {{", ops_.any(condition)));
    ++indent_;
    for (const ast::ValueRef& inner : detour->second->values) add_value(inner);
    const Operand chosen = memo.at(v->sources[1].get());
    add(fmt::format("{} = {};", name, ops_.apply(Op::Where, v->dtype, {condition, chosen, out}).text));
    --indent_;
    add("}");
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

/// A condition on the position: as a scalar if it is the same in all lanes.
Operand CFamily::position_condition(Expr e, const Chunk* chunk) {
  if (chunk && depends_on(e, chunk->var)) {
    const auto range = range_of({e}, *chunk);
    const bool same = range && range->lo.is_const(0) && range->hi.is_const(chunk->active);
    if (!same) return index_condition(e, *chunk);
    e = range->always.empty() ? Expr(1) : range->always[0];
  }
  return {parens(expr(e)), DType::Bool};
}

/// A condition on the position, as a mask.
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
      lanes.push_back(fmt::format("({}) != 0 ? -1 : 0", expr(at_lane(e, chunk, i))));
    out.text = dialect_.from_lanes(lanes, DType::I8);
  }
  if (!out.comparison) out.text = local(ops_.type_of(out), out.text);
  return out;
}

std::optional<CFamily::Place> CFamily::place_of(Expr flat, const std::vector<Expr>& guards,
                                                const Chunk* chunk) {
  Place place;
  const auto add_ends = [&](Expr e) {
    if (!chunk || !depends_on(e, chunk->var)) {
      place.insert(place.end(), {e.node(), nullptr});
      return true;
    }
    place.insert(place.end(),
                 {at_lane(e, *chunk, 0).node(), at_lane(e, *chunk, chunk->lanes - 1).node()});
    return stride_of(e, chunk->var).has_value();
  };
  if (!add_ends(flat)) return {};
  for (Expr g : guards) {
    place.push_back(Expr(static_cast<int>(g.kind())).node());
    const bool compares = g.kind() == ExprKind::Lt || g.kind() == ExprKind::Le;
    if (compares ? !add_ends(g.lhs()) || !add_ends(g.rhs()) : chunk && depends_on(g, chunk->var)) return {};
    if (!compares) place.push_back(g.node());
  }
  place.insert(place.end(), {Expr(chunk ? chunk->lanes : 1).node(), Expr(chunk ? chunk->active : 1).node()});
  return place;
}

Operand CFamily::load(const ast::Value& v, const Chunk* chunk) {
  const auto& attr = std::get<ast::LoadAttr>(v.attr);
  const Expr flat = flat_index(*attr.buffer, attr.index);
  const auto place = slices_of(attr.buffer) ? std::nullopt : place_of(flat, attr.guards, chunk);
  if (!place) return load_anew(v, flat, chunk);
  const auto& known = loads_[attr.buffer->id];
  if (const auto found = known.find(*place); found != known.end()) return found->second.value;
  const Operand loaded = load_anew(v, flat, chunk);
  loads_[attr.buffer->id].emplace(*place, Known{loaded, indent_});
  deepest_load_ = std::max(deepest_load_, indent_);
  return loaded;
}

Operand CFamily::load_anew(const ast::Value& v, Expr flat, const Chunk* chunk) {
  const auto& attr = std::get<ast::LoadAttr>(v.attr);
  const auto varies = [&](Expr e) { return chunk && depends_on(e, chunk->var); };
  if (!varies(flat) && std::none_of(attr.guards.begin(), attr.guards.end(), varies)) {
    Operand out{"", v.dtype, 1};
    if (attr.ahead)
      add(dialect_.prefetch(
          fmt::format("{} + {}", pointer(attr.buffer), expr(flat + attr.ahead, Level::Sum))));
    if (attr.guards.empty() && slices_of(attr.buffer)) {
      out.text = element(attr.buffer, flat);
      return out;
    }
    std::string text = element(attr.buffer, flat);
    if (!attr.guards.empty())
      text = fmt::format("({}) ? {} : {}", conjunction(attr.guards), text,
                         literal(dialect_, Scalar::zero(v.dtype)));
    out.text = local(dialect_.type(v.dtype, 1), text);
    return out;
  }
  const auto stride = varies(flat) ? stride_of(flat, chunk->var) : std::nullopt;
  const bool contiguous = stride && stride->is_const(1);
  if (attr.ahead && contiguous)
    add(dialect_.prefetch(fmt::format("{} + {}", pointer(attr.buffer),
                                      expr(at_lane(flat, *chunk, 0) + attr.ahead, Level::Sum))));
  Operand out{"", v.dtype, chunk->lanes};
  if (v.dtype == DType::Bool) out.mask_bytes = 1;
  if (const Slices* slices = slices_of(attr.buffer); slices && contiguous) {
    out.text = slices->at(at_lane(flat, *chunk, 0).value()).name;
    return out;
  }
  if (stride && attr.guards.empty())
    if (auto column = load_column(attr.buffer, at_lane(flat, *chunk, 0), *stride, *chunk)) return *column;
  if (const auto range = range_of(attr.guards, *chunk))
    return load_range(std::move(out), attr.buffer, flat, attr.guards, *range, *chunk);
  out.text = local(ops_.type_of(out), lanes_of(attr.buffer, flat, attr.guards, *chunk));
  return out;
}

std::optional<CFamily::LaneRange> CFamily::range_of(const std::vector<Expr>& guards, const Chunk& chunk) {
  LaneRange range{0, chunk.active, {}};
  for (Expr g : guards) {
    const Expr first = at_lane(g, chunk, 0);
    if (depends_on(g, chunk.var)) {
      if (g.kind() != ExprKind::Lt && g.kind() != ExprKind::Le) return {};
      const Expr margin = g.rhs() - g.lhs() + (g.kind() == ExprKind::Le ? 1 : 0); // > 0 where it holds
      const auto stride = stride_of(margin, chunk.var);
      if (!stride || !stride->is_const()) return {};
      if (first != at_lane(g, chunk, chunk.active - 1)) {
        const Expr start = at_lane(margin, chunk, 0);
        const int64_t step = stride->value();
        if (step > 0)
          range.lo = max(range.lo, floordiv(-start, step) + 1);
        else
          range.hi = min(range.hi, ceildiv(start, -step));
        continue;
      }
    }
    if (first.is_const(0)) range.hi = 0;
    if (!first.is_const()) range.always.push_back(first);
  }
  return range;
}

bool CFamily::has_strides(const ast::BufferRef& buffer, Expr stride, int lanes) const {
  constexpr int64_t kMost = int64_t{1} << 26; // offsets of the lanes fit in 32 bits
  return dialect_.lane_access() && !slices_of(buffer) && stride.is_const() &&
         std::abs(stride.value()) < kMost && dialect_.lane_access()->has_strides(buffer->dtype, lanes);
}

Operand CFamily::load_range(Operand out, const ast::BufferRef& buffer, Expr flat,
                            const std::vector<Expr>& guards, const LaneRange& range, const Chunk& chunk) {
  const DType stored = out.dtype == DType::Bool ? DType::I8 : out.dtype;
  const auto stride = stride_of(flat, chunk.var);
  const bool contiguous = stride && stride->is_const(1);
  const std::string zero = dialect_.splat(literal(dialect_, Scalar::zero(stored)), stored, out.lanes);
  const auto as_mask = [&](const std::string& vector) {
    if (buffer->dtype != DType::Bool) return vector;
    const std::string zeros = dialect_.splat("0", DType::U8, out.lanes);
    return dialect_.reinterpret(fmt::format("{} != {}", vector, zeros), DType::I8, DType::I8, out.lanes);
  };
  const auto address = [&] {
    return fmt::format("{} + {}", pointer(buffer), expr(at_lane(flat, chunk, 0), Level::Sum));
  };
  const auto whole = [&] {
    return contiguous ? as_mask(dialect_.vector_load(address(), buffer->dtype, out.lanes))
                      : lanes_of(buffer, flat, {}, chunk);
  };
  const auto declare = [&](const std::string& text) {
    out.text = local(ops_.type_of(out), text);
    return out;
  };
  // What lies past the active lanes may be loaded with them, if it is there.
  const bool there = contiguous && range.hi.is_const(chunk.active) && dialect_.loads_between() &&
                     proves_le(at_lane(flat, chunk, out.lanes), num_elements(buffer->shape));
  const bool all = range.lo.is_const(0) && (there || range.hi.is_const(out.lanes));
  if (proves_le(range.hi, range.lo)) return declare(zero);
  if (all && range.always.empty()) return declare(whole());
  const LaneAccess* access = dialect_.lane_access();
  if (!all && access && (contiguous || (stride && has_strides(buffer, *stride, out.lanes)))) {
    std::string hi = expr(range.hi);
    if (!range.always.empty()) hi = fmt::format("({}) ? {} : 0", conjunction(range.always), hi);
    if (contiguous)
      return declare(as_mask(access->load(address(), buffer->dtype, out.lanes, expr(range.lo), hi)));
    return declare(access->load_strided(address(), stride->value(), buffer->dtype, out.lanes, expr(range.lo), hi));
  }
  if (!all && range.lo.is_const() && range.hi.is_const() && range.always.empty())
    return declare(lanes_of(buffer, flat, guards, chunk));
  out.text = names_.fresh_value();
  add(fmt::format("{} {} = {};", ops_.type_of(out), out.text, zero));
  const auto branch = [&](const std::string& head, const std::string& condition, const auto& value) {
    add(fmt::format("{} ({}) {{", head, condition));
    ++indent_;
    add(fmt::format("{} = {};", out.text, value()));
    --indent_;
  };
  std::vector<Expr> conditions = range.always;
  if (!all) conditions.insert(conditions.end(), {le(range.lo, 0), le(out.lanes, range.hi)});
  std::erase_if(conditions, [](Expr e) { return e.is_const() && e.value() != 0; });
  branch("if", conjunction(conditions), whole);
  if (!all) {
    conditions = range.always;
    conditions.push_back(lt(range.lo, range.hi));
    branch("} else if", conjunction(conditions), [&] { return lanes_of(buffer, flat, guards, chunk); });
  }
  add("}");
  return out;
}

std::string CFamily::lanes_of(const ast::BufferRef& buffer, Expr flat, const std::vector<Expr>& guards,
                              const Chunk& chunk) {
  const auto stride = stride_of(flat, chunk.var);
  if (guards.empty() && stride && stride->is_const(2) && chunk.lanes > 2 && chunk.active == chunk.lanes &&
      dialect_.loads_between() && buffer->dtype != DType::Bool && !slices_of(buffer)) {
    // Two loads that touch nothing past the last element, and a shuffle.
    std::string halves[2];
    std::vector<int> pick;
    for (int h = 0; h < 2; ++h) {
      const Expr start = at_lane(flat, chunk, 0) + h * (chunk.lanes - 1);
      const std::string address = fmt::format("{} + {}", pointer(buffer), expr(start, Level::Sum));
      halves[h] = local(dialect_.type(buffer->dtype, chunk.lanes),
                        dialect_.vector_load(address, buffer->dtype, chunk.lanes));
    }
    for (int i = 0; i < chunk.lanes; ++i) pick.push_back(2 * i < chunk.lanes ? 2 * i : 2 * i + 1);
    return dialect_.shuffle(halves[0], halves[1], pick, buffer->dtype);
  }
  if (guards.empty() && stride && has_strides(buffer, *stride, chunk.lanes)) {
    const std::string address =
        fmt::format("{} + {}", pointer(buffer), expr(at_lane(flat, chunk, 0), Level::Sum));
    return dialect_.lane_access()->load_strided(address, stride->value(), buffer->dtype, chunk.lanes, "0",
                                                fmt::format("{}", chunk.active));
  }
  const std::string zero = literal(dialect_, Scalar::zero(buffer->dtype));
  std::vector<std::string> lanes;
  for (int i = 0; i < chunk.active; ++i) {
    std::vector<Expr> here;
    for (Expr g : guards) here.push_back(at_lane(g, chunk, i));
    std::erase_if(here, [](Expr e) { return e.is_const() && e.value() != 0; });
    const bool never = std::any_of(here.begin(), here.end(), [](Expr e) { return e.is_const(0); });
    std::string text = never ? zero : element(buffer, at_lane(flat, chunk, i));
    if (!never && !here.empty()) text = fmt::format("({}) ? {} : {}", conjunction(here), text, zero);
    lanes.push_back(buffer->dtype == DType::Bool ? fmt::format("({}) ? -1 : 0", text) : text);
  }
  lanes.resize(chunk.lanes, "0");
  return dialect_.from_lanes(lanes, buffer->dtype == DType::Bool ? DType::I8 : buffer->dtype);
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
