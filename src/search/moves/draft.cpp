#include "search/moves/draft.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ast/tensor.hpp"
#include "ast/values.hpp"
#include "core/hash.hpp"
#include "lathe/error.hpp"
#include "search/moves/ids.hpp"

namespace lathe::search {

using namespace ast;

namespace {

void find_in(Block& block, int id, std::vector<For*>& stack, LoopSite& out) {
  for (size_t i = 0; i < block.size() && !out; ++i) {
    if (auto* loop = std::get_if<For>(&block[i].node)) {
      if (loop->var.id() == id) {
        out = {&block, i, stack};
        return;
      }
      stack.push_back(loop);
      find_in(loop->body, id, stack, out);
      stack.pop_back();
    } else if (auto* alloc = std::get_if<Alloc>(&block[i].node)) {
      find_in(alloc->body, id, stack, out);
    }
  }
}

void stores_in(Block& block, std::vector<For*>& stack,
               const std::function<void(Store&, const std::vector<For*>&)>& f) {
  for (Stmt& stmt : block) {
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      stack.push_back(loop);
      stores_in(loop->body, stack, f);
      stack.pop_back();
    } else if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      stores_in(alloc->body, stack, f);
    } else if (auto* store = std::get_if<Store>(&stmt.node)) {
      f(*store, stack);
    }
  }
}

// Calls f on every statement by a plain walk, since statements are few. Values are shared and have a visitor
// of their own.
void statements_in(const Block& block, const std::function<void(const Stmt&)>& f) {
  for (const Stmt& stmt : block) {
    f(stmt);
    if (auto* loop = std::get_if<For>(&stmt.node))
      statements_in(loop->body, f);
    else if (auto* alloc = std::get_if<Alloc>(&stmt.node))
      statements_in(alloc->body, f);
  }
}

void drop_idle_prefetches(Block& block, const std::map<int, BufferRef>& loaded) {
  std::erase_if(block, [&](Stmt& stmt) {
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      const bool held_something = !loop->body.empty();
      drop_idle_prefetches(loop->body, loaded);
      return held_something && loop->body.empty(); // the condition around a prefetch
    }
    if (auto* alloc = std::get_if<Alloc>(&stmt.node)) drop_idle_prefetches(alloc->body, loaded);
    const auto* prefetch = std::get_if<Prefetch>(&stmt.node);
    if (!prefetch) return false;
    const auto it = loaded.find(prefetch->buffer->id);
    return it == loaded.end() || it->second != prefetch->buffer;
  });
}

std::string kernel_name(const std::vector<int>& written) {
  std::string name = "k";
  for (int stage : written) name += fmt::format("_t{}", stage);
  if (name.size() > 60) name.resize(60);
  return name;
}

} // namespace

Draft draft_of_stage(const lower::Program& program, int stage) {
  const lower::Stage& info = program.stages[stage];
  Draft draft{&program, {stage}, {}, {}, info.nests, {}, {}};
  // The loops still have the ids that lowering gave them; give them ids of this stage.
  int next = ids::first_loop(stage);
  const auto name_of = [&](int id) {
    const auto known = std::find_if(info.loops.begin(), info.loops.end(),
                                    [&](const lower::StageLoop& l) { return l.id == id; });
    if (known == info.loops.end()) throw InternalError("a loop of no axis in " + info.buffer->name);
    constexpr Part kParts[] = {Part::Axis, Part::Reducing, Part::Setting}; // by role
    return BufferHandle::of_stage(stage).loop(kParts[static_cast<size_t>(known->role)], known->axis);
  };
  std::function<void(Block&, Substitution)> renumber = [&](Block& block, Substitution vars) {
    for (Stmt& stmt : block) {
      if (auto* loop = std::get_if<For>(&stmt.node)) {
        const Expr old = loop->var;
        loop->extent = substitute(loop->extent, vars);
        draft.handles.add(next, name_of(old.id()));
        loop->var = loop_var(next++, old.name(), loop->extent);
        Substitution inner = vars;
        inner.emplace_back(old, loop->var);
        renumber(loop->body, std::move(inner));
      } else if (auto* store = std::get_if<Store>(&stmt.node)) {
        for (Expr& index : store->index) index = substitute(index, vars);
        store->value = ast::substitute(store->value, vars);
        if (store->scatter) store->scatter = ast::substitute(store->scatter, vars);
      }
    }
  };
  renumber(draft.body, {});
  return draft;
}

Draft draft_of(const lower::Program& program, const KernelPlan& plan) {
  Draft draft{&program,         plan.stages,    plan.inlined, plan.moves,
              plan.kernel.body, plan.constants, plan.handles};
  // finish() put the Allocs of stage buffers around the whole body, and will do so again.
  while (draft.body.size() == 1) {
    auto* alloc = std::get_if<Alloc>(&draft.body[0].node);
    if (!alloc || alloc->buffer->scope != Scope::Global) break;
    Block inner = std::move(alloc->body);
    draft.body = std::move(inner);
  }
  return draft;
}

namespace {

/// What a draft's statements use.
struct Uses {
  std::set<int> allocated; // buffers declared inside, by id
  std::map<int, BufferRef> loaded, stored;
  std::vector<Expr> vars;
};

Uses uses_of(const Block& body) {
  Uses uses;
  ValueVisitor values([&](const ValueRef& value) {
    if (auto* attr = std::get_if<LoadAttr>(&value->attr)) {
      uses.loaded[attr->buffer->id] = attr->buffer;
      for (Expr e : attr->buffer->shape) collect_vars(e, uses.vars);
      for (Expr e : attr->index) collect_vars(e, uses.vars);
      for (Expr e : attr->guards) collect_vars(e, uses.vars);
    } else if (auto* expr = std::get_if<Expr>(&value->attr)) {
      collect_vars(*expr, uses.vars);
    }
  });
  statements_in(body, [&](const Stmt& stmt) {
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      collect_vars(loop->extent, uses.vars);
    } else if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      uses.allocated.insert(alloc->buffer->id);
    } else if (auto* store = std::get_if<Store>(&stmt.node)) {
      uses.stored[store->buffer->id] = store->buffer;
      for (Expr e : store->buffer->shape) collect_vars(e, uses.vars);
      for (Expr e : store->index) collect_vars(e, uses.vars);
      values(store->value);
      values(store->scatter);
    }
  });
  return uses;
}

/// Adds the parameters: inputs in the program's order, constants' copies, the buffers of other kernels'
/// stages, and those of the stages `written`.
void add_params(const lower::Program& program, const Draft& draft, const Uses& uses,
                const std::vector<int>& written, KernelPlan& plan) {
  std::vector<Param>& params = plan.kernel.params;
  for (const lower::InputBuffer& input : program.inputs)
    if (const auto it = uses.loaded.find(input.buffer->id); it != uses.loaded.end())
      params.push_back({it->second, false});
  std::set<int> copies;
  for (const Kernel& c : draft.constants) {
    copies.insert(c.params[1].buffer->id);
    params.push_back({uses.loaded.at(c.params[1].buffer->id), false});
  }
  for (const auto& [id, buffer] : uses.loaded) {
    if (uses.allocated.contains(id) || uses.stored.contains(id) || copies.contains(id)) continue;
    const int stage = stage_of(program, *buffer);
    if (stage < 0) continue; // an input
    params.push_back({buffer, false});
    plan.reads.push_back(stage);
  }
  std::sort(plan.reads.begin(), plan.reads.end());
  for (int s : written) {
    const auto it = uses.stored.find(program.stages[s].buffer->id);
    params.push_back({it == uses.stored.end() ? program.stages[s].buffer : it->second, true});
  }
}

/// Declares the buffers that this kernel alone needs around its whole body.
void declare_temporaries(const lower::Program& program, const Draft& draft, const Uses& uses,
                         const std::vector<int>& written, Block& body) {
  for (auto it = uses.stored.rbegin(); it != uses.stored.rend(); ++it) {
    const auto& [id, buffer] = *it;
    if (uses.allocated.contains(id)) continue;
    const auto owner = std::find_if(draft.stages.begin(), draft.stages.end(),
                                    [&, id = id](int s) { return program.stages[s].buffer->id == id; });
    if (owner == draft.stages.end())
      throw InternalError("a kernel stores to a buffer that is not its own: " + buffer->name);
    if (std::find(written.begin(), written.end(), *owner) != written.end()) continue;
    // The buffer is read again, so its stores must not bypass the caches.
    for_each_store(body,
                   [&, id = id](Store& store, const auto&) { store.streaming &= store.buffer->id != id; });
    Block wrapped;
    wrapped.push_back(Stmt{Alloc{buffer, std::move(body)}});
    body = std::move(wrapped);
  }
}

/// Finds which parameters are constants, and hashes the kernel with that.
void identify(const lower::Program& program, KernelPlan& plan) {
  plan.hash = structural_hash(plan.kernel);
  const std::vector<Param>& params = plan.kernel.params;
  const auto is_copy = [&](const Param& param) {
    return std::any_of(plan.constants.begin(), plan.constants.end(),
                       [&](const Kernel& c) { return c.params[1].buffer->id == param.buffer->id; });
  };
  for (const Param& param : params) plan.is_constant.push_back(is_copy(param));
  for (const lower::InputBuffer& input : program.inputs)
    for (size_t p = 0; input.is_constant && p < params.size(); ++p)
      if (params[p].buffer->id == input.buffer->id) {
        plan.hash = mix(plan.hash, p);
        plan.is_constant[p] = true;
      }
  for (const Kernel& c : plan.constants) plan.hash = mix(plan.hash, structural_hash(c));
}

} // namespace

KernelPlanRef finish(Draft draft, const std::function<bool(int stage)>& is_result) {
  const lower::Program& program = *draft.program;
  const Uses uses = uses_of(draft.body);
  drop_idle_prefetches(draft);
  std::erase_if(draft.constants,
                [&](const Kernel& c) { return !uses.loaded.contains(c.params[1].buffer->id); });
  std::vector<int> written;
  for (int s : draft.stages)
    if (!uses.allocated.contains(program.stages[s].buffer->id) && is_result(s)) written.push_back(s);

  auto plan = std::make_shared<KernelPlan>();
  add_params(program, draft, uses, written, *plan);
  plan->kernel.body = std::move(draft.body);
  declare_temporaries(program, draft, uses, written, plan->kernel.body);
  std::set<std::string> seen;
  for (Expr v : uses.vars)
    if (v.id() < 0 && seen.insert(v.name()).second) plan->kernel.shape_vars.push_back(v);
  std::sort(plan->kernel.shape_vars.begin(), plan->kernel.shape_vars.end(),
            [](Expr a, Expr b) { return a.name() < b.name(); });
  plan->kernel.name = kernel_name(written);
  std::sort(draft.stages.begin(), draft.stages.end());
  std::sort(draft.inlined.begin(), draft.inlined.end());
  draft.inlined.erase(std::unique(draft.inlined.begin(), draft.inlined.end()), draft.inlined.end());
  plan->stages = std::move(draft.stages);
  plan->inlined = std::move(draft.inlined);
  plan->moves = std::move(draft.moves);
  plan->handles = std::move(draft.handles);
  plan->constants = std::move(draft.constants);
  identify(program, *plan);
  return plan;
}

KernelPlanRef kernel_of_recurrence(const lower::Program& program, int position) {
  const lower::Recurrence& recurrence = program.recurrences[static_cast<size_t>(position)];
  auto plan = std::make_shared<KernelPlan>();
  plan->recurrence = position;
  std::vector<Param>& params = plan->kernel.params;
  for (const ast::BufferRef& source : recurrence.sources) {
    const auto is_source = [&](const Param& param) { return param.buffer->id == source->id; };
    if (std::any_of(params.begin(), params.end(), is_source)) continue;
    params.push_back({source, false});
    if (const int stage = stage_of(program, *source); stage >= 0) plan->reads.push_back(stage);
  }
  std::sort(plan->reads.begin(), plan->reads.end());
  for (const int stage : recurrence.stages) {
    if (stage < 0) continue;
    plan->stages.push_back(stage);
    params.push_back({program.stages[static_cast<size_t>(stage)].buffer, true});
  }
  plan->kernel.name = kernel_name(plan->stages);
  plan->kernel.shape_vars = program.shape_vars;
  std::sort(plan->stages.begin(), plan->stages.end());
  identify(program, *plan);
  plan->hash = mix(plan->hash, recurrence.node.hash());
  return plan;
}

Nest perfect_nest(Stmt& stmt) {
  Nest nest;
  Stmt* at = &stmt;
  while (auto* loop = std::get_if<For>(&at->node)) {
    if (loop->kind != LoopKind::Serial || loop->body.size() != 1) return {};
    nest.loops.push_back(loop);
    at = &loop->body[0];
  }
  nest.store = std::get_if<Store>(&at->node);
  return nest;
}

LoopSite find_loop(Draft& draft, LoopHandle loop) {
  LoopSite site;
  std::vector<For*> stack;
  if (const int id = draft.handles.id_of(loop); id >= 0) find_in(draft.body, id, stack, site);
  return site;
}

void for_each_store(Block& body, const std::function<void(Store&, const std::vector<For*>&)>& f) {
  std::vector<For*> stack;
  stores_in(body, stack, f);
}

void rewrite_values(Block& body, const Rewriter& rewriter, const std::function<bool(const Store&)>& which) {
  ValueRewriter values(rewriter);
  for_each_store(body, [&](Store& store, const auto&) {
    if (which && !which(store)) return;
    store.value = values(store.value);
    store.scatter = values(store.scatter);
  });
}

void for_each_load(const Block& body, const std::function<void(const Value&)>& f) {
  statements_in(body, [&](const Stmt& stmt) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    const auto see = [&](const ValueRef& value) {
      if (std::holds_alternative<LoadAttr>(value->attr)) f(*value);
    };
    ast::visit(store->value, see);
    if (store->scatter) ast::visit(store->scatter, see);
  });
}

std::vector<const For*> loops_used(const LoadAttr& load, const std::vector<For*>& loops) {
  std::vector<const For*> used;
  for (const For* f : loops) {
    const auto uses = [&](Expr e) { return depends_on(e, f->var); };
    if (std::any_of(load.index.begin(), load.index.end(), uses) ||
        std::any_of(load.guards.begin(), load.guards.end(), uses))
      used.push_back(f);
  }
  return used;
}

Verdict self_contained(const std::vector<const For*>& loops, const std::vector<For*>& inside) {
  for (const For* f : loops)
    for (const For* other : inside) {
      const bool chosen = std::find(loops.begin(), loops.end(), other) != loops.end();
      if (!chosen && depends_on(f->extent, other->var))
        return fmt::format("the extent of {} depends on {}", f->var.name(), other->var.name());
    }
  return {};
}

void drop_idle_prefetches(Draft& draft) {
  bool any = false;
  statements_in(draft.body, [&](const Stmt& stmt) { any |= std::holds_alternative<Prefetch>(stmt.node); });
  if (!any) return;
  std::map<int, BufferRef> loaded;
  ValueVisitor values([&](const ValueRef& value) { // one for all stores, which share values
    if (const auto* attr = std::get_if<LoadAttr>(&value->attr)) loaded[attr->buffer->id] = attr->buffer;
  });
  statements_in(draft.body, [&](const Stmt& stmt) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return;
    values(store->value);
    values(store->scatter);
  });
  drop_idle_prefetches(draft.body, loaded);
}

void rename(Block& body, Substitution vars) {
  ValueRewriter values({.on_value = {},
                        .on_expr = [&](Expr e) { return substitute(e, vars); },
                        .on_buffer = {},
                        .on_stmt = {}});
  for (Stmt& stmt : body) {
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      loop->extent = substitute(loop->extent, vars);
      if (loop->var.extent() != loop->extent) {
        const Expr renewed = loop_var(loop->var.id(), loop->var.name(), loop->extent);
        Substitution inner = vars;
        inner.emplace_back(loop->var, renewed);
        loop->var = renewed;
        rename(loop->body, std::move(inner));
      } else {
        rename(loop->body, vars);
      }
    } else if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      rename(alloc->body, vars);
    } else if (auto* store = std::get_if<Store>(&stmt.node)) {
      for (Expr& index : store->index) index = substitute(index, vars);
      store->value = values(store->value);
      store->scatter = values(store->scatter);
    } else if (auto* prefetch = std::get_if<Prefetch>(&stmt.node)) {
      for (Expr& index : prefetch->index) index = substitute(index, vars);
    }
  }
}

namespace {

/// The name of a loop in the block whose iterations run on different threads or work-items; empty if there is
/// none.
std::string shared_out_inside(const Block& block) {
  std::string found;
  statements_in(block, [&](const Stmt& stmt) {
    const auto* loop = std::get_if<For>(&stmt.node);
    if (loop &&
        (loop->kind == LoopKind::Parallel || loop->kind == LoopKind::Group || loop->kind == LoopKind::Local))
      found = loop->var.name();
  });
  return found;
}

Verdict check_block(const Block& block, std::vector<const For*>& stack) {
  for (const Stmt& stmt : block) {
    if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      if (alloc->buffer->scope == Scope::Packed || alloc->buffer->scope == Scope::Register)
        if (const std::string loop = shared_out_inside(alloc->body); !loop.empty())
          return fmt::format("{} would be made outside {} and is private to a thread", alloc->buffer->name,
                             loop);
      if (alloc->buffer->scope == Scope::Local)
        for (const For* outer : stack)
          if (outer->kind == LoopKind::Local || outer->kind == LoopKind::Vector)
            return fmt::format("{} is filled by all work-items together, but lies inside {}",
                               alloc->buffer->name, outer->var.name());
      if (auto v = check_block(alloc->body, stack); !v.empty()) return v;
      continue;
    }
    const auto* loop = std::get_if<For>(&stmt.node);
    if (!loop) continue;
    const std::string& name = loop->var.name();
    for (const For* outer : stack) {
      if (outer->kind == LoopKind::Vector)
        return fmt::format("{} is inside the vector loop {}", name, outer->var.name());
      if (loop->kind == LoopKind::Parallel)
        return fmt::format("the parallel loop {} is inside {}", name, outer->var.name());
      if (loop->kind == LoopKind::Group && outer->kind != LoopKind::Group)
        return fmt::format("the group loop {} is inside {}, which is not a group loop", name,
                           outer->var.name());
      if ((loop->kind == LoopKind::Group || loop->kind == LoopKind::Local) && outer->kind == loop->kind &&
          outer->width == loop->width)
        return fmt::format("{} and {} are bound to the same axis", outer->var.name(), name);
      if (loop->kind == LoopKind::Local &&
          (outer->kind == LoopKind::Parallel || outer->kind == LoopKind::Unroll))
        return fmt::format("the local loop {} is inside {}", name, outer->var.name());
    }
    if (loop->kind == LoopKind::Vector)
      for (const Stmt& inner : loop->body)
        if (!std::holds_alternative<Store>(inner.node))
          return fmt::format("the vector loop {} holds more than stores", name);
    const bool begins_tensor =
        loop->kind == LoopKind::Tensor && (stack.empty() || stack.back()->kind != LoopKind::Tensor);
    if (begins_tensor && !tensor_nest(*loop))
      return fmt::format("the tensor loop {} holds more than tensor loops around one store", name);
    // Every work-group runs the whole body of the loop around: nothing else may stand there.
    if (loop->kind == LoopKind::Group && !stack.empty() &&
        (&block != &stack.back()->body || block.size() != 1))
      return fmt::format("the group loop {} does not stand alone in {}", name, stack.back()->var.name());
    stack.push_back(loop);
    auto v = check_block(loop->body, stack);
    stack.pop_back();
    if (!v.empty()) return v;
  }
  return {};
}

} // namespace

Verdict may_hold_local_memory(const LoopSite& site, const Target& target) {
  if (!target.groups) return fmt::format("{} has no local memory", target.device);
  bool in_group = site.loop().kind == LoopKind::Group;
  bool in_local = site.loop().kind == LoopKind::Local;
  for (const For* f : site.enclosing) {
    in_group |= f->kind == LoopKind::Group;
    in_local |= f->kind == LoopKind::Local;
  }
  if (!in_group || in_local)
    return fmt::format("{} is not a place between group and local loops", site.loop().var.name());
  return {};
}

Verdict check_structure(const Block& body) {
  std::vector<const For*> stack;
  return check_block(body, stack);
}

} // namespace lathe::search
