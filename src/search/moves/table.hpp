// The table of moves: what moves.def says, as rows to read at run time.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search/machine/target.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

struct Draft;     // a kernel that a move edits
class Editor;     // a plan whose kernels a move joins
struct Rewriting; // a graph that a move rewrites
class Draw;       // random moves

/// Why a move is not legal; empty if it is.
using Verdict = std::string;

#define LATHE_MOVE(kind, name, function, parameters, drawn) Verdict function parameters;
#include "search/moves/moves.def"
#undef LATHE_MOVE

/// One parameter of a move.
struct Parameter {
  size_t alternative; // of Argument
  bool is_list;       // any number of arguments
};

/// How often the walks try a move, and with which numbers; `draw` makes moves whose arguments depend on each
/// other.
struct Drawn {
  int weight;
  std::span<const int64_t> numbers{};
  Move (*draw)(Draw&) = nullptr;
};

struct MoveRow {
  MoveKind kind;
  std::string_view name;
  std::vector<Parameter> parameters;
  std::variant<Verdict (*)(Draft&, const Move&, const Target&), Verdict (*)(Editor&, const Move&),
               Verdict (*)(Rewriting&, const Move&)>
      apply;
  Drawn drawn;
};
const std::vector<MoveRow>& move_table();
const MoveRow& row_of(MoveKind kind);
/// Applies a move on one kernel; a move of another sort is not legal.
Verdict apply(Draft& draft, const Move& move, const Target& target);

} // namespace lathe::search
