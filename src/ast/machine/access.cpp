#include "ast/machine/access.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "ast/append.hpp"
#include "ast/flat_index.hpp"
#include "ast/machine/moved_up.hpp"

namespace lathe::ast {
namespace {

/// Whether a load may read the `width` elements from `first` on.
bool reaches_whole(const Buffer& buffer, Expr first, int width, const VectorForms& forms) {
  if (buffer.scope == Scope::Register && forms.pads_registers) return begins_inside(buffer, first);
  return forms.reads_between && first.lo() >= 0 && proves_le(first + width, num_elements(buffer.shape));
}

/// Whether the load is a column of an array in registers whose rows are whole vectors.
bool is_column(const LoadAttr& load, const Steps& steps, int width) {
  if (load.buffer->scope != Scope::Register || load.buffer->dtype == DType::Bool || !load.guards.empty())
    return false;
  if (!steps.first.is_const() || !steps.step.is_const()) return false;
  const int64_t first = steps.first.value(), row = steps.step.value();
  if (!is_column_step(static_cast<double>(row), width) || first < 0) return false;
  return first % row / width * width + width <= row; // the row contains that vector
}

LaneKind kind_of(Expr step) {
  if (step.is_const(0)) return LaneKind::One;
  if (!step.is_const()) return LaneKind::Apart;
  if (is_one_vector(static_cast<double>(step.value())))
    return step.value() == 1 ? LaneKind::Whole : LaneKind::Backwards;
  return LaneKind::Apart;
}

/// How the lanes of a load in the vector loop `lanes` lie.
LaneAccess access_of(const LoadAttr& load, const For& lanes, const VectorForms& forms) {
  const bool full = lanes.extent.is_const(lanes.width);
  if (full && as_moved_up(load, lanes.var, lanes.width)) return {LaneKind::MovedUp, false};
  const bool guarded = depend_on(load.guards, lanes.var);
  const auto steps = steps_of(flat_index(*load.buffer, load.index), lanes.var);
  if (!steps) return {LaneKind::Scattered, guarded || !full};
  LaneKind kind = kind_of(steps->step);
  if (kind == LaneKind::One) return {kind, guarded};
  const bool whole = kind == LaneKind::Whole && reaches_whole(*load.buffer, steps->first, lanes.width, forms);
  const bool masked = guarded || !(full || whole);
  if (is_column(load, *steps, lanes.width)) kind = LaneKind::Column;
  if (kind == LaneKind::Apart && (!masked || forms.masks_spaced) && forms.reads_between &&
      load.buffer->scope != Scope::Register && steps->step.is_const() &&
      is_spaced_step(static_cast<double>(steps->step.value()), load.buffer->dtype))
    kind = LaneKind::Spaced;
  return {kind, masked};
}

/// How the lanes of a store in the vector loop `lanes` lie. The store is no scatter.
LaneAccess access_of(const Store& store, const For& lanes) {
  const bool masked = !lanes.extent.is_const(lanes.width);
  const auto steps = steps_of(flat_index(*store.buffer, store.index), lanes.var);
  return {steps ? kind_of(steps->step) : LaneKind::Scattered, masked};
}

} // namespace

std::optional<Steps> steps_of(Expr flat, Expr lane) {
  const auto step = stride_of(flat, lane);
  if (!step) return {};
  return Steps{lathe::substitute(flat, {{lane, Expr(0)}}), *step};
}

bool begins_inside(const Buffer& buffer, Expr first) {
  return first.lo() >= 0 && first.hi() <= num_elements(buffer.shape).hi(); // no sum, which could overflow
}

SpacedLoad spaced_load(int lanes, int step) {
  SpacedLoad load;
  std::vector<std::vector<int>> found; // for each vector: where it has each lane, or -1
  const int last = (lanes - 1) * step + 1 - lanes;
  for (int i = 0; i < lanes; ++i) {
    const int place = i * step;
    if (load.starts.empty() || place >= load.starts.back() + lanes) {
      load.starts.push_back(std::min(place, last));
      found.emplace_back(lanes, -1);
    }
    found.back()[i] = place - load.starts.back();
  }
  std::vector<int> left(found.size()); // to merge, in the order of their lanes
  std::iota(left.begin(), left.end(), 0);
  while (left.size() > 1) {
    std::vector<int> next;
    for (size_t i = 0; i + 1 < left.size(); i += 2) {
      SpacedLoad::Merge merge{left[i], left[i + 1], found[left[i]]};
      std::vector<int> places(lanes, -1);
      for (int lane = 0; lane < lanes; ++lane) {
        if (const int there = found[merge.right][lane]; there >= 0) merge.pick[lane] = lanes + there;
        if (merge.pick[lane] >= 0) places[lane] = lane;
      }
      next.push_back(static_cast<int>(found.size()));
      found.push_back(std::move(places));
      load.merges.push_back(std::move(merge));
    }
    if (left.size() % 2 == 1) next.push_back(left.back());
    left = std::move(next);
  }
  return load;
}

std::optional<PickedLoad> picked_load(const Buffer& buffer, Expr flat, Expr lane, int lanes) {
  if (buffer.scope == Scope::Register || buffer.dtype == DType::Bool) return {};
  const Expr at_first = lathe::substitute(flat, {{lane, Expr(0)}});
  PickedLoad out;
  int least = 0, most = 0;
  for (int i = 0; i < lanes; ++i) {
    const Expr apart = lathe::substitute(flat, {{lane, Expr(i)}}) - at_first;
    if (!apart.is_const() || std::abs(apart.value()) >= lanes) return {};
    out.pick.push_back(static_cast<int>(apart.value()));
    least = std::min(least, out.pick.back());
    most = std::max(most, out.pick.back());
  }
  out.elements = most - least + 1;
  if (out.elements < 2 || out.elements > lanes || !std::has_single_bit(static_cast<unsigned>(out.elements)))
    return {};
  for (int& place : out.pick) place -= least;
  out.first = at_first + least;
  return out;
}

Kernel say_accesses(const Kernel& kernel, const VectorForms& forms) {
  return with_statements(kernel, [&](Stmt& stmt) {
    auto* loop = std::get_if<For>(&stmt.node);
    if (!loop || loop->kind != LoopKind::Vector) return;
    Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& value) {
      if (value->op != Op::Load) return value;
      const auto& attr = std::get<LoadAttr>(value->attr);
      return load(attr.buffer, attr.index, attr.guards, attr.ahead, access_of(attr, *loop, forms));
    };
    Block body = rewrite(loop->body, rewriter);
    for (Stmt& inner : body) {
      auto& store = std::get<Store>(inner.node);
      store.lanes = access_of(store, *loop);
    }
    loop->body = std::move(body);
  });
}

bool is_byte_look_up(const Value& gather) {
  if (gather.op != Op::Gather || size_of(gather.dtype) != 1) return false;
  const auto& attr = std::get<LoadAttr>(gather.attr);
  const Value& index = *gather.sources[0];
  return num_elements(attr.buffer->shape).is_const(256) && index.op == Op::Cast &&
         index.sources[0]->dtype == DType::U8;
}

} // namespace lathe::ast
