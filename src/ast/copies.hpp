// Copies of statements inside one kernel. The loops and scratch buffers of a copy get new ids, and the
// buffers new names.
#pragma once
#include <set>

#include "ast/ast.hpp"

namespace lathe::ast {

class Copier {
public:
  explicit Copier(const Kernel& kernel);
  /// A copy of `block` in which `vars` are substituted.
  Block copy(const Block& block, const Substitution& vars);
  int fresh_loop_id() { return next_loop_++; }
  BufferRef fresh_buffer(const std::string& name, DType dtype, Shape shape, Scope scope);

private:
  int next_loop_ = 0, next_buffer_ = 0;
  std::set<std::string> names_;
};

/// Removes the loops that never run. For example, a loop whose range ends at an edge never runs in the copies
/// that lie beyond the edge. The indices in such a loop are meaningless.
void drop_idle_loops(Block& block);

} // namespace lathe::ast
