#include "ast/machine/tensors.hpp"

#include <algorithm>

#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/flat_index.hpp"
#include "ast/tensor.hpp"

namespace lathe::ast {
namespace {

/// The instruction that computes a nest of tensor loops, whose operands lie as it takes them.
std::optional<Instruction> instruction_of(const For& outermost, const Instructions& present) {
  const auto nest = tensor_nest(outermost);
  const auto product = nest ? tensor_product(*nest) : std::nullopt;
  const auto found = product ? ast::instruction_of(*product, present) : std::nullopt;
  return found && is_laid_out(*product, info(*found)) ? found : std::nullopt;
}

/// What the statements of an Alloc do to an array that may lie in tile registers: first they set it to 0,
/// then they add products to it, then they read it.
class TileUses {
public:
  TileUses(const BufferRef& array, const Block& body, const Instructions& present)
      : array_(array), present_(present) {
    for (size_t i = 0; i < body.size(); ++i) {
      does_ = Does::Nothing;
      look(body[i], false);
      if (does_ == Does::Nothing) continue;
      fits_ &= does_ >= last_;
      last_ = does_;
      if (does_ == Does::Sets) sets_.push_back(i);
      if (does_ == Does::Adds) after_adds_ = i + 1;
    }
  }
  /// Whether tile registers can hold the array. Something adds to it, so there is a reason to.
  bool fits() const { return fits_ && after_adds_ > 0 && !sets_.empty() && tiles() > 0; }
  /// How many tiles the array has; 0: it does not consist of tiles.
  int64_t tiles() const { return grid_.tiles_in(num_elements(array_->shape).value()); }
  const TileGrid& grid() const { return grid_; }
  /// The statements of the body that do nothing but set the array; the first after all that add to it.
  const std::vector<size_t>& sets() const { return sets_; }
  size_t after_adds() const { return after_adds_; }

private:
  enum class Does { Nothing, Sets, Adds, Reads };
  void see(Does what) {
    fits_ &= does_ == Does::Nothing || does_ == what;
    does_ = std::max(does_, what);
  }

  void look(const Stmt& stmt, bool in_parallel) {
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      for (const Stmt& inner : alloc->body) look(inner, in_parallel);
    } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
      if (loop->kind == LoopKind::Tensor && adds(*loop, in_parallel)) return;
      for (const Stmt& inner : loop->body) look(inner, in_parallel || loop->kind == LoopKind::Parallel);
    } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
      look(*store);
    }
  }
  /// Whether the nest adds products to the array by an instruction on tiles.
  bool adds(const For& loop, bool in_parallel) {
    const auto nest = tensor_nest(loop);
    if (!nest || nest->store->buffer->id != array_->id) return false;
    const auto found = instruction_of(loop, present_);
    if (!found || !info(*found).is_tile()) return false;
    const TileGrid grid = tile_grid(*tensor_product(*nest));
    const Expr first = first_of(*array_, nest->store->index, *nest);
    fits_ &= first.is_const() && grid.tile_at(first.value()) && !in_parallel;
    fits_ &= grid_.columns == 0 || grid_ == grid;
    grid_ = grid;
    see(Does::Adds);
    return true;
  }
  void look(const Store& store) {
    const auto reads = [&](const ValueRef& root) {
      if (root)
        visit(root, [&](const ValueRef& value) {
          const auto* load = std::get_if<LoadAttr>(&value->attr);
          if (load && load->buffer->id == array_->id) see(Does::Reads);
        });
    };
    reads(store.value);
    reads(store.scatter);
    if (store.buffer->id != array_->id) {
      // A statement that sets the array is left out, so it may do nothing else.
      fits_ &= does_ != Does::Sets;
      return;
    }
    const auto* constant = store.value->op == Op::Const ? std::get_if<Scalar>(&store.value->attr) : nullptr;
    if (store.combine || store.scatter || !constant || *constant != Scalar::zero(array_->dtype))
      fits_ = false;
    see(Does::Sets);
  }

  const BufferRef& array_;
  const Instructions& present_;
  TileGrid grid_{0, 0, 0};
  bool fits_ = true;
  Does does_ = Does::Nothing, last_ = Does::Nothing;
  std::vector<size_t> sets_;
  size_t after_adds_ = 0;
};

class TensorSettler {
public:
  TensorSettler(const Kernel& kernel, const VectorForms& forms) : forms_(forms), copier_(kernel) {}

  Block block(const Block& in) {
    Block out;
    for (const Stmt& stmt : in) {
      const auto* loop = std::get_if<For>(&stmt.node);
      const auto* alloc = std::get_if<Alloc>(&stmt.node);
      if (loop && loop->kind == LoopKind::Tensor)
        out.push_back(settled(*loop));
      else if (alloc)
        out.push_back(settled(*alloc));
      else
        out.push_back(with_body(stmt, [&](const Block& body) { return block(body); }));
    }
    return out;
  }

private:
  Stmt settled(const Alloc& alloc) {
    if (alloc.buffer->scope == Scope::Register) {
      const TileUses uses(alloc.buffer, alloc.body, forms_.instructions);
      if (in_tiles_ < 0 && uses.fits() && uses.tiles() <= kMostTileAccumulators) return in_tiles(alloc, uses);
    }
    return {Alloc{alloc.buffer, block(alloc.body)}};
  }

  /// The array in tile registers; what reads it reads a copy in memory.
  Stmt in_tiles(const Alloc& alloc, const TileUses& uses) {
    const BufferRef copy = copier_.fresh_buffer(alloc.buffer->name + ".m", alloc.buffer->dtype,
                                                alloc.buffer->shape, Scope::Register);
    const ValueRef zero = constant(Scalar::zero(alloc.buffer->dtype));
    in_tiles_ = alloc.buffer->id;
    Block body, before, after;
    for (int64_t tile = 0; tile < uses.tiles(); ++tile)
      body.push_back(over_tile(alloc.buffer, uses.grid(), tile, [&](const std::vector<Expr>& index) {
        return Store{alloc.buffer, index, zero, {}, {}};
      }));
    for (size_t i = 0; i < alloc.body.size(); ++i) {
      if (std::count(uses.sets().begin(), uses.sets().end(), i) > 0) continue;
      (i < uses.after_adds() ? before : after).push_back(alloc.body[i]);
    }
    append(body, block(before));
    Block copied;
    for (int64_t tile = 0; tile < uses.tiles(); ++tile)
      copied.push_back(over_tile(alloc.buffer, uses.grid(), tile, [&](const std::vector<Expr>& index) {
        return Store{copy, index, load(alloc.buffer, index), {}, {}};
      }));
    Rewriter rewriter;
    rewriter.on_value = [&](const ValueRef& value) {
      const auto* attr = std::get_if<LoadAttr>(&value->attr);
      if (!attr || attr->buffer->id != alloc.buffer->id) return value;
      return load(copy, attr->index, attr->guards, attr->ahead);
    };
    in_tiles_ = -1;
    append(copied, block(rewrite(after, rewriter)));
    body.push_back({Alloc{copy, std::move(copied)}});
    return {Alloc{alloc.buffer, std::move(body)}};
  }

  /// Two tensor loops over the rows and columns of a tile of the array, around store(index).
  template <class F> Stmt over_tile(const BufferRef& array, const TileGrid& grid, int64_t tile, F&& store) {
    const Expr r = loop_var(copier_.fresh_loop_id(), "row", grid.rows),
               c = loop_var(copier_.fresh_loop_id(), "column", TileGrid::kWidth);
    std::vector<Expr> index(array->shape.size(), 0);
    Expr rest = grid.first_of(tile) + r * grid.columns + c;
    for (size_t d = index.size(); d-- > 0;) {
      index[d] = d == 0 ? rest : mod(rest, array->shape[d]);
      rest = floordiv(rest, array->shape[d]);
    }
    For columns{c, TileGrid::kWidth, LoopKind::Tensor, 0, {}};
    columns.body.push_back({store(index)});
    For rows{r, grid.rows, LoopKind::Tensor, 0, {}};
    rows.body.push_back({std::move(columns)});
    return {std::move(rows)};
  }

  Stmt settled(const For& loop) {
    const auto found = instruction_of(loop, forms_.instructions);
    const auto nest = tensor_nest(loop);
    if (forms_.copies_tensors && tensor_copy(*nest)) return {loop};
    const bool is_there = found && (!info(*found).is_tile() || in_tiles_ == nest->store->buffer->id);
    if (!is_there) return in_loops(*nest);
    Rewriter rewriter;
    rewriter.on_stmt = [&](Stmt stmt) {
      if (auto* store = std::get_if<Store>(&stmt.node)) store->by = found;
      Block out;
      out.push_back(std::move(stmt));
      return out;
    };
    Block one;
    one.push_back({loop});
    return std::move(rewrite(one, rewriter)[0]);
  }

  /// The nest of a product with its columns as a vector loop, innermost; of a copy, with k. All other loops
  /// are serial.
  static Stmt in_loops(const TensorNest& nest) {
    const auto product = tensor_product(nest);
    const For* lanes = product ? product->columns : nest.loops.back();
    For vector{lanes->var, lanes->extent, LoopKind::Vector, static_cast<int>(lanes->extent.value()), {}};
    vector.body.push_back({*nest.store});
    Stmt inner{std::move(vector)};
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const For* f = nest.loops[i];
      if (f == lanes) continue;
      For serial{f->var, f->extent, LoopKind::Serial, 0, {}};
      serial.body.push_back(std::move(inner));
      inner = {std::move(serial)};
    }
    return inner;
  }

  const VectorForms& forms_;
  Copier copier_;
  int in_tiles_ = -1; // the id of the array that tile registers hold
};

} // namespace

Kernel settle_tensors(const Kernel& kernel, const VectorForms& forms) {
  Kernel out = kernel;
  out.body = TensorSettler(kernel, forms).block(kernel.body);
  return out;
}

} // namespace lathe::ast
