// Decides which buffers in registers become variables.
#include <algorithm>

#include "ast/machine/moved_up.hpp"
#include "render/c_family.hpp"

namespace lathe::render {

std::optional<Slices> register_slices(const ast::Alloc& alloc, const Dialect& dialect) {
  constexpr size_t kMostSlices = 256;
  const ast::Buffer& buffer = *alloc.buffer;
  if ((is_half(buffer.dtype) && !dialect.lane_access()) || buffer.dtype == DType::Bool) return {};
  Slices slices;
  std::vector<int64_t> elements; // that code touches one at a time
  bool good = true;
  const auto vector = [&](Expr first, int lanes, int active) {
    good = good && first.is_const();
    if (!good) return;
    Slice& slice = slices.emplace(first.value(), Slice{"", lanes, 0}).first->second;
    good = slice.lanes == lanes;
    slice.active = std::max(slice.active, active);
  };
  const auto access = [&](const std::vector<Expr>& index, ast::LaneKind kind, const ast::For* lanes) {
    const Expr flat = flat_index(buffer, index);
    if (!lanes || kind == ast::LaneKind::One) {
      good = good && flat.is_const();
      if (good) elements.push_back(flat.value());
      return;
    }
    const Chunk chunk(*lanes);
    const Expr start = at_lane(flat, chunk, 0);
    if (kind == ast::LaneKind::Whole) return vector(start, chunk.lanes, chunk.active);
    good = good && start.is_const() && kind == ast::LaneKind::Column;
    for (int i = 0; good && i < chunk.active; ++i) elements.push_back(at_lane(flat, chunk, i).value());
  };
  // Its sums are in vectors. Its operands are read as bytes.
  const auto product = [&](const ast::Store& store, const std::vector<const ast::For*>& loops) {
    const auto outermost = std::find_if(
        loops.begin(), loops.end(), [](const ast::For* loop) { return loop->kind == ast::LoopKind::Tensor; });
    const ast::TensorNest nest = *ast::tensor_nest(**outermost);
    const ast::TensorProduct made = *ast::tensor_product(nest);
    good = made.a->buffer->id != buffer.id && made.b->buffer->id != buffer.id;
    const auto lanes = static_cast<int>(made.columns->extent.value());
    if (store.buffer->id == buffer.id) vector(ast::first_of(buffer, store.index, nest), lanes, lanes);
  };
  ast::visit(alloc.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store || !good) return;
    if (store->by && info(*store->by).is_tensor()) return product(*store, loops);
    const bool in_vector = !loops.empty() && loops.back()->kind == ast::LoopKind::Vector;
    const ast::For* lanes = in_vector ? loops.back() : nullptr;
    const auto values = [&](const ast::ValueRef& root) {
      ast::visit(root, [&](const ast::ValueRef& v) {
        const auto* attr = std::get_if<ast::LoadAttr>(&v->attr);
        if (!attr || attr->buffer->id != buffer.id) return;
        std::optional<ast::MovedUp> moved;
        if (attr->lanes.kind == ast::LaneKind::MovedUp) {
          moved = ast::as_moved_up(*attr, lanes->var, lanes->width);
          attr = &std::get<ast::LoadAttr>(moved->whole->attr);
        }
        const bool one = !lanes || attr->lanes.kind == ast::LaneKind::One;
        good = good && v->op == Op::Load && (one || attr->guards.empty());
        if (good) access(attr->index, attr->lanes.kind, lanes);
      });
    };
    values(store->value);
    if (store->scatter) values(store->scatter);
    if (store->buffer->id != buffer.id) return;
    if (store->scatter)
      good = false;
    else
      access(store->index, store->lanes.kind, lanes);
  });
  if (!good) return {};
  int64_t end = 0;
  for (const auto& [first, slice] : slices) {
    if (first < end) return {};
    end = first + slice.active;
  }
  for (int64_t e : elements) {
    const auto after = slices.upper_bound(e);
    const bool inside =
        after != slices.begin() && e < std::prev(after)->first + std::prev(after)->second.active;
    if (!inside) slices.emplace(e, Slice{"", 1, 1});
  }
  if (slices.size() > kMostSlices) return {};
  return slices;
}

} // namespace lathe::render
