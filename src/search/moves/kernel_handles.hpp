// The names of the loops and scratch buffers in one kernel's AST, by their ids.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "lower/program.hpp"
#include "search/moves/handle.hpp"

namespace lathe::search {

class KernelHandles {
public:
  /// The loop's name; an empty handle if it was never named.
  LoopHandle loop(int id) const { return named(loops_, id); }
  LoopHandle loop(const ast::For& loop) const { return named(loops_, loop.var.id()); }
  /// -1 if the kernel has no such loop.
  int id_of(LoopHandle loop) const { return id_in(loops_, loop); }
  void add(int id, LoopHandle loop) { add_to(loops_, id, loop); }

  BufferHandle scratch(int id) const { return named(scratch_, id); }
  int id_of_scratch(BufferHandle buffer) const { return id_in(scratch_, buffer); }
  void add(int id, BufferHandle buffer) { add_to(scratch_, id, buffer); }

  /// Adds the names of a kernel that is joined to this one.
  void add(const KernelHandles& other) {
    for (const auto& [id, loop] : other.loops_) add(id, loop);
    for (const auto& [id, buffer] : other.scratch_) add(id, buffer);
  }

private:
  template <class H> using Table = std::vector<std::pair<int, H>>;
  template <class H> static H named(const Table<H>& table, int id) {
    for (const auto& [known, handle] : table)
      if (known == id) return handle;
    return {};
  }
  template <class H> static int id_in(const Table<H>& table, H handle) {
    for (const auto& [id, known] : table)
      if (known == handle) return id;
    return -1;
  }
  /// Replaces older entries: a loop that a move makes may take the id or the name of one that is gone.
  template <class H> static void add_to(Table<H>& table, int id, H handle) {
    std::erase_if(table, [&](const auto& entry) { return entry.first == id || entry.second == handle; });
    table.emplace_back(id, handle);
  }

  Table<LoopHandle> loops_;
  Table<BufferHandle> scratch_;
};

/// The stage that a buffer of the program's kernels belongs to: the one that it is the result of, or whose
/// nests use it as scratch; -1: it is an input.
int stage_of(const lower::Program& program, const ast::Buffer& buffer);
BufferHandle handle_of(const lower::Program& program, const KernelHandles& handles,
                       const ast::Buffer& buffer);
/// -1 if neither the program nor the kernel has it.
int id_of(const lower::Program& program, const KernelHandles& handles, BufferHandle buffer);

} // namespace lathe::search
