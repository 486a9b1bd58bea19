#include "ast/append.hpp"
#include "ast/copies.hpp"
#include "ast/passes/prepare.hpp"
#include "core/overload.hpp"

namespace lathe::ast {
namespace {

Block expand(const Block& block, Copier& copier);

Block expand(const For& loop, Copier& copier) {
  For out{loop.var, loop.extent, loop.kind, loop.width, expand(loop.body, copier)};
  Block copies;
  if (loop.kind != LoopKind::Unroll || !loop.extent.is_const()) {
    if (loop.kind == LoopKind::Unroll) out.kind = LoopKind::Serial;
    copies.push_back({std::move(out)});
    return copies;
  }
  for (int64_t i = 0; i < loop.extent.value(); ++i) {
    Block body = i == 0 ? substitute(out.body, {{loop.var, 0}}) : copier.copy(out.body, {{loop.var, i}});
    drop_idle_loops(body);
    append(copies, std::move(body));
  }
  return copies;
}

Block expand(const Block& block, Copier& copier) {
  Block out;
  for (const Stmt& stmt : block)
    std::visit(Overload{[&](const For& loop) { append(out, expand(loop, copier)); },
                        [&](const Alloc& alloc) {
                          out.push_back({Alloc{alloc.buffer, expand(alloc.body, copier)}});
                        },
                        [&](const auto& leaf) { out.push_back({leaf}); }},
               stmt.node);
  return out;
}

} // namespace

Kernel expand_unrolled(const Kernel& kernel) {
  Copier copier(kernel);
  Kernel out = kernel;
  out.body = expand(kernel.body, copier);
  return out;
}

} // namespace lathe::ast
