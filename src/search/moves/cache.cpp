// Moves that tell the caches what to do, and change nothing else: stream and prefetch.
#include <algorithm>

#include <fmt/format.h>

#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

Verdict stream(Draft& draft, const Move& move) {
  Verdict verdict = fmt::format("nothing stores {} in this kernel", move.names[0]);
  for_each_store(draft.body, [&](Store& store, const auto&) {
    if (store.buffer->name != move.names[0]) return;
    if (store.combine || store.scatter || store.buffer->scope != Scope::Global) {
      verdict = move.names[0] + " is read again: its stores can't bypass the cache";
      return;
    }
    store.streaming = true;
    verdict.clear();
  });
  if (!verdict.empty()) return verdict;
  for_each_load(draft.body, [&](const Value& value) {
    if (std::get<LoadAttr>(value.attr).buffer->name == move.names[0])
      verdict = move.names[0] + " is read again: its stores can't bypass the cache";
  });
  return verdict;
}

Verdict prefetch(Draft& draft, const Move& move) {
  const std::string &stage_name = move.names[0], &buffer = move.names[1], &loop_name = move.names[2];
  const int stage = stage_of_name(stage_name);
  if (stage < 0) return fmt::format("{} is no stage", stage_name);
  const LoopSite site = find_loop(draft.body, loop_name);
  if (!site) return fmt::format("there is no loop {}", loop_name);
  if (move.numbers[0] < 1) return "the distance must be at least 1";
  For& loop = site.loop();
  Verdict verdict = fmt::format("the nest of {} under {} does not read {}", stage_name, loop_name, buffer);
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) -> ValueRef {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr || value->op != Op::Load || attr->buffer->name != buffer) return value;
    if (attr->buffer->scope != Scope::Global) return value;
    Expr step = 0, row = 1;
    for (size_t d = attr->index.size(); d-- > 0; row = row * attr->buffer->shape[d]) {
      const auto along = stride_of(attr->index[d], loop.var);
      if (!along) return value;
      step = step + *along * row;
    }
    if (!step.is_const() || step.is_const(0)) return value;
    verdict.clear();
    return load(attr->buffer, attr->index, attr->guards, step.value() * move.numbers[0]);
  };
  rewrite_values(loop.body, rewriter,
                 [&](const Store& store) { return stage_of_name(store.buffer->name) == stage; });
  return verdict;
}

} // namespace lathe::search
