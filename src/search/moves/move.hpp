// Moves as data: what the search may do to a plan, with typed arguments, and their text form. `moves.def` has
// a row for each.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ast/ast.hpp"
#include "search/moves/handle.hpp"

namespace lathe::search {

/// Where fuse_at puts a stage's nests: under a loop; beside the kernel of another stage; or ("root") beside
/// the first kernel that reads the stage.
struct Place {
  LoopHandle loop;
  StageHandle beside;
  Place() = default; // root
  Place(LoopHandle under) : loop(under) {}
  Place(StageHandle stage) : beside(stage) {}
  bool is_root() const { return !loop && beside.index < 0; }
  friend bool operator==(const Place&, const Place&) = default;
};

/// What a loop binds to on a device with work-groups.
enum class Level : uint8_t { Group, Local };

/// A buffer that a nest of the kernel stores to: a stage's, or an accumulator.
struct StoredHandle : BufferHandle {
  StoredHandle() = default;
  StoredHandle(BufferHandle buffer) : BufferHandle(buffer) {}
};

using Argument =
    std::variant<int64_t, StageHandle, LoopHandle, BufferHandle, StoredHandle, Place, ast::Scope, Level>;
/// The index of T among the alternatives of Argument.
template <class T, size_t I = 0> constexpr size_t alternative_of() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<I, Argument>>)
    return I;
  else
    return alternative_of<T, I + 1>();
}

enum class MoveKind {
#define LATHE_MOVE(kind, name, function, parameters, drawn) kind,
#include "search/moves/moves.def"
#undef LATHE_MOVE
};

struct Move {
  MoveKind kind;
  std::vector<Argument> arguments; // in the order of the row's parameters; lists spread out
  friend bool operator==(const Move&, const Move&) = default;
};
std::string to_string(const Argument&);
std::string to_string(const Move&);
Move parse_move(std::string_view text); // throws Error(Syntax)
/// The names of all moves, as text.
std::vector<std::string_view> move_names();

/// Whether the program is lowered anew from a rewritten graph. Such moves come before all others.
bool rewrites_graph(MoveKind kind);

/// The stage that the move's first argument belongs to; -1: it has none.
int stage_of(const Move& move);
/// The move in the names of another program or kernel, which calls the stage or input b `root(b)`.
Move in_terms_of(const Move& move, const std::function<BufferHandle(BufferHandle)>& root);

} // namespace lathe::search
