#include "ast/passes/detour.hpp"

#include <unordered_set>

namespace lathe::ast {
namespace {

constexpr size_t kWorthAJump = 48; // ops; a shorter detour is not worth a jump

size_t count_ops(const std::vector<ValueRef>& values) {
  size_t ops = 0;
  for (const ValueRef& v : values) ops += is_elementwise(v->op);
  return ops;
}

} // namespace

std::vector<Detour> find_detours(const ValueRef& root) {
  std::vector<ValueRef> order;
  visit(root, [&](const ValueRef& v) { order.push_back(v); });
  std::vector<Detour> out;
  if (count_ops(order) < kWorthAJump) return out;
  std::unordered_set<const Value*> taken;
  // The loop goes from the root downwards, so that it meets an outer Where before an inner one.
  for (auto w = order.rbegin(); w != order.rend(); ++w) {
    if ((*w)->op != Op::Where || taken.count(w->get())) continue;
    const ValueRef& choice = (*w)->sources[1];
    std::vector<ValueRef> below;
    visit(choice, [&](const ValueRef& v) { below.push_back(v); });
    if (count_ops(below) < kWorthAJump) continue;
    // The values that the root needs even without the first choice of this Where.
    std::unordered_set<const Value*> needed{root.get()};
    for (auto v = order.rbegin(); v != order.rend(); ++v) {
      if (!needed.count(v->get())) continue;
      for (size_t i = 0; i < (*v)->sources.size(); ++i)
        if (*v != *w || i != 1) needed.insert((*v)->sources[i].get());
    }
    Detour detour{*w, {}};
    for (const ValueRef& v : below)
      if (!needed.count(v.get())) detour.values.push_back(v);
    if (count_ops(detour.values) < kWorthAJump) continue;
    for (const ValueRef& v : detour.values) taken.insert(v.get());
    out.push_back(std::move(detour));
  }
  return out;
}

} // namespace lathe::ast
