// Reductions in loops. A store that combines into an element which stays the same through a serial loop is
// kept in a register over that loop, and combined into memory once, after it. Lanes of a vector loop that
// meet in one element are kept apart till then, so that the loop has one vector operation and no sum across
// lanes.
#include <unordered_map>

#include "render/llvm/emitter.hpp"

namespace lathe::render {

using llvm::Value;

/// What a block does to each buffer.
const FunctionEmitter::Effects& FunctionEmitter::effects_of(Statements body) {
  auto [place, fresh] = effects_.try_emplace({body.data(), body.size()});
  Effects& out = place->second;
  if (!fresh) return out;
  auto reads = [&](const ast::ValueRef& root) {
    if (!root) return;
    ast::visit(root, [&](const ast::ValueRef& value) {
      if (const auto* load = std::get_if<ast::LoadAttr>(&value->attr)) out.combines[load->buffer->id] = {};
    });
  };
  for (const ast::Stmt& stmt : body) {
    Statements inner;
    if (const auto* store = std::get_if<ast::Store>(&stmt.node)) {
      const int id = store->buffer->id;
      reads(store->value);
      reads(store->scatter);
      out.written.insert(id);
      auto [known, first] = out.combines.try_emplace(id, store->combine);
      if (store->scatter || (!first && known->second != store->combine)) known->second = {};
    } else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      out.written.insert(alloc->buffer->id); // its contents begin here
      out.combines[alloc->buffer->id] = {};
      inner = alloc->body;
    } else if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      inner = loop->body;
    }
    if (inner.empty()) continue;
    const Effects& more = effects_of(inner);
    out.written.insert(more.written.begin(), more.written.end());
    for (const auto& [id, op] : more.combines) {
      auto [known, first] = out.combines.try_emplace(id, op);
      if (!first && known->second != op) known->second = {};
    }
  }
  return out;
}

/// The stores in `body` that can be kept in registers over a loop of `vars`' first variable; `vars` are all
/// loops open from there to `body`.
void FunctionEmitter::find_accumulators(Statements body, const Effects& effects, std::vector<Expr>& vars,
                                        const ast::For* lanes, std::vector<Accumulator>& out) const {
  for (const ast::Stmt& stmt : body) {
    if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      find_accumulators(alloc->body, effects, vars, lanes, out);
    } else if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      if (loop->extent.lo() < 1) continue; // the element might never be reached
      const bool vector = loop->kind == ast::LoopKind::Vector && is_vectorisable(*loop);
      if (!vector) vars.push_back(loop->var);
      find_accumulators(loop->body, effects, vars, vector ? loop : nullptr, out);
      if (!vector) vars.pop_back();
    } else if (const auto* store = std::get_if<ast::Store>(&stmt.node)) {
      if (!store->combine || store->scatter || accumulators_.count(store)) continue;
      if (!effects.combines.at(store->buffer->id)) continue; // also read, or written otherwise
      const Expr flat = flat_index(*store->buffer, store->index);
      auto changes = [&](Expr e) {
        return std::any_of(vars.begin(), vars.end(), [&](Expr var) { return depends_on(e, var); });
      };
      const bool horizontal = lanes && !depends_on(flat, lanes->var);
      if (changes(flat) || (lanes && !horizontal && changes(lanes->extent))) continue;
      // A register buffer's own elements are in registers already.
      if (store->buffer->scope == ast::Scope::Register && !horizontal) continue;
      out.push_back({store, lanes, flat, horizontal, nullptr});
    }
  }
}

std::vector<FunctionEmitter::Accumulator> FunctionEmitter::open_accumulators(const ast::For& loop) {
  std::vector<Accumulator> out;
  std::vector<Expr> vars{loop.var};
  find_accumulators(loop.body, effects_of(loop.body), vars, nullptr, out);
  for (Accumulator& made : out) {
    const DType dtype = made.store->buffer->dtype;
    const int width = made.lanes ? made.lanes->width : 0;
    made.slot = at_entry([&] { return b_.CreateAlloca(memory_type(state_.context, dtype, width)); });
    Value* start = neutral(*made.store->combine, dtype);
    if (width) start = splat(b_, start, width);
    b_.CreateStore(to_memory(b_, start, dtype), made.slot);
    accumulators_[made.store] = made.slot;
  }
  return out;
}

/// Leaves a sum as it is, -0 included.
llvm::Constant* FunctionEmitter::neutral(Op combine, DType dtype) const {
  const bool zero = combine == Op::Add && is_float(dtype);
  return scalar_constant(state_.context, zero ? Scalar::of_float(dtype, -0.0) : identity(combine, dtype));
}

void FunctionEmitter::accumulate(const ast::Store& store, Value* slot) {
  const DType dtype = store.buffer->dtype;
  auto* type = memory_type(state_.context, dtype, lanes_);
  Value* old = from_memory(b_, b_.CreateLoad(type, slot), dtype);
  Value* sum = combined(store, old);
  if (mask_) sum = b_.CreateSelect(mask_, sum, old);
  b_.CreateStore(to_memory(b_, sum, dtype), slot);
}

/// After the loop: what was kept goes to memory.
void FunctionEmitter::close_accumulators(const std::vector<Accumulator>& all) {
  for (size_t i = 0; i < all.size(); i++) {
    const Accumulator& made = all[i];
    accumulators_.erase(made.store);
    const ast::Buffer& buffer = *made.store->buffer;
    const Op combine = *made.store->combine;
    const int width = made.lanes ? made.lanes->width : 0;
    auto kept = [&](const Accumulator& of) {
      return from_memory(b_, b_.CreateLoad(memory_type(state_.context, buffer.dtype, width), of.slot),
                         buffer.dtype);
    };
    auto same = [&](const Accumulator& other) { // these are summed first
      return other.store->buffer->id == buffer.id && other.flat == made.flat && made.horizontal &&
             other.horizontal && other.lanes->width == width;
    };
    if (std::any_of(all.begin(), all.begin() + i, same)) continue;
    Value* sum = kept(made);
    for (size_t j = i + 1; j < all.size(); j++)
      if (same(all[j])) sum = op(combine, buffer.dtype, buffer.dtype, {sum, kept(all[j])});
    if (made.lanes && !made.horizontal) {
      open_lanes(*made.lanes);
      const Lanes lanes = lanes_of(made.flat);
      sum = op(combine, buffer.dtype, buffer.dtype, {read_lanes(buffer, lanes, mask_, nullptr), sum});
      write_lanes(buffer, lanes, sum, false);
      close_lanes();
    } else {
      if (made.lanes) sum = across_lanes(combine, buffer.dtype, sum);
      Value* to = address(buffer, made.flat);
      sum = op(combine, buffer.dtype, buffer.dtype, {read_scalar(buffer, to, nullptr), sum});
      b_.CreateAlignedStore(to_memory(b_, sum, buffer.dtype), to, alignment(buffer));
    }
    forget(buffer.id);
  }
}

/// All lanes into one: a tree of pairs, in an order that does not depend on the target.
Value* FunctionEmitter::across_lanes(Op combine, DType dtype, Value* lanes) {
  const auto all = llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
  for (unsigned width = all; width > 1; width /= 2) {
    std::vector<int> low, high;
    for (unsigned i = 0; i < width / 2; i++) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(i + width / 2));
    }
    Value *x = b_.CreateShuffleVector(lanes, low), *y = b_.CreateShuffleVector(lanes, high);
    lanes = op(combine, dtype, dtype, {x, y});
  }
  return b_.CreateExtractElement(lanes, uint64_t{0});
}

} // namespace lathe::render
