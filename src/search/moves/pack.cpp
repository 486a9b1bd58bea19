// Moves that give the nest of a stage a copy of what it reads, laid out in the order in which it is read:
// pack (of what it loads) and unpack (of what it multiplies by).
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "ast/tensor.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

constexpr int64_t kMostScratchBytes = 64 << 20, kMostRegisterBytes = 2048;

/// A value that the nest of a stage reads, about to be copied to scratch at the top of the body of `loop`.
struct Copied {
  ValueRef value;
  std::vector<For*> inside; // the loops between `loop` and the store, outermost first
};

/// Those of the loops that the value depends on, in their order.
std::vector<const For*> loops_of(const ValueRef& value, const std::vector<For*>& loops) {
  std::vector<const For*> used;
  for (const For* f : loops)
    if (moves_with(value, f->var)) used.push_back(f);
  return used;
}

/// The scratch for the copy, one dimension for each loop.
Verdict make_scratch(Draft& draft, const Target& target, StoredHandle result,
                     const std::vector<const For*>& dims, const std::string& what, Buffer buffer,
                     BufferRef& out) {
  int64_t elements = 1;
  for (const For* f : dims) {
    const int64_t extent = f->extent.hi();
    if (extent > kMostScratchBytes || (elements *= extent) * size_of(buffer.dtype) > kMostScratchBytes)
      return what + " is too large";
    buffer.shape.push_back(extent);
  }
  if (buffer.scope == Scope::Register && elements * size_of(buffer.dtype) > kMostRegisterBytes)
    return what + " is too large for registers";
  if (!fits_local_memory(draft.body, buffer.scope, elements * size_of(buffer.dtype), target))
    return what + " does not fit local memory";
  buffer.id = fresh_buffer_id(draft.body, result.stage());
  const BufferHandle name = result.copy(Part::Packed, scratch_number(buffer.id));
  buffer.name = name.name();
  draft.handles.add(buffer.id, name);
  out = make_buffer(std::move(buffer));
  return {};
}

/// Copies the value at the top of the loop's body, and lets the nest of `result` read the copy.
Verdict copy_value(Draft& draft, const Target& target, StoredHandle result, BufferHandle operand, For& loop,
                   const Copied& copied, Scope scope) {
  const std::string& under = loop.var.name();
  const std::vector<const For*> dims = loops_of(copied.value, copied.inside);
  if (dims.empty()) return fmt::format("{} does not move along any loop under {}", operand.name(), under);
  if (auto v = self_contained(dims, copied.inside); !v.empty()) return v;
  Buffer buffer;
  buffer.dtype = copied.value->dtype;
  buffer.scope = scope;
  BufferRef copy;
  const std::string what = fmt::format("the copy of {} under {}", operand.name(), under);
  if (auto v = make_scratch(draft, target, result, dims, what, std::move(buffer), copy); !v.empty()) return v;

  Substitution vars;
  std::vector<For> heads =
      LoopMaker(draft, result.stage()).make_like(dims, draft.handles.scratch(copy->id), Part::Filling, vars);
  Store fill;
  fill.buffer = copy;
  for (const For& head : heads) fill.index.push_back(head.var);
  fill.value = ast::substitute(copied.value, vars);

  std::vector<Expr> index;
  for (const For* f : dims) index.push_back(f->var);
  const ValueRef from_copy = load(copy, index);
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) { return value == copied.value ? from_copy : value; };
  const int stored = draft.id_of(result);
  rewrite_values(loop.body, rewriter, [&](const Store& store) { return store.buffer->id == stored; });

  Alloc alloc{copy, {}};
  alloc.body.push_back(nest(std::move(heads), std::move(fill)));
  put_before_body(loop, std::move(alloc));
  return check_structure(draft.body);
}

bool reads(const ValueRef& value, int buffer) {
  bool found = false;
  visit(value, [&](const ValueRef& v) {
    const auto* attr = std::get_if<LoadAttr>(&v->attr);
    found |= attr && attr->buffer->id == buffer;
  });
  return found;
}

/// The value that one factor of the store's product is cast from, if the factor is computed from the buffer.
ValueRef factor_of(const Store& store, int buffer) {
  if (store.value->op != Op::Mul) return {};
  for (const ValueRef& factor : store.value->sources)
    if (reads(factor, buffer)) return factor->op == Op::Cast ? factor->sources[0] : factor;
  return {};
}

/// Copies what `find` finds under the loop, in the nest of `result`.
Verdict copy_under(Draft& draft, const Target& target, StoredHandle result, BufferHandle operand,
                   LoopHandle handle, Scope scope,
                   const std::function<Verdict(For& loop, Copied& out)>& find) {
  if (result.stage() < 0) return fmt::format("{} is no stage", result.name());
  const LoopSite site = find_loop(draft, handle);
  if (!site) return fmt::format("there is no loop {}", handle.name());
  if (const LoopKind kind = site.loop().kind; kind == LoopKind::Vector || kind == LoopKind::Tensor)
    return fmt::format("{} is a vector or tensor loop", handle.name());
  if (scope == Scope::Local)
    if (auto v = may_hold_local_memory(site, target); !v.empty()) return v;
  Copied copied;
  if (auto v = find(site.loop(), copied); !v.empty()) return v;
  return copy_value(draft, target, result, operand, site.loop(), copied, scope);
}

} // namespace

Verdict pack(Draft& draft, const Target& target, StoredHandle result, BufferHandle from, LoopHandle handle,
             Scope scope) {
  const std::string &operand = from.name(), &loop_name = handle.name();
  const int stored = draft.id_of(result), read = draft.id_of(from);
  return copy_under(draft, target, result, from, handle, scope, [&](For& loop, Copied& packed) -> Verdict {
    Verdict verdict; // `packed` is the one load of the operand in the nest of the stage
    for_each_store(loop.body, [&](Store& store, const std::vector<For*>& inner) {
      if (store.buffer->id == read) // the copy would be made of what was there before
        verdict = fmt::format("{} is written under {}", operand, loop_name);
      if (store.buffer->id != stored) return;
      ast::visit(store.value, [&](const ValueRef& value) {
        const auto* attr = std::get_if<LoadAttr>(&value->attr);
        if (!attr || attr->buffer->id != read) return;
        if (value->op == Op::Gather)
          verdict = fmt::format("{} is read at a computed index", operand);
        else if (packed.value && packed.value != value)
          verdict = fmt::format("{} is read at several places", operand);
        packed = {value, inner};
      });
    });
    if (!verdict.empty()) return verdict;
    if (!packed.value)
      return fmt::format("the nest of {} under {} does not read {}", result.name(), loop_name, operand);
    if (std::get<LoadAttr>(packed.value->attr).buffer->scope != Scope::Global)
      return fmt::format("{} is scratch already", operand);
    return {};
  });
}

Verdict unpack(Draft& draft, const Target& target, StoredHandle result, BufferHandle from, LoopHandle handle,
               Scope scope) {
  const std::string &operand = from.name(), &loop_name = handle.name();
  const int stored = draft.id_of(result), read = draft.id_of(from);
  return copy_under(draft, target, result, from, handle, scope, [&](For& loop, Copied& factor) -> Verdict {
    std::vector<int> written; // under the loop
    Verdict verdict;
    for_each_store(loop.body, [&](Store& store, const std::vector<For*>& inner) {
      written.push_back(store.buffer->id);
      if (store.buffer->id != stored) return;
      const ValueRef value = factor_of(store, read);
      if (value && factor.value && value != factor.value)
        verdict = fmt::format("{} is read at several places", operand);
      if (value) factor = {value, inner};
    });
    if (!verdict.empty()) return verdict;
    if (!factor.value)
      return fmt::format("the nest of {} under {} multiplies by nothing that is computed from {}",
                         result.name(), loop_name, operand);
    if (factor.value->op == Op::Load) return fmt::format("{} is multiplied as it is", operand);
    for (const int buffer : written) // the copy would be made of what was there before
      if (reads(factor.value, buffer))
        return fmt::format("what is computed from {} depends on what is written under {}", operand,
                           loop_name);
    return {};
  });
}

} // namespace lathe::search
