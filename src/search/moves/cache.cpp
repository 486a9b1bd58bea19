// Moves that tell the caches what to do, and change nothing else: stream and prefetch.
#include <algorithm>

#include <fmt/format.h>

#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

Verdict stream(Draft& draft, StageHandle stage) {
  const std::string& name = stage.buffer().name();
  const int stored = draft.id_of(stage.buffer());
  Verdict verdict = fmt::format("nothing stores {} in this kernel", name);
  for_each_store(draft.body, [&](Store& store, const auto&) {
    if (store.buffer->id != stored) return;
    if (store.combine || store.scatter || store.buffer->scope != Scope::Global) {
      verdict = name + " is read again: its stores can't bypass the cache";
      return;
    }
    store.streaming = true;
    verdict.clear();
  });
  if (!verdict.empty()) return verdict;
  for_each_load(draft.body, [&](const Value& value) {
    if (std::get<LoadAttr>(value.attr).buffer->id == stored)
      verdict = name + " is read again: its stores can't bypass the cache";
  });
  return verdict;
}

Verdict prefetch(Draft& draft, StageHandle reader, BufferHandle buffer, LoopHandle handle, int64_t distance) {
  const LoopSite site = find_loop(draft, handle);
  if (!site) return fmt::format("there is no loop {}", handle.name());
  if (distance < 1) return "the distance must be at least 1";
  For& loop = site.loop();
  Verdict verdict = fmt::format("the nest of {} under {} does not read {}", reader.buffer().name(),
                                handle.name(), buffer.name());
  const int read = draft.id_of(buffer);
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) -> ValueRef {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr || value->op != Op::Load || attr->buffer->id != read) return value;
    if (attr->buffer->scope != Scope::Global) return value;
    Expr step = 0, row = 1;
    for (size_t d = attr->index.size(); d-- > 0; row = row * attr->buffer->shape[d]) {
      const auto along = stride_of(attr->index[d], loop.var);
      if (!along) return value;
      step = step + *along * row;
    }
    if (!step.is_const() || step.is_const(0)) return value;
    verdict.clear();
    return load(attr->buffer, attr->index, attr->guards, step.value() * distance);
  };
  rewrite_values(loop.body, rewriter,
                 [&](const Store& store) { return draft.stage_of(*store.buffer) == reader.index; });
  return verdict;
}

} // namespace lathe::search
