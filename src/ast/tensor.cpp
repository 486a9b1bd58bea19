#include "ast/tensor.hpp"

#include <algorithm>

#include "ast/flat_index.hpp"

namespace lathe::ast {
namespace {

ValueRef before_cast(const ValueRef& value) { return value->op == Op::Cast ? value->sources[0] : value; }

const LoadAttr* as_load(const ValueRef& value) {
  return value->op == Op::Load ? &std::get<LoadAttr>(value->attr) : nullptr;
}

/// The elements from one iteration of the loop to the next; nothing if the step is no constant.
std::optional<int64_t> step_of(Expr flat, const For* loop) {
  if (!loop) return 0;
  const auto stride = stride_of(flat, loop->var);
  if (!stride || !stride->is_const()) return {};
  return stride->value();
}

/// Whether one iteration of the loop is a fixed number of elements from the next, whatever that number is.
bool is_even(Expr flat, const TensorProduct& product, const For* loop) {
  if (!loop) return true;
  const auto stride = stride_of(flat, loop->var);
  if (!stride) return false;
  for (const For* inner : {product.rows, product.k_rows, product.columns, product.k})
    if (inner && depends_on(*stride, inner->var)) return false;
  return true;
}

} // namespace

std::optional<TensorNest> tensor_nest(const For& outermost) {
  TensorNest nest;
  for (const For* loop = &outermost;;) {
    if (loop->kind != LoopKind::Tensor || !loop->extent.is_const() || loop->body.size() != 1) return {};
    nest.loops.push_back(loop);
    const Stmt& inner = loop->body[0];
    if ((nest.store = std::get_if<Store>(&inner.node))) return nest;
    loop = std::get_if<For>(&inner.node);
    if (!loop) return {};
  }
}

Expr first_of(const Buffer& buffer, const std::vector<Expr>& index, const TensorNest& nest) {
  Expr flat = flat_index(buffer, index);
  for (const For* loop : nest.loops) flat = lathe::substitute(flat, {{loop->var, 0}});
  return flat;
}

bool moves_with(const ValueRef& value, Expr var) {
  const auto depends = [&](Expr e) { return depends_on(e, var); };
  bool found = false;
  visit(value, [&](const ValueRef& v) {
    if (const auto* index = std::get_if<Expr>(&v->attr)) found |= depends(*index);
    if (const auto* load = std::get_if<LoadAttr>(&v->attr))
      found |= std::any_of(load->index.begin(), load->index.end(), depends) ||
               std::any_of(load->guards.begin(), load->guards.end(), depends);
  });
  return found;
}

std::optional<std::pair<ValueRef, ValueRef>> factors_of(const Store& store) {
  const Value& value = *store.value;
  if (store.combine != Op::Add || store.scatter || value.op != Op::Mul) return {};
  if (std::holds_alternative<Rounded>(value.attr)) return {};
  return std::pair(before_cast(value.sources[0]), before_cast(value.sources[1]));
}

std::optional<TensorProduct> tensor_product(const TensorNest& nest) {
  const size_t count = nest.loops.size();
  if (count != 2 && count != 4) return {};
  auto factors = factors_of(*nest.store);
  if (!factors) return {};
  TensorProduct out{};
  out.store = nest.store;
  out.columns = nest.loops[count - 2];
  out.k = nest.loops[count - 1];
  if (count == 4) {
    out.rows = nest.loops[0];
    out.k_rows = nest.loops[1];
  }
  auto& [a, b] = *factors;
  if (moves_with(a, out.columns->var)) std::swap(a, b);
  if (moves_with(a, out.columns->var) || !moves_with(b, out.columns->var)) return {};
  if (out.rows && moves_with(b, out.rows->var)) return {};
  out.a_dtype = a->dtype;
  out.b_dtype = b->dtype;
  out.a = as_load(a);
  out.b = as_load(b);
  return out;
}

std::optional<Instruction> instruction_of(const TensorProduct& product, const Instructions& present) {
  const auto extent = [](const For* loop) { return loop ? loop->extent.value() : 1; };
  const int64_t columns = extent(product.columns);
  for (const Instruction instruction : present) {
    const InstructionInfo& row = info(instruction);
    if (!row.is_tensor() || row.is_tile() != (product.rows != nullptr) || extent(product.rows) > row.m)
      continue;
    if (row.n != 0 ? columns != row.n : columns != 4 && columns != 8 && columns != 16) continue;
    if (extent(product.k) != row.pack || extent(product.k_rows) * row.pack > row.k) continue;
    if (product.a_dtype == row.a && product.b_dtype == row.b && product.store->buffer->dtype == row.c)
      return instruction;
  }
  return {};
}

bool is_laid_out(const TensorProduct& p, const InstructionInfo& row, bool unguarded) {
  const auto guarded = [&](const LoadAttr& load) {
    return !load.guards.empty() || load.lanes.kind != LaneKind::Unsaid;
  };
  if (!p.a || !p.b || (unguarded && (guarded(*p.a) || guarded(*p.b)))) return false;
  if (p.store->buffer->scope != Scope::Register) return false;
  const Expr a = flat_index(*p.a->buffer, p.a->index), b = flat_index(*p.b->buffer, p.b->index),
             c = flat_index(*p.store->buffer, p.store->index);
  if (step_of(a, p.k) != 1 || step_of(b, p.k) != 1 || step_of(c, p.k) != 0) return false;
  if (step_of(a, p.columns) != 0 || step_of(b, p.columns) != row.pack || step_of(c, p.columns) != 1)
    return false;
  if (!p.rows) return true;
  if (step_of(a, p.k_rows) != row.pack || step_of(c, p.k_rows) != 0) return false;
  const auto columns = step_of(c, p.rows);
  if (step_of(b, p.rows) != 0 || !columns || *columns < row.n || *columns % row.n != 0) return false;
  return is_even(a, p, p.rows) && is_even(b, p, p.k_rows);
}

std::optional<TensorCopy> tensor_copy(const TensorNest& nest) {
  const Store& store = *nest.store;
  if (nest.loops.size() != 2 || store.combine || store.scatter || store.value->op != Op::Load) return {};
  const TensorCopy copy{nest.loops[0], nest.loops[1], &store, &std::get<LoadAttr>(store.value->attr)};
  const Expr to = flat_index(*store.buffer, store.index),
             from = flat_index(*copy.from->buffer, copy.from->index);
  if (store.buffer->scope == Scope::Register || !copy.from->guards.empty()) return {};
  if (step_of(to, copy.k) != 1 || step_of(to, copy.columns) != copy.k->extent.value()) return {};
  const auto columns = stride_of(from, copy.columns->var), k = stride_of(from, copy.k->var);
  const auto moves = [&](Expr e) { return depends_on(e, copy.columns->var) || depends_on(e, copy.k->var); };
  if (!columns || !k || moves(*columns) || moves(*k)) return {};
  return columns->is_const(1) || k->is_const(1) ? std::optional(copy) : std::nullopt;
}

TileGrid tile_grid(const TensorProduct& product) {
  const Expr flat = flat_index(*product.store->buffer, product.store->index);
  return {product.rows->extent.value(), stride_of(flat, product.rows->var)->value(),
          product.k_rows->extent.value()};
}

} // namespace lathe::ast
