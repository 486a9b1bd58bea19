// Reductions in loops. If a store combines into the same element in all iterations of a serial loop, this
// pass makes it combine into a register. The register is combined into memory once, after the loop. Lanes of
// a vector loop that combine into one element stay apart till then. The loop then has one vector operation
// and no sum across lanes.
#include <algorithm>
#include <set>

#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/flat_index.hpp"
#include "ast/passes/prepare.hpp"
#include "core/neutral.hpp"

namespace lathe::ast {
namespace {

constexpr size_t kMostChains = 8; // registers per element; enough to hide the latency of any combine

/// What a block does to each buffer, by its id: the op by which it combines into the buffer, or nothing if it
/// also does something else.
using Effects = std::map<int, std::optional<Op>>;

void add_effects(const Block& body, Effects& out) {
  const auto reads = [&](const ValueRef& root) {
    visit(root, [&](const ValueRef& value) {
      if (const auto* load = std::get_if<LoadAttr>(&value->attr)) out[load->buffer->id] = {};
    });
  };
  visit(body, [&](const Stmt& stmt, const auto&) {
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node))
      out[alloc->buffer->id] = {}; // the buffer starts uninitialised here
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    reads(store->value);
    reads(store->scatter);
    const auto [known, first] = out.try_emplace(store->buffer->id, store->combine);
    if (store->scatter || (!first && known->second != store->combine)) known->second = {};
  });
}

class Keeper {
public:
  explicit Keeper(const Kernel& kernel) : copier_(kernel) {}

  Block block(const Block& in) {
    Block out;
    for (const Stmt& stmt : in) {
      if (const auto* loop = std::get_if<For>(&stmt.node))
        out.push_back(keep(*loop));
      else
        out.push_back(with_body(stmt, [&](const Block& body) { return block(body); }));
    }
    return out;
  }

private:
  struct Kept {
    const Store* store;
    const For* lanes; // the store's vector loop, if any
    Expr flat;
    bool horizontal; // all lanes combine into one element
    BufferRef copy;
  };

  static bool is_shared(LoopKind kind) {
    return kind == LoopKind::Parallel || kind == LoopKind::Group || kind == LoopKind::Local;
  }

  Stmt keep(const For& loop) {
    std::vector<Kept> all;
    if (loop.kind == LoopKind::Serial && loop.extent.hi() > 1) {
      Effects effects;
      add_effects(loop.body, effects);
      std::vector<Expr> vars{loop.var};
      find(loop.body, effects, vars, nullptr, all);
    }
    For out{loop.var, loop.extent, loop.kind, loop.width, {}};
    if (all.empty()) {
      out.body = block(loop.body);
      return {std::move(out)};
    }
    std::vector<const Kept*> made; // those with a copy of their own
    for (Kept& kept : all) {
      std::vector<const Kept*> same;
      for (const Kept* other : made)
        if (is_same(*other, kept)) same.push_back(other);
      if (same.size() == kMostChains) {
        kept.copy = same[static_cast<size_t>(std::count_if(all.data(), &kept,
                                                           [&](const Kept& k) { return is_same(k, kept); })) %
                         kMostChains]
                        ->copy;
        continue;
      }
      kept.copy = copier_.fresh_buffer(kept.store->buffer->name + ".k", kept.store->buffer->dtype,
                                       {kept.lanes ? kept.lanes->width : 1}, Scope::Register);
      made.push_back(&kept);
    }
    out.body = block(redirected(loop.body, all));

    Block inside;
    for (const Kept* kept : made) inside.push_back(clear(*kept));
    inside.push_back({std::move(out)});
    for (size_t i = 0; i < made.size(); ++i) {
      const auto same = [&](const Kept* other) { return is_same(*other, *made[i]); };
      if (std::any_of(made.begin(), made.begin() + static_cast<long>(i), same)) continue;
      for (size_t j = i + 1; j < made.size(); ++j)
        if (same(made[j])) inside.push_back(add(*made[i], *made[j]));
      inside.push_back(write_back(*made[i]));
    }
    for (auto kept = made.rbegin(); kept != made.rend(); ++kept) {
      Block around;
      around.push_back({Alloc{(*kept)->copy, std::move(inside)}});
      inside = std::move(around);
    }
    return std::move(inside[0]);
  }

  static bool is_same(const Kept& a, const Kept& b) {
    return a.store->buffer->id == b.store->buffer->id && a.flat == b.flat && a.horizontal == b.horizontal &&
           (a.lanes ? a.lanes->width : 0) == (b.lanes ? b.lanes->width : 0) && (!a.lanes || a.horizontal);
  }

  /// Adds to `out` the stores in `body` that can combine into registers over the loop of the first variable
  /// of `vars`. `vars` are the variables of all loops from that one down to `body`.
  void find(const Block& body, const Effects& effects, std::vector<Expr>& vars, const For* lanes,
            std::vector<Kept>& out) const {
    for (const Stmt& stmt : body) {
      if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
        find(alloc->body, effects, vars, lanes, out);
      } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
        if (is_shared(loop->kind)) continue;
        if (loop->extent.lo() < 1) continue; // the loop may not run, and then must not touch the element
        const bool vector = loop->kind == LoopKind::Vector;
        if (!vector) vars.push_back(loop->var);
        find(loop->body, effects, vars, vector ? loop : nullptr, out);
        if (!vector) vars.pop_back();
      } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
        if (!store->combine || store->scatter) continue;
        if (!effects.at(store->buffer->id)) continue; // also read, or written otherwise
        const Expr flat = flat_index(*store->buffer, store->index);
        const auto changes = [&](Expr e) {
          return std::any_of(vars.begin(), vars.end(), [&](Expr var) { return depends_on(e, var); });
        };
        const bool horizontal = lanes && !depends_on(flat, lanes->var);
        if (changes(flat) || (lanes && !horizontal && changes(lanes->extent))) continue;
        // Elements of a register buffer are in registers already.
        if (store->buffer->scope == Scope::Register && !horizontal) continue;
        out.push_back({store, lanes, flat, horizontal, nullptr});
      }
    }
  }

  Block redirected(const Block& in, const std::vector<Kept>& all) const {
    Block out;
    for (const Stmt& stmt : in) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        out.push_back({For{loop->var, loop->extent, loop->kind, loop->width, redirected(loop->body, all)}});
      } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
        out.push_back({Alloc{alloc->buffer, redirected(alloc->body, all)}});
      } else {
        out.push_back(stmt);
        const auto* from = std::get_if<Store>(&stmt.node);
        for (const Kept& kept : all)
          if (kept.store == from) {
            Store& store = std::get<Store>(out.back().node);
            store.buffer = kept.copy;
            store.index = {kept.lanes ? kept.lanes->var : Expr(0)};
          }
      }
    }
    return out;
  }

  /// store(lane) in a vector loop over the lanes of the copy, or store(0) if the copy has no lanes.
  template <class F> Stmt over_lanes(const Kept& kept, Expr extent, F&& store) {
    if (!kept.lanes) return {store(Expr(0))};
    const Expr lane = loop_var(copier_.fresh_loop_id(), kept.lanes->var.name(), extent);
    For loop{lane, extent, LoopKind::Vector, kept.lanes->width, {}};
    loop.body.push_back({store(lane)});
    return {std::move(loop)};
  }

  Stmt clear(const Kept& kept) {
    const DType dtype = kept.copy->dtype;
    const Scalar nothing = neutral(*kept.store->combine, dtype);
    return over_lanes(kept, kept.copy->shape[0],
                      [&](Expr lane) { return Store{kept.copy, {lane}, constant(nothing), {}, {}}; });
  }
  Stmt add(const Kept& to, const Kept& from) {
    return over_lanes(to, to.copy->shape[0], [&](Expr lane) {
      return Store{to.copy, {lane}, load(from.copy, {lane}), to.store->combine, {}};
    });
  }
  /// Combines the copy into the element. In a horizontal reduction, lanes past the end of a ragged vector
  /// loop are neutral. Otherwise each lane has its own element and those of such lanes don't exist, so the
  /// loop's extent limits the lanes.
  Stmt write_back(const Kept& kept) {
    const Expr extent = kept.lanes && !kept.horizontal ? kept.lanes->extent : kept.copy->shape[0];
    return over_lanes(kept, extent, [&](Expr lane) {
      Store store{kept.store->buffer, kept.store->index, load(kept.copy, {lane}), kept.store->combine, {}};
      if (kept.lanes)
        for (Expr& e : store.index) e = lathe::substitute(e, {{kept.lanes->var, lane}});
      return store;
    });
  }

  Copier copier_;
};

} // namespace

Kernel keep_accumulators(const Kernel& kernel) {
  // Work-items that run a reduction together have no common registers.
  bool has_items = false;
  visit(kernel.body, [&](const Stmt& stmt, const auto&) {
    const auto* loop = std::get_if<For>(&stmt.node);
    has_items |= loop && loop->kind == LoopKind::Local;
  });
  if (has_items) return kernel;
  Kernel out = kernel;
  out.body = Keeper(kernel).block(kernel.body);
  return out;
}

} // namespace lathe::ast
