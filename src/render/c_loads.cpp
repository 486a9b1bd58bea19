// Loads of the C family: scalars, vectors, and vectors of which guards or a ragged end leave only some lanes.
// Code that follows reuses a load of the same place.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "ast/machine/access.hpp"
#include "ast/machine/moved_up.hpp"
#include "render/c_family.hpp"

namespace lathe::render {

std::optional<CFamily::Place> CFamily::place_of(Expr flat, const std::vector<Expr>& guards,
                                                const Chunk* chunk) {
  const bool linear = !chunk || stride_of(flat, chunk->var);
  Place place = {Expr(linear ? 1 : 0).node(), Expr(chunk ? chunk->lanes : 1).node(),
                 Expr(chunk ? chunk->active : 1).node()};
  const auto add_ends = [&](Expr e) {
    if (!chunk || !depends_on(e, chunk->var)) {
      place.insert(place.end(), {e.node(), nullptr});
      return true;
    }
    place.insert(place.end(), {at_lane(e, *chunk, 0).node(), at_lane(e, *chunk, chunk->lanes - 1).node()});
    return stride_of(e, chunk->var).has_value();
  };
  if (linear)
    add_ends(flat);
  else
    for (int i = 0; i < chunk->active; ++i) place.push_back(at_lane(flat, *chunk, i).node());
  for (Expr g : guards) {
    place.push_back(Expr(static_cast<int>(g.kind())).node());
    const bool compares = g.kind() == ExprKind::Lt || g.kind() == ExprKind::Le;
    if (compares ? !add_ends(g.lhs()) || !add_ends(g.rhs()) : chunk && depends_on(g, chunk->var)) return {};
    if (!compares) place.push_back(g.node());
  }
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

/// Prefetches attr.ahead elements past the element or vector at `first`.
void CFamily::ask_ahead(const ast::LoadAttr& attr, Expr first) {
  add(dialect_.prefetch(fmt::format("{} + {}", pointer(attr.buffer), expr(first + attr.ahead, Level::Sum)),
                        cache_level_ahead(attr.ahead * size_of(attr.buffer->dtype))));
}

Operand CFamily::load_anew(const ast::Value& v, Expr flat, const Chunk* chunk) {
  const auto& attr = std::get<ast::LoadAttr>(v.attr);
  const ast::LaneKind kind = chunk ? attr.lanes.kind : ast::LaneKind::One;
  if (kind == ast::LaneKind::One && !attr.lanes.masked) {
    Operand out{"", v.dtype, 1};
    if (attr.ahead) ask_ahead(attr, flat);
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
  if (kind == ast::LaneKind::MovedUp) return load_moved_up(attr, *chunk);
  if (attr.ahead && kind == ast::LaneKind::Whole) ask_ahead(attr, at_lane(flat, *chunk, 0));
  Operand out{"", v.dtype, chunk->lanes};
  if (v.dtype == DType::Bool) out.mask_bytes = 1;
  if (const Slices* slices = slices_of(attr.buffer); slices && kind == ast::LaneKind::Whole) {
    out.text = slices->at(at_lane(flat, *chunk, 0).value()).name;
    return out;
  }
  if (kind == ast::LaneKind::Column)
    if (auto column = load_column(attr.buffer, flat, *chunk)) return *column;
  if (const auto range = range_of(attr.guards, *chunk))
    return load_range(std::move(out), attr, flat, *range, *chunk);
  out.text = local(ops_.type_of(out), lanes_of(attr.buffer, flat, attr.guards, *chunk));
  return out;
}

Operand CFamily::load_moved_up(const ast::LoadAttr& attr, const Chunk& chunk) {
  const auto moved = ast::as_moved_up(attr, chunk.var, chunk.lanes);
  Operand out = load(*moved->whole, &chunk);
  const DType dtype = is_half(out.dtype) ? DType::F32 : out.dtype; // halves are floats in registers
  const std::string zero = dialect_.splat(literal(dialect_, Scalar::zero(out.dtype)), out.dtype, chunk.lanes);
  out.text = local(ops_.type_of(out), dialect_.shuffle(zero, out.text, moved->picked(chunk.lanes), dtype));
  return out;
}

std::optional<CFamily::LaneRange> CFamily::range_of(const std::vector<Expr>& guards, const Chunk& chunk) {
  LaneRange range{0, chunk.active, {}};
  for (Expr g : guards) {
    const Expr first = at_lane(g, chunk, 0);
    if (depends_on(g, chunk.var)) {
      if (g.kind() != ExprKind::Lt && g.kind() != ExprKind::Le) return {};
      const Expr margin = g.rhs() - g.lhs() + (g.kind() == ExprKind::Le ? 1 : 0); // > 0 if the guard holds
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

std::vector<int64_t> CFamily::offsets_of(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk) const {
  const LaneAccess* access = dialect_.lane_access();
  if (!access || slices_of(buffer) || !access->has_offsets(buffer->dtype, chunk.lanes)) return {};
  const Expr start = at_lane(flat, chunk, 0);
  std::vector<int64_t> offsets;
  for (int i = 0; i < chunk.lanes; ++i) {
    const Expr offset = i < chunk.active ? at_lane(flat, chunk, i) - start : Expr(0);
    if (!offset.is_const() || std::abs(offset.value()) > std::numeric_limits<int32_t>::max()) return {};
    offsets.push_back(offset.value());
  }
  return offsets;
}

Operand CFamily::load_range(Operand out, const ast::LoadAttr& attr, Expr flat, const LaneRange& range,
                            const Chunk& chunk) {
  const ast::BufferRef& buffer = attr.buffer;
  const DType stored = out.dtype == DType::Bool ? DType::I8 : out.dtype;
  const bool contiguous = attr.lanes.kind == ast::LaneKind::Whole;
  const std::string zero = dialect_.splat(literal(dialect_, Scalar::zero(stored)), stored, out.lanes);
  const DType in_memory = is_half(buffer->dtype) ? DType::U16 : buffer->dtype;
  const auto as_value = [&](const std::string& vector) {
    if (is_half(buffer->dtype))
      return dialect_.lane_access()->half_values(local(dialect_.type(in_memory, out.lanes), vector),
                                                 buffer->dtype, out.lanes);
    if (buffer->dtype != DType::Bool) return vector;
    const std::string zeros = dialect_.splat("0", DType::U8, out.lanes);
    return dialect_.reinterpret(fmt::format("{} != {}", vector, zeros), DType::I8, DType::I8, out.lanes);
  };
  const auto address = [&] {
    return fmt::format("{} + {}", pointer(buffer), expr(at_lane(flat, chunk, 0), Level::Sum));
  };
  const auto whole = [&] {
    if (contiguous) return as_value(dialect_.vector_load(address(), in_memory, out.lanes));
    if (attr.lanes.kind == ast::LaneKind::Spaced) return spaced(buffer, flat, chunk);
    return lanes_of(buffer, flat, {}, chunk);
  };
  const auto declare = [&](const std::string& text) {
    out.text = local(ops_.type_of(out), text);
    return out;
  };
  const bool all = range.lo.is_const(0) && (!attr.lanes.masked || range.hi.is_const(out.lanes));
  if (proves_le(range.hi, range.lo)) return declare(zero);
  if (all && range.always.empty()) return declare(whole());
  const LaneAccess* access = dialect_.lane_access();
  const std::vector<int64_t> offsets =
      all || contiguous ? std::vector<int64_t>() : offsets_of(buffer, flat, chunk);
  if (!all && access && (contiguous || !offsets.empty())) {
    std::string hi = expr(range.hi);
    if (!range.always.empty()) hi = fmt::format("({}) ? {} : 0", conjunction(range.always), hi);
    if (contiguous)
      return declare(as_value(access->load(address(), in_memory, out.lanes, expr(range.lo), hi)));
    return declare(access->load_apart(address(), offsets, buffer->dtype, expr(range.lo), hi));
  }
  if (!all && range.lo.is_const() && range.hi.is_const() && range.always.empty())
    return declare(lanes_of(buffer, flat, attr.guards, chunk));
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
    branch("} else if", conjunction(conditions), [&] { return lanes_of(buffer, flat, attr.guards, chunk); });
  }
  add("}");
  return out;
}

std::string CFamily::spaced(const ast::BufferRef& buffer, Expr flat, const Chunk& chunk) {
  if (buffer->dtype == DType::Bool || is_half(buffer->dtype)) return lanes_of(buffer, flat, {}, chunk);
  const Expr first = at_lane(flat, chunk, 0), step = at_lane(flat, chunk, 1) - first;
  const ast::SpacedLoad spaced = ast::spaced_load(chunk.lanes, static_cast<int>(step.value()));
  const std::string type = dialect_.type(buffer->dtype, chunk.lanes);
  std::vector<std::string> vectors;
  for (const int start : spaced.starts) {
    const std::string address = fmt::format("{} + {}", pointer(buffer), expr(first + start, Level::Sum));
    vectors.push_back(local(type, dialect_.vector_load(address, buffer->dtype, chunk.lanes)));
  }
  for (const auto& merge : spaced.merges) {
    std::vector<int> pick = merge.pick;
    for (int i = 0; i < chunk.lanes; ++i)
      if (pick[i] < 0) pick[i] = i;
    const std::string text = dialect_.shuffle(vectors[merge.left], vectors[merge.right], pick, buffer->dtype);
    vectors.push_back(&merge == &spaced.merges.back() ? text : local(type, text));
  }
  return vectors.back();
}

std::string CFamily::picked_lanes(const ast::BufferRef& buffer, Expr flat, const std::vector<Expr>& guards,
                                  const Chunk& chunk) {
  const bool has_form = dialect_.lane_access() && !is_half(buffer->dtype) && guards.empty();
  if (!has_form || chunk.active < chunk.lanes) return {};
  const auto picked = ast::picked_load(*buffer, flat, chunk.var, chunk.lanes);
  if (!picked) return {};
  const std::string address = fmt::format("{} + {}", pointer(buffer), expr(picked->first, Level::Sum));
  const std::string whole = local(dialect_.type(buffer->dtype, picked->elements),
                                  dialect_.vector_load(address, buffer->dtype, picked->elements));
  return dialect_.shuffle(whole, whole, picked->pick, buffer->dtype);
}

std::string CFamily::lanes_of(const ast::BufferRef& buffer, Expr flat, const std::vector<Expr>& guards,
                              const Chunk& chunk) {
  if (const auto offsets = guards.empty() ? offsets_of(buffer, flat, chunk) : std::vector<int64_t>();
      !offsets.empty()) {
    const std::string address =
        fmt::format("{} + {}", pointer(buffer), expr(at_lane(flat, chunk, 0), Level::Sum));
    return dialect_.lane_access()->load_apart(address, offsets, buffer->dtype, "0",
                                              fmt::format("{}", chunk.active));
  }
  if (const auto picked = picked_lanes(buffer, flat, guards, chunk); !picked.empty()) return picked;
  const std::string zero = literal(dialect_, Scalar::zero(buffer->dtype));
  std::vector<std::string> lanes;
  for (int i = 0; i < chunk.active; ++i) {
    std::vector<Expr> here;
    for (Expr g : guards) here.push_back(at_lane(g, chunk, i));
    std::erase_if(here, [](Expr e) { return e.is_const() && e.value() != 0; });
    const bool never = std::any_of(here.begin(), here.end(), [](Expr e) { return e.is_const(0); });
    std::string text = never ? zero : element(buffer, at_lane(flat, chunk, i));
    if (!never && !here.empty()) text = fmt::format("({}) ? {} : {}", conjunction(here), text, zero);
    lanes.push_back(buffer->dtype == DType::Bool ? fmt::format("(signed char)(({}) ? -1 : 0)", text) : text);
  }
  lanes.resize(chunk.lanes, "0");
  return dialect_.from_lanes(lanes, buffer->dtype == DType::Bool ? DType::I8 : buffer->dtype);
}

} // namespace lathe::render
