// Copies of statements inside one kernel: loops and scratch buffers of a copy get ids (and buffers names) of
// their own.
#pragma once
#include <set>

#include "ast/ast.hpp"

namespace lathe::ast {

class Copier {
public:
  explicit Copier(const Kernel& kernel);
  /// A copy of `block` with `vars` replaced.
  Block copy(const Block& block, const Substitution& vars);
  int fresh_loop_id() { return next_loop_++; }
  BufferRef fresh_buffer(const std::string& name, DType dtype, Shape shape, Scope scope);

private:
  int next_loop_ = 0, next_buffer_ = 0;
  std::set<std::string> names_;
};

/// Leaves out the loops that never run, as one whose range is cut off at an edge does in the copies beyond
/// it. Their indices lie nowhere.
void drop_idle_loops(Block& block);

} // namespace lathe::ast
