// Finds the buffers that blocks of statements write, and reduces vectors to one element.
#include "core/neutral.hpp"
#include "render/llvm/emitter.hpp"

namespace lathe::render {

using llvm::Value;

const std::set<int>& FunctionEmitter::written_in(Statements body) {
  auto [place, fresh] = written_.try_emplace({body.data(), body.size()});
  std::set<int>& out = place->second;
  if (!fresh) return out;
  for (const ast::Stmt& stmt : body) {
    Statements inner;
    if (const auto* store = std::get_if<ast::Store>(&stmt.node)) {
      out.insert(store->buffer->id);
    } else if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
      out.insert(alloc->buffer->id); // the buffer starts uninitialised here
      inner = alloc->body;
    } else if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
      inner = loop->body;
    }
    if (inner.empty()) continue;
    const std::set<int>& more = written_in(inner);
    out.insert(more.begin(), more.end());
  }
  return out;
}

llvm::Constant* FunctionEmitter::neutral(Op combine, DType dtype) const {
  return scalar_constant(state_.context, lathe::neutral(combine, dtype));
}

/// Combines all lanes into one by a tree of pairs, in an order that does not depend on the target.
Value* FunctionEmitter::across_lanes(Op combine, DType dtype, Value* lanes) {
  const auto all = llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
  for (unsigned width = all; width > 1; width /= 2) {
    std::vector<int> low, high;
    for (unsigned i = 0; i < width / 2; i++) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(i + width / 2));
    }
    Value *x = b_.CreateShuffleVector(lanes, low), *y = b_.CreateShuffleVector(lanes, high);
    lanes = op(combine, dtype, dtype, {x, y});
  }
  return b_.CreateExtractElement(lanes, uint64_t{0});
}

} // namespace lathe::render
