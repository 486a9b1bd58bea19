// Stores of the C family: plain, combining, scattering, and over lanes.
#include <fmt/format.h>

#include "core/neutral.hpp"
#include "lathe/error.hpp"
#include "render/c_family.hpp"

namespace lathe::render {
void CFamily::store(const ast::Store& store, const Chunk* chunk) {
  const Expr flat = flat_index(*store.buffer, store.index);
  if (store.scatter)
    store_scatter(store);
  else if (!chunk)
    store_scalar(store, flat);
  else if (store.lanes.kind == ast::LaneKind::One)
    store_horizontal(store, flat, *chunk);
  else
    store_vector(store, flat, *chunk);
  loads_.erase(store.buffer->id);
}

Operand CFamily::combined(const ast::Store& store, const Operand& old, const Chunk* chunk) {
  const ast::Value& v = *store.value;
  if (store.by) {
    const Operand a = value(v.sources[0], chunk), b = value(v.sources[1], chunk);
    return ops_.apply(Op::Fma, v.dtype, {a, b, old});
  }
  return ops_.apply(*store.combine, v.dtype, {old, value(store.value, chunk)});
}

void CFamily::write_element(const ast::BufferRef& buffer, Expr flat, const std::string& value) {
  columns_.clear();
  if (slices_of(buffer)) return add(fmt::format("{} = {};", element(buffer, flat), value));
  const std::string& name = pointer(buffer);
  if (is_half(buffer->dtype)) return add(dialect_.half_store(name, expr(flat), value, buffer->dtype));
  add(fmt::format("{}[{}] = {};", name, expr(flat), value));
}

void CFamily::store_scalar(const ast::Store& store, Expr flat) {
  Operand v;
  if (store.combine) {
    const Operand old{element(store.buffer, flat), store.buffer->dtype};
    v = combined(store, old, nullptr);
  } else {
    v = value(store.value, nullptr);
  }
  write_element(store.buffer, flat, v.text);
}

void CFamily::store_scatter(const ast::Store& store) {
  const std::string type = dialect_.index_type();
  const Operand index = value(store.scatter, nullptr);
  const std::string at = local(type, fmt::format("({}){}", type, index.text));
  const Operand v = value(store.value, nullptr);
  add(fmt::format("if ({0} >= 0 && {0} < {1}) {{", at, expr(num_elements(store.buffer->shape), Level::Sum)));
  ++indent_;
  Operand result = v;
  if (store.combine)
    result = ops_.apply(*store.combine, v.dtype, {{element_at(store.buffer, at), v.dtype}, v});
  const std::string& name = pointer(store.buffer);
  add(is_half(v.dtype) ? dialect_.half_store(name, at, result.text, v.dtype)
                       : fmt::format("{}[{}] = {};", name, at, result.text));
  --indent_;
  add("}");
}

void CFamily::store_vector(const ast::Store& store, Expr flat, const Chunk& chunk) {
  const ast::BufferRef& buffer = store.buffer;
  const DType dtype = buffer->dtype;
  const bool contiguous = store.lanes.kind == ast::LaneKind::Whole;
  const Slices* slices = slices_of(buffer);
  Operand v;
  if (store.combine) {
    const ast::ValueRef old = ast::load(buffer, store.index, {}, 0, store.lanes);
    v = combined(store, value(old, &chunk), &chunk);
  } else if (is_half(dtype) && store.value->op == Op::Cast && contiguous &&
             !slices) { // half_bits below rounds it
    v = ops_.unrounded(dtype, value(store.value->sources[0], &chunk));
  } else {
    v = value(store.value, &chunk);
  }
  if (slices) columns_.clear();
  if (contiguous && slices) {
    const Slice& slice = slices->at(at_lane(flat, chunk, 0).value());
    const std::string wide = ops_.widen(v, chunk.lanes, 0).text;
    const bool whole = slice.active <= chunk.active;
    return add(fmt::format("{} = {};", slice.name, whole ? wide : in_active(wide, slice.name, dtype, chunk)));
  }
  Operand wide = ops_.widen(v, chunk.lanes, 1);
  if (dtype == DType::Bool) { // a mask of bytes becomes 0 and 1
    wide.text = fmt::format("({} & {})", wide.text, dialect_.splat("1", DType::I8, chunk.lanes));
    wide.text = dialect_.reinterpret(wide.text, DType::I8, DType::U8, chunk.lanes);
    wide.text = local(dialect_.type(DType::U8, chunk.lanes), wide.text);
  } else if (wide.text != v.text || v.text[0] == '(') {
    wide.text = local(dialect_.type(dtype, chunk.lanes), wide.text);
  }
  if (contiguous) {
    const std::string address =
        fmt::format("{} + {}", pointer(buffer), expr(at_lane(flat, chunk, 0), Level::Sum));
    const DType in_memory = is_half(dtype) ? DType::U16 : dtype;
    if (is_half(dtype))
      wide.text = local(dialect_.type(in_memory, chunk.lanes),
                        dialect_.lane_access()->half_bits(wide.text, dtype, chunk.lanes));
    if (store.lanes.masked)
      return add(dialect_.lane_access()->store(address, wide.text, in_memory, chunk.lanes, chunk.active));
    streams_ |= store.streaming;
    return add(dialect_.vector_store(address, wide.text, in_memory, chunk.lanes, store.streaming));
  }
  if (const auto offsets = offsets_of(buffer, flat, chunk); !offsets.empty()) {
    const std::string address =
        fmt::format("{} + {}", pointer(buffer), expr(at_lane(flat, chunk, 0), Level::Sum));
    return add(dialect_.lane_access()->store_apart(address, offsets, wide.text, dtype, chunk.active));
  }
  for (int i = 0; i < chunk.active; ++i)
    write_element(buffer, at_lane(flat, chunk, i), dialect_.lane(wide.text, i));
}

std::string CFamily::in_active(const std::string& v, const std::string& other, DType dtype,
                               const Chunk& chunk) {
  std::vector<int> pick;
  for (int i = 0; i < chunk.lanes; ++i) pick.push_back(i < chunk.active ? i : chunk.lanes + i);
  return dialect_.shuffle(v, other, pick, dtype);
}

/// Combines all lanes into one element. Combines the halves of the vector till one lane is left.
void CFamily::store_horizontal(const ast::Store& store, Expr flat, const Chunk& chunk) {
  Operand v = value(store.value, &chunk);
  v = ops_.widen(v, chunk.lanes, v.mask_bytes ? v.mask_bytes : 1);
  v.text = local(ops_.type_of(v), v.text);
  const DType piece = v.dtype == DType::Bool ? signed_of(v.mask_bytes) : v.dtype;
  if (chunk.active < chunk.lanes) {
    const Scalar nothing = neutral(*store.combine, v.dtype);
    const Operand none{literal(dialect_, nothing), v.dtype, 1, 0, nothing};
    v.text = in_active(v.text, ops_.widen(none, chunk.lanes, v.mask_bytes).text, piece, chunk);
    v.text = local(ops_.type_of(v), v.text);
  }
  while (v.lanes > 2) {
    const int half = v.lanes / 2;
    Operand part[2];
    for (int p = 0; p < 2; ++p)
      part[p] = Operand{local(dialect_.type(piece, half), dialect_.half(v.text, p == 1, v.lanes)), v.dtype,
                        half, v.mask_bytes};
    v = ops_.apply(*store.combine, v.dtype, {part[0], part[1]});
    v.text = local(ops_.type_of(v), v.text);
  }
  const auto scalar_lane = [&](int i) {
    const std::string text = dialect_.lane(v.text, i);
    return Operand{v.dtype == DType::Bool ? fmt::format("({} != 0)", text) : text, v.dtype};
  };
  Operand sum = ops_.apply(*store.combine, v.dtype, {scalar_lane(0), scalar_lane(1)});
  sum.text = local(dialect_.type(v.dtype, 1), sum.text);
  const Operand old{element(store.buffer, flat), v.dtype};
  write_element(store.buffer, flat, ops_.apply(*store.combine, v.dtype, {old, sum}).text);
}

} // namespace lathe::render
