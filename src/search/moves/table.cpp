#include "search/moves/table.hpp"

#include <tuple>

#include "lathe/error.hpp"
#include "search/moves/draw.hpp"

namespace lathe::search {
namespace {

template <class T> struct Of {
  static constexpr Parameter kParameter{alternative_of<T>(), false};
};
template <class T> struct Of<const std::vector<T>&> {
  static constexpr Parameter kParameter{alternative_of<T>(), true};
};

/// A move's arguments, one parameter after the other.
struct Taking {
  const Move& move;
  size_t at, behind; // arguments taken; parameters that are still to come

  template <class P> std::decay_t<P> next() {
    --behind;
    if constexpr (Of<P>::kParameter.is_list) {
      std::decay_t<P> list;
      while (at + behind < move.arguments.size())
        list.push_back(std::get<typename std::decay_t<P>::value_type>(move.arguments[at++]));
      return list;
    } else {
      return std::get<P>(move.arguments[at++]);
    }
  }
};

template <class... P> std::tuple<std::decay_t<P>...> arguments_of(const Move& move) {
  Taking taking{move, 0, sizeof...(P)};
  return std::tuple<std::decay_t<P>...>{taking.next<P>()...}; // in braces: from left to right
}

// The row of function F, whose type says what the arguments are.
template <auto F, class... P>
MoveRow row(MoveKind kind, std::string_view name, Drawn drawn, Verdict (*)(Draft&, const Target&, P...)) {
  constexpr auto apply = [](Draft& draft, const Move& move, const Target& target) {
    return std::apply([&](const auto&... a) { return F(draft, target, a...); }, arguments_of<P...>(move));
  };
  return {kind, name, {Of<P>::kParameter...}, +apply, drawn};
}
template <auto F, class Subject, class... P>
MoveRow row(MoveKind kind, std::string_view name, Drawn drawn, Verdict (*)(Subject&, P...)) {
  MoveRow made{kind, name, {Of<P>::kParameter...}, {}, drawn};
  if constexpr (std::is_same_v<Subject, Draft>)
    made.apply = +[](Draft& draft, const Move& move, const Target&) {
      return std::apply([&](const auto&... a) { return F(draft, a...); }, arguments_of<P...>(move));
    };
  else
    made.apply = +[](Subject& subject, const Move& move) {
      return std::apply([&](const auto&... a) { return F(subject, a...); }, arguments_of<P...>(move));
    };
  return made;
}

constexpr int64_t kTiles[] = {2, 4}, kLevels[] = {1, 2}, kAxes[] = {0, 1, 2, 3}, kThreeAxes[] = {0, 1, 2},
                  kFactors[] = {2, 3, 4, 5, 7, 8, 16, 32, 64};
Drawn often(int weight) { return {weight}; }
Drawn often(int weight, std::span<const int64_t> numbers) { return {weight, numbers}; }
Drawn often(int weight, Move (*draw)(Draw&)) { return {weight, {}, draw}; }

} // namespace

const std::vector<MoveRow>& move_table() {
  static const auto* table = new std::vector<MoveRow>{
#define LATHE_MOVE(kind, name, function, parameters, drawn)                                                  \
  row<static_cast<Verdict(*) parameters>(&function)>(MoveKind::kind, name, drawn,                            \
                                                     static_cast<Verdict(*) parameters>(&function)),
#include "search/moves/moves.def"
#undef LATHE_MOVE
  };
  return *table;
}

const MoveRow& row_of(MoveKind kind) { return move_table()[static_cast<size_t>(kind)]; }

Verdict apply(Draft& draft, const Move& move, const Target& target) {
  const MoveRow& row = row_of(move.kind);
  const auto* function = std::get_if<Verdict (*)(Draft&, const Move&, const Target&)>(&row.apply);
  return function ? (*function)(draft, move, target) : "it is no move on one kernel";
}

} // namespace lathe::search
