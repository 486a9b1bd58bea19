// Moves on the results of one nest: accumulate, whose scratch holds partial results; and store_first, which
// removes the nest that sets results to the identity.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "lathe/error.hpp"
#include "render/render.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// The first statement for which `is_it` holds, after the statements around it, outermost first. Empty if
/// there is none.
std::vector<Site> path_to(Block& body, const std::function<bool(const Stmt&)>& is_it) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (is_it(body[i])) return {{&body, i}};
    std::vector<Site> inner;
    if (auto* loop = std::get_if<For>(&body[i].node))
      inner = path_to(loop->body, is_it);
    else if (auto* alloc = std::get_if<Alloc>(&body[i].node))
      inner = path_to(alloc->body, is_it);
    if (inner.empty()) continue;
    inner.insert(inner.begin(), {&body, i});
    return inner;
  }
  return {};
}

std::vector<Site> path_to(Block& body, Expr loop_var) {
  return path_to(body, [&](const Stmt& stmt) {
    const auto* loop = std::get_if<For>(&stmt.node);
    return loop && loop->var == loop_var;
  });
}

/// The nest that sets the result of `combine` to the identity, if no reducing loop lies between it and the
/// end of the path.
std::optional<Site> find_initialiser(const std::vector<Site>& path, const Store& combine) {
  for (auto place = path.rbegin(); place != path.rend(); ++place) {
    if (place != path.rbegin())
      if (const auto* loop = std::get_if<For>(&(*place->block)[place->position].node)) {
        // `combine` is already in terms of the write-back's loops, which keep the enclosing ones' variables.
        const bool moves = std::any_of(combine.index.begin(), combine.index.end(),
                                       [&](Expr e) { return depends_on(e, loop->var); });
        if (!moves) return {};
      }
    if (place->position == 0) continue;
    Stmt* at = &(*place->block)[place->position - 1];
    while (auto* loop = std::get_if<For>(&at->node)) {
      if (loop->body.size() != 1) break;
      at = &loop->body[0];
    }
    const auto* store = std::get_if<Store>(&at->node);
    if (store && !store->combine && store->buffer->id == combine.buffer->id && store->value->op == Op::Const)
      return Site{place->block, place->position - 1};
  }
  return {};
}

} // namespace

bool fits_local_memory(const Block& body, Scope scope, int64_t bytes, const Target& target) {
  const auto taken = [&](Scope s, int64_t size) {
    const bool local =
        s == Scope::Local || (target.groups && s == Scope::Packed && size > render::kMostPrivateBytes);
    return local ? (size + 63) / 64 * 64 : 0;
  };
  int64_t sum = taken(scope, bytes);
  if (sum == 0) return true;
  ast::visit(body, [&](const Stmt& stmt, const auto&) {
    const auto* alloc = std::get_if<Alloc>(&stmt.node);
    if (alloc)
      sum += taken(alloc->buffer->scope,
                   num_elements(alloc->buffer->shape).hi() * size_of(alloc->buffer->dtype));
  });
  return sum <= target.local_bytes;
}

Verdict fits_groups(const Block& body, const Target& target) {
  constexpr int64_t kMostItems = 1024; // work-items in a group, as many as CUDA, PoCL and GPUs allow
  if (!target.groups) return {};
  for (const Stmt& nest : body) {
    bool has_items = false;
    int64_t items[3] = {1, 1, 1}; // by axis
    BufferRef largest;
    Block one{nest};
    ast::visit(one, [&](const Stmt& stmt, const auto&) {
      if (const auto* loop = std::get_if<For>(&stmt.node); loop && loop->kind == LoopKind::Local) {
        has_items = true;
        items[loop->width] = std::max(items[loop->width], loop->extent.hi());
      }
      const auto* alloc = std::get_if<Alloc>(&stmt.node);
      if (!alloc || alloc->buffer->scope != Scope::Packed) return;
      const int64_t bytes = num_elements(alloc->buffer->shape).hi() * size_of(alloc->buffer->dtype);
      if (bytes > render::kMostPrivateBytes) largest = alloc->buffer;
    });
    if (items[0] * items[1] * items[2] > kMostItems)
      return fmt::format("{} work-items are more than a group may have", items[0] * items[1] * items[2]);
    if (has_items && largest) return largest->name + " is too large for a work-item's own memory";
  }
  return {};
}

namespace {

/// The combines of one store under a loop, about to go to a copy in registers.
struct Accumulation {
  Store* target = nullptr;
  std::vector<For*> inside; // the loop, and those between it and the store
  std::vector<const For*> kept, partial,
      dims; // loops that move the result; those of partial results; both, outermost first
  BufferRef copy;
  BufferHandle name;
};

/// Finds the one combine under the loop, and sorts the loops around it into `kept` and `partial`.
Verdict find_combines(Draft& draft, For& loop, StoredHandle result, std::vector<LoopHandle> partial,
                      Accumulation& out) {
  size_t stores = 0;
  for_each_store(loop.body, [&](Store& store, const std::vector<For*>& inner) {
    ++stores;
    out.target = &store;
    out.inside = inner;
  });
  out.inside.insert(out.inside.begin(), &loop);
  const std::string& loop_name = loop.var.name();
  if (stores != 1 || !out.target->combine || out.target->scatter ||
      out.target->buffer->id != draft.id_of(result))
    return fmt::format("{} does not hold just the combines of {}", loop_name, result.name());
  for (const For* f : out.inside) {
    const bool moves_result = std::any_of(out.target->index.begin(), out.target->index.end(),
                                          [&](Expr e) { return depends_on(e, f->var); });
    const auto named = std::find(partial.begin(), partial.end(), draft.handles.loop(*f));
    if (named != partial.end()) {
      if (moves_result) return fmt::format("{} is not a reducing loop", named->name());
      partial.erase(named);
      out.partial.push_back(f);
      out.dims.push_back(f);
    } else if (moves_result) {
      out.kept.push_back(f);
      out.dims.push_back(f);
    }
  }
  if (!partial.empty()) return fmt::format("there is no loop {} under {}", partial[0].name(), loop_name);
  if (out.dims.size() == out.inside.size()) return "no loop is left to accumulate over";
  return self_contained(out.kept, out.inside);
}

Verdict make_copy(Draft& draft, StoredHandle result, Accumulation& out) {
  Buffer buffer;
  buffer.id = fresh_buffer_id(draft.body, result.stage());
  out.name = result.copy(Part::Accumulator, scratch_number(buffer.id));
  buffer.name = out.name.name();
  buffer.dtype = out.target->buffer->dtype;
  buffer.scope = Scope::Register;
  int64_t elements = 1;
  for (const For* f : out.dims) {
    const int64_t extent = f->extent.hi();
    if (extent > 4096 || (elements *= extent) * size_of(buffer.dtype) > 8192)
      return fmt::format("the copy of {} is too large for registers", result.name());
    buffer.shape.push_back(extent);
  }
  if (out.dims.empty()) buffer.shape.push_back(1);
  out.copy = make_buffer(std::move(buffer));
  draft.handles.add(out.copy->id, out.name);
  return {};
}

/// copy[...] = identity, over its whole size: lanes that a ragged loop never reaches stay neutral.
Stmt setting_nest(const Accumulation& a, LoopMaker& loops) {
  std::vector<For> heads;
  Store set;
  set.buffer = a.copy;
  set.value = constant(identity(*a.target->combine, a.copy->dtype));
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const Expr var = loops.make(a.name.loop(Part::Setting, static_cast<int>(d)), a.copy->shape[d]);
    set.index.push_back(var);
    heads.push_back({var, a.copy->shape[d], LoopKind::Serial, 0, {}});
  }
  if (a.dims.empty()) set.index.push_back(0);
  return nest(std::move(heads), std::move(set));
}

/// result[...] combine= copy[...]: the partial dimensions in full, the others as ragged as they are.
struct WriteBack {
  std::vector<For> heads;
  Store store;
};
WriteBack write_back(const Accumulation& a, LoopMaker& loops) {
  Substitution vars;
  WriteBack out{loops.make_like(a.kept, a.name, Part::Writing, vars), *a.target};
  for (size_t k = 0; k < a.partial.size(); ++k) {
    const Expr extent = a.partial[k]->extent.hi();
    const Expr var = loops.make(a.name.loop(Part::Summing, static_cast<int>(k)), extent);
    vars.emplace_back(a.partial[k]->var, var);
    out.heads.push_back({var, extent, LoopKind::Serial, 0, {}});
  }
  for (Expr& e : out.store.index) e = substitute(e, vars);
  std::vector<Expr> index;
  for (const For* f : a.dims) index.push_back(substitute(f->var, vars));
  if (a.dims.empty()) index.push_back(0);
  out.store.value = load(a.copy, index);
  return out;
}

/// The result's elements set to the identity, for partial results to be added to.
Stmt clearing_nest(const Accumulation& a, LoopMaker& loops) {
  Substitution vars;
  std::vector<For> heads = loops.make_like(a.kept, a.name, Part::Clearing, vars);
  Store first = *a.target;
  first.combine.reset();
  first.value = constant(identity(*a.target->combine, a.copy->dtype));
  for (Expr& e : first.index) e = substitute(e, vars);
  return nest(std::move(heads), std::move(first));
}

} // namespace

Verdict accumulate(Draft& draft, StoredHandle result, LoopHandle around,
                   const std::vector<LoopHandle>& partial) {
  if (result.stage() < 0) return fmt::format("{} is no stage", result.name());
  const LoopSite site = find_loop(draft, around);
  if (!site) return fmt::format("there is no loop {}", around.name());
  if (const LoopKind kind = site.loop().kind;
      kind == LoopKind::Vector || kind == LoopKind::Tensor || kind == LoopKind::Parallel)
    return fmt::format("{} is a vector, tensor or parallel loop", around.name());
  Accumulation a;
  if (auto verdict = find_combines(draft, site.loop(), result, partial, a); !verdict.empty()) return verdict;
  if (auto verdict = make_copy(draft, result, a); !verdict.empty()) return verdict;

  LoopMaker loops(draft, result.stage());
  Alloc alloc{a.copy, {}};
  alloc.body.push_back(setting_nest(a, loops));
  WriteBack write = write_back(a, loops);
  // If the whole reduction is under the loop, the copy holds the whole result. The nest that initialised the
  // result is then not needed.
  const std::vector<Site> path = path_to(draft.body, site.loop().var);
  const auto initialiser = find_initialiser(path, write.store);
  if (initialiser && a.partial.empty()) write.store.combine.reset();
  if (initialiser && !a.partial.empty()) alloc.body.push_back(clearing_nest(a, loops));
  std::vector<Expr> index;
  for (const For* f : a.dims) index.push_back(f->var);
  if (a.dims.empty()) index.push_back(0);
  a.target->buffer = a.copy;
  a.target->index = std::move(index);
  Stmt& here = (*site.parent)[site.position];
  alloc.body.push_back(std::move(here));
  alloc.body.push_back(nest(std::move(write.heads), std::move(write.store)));
  here.node = std::move(alloc);
  if (initialiser)
    initialiser->block->erase(initialiser->block->begin() + static_cast<long>(initialiser->position));
  return check_structure(draft.body);
}

Verdict store_first(Draft& draft, StoredHandle result, LoopHandle handle) {
  const std::string &stage_name = result.name(), &loop_name = handle.name();
  const int stage = result.stage(), stored = draft.id_of(result);
  if (stage < 0) return fmt::format("{} is no stage", stage_name);
  const LoopSite site = find_loop(draft, handle);
  if (!site) return fmt::format("there is no loop {}", loop_name);
  For& loop = site.loop();
  if (loop.kind != LoopKind::Serial) return fmt::format("{} is not serial", loop_name);
  if (loop.extent.lo() < 1) return fmt::format("{} may have no iterations", loop_name);

  const Store* combine = nullptr;
  std::vector<For*> inside;
  size_t uses = 0;
  for_each_store(loop.body, [&](Store& store, const std::vector<For*>& inner) {
    if (store.buffer->id != stored) return;
    ++uses;
    combine = &store;
    inside = inner;
  });
  for_each_load(loop.body, [&](const ast::Value& value) {
    uses += std::get<LoadAttr>(value.attr).buffer->id == stored;
  });
  if (!combine || uses != 1 || !combine->combine || combine->scatter)
    return fmt::format("under {} there are not just combines of {}", loop_name, stage_name);
  const auto moves_result = [&](Expr var) {
    return std::any_of(combine->index.begin(), combine->index.end(),
                       [&](Expr e) { return depends_on(e, var); });
  };
  if (moves_result(loop.var)) return fmt::format("{} is not a reducing loop", loop_name);
  for (const For* f : inside)
    if (!moves_result(f->var)) return fmt::format("{} adds several times", f->var.name());
  const auto initialiser = find_initialiser(path_to(draft.body, site.loop().var), *combine);
  if (!initialiser) return fmt::format("nothing sets {} to the identity around {}", stage_name, loop_name);

  // The largest statement that holds nothing but the combine is made twice: under the condition that this is
  // the first iteration, and under the condition that it is a later one.
  const std::vector<Site> path =
      path_to(loop.body, [&](const Stmt& stmt) { return std::get_if<Store>(&stmt.node) == combine; });
  size_t outermost = path.size() - 1;
  const auto holds_one = [&](const Site& place) {
    const auto* f = std::get_if<For>(&(*place.block)[place.position].node);
    return f && f->body.size() == 1 && f->kind != LoopKind::Local;
  };
  while (outermost > 0 && holds_one(path[outermost - 1])) --outermost;
  std::vector<const For*> own;
  for (size_t k = outermost; k + 1 < path.size(); ++k)
    own.push_back(&std::get<For>((*path[k].block)[path[k].position].node));
  LoopMaker loops(draft, stage);
  Substitution vars;
  std::vector<For> heads = loops.make_like(own, result, Part::Storing, vars);
  for (size_t k = 0; k < own.size(); ++k) {
    heads[k].kind = own[k]->kind;
    heads[k].width = own[k]->width;
  }
  Store plain = *combine;
  plain.combine.reset();
  for (Expr& e : plain.index) e = substitute(e, vars);
  plain.value = ast::substitute(plain.value, vars);
  const auto under = [&](Part part, Expr condition, Stmt stmt) {
    Stmt out{For{loops.make(result.loop(part), condition), condition, LoopKind::Serial, 0, {}}};
    std::get<For>(out.node).body.push_back(std::move(stmt));
    return out;
  };
  Block& block = *path[outermost].block;
  const auto at = block.begin() + static_cast<long>(path[outermost].position);
  Stmt first = under(Part::First, lt(loop.var, Expr(1)), nest(std::move(heads), std::move(plain)));
  *at = under(Part::Later, lt(Expr(0), loop.var), std::move(*at));
  block.insert(at, std::move(first));
  initialiser->block->erase(initialiser->block->begin() + static_cast<long>(initialiser->position));
  return check_structure(draft.body);
}

} // namespace lathe::search
