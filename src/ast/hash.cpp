#include "core/hash.hpp"
#include "ast/canonical.hpp"
#include "core/overload.hpp"

namespace lathe::ast {
namespace {

uint64_t hash(uint64_t h, const std::vector<Expr>& exprs) {
  h = mix(h, exprs.size());
  for (Expr e : exprs) h = mix(h, e.hash());
  return h;
}
uint64_t hash(uint64_t h, const Buffer& buffer) {
  h = mix(h, static_cast<uint64_t>(buffer.dtype) * 8 + static_cast<uint64_t>(buffer.scope));
  return hash(h, buffer.shape);
}
uint64_t hash(uint64_t h, const Block& block) {
  h = mix(h, block.size());
  for (const Stmt& stmt : block) {
    h = mix(h, stmt.node.index());
    std::visit(Overload{[&](const For& loop) {
                          h = mix(h, static_cast<uint64_t>(loop.kind) * 1024 +
                                         static_cast<uint64_t>(loop.width));
                          h = mix(h, loop.extent.hash());
                          h = hash(h, loop.body);
                        },
                        [&](const Alloc& alloc) { h = hash(hash(h, *alloc.buffer), alloc.body); },
                        [&](const Store& store) {
                          h = mix(h, static_cast<uint64_t>(store.buffer->id));
                          h = hash(h, store.index);
                          h = mix(h, store.value.hash());
                          h = mix(h, store.combine ? static_cast<uint64_t>(*store.combine) + 1 : 0);
                          h = mix(h, store.scatter ? store.scatter.hash() : 0);
                          h = mix(h, store.streaming);
                        },
                        [](const Barrier&) {},
                        [&](const Prefetch& prefetch) {
                          h = mix(h, static_cast<uint64_t>(prefetch.buffer->id));
                          h = hash(h, prefetch.index);
                        }},
               stmt.node);
  }
  return h;
}

} // namespace

uint64_t structural_hash(const Kernel& kernel) {
  const Kernel k = canonical(kernel, false);
  uint64_t h = hash(mix(0, k.params.size()), k.shape_vars);
  for (const Param& param : k.params) h = mix(hash(h, *param.buffer), param.written);
  return hash(h, k.body);
}

} // namespace lathe::ast
