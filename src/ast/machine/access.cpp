#include "ast/machine/access.hpp"

#include <algorithm>

#include "ast/flat_index.hpp"
#include "ast/machine/moved_up.hpp"

namespace lathe::ast {
namespace {

bool varies(const std::vector<Expr>& guards, Expr lane) {
  return std::any_of(guards.begin(), guards.end(), [&](Expr guard) { return depends_on(guard, lane); });
}

/// Whether `width` elements from `first` on exist.
bool reaches_whole(const Buffer& buffer, Expr first, int width, const VectorForms& forms) {
  if (first.lo() < 0) return false;
  const Expr count = num_elements(buffer.shape);
  if (buffer.scope == Scope::Register && forms.pads_registers)
    return first.hi() <= count.hi(); // no sum with what may be huge
  return forms.reads_between && proves_le(first + width, count);
}

/// Of an array in registers, whole rows of which are vectors.
bool is_column(const LoadAttr& load, const Steps& steps, int width) {
  if (load.buffer->scope != Scope::Register || load.buffer->dtype == DType::Bool || !load.guards.empty())
    return false;
  if (!steps.first.is_const() || !steps.step.is_const()) return false;
  const int64_t first = steps.first.value(), row = steps.step.value();
  if (!is_column_step(static_cast<double>(row), width) || first < 0) return false;
  return first % row / width * width + width <= row; // the row has that vector
}

LaneKind kind_of(Expr step) {
  if (step.is_const(0)) return LaneKind::One;
  if (!step.is_const()) return LaneKind::Apart;
  if (is_one_vector(static_cast<double>(step.value())))
    return step.value() == 1 ? LaneKind::Whole : LaneKind::Backwards;
  return LaneKind::Apart;
}

} // namespace

std::optional<Steps> steps_of(Expr flat, Expr lane) {
  const auto step = stride_of(flat, lane);
  if (!step) return {};
  return Steps{substitute(flat, {{lane, Expr(0)}}), *step};
}

LaneAccess access_of(const LoadAttr& load, const For& lanes, const VectorForms& forms) {
  const bool full = lanes.extent.is_const(lanes.width);
  if (full && as_moved_up(load, lanes.var, lanes.width)) return {LaneKind::MovedUp, false};
  const bool guarded = varies(load.guards, lanes.var);
  const auto steps = steps_of(flat_index(*load.buffer, load.index), lanes.var);
  if (!steps) return {LaneKind::Scattered, guarded || !full};
  LaneKind kind = kind_of(steps->step);
  if (kind == LaneKind::One) return {kind, guarded};
  const bool whole = kind == LaneKind::Whole && reaches_whole(*load.buffer, steps->first, lanes.width, forms);
  const bool masked = guarded || !(full || whole);
  if (is_column(load, *steps, lanes.width)) kind = LaneKind::Column;
  if (steps->step.is_const(2) && !masked && forms.reads_between && load.buffer->scope != Scope::Register)
    kind = LaneKind::EverySecond;
  return {kind, masked};
}

LaneAccess access_of(const Store& store, const For& lanes, const VectorForms&) {
  const bool masked = !lanes.extent.is_const(lanes.width);
  const auto steps = steps_of(flat_index(*store.buffer, store.index), lanes.var);
  return {steps ? kind_of(steps->step) : LaneKind::Scattered, masked};
}

Kernel say_accesses(const Kernel& kernel, const VectorForms& forms) {
  const auto said = [&](const For& loop) {
    Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& value) {
      if (value->op != Op::Load) return value;
      const auto& attr = std::get<LoadAttr>(value->attr);
      return load(attr.buffer, attr.index, attr.guards, attr.ahead, access_of(attr, loop, forms));
    };
    Block body = rewrite(loop.body, rewriter);
    for (Stmt& stmt : body) {
      auto& store = std::get<Store>(stmt.node);
      store.lanes = access_of(store, loop, forms);
    }
    return body;
  };
  Rewriter rewriter;
  rewriter.on_stmt = [&](Stmt stmt) {
    auto* loop = std::get_if<For>(&stmt.node);
    if (loop && loop->kind == LoopKind::Vector) loop->body = said(*loop);
    Block out;
    out.push_back(std::move(stmt));
    return out;
  };
  Kernel out = kernel;
  out.body = rewrite(kernel.body, rewriter);
  return out;
}

} // namespace lathe::ast
