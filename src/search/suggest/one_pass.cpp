// Proposes to compute in one pass what is read together: a stage element by element in the loops of its
// reader, where it must be stored all the same, and stages that read the same data in the same loops. Kernels
// with inner loops of their own, such as reductions, share their outermost loop.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "search/suggest/readers.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// The extents of the loops of a kernel that is one nest around plain stores; empty for other kernels.
std::vector<Expr> loops_of(const KernelPlan& kernel) {
  std::vector<Expr> extents;
  const ast::Block* body = &kernel.kernel.body;
  while (body->size() == 1 && std::holds_alternative<ast::For>((*body)[0].node)) {
    const auto& loop = std::get<ast::For>((*body)[0].node);
    if (loop.kind != ast::LoopKind::Serial) return {};
    extents.push_back(loop.extent);
    body = &loop.body;
  }
  const bool plain = std::all_of(body->begin(), body->end(), [](const ast::Stmt& stmt) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    return store && !store->combine && !store->scatter;
  });
  return plain ? extents : std::vector<Expr>();
}

/// Buffers that leave the first cache before a second pass reads them again.
bool is_long(const SuggestContext& c, const ast::Buffer& buffer) {
  return estimate(num_elements(buffer.shape)) * size_of(buffer.dtype) >
         static_cast<double>(c.machine.levels.at(0).bytes);
}

/// The loop of a kernel around all that it does with a buffer.
struct OuterLoop {
  const ast::For* loop = nullptr;
  LoopHandle handle;
};

bool uses(const ast::Stmt& stmt, int buffer) {
  const auto any = [&](const ast::Block& body) {
    return std::any_of(body.begin(), body.end(), [&](const ast::Stmt& inner) { return uses(inner, buffer); });
  };
  if (const auto* loop = std::get_if<ast::For>(&stmt.node)) return any(loop->body);
  if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) return any(alloc->body);
  const auto* store = std::get_if<ast::Store>(&stmt.node);
  if (!store) return false;
  bool found = store->buffer->id == buffer;
  ast::visit(store->value, [&](const ast::ValueRef& value) {
    const auto* attr = std::get_if<ast::LoadAttr>(&value->attr);
    found |= attr && attr->buffer->id == buffer;
  });
  return found;
}

/// Nothing if the kernel has no such loop, or it is scheduled already.
std::optional<OuterLoop> outer_loop(const KernelPlan& kernel, int buffer) {
  const ast::Block* block = &kernel.kernel.body;
  const ast::Stmt* only = nullptr;
  while (!only) {
    for (const ast::Stmt& stmt : *block) {
      if (!uses(stmt, buffer)) continue;
      if (only) return std::nullopt;
      only = &stmt;
    }
    if (!only) return std::nullopt;
    if (const auto* alloc = std::get_if<ast::Alloc>(&only->node)) {
      block = &alloc->body;
      only = nullptr;
    }
  }
  const auto* loop = std::get_if<ast::For>(&only->node);
  if (!loop || loop->kind != ast::LoopKind::Serial) return std::nullopt;
  return OuterLoop{loop, kernel.handles.loop(*loop)};
}

/// A long buffer that both kernels use, and that this one reads; null if there is none.
const ast::Buffer* shared_data(const SuggestContext& c, const KernelPlan& other) {
  for (const ast::Param& p : c.kernel.kernel.params) {
    const auto& theirs = other.kernel.params;
    const bool used = std::any_of(theirs.begin(), theirs.end(),
                                  [&](const ast::Param& q) { return q.buffer->id == p.buffer->id; });
    if (!p.written && used && is_long(c, *p.buffer)) return p.buffer.get();
  }
  return nullptr;
}

/// The stage comes into the loops of the kernel. It is the only one of its own kernel.
Proposal into_loops(const SuggestContext& c, int stage, const std::string& why) {
  const StageHandle made(stage), host(c.kernel.stages.back());
  return {{{MoveKind::FuseAt, {made, Place(host), ast::Scope::Packed}}, {MoveKind::StoreWith, {made, host}}},
          why};
}

/// The factor by which to split a loop over `more` iterations so that as many remain as `fewer`, or 0.
int64_t ratio(Expr more, Expr fewer) {
  if (more == fewer) return 1;
  if (!more.is_const() || !fewer.is_const() || fewer.value() < 1) return 0;
  return more.value() % fewer.value() == 0 ? more.value() / fewer.value() : 0;
}

/// Both kernels share their outermost loop, in steps of which each takes a part of the buffer that stays in
/// the first cache.
std::optional<Proposal> in_one_loop(const SuggestContext& c, const KernelPlan& before,
                                    const ast::Buffer& data) {
  const auto theirs = outer_loop(before, data.id), ours = outer_loop(c.kernel, data.id);
  if (!theirs || !ours) return std::nullopt;
  int64_t their_step = ratio(theirs->loop->extent, ours->loop->extent),
          our_step = ratio(ours->loop->extent, theirs->loop->extent);
  if (their_step == 0 && our_step == 0) return std::nullopt;
  their_step = std::max<int64_t>(their_step, 1);
  our_step = std::max<int64_t>(our_step, 1);
  const double bytes = estimate(num_elements(data.shape)) * size_of(data.dtype),
               trips = std::min(estimate(theirs->loop->extent), estimate(ours->loop->extent)),
               part = static_cast<double>(c.machine.levels.at(0).bytes) / 2;
  for (double least = bytes / trips; least * 2 <= part; least *= 2) {
    their_step *= 2;
    our_step *= 2;
  }
  Script script(c.kernel);
  script.add(MoveKind::FuseAt, StageHandle(before.stages.back()), Place(StageHandle(c.kernel.stages.back())),
             ast::Scope::Packed);
  const auto outer = [&](LoopHandle loop, int64_t step) {
    return step == 1 ? loop : script.split(loop, step).outer;
  };
  const LoopHandle first = outer(theirs->handle, their_step), second = outer(ours->handle, our_step);
  script.add(MoveKind::FuseLoops, first, second);
  return Proposal{script.take(), "read the same data in one loop"};
}

} // namespace

std::vector<Proposal> suggest_one_pass(const SuggestContext& c) {
  constexpr int kNeighbours = 8; // kernels before this one that are looked at
  std::vector<Proposal> proposals;
  if (c.kernel.recurrence >= 0) return proposals;
  const std::vector<Expr> loops = loops_of(c.kernel);
  const auto fits = [&](const KernelPlan& other) {
    return other.stages.size() == 1 && other.recurrence < 0 && !loops.empty() && loops_of(other) == loops;
  };
  for (const int stage : c.kernel.reads) {
    const lower::Stage& info = c.plan.program->stages[static_cast<size_t>(stage)];
    const Readers readers = readers_of(c.plan, stage);
    if (!readers.owner || (!info.is_output && readers.kernels.size() == 1)) continue;
    if (is_long(c, *info.buffer) && readers.owner.get() != &c.kernel && fits(*readers.owner))
      proposals.push_back(into_loops(c, stage, fmt::format("store {} where it is read", info.buffer->name)));
  }
  const auto& kernels = c.plan.kernels;
  auto other = std::find_if(kernels.begin(), kernels.end(),
                            [&](const KernelPlanRef& k) { return k.get() == &c.kernel; });
  for (int i = 0; i < kNeighbours && other != kernels.begin(); ++i) {
    const KernelPlan& before = **--other;
    const ast::Buffer* data = before.recurrence < 0 ? shared_data(c, before) : nullptr;
    if (!data) continue;
    const bool is_read = std::any_of(before.stages.begin(), before.stages.end(), [&](int stage) {
      return std::binary_search(c.kernel.reads.begin(), c.kernel.reads.end(), stage);
    });
    if (!fits(before)) {
      if (auto proposal = in_one_loop(c, before, *data)) proposals.push_back(std::move(*proposal));
    } else if (!is_read) { // else proposed already
      proposals.push_back(into_loops(c, before.stages[0], "read the same data in one pass"));
    }
  }
  return proposals;
}

} // namespace lathe::search
