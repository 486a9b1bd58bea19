#include "search/moves/move.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/overload.hpp"
#include "core/scanner.hpp"
#include "search/moves/move_text.hpp"
#include "search/moves/table.hpp"

namespace lathe::search {

namespace {

struct ScopeName {
  ast::Scope scope;
  std::string_view name;
};
constexpr ScopeName kScopes[] = {
    {ast::Scope::Packed, "packed"}, {ast::Scope::Register, "register"}, {ast::Scope::Local, "local"}};

struct LevelName {
  Level level;
  std::string_view name;
};
constexpr LevelName kLevels[] = {{Level::Group, "group"}, {Level::Local, "local"}};

[[noreturn]] void fail(std::string_view text, const std::string& expected) {
  throw Error(ErrorKind::Syntax, fmt::format("move \"{}\": expected {}", text, expected));
}

std::optional<int64_t> parse_number(std::string_view s) {
  if (s.empty() || s.size() > 12 || s.front() == '-') return {};
  return to_integer<int64_t>(s);
}

/// How each kind of argument is read, and what is expected of its text. In the order of Argument's
/// alternatives.
struct Reader {
  std::string_view expected;
  std::optional<Argument> (*read)(std::string_view);
};
template <class T, class Parsed> std::optional<Argument> as(const std::optional<Parsed>& parsed) {
  if (!parsed) return {};
  return Argument(T(*parsed));
}
template <class Names> auto find_name(const Names& names, std::string_view text) {
  return std::find_if(std::begin(names), std::end(names), [&](const auto& n) { return n.name == text; });
}
constexpr Reader kReaders[] = {
    {"a number", [](std::string_view s) { return as<int64_t>(parse_number(s)); }},
    {"a stage such as t5", [](std::string_view s) { return as<StageHandle>(parse_stage(s)); }},
    {"a loop such as t5.i1", [](std::string_view s) { return as<LoopHandle>(parse_loop(s)); }},
    {"the name of a buffer", [](std::string_view s) { return as<BufferHandle>(parse_buffer(s)); }},
    {"a stage such as t5, or an accumulator of one",
     [](std::string_view s) { return as<StoredHandle>(parse_buffer(s)); }},
    {"root, a stage such as t5, or a loop such as t5.i1",
     [](std::string_view s) -> std::optional<Argument> {
       if (s == "root") return Place();
       if (const auto stage = parse_stage(s)) return Place(*stage);
       return as<Place>(parse_loop(s));
     }},
    {"a scope: packed, register or local",
     [](std::string_view s) -> std::optional<Argument> {
       const auto* found = find_name(kScopes, s);
       if (found == std::end(kScopes)) return {};
       return found->scope;
     }},
    {"group or local", [](std::string_view s) -> std::optional<Argument> {
       const auto* found = find_name(kLevels, s);
       if (found == std::end(kLevels)) return {};
       return found->level;
     }}};
static_assert(std::size(kReaders) == std::variant_size_v<Argument>);

void append(std::string& out, const Argument& argument) {
  std::visit(Overload{[&](int64_t number) {
                        char digits[24];
                        out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
                      },
                      [&](StageHandle stage) { out += stage.buffer().name(); },
                      [&](const Handle& handle) { out += handle.name(); },
                      [&](const Place& place) {
                        out += place.is_root() ? "root"
                               : place.loop    ? place.loop.name()
                                               : place.beside.buffer().name();
                      },
                      [&](ast::Scope scope) {
                        for (const ScopeName& s : kScopes)
                          if (s.scope == scope) {
                            out += s.name;
                            return;
                          }
                        throw InternalError("a scope that no move names");
                      },
                      [&](Level level) { out += kLevels[static_cast<size_t>(level)].name; }},
             argument);
}

} // namespace

void append(std::string& out, const Move& move) {
  out.append(row_of(move.kind).name).push_back('(');
  const char* separator = "";
  for (const Argument& argument : move.arguments) {
    append(out.append(separator), argument);
    separator = ", ";
  }
  out.push_back(')');
}

std::string to_string(const Argument& argument) {
  std::string out;
  append(out, argument);
  return out;
}

std::string to_string(const Move& move) {
  std::string out;
  append(out, move);
  return out;
}

Move parse_move(std::string_view text) {
  const std::string_view whole = trim(text);
  const size_t open = whole.find('(');
  if (open == std::string_view::npos || whole.back() != ')') fail(whole, "name(arguments)");
  const std::string_view name = trim(whole.substr(0, open));
  const auto& table = move_table();
  const auto row = std::find_if(table.begin(), table.end(), [&](const MoveRow& r) { return r.name == name; });
  if (row == table.end()) fail(whole, fmt::format("one of {}", fmt::join(move_names(), ", ")));

  const std::vector<std::string_view> given =
      split_list(whole.substr(open + 1, whole.size() - open - 2), ',');
  const std::vector<Parameter>& parameters = row->parameters;
  const auto list = std::find_if(parameters.begin(), parameters.end(), [](Parameter p) { return p.is_list; });
  const bool has_list = list != parameters.end();
  const size_t least = parameters.size() - has_list;
  if (given.size() < least || (!has_list && given.size() > least))
    fail(whole, fmt::format("{}{} arguments", has_list ? "at least " : "", least));
  Move move{row->kind, {}};
  const size_t first_of_list = static_cast<size_t>(list - parameters.begin());
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t listed = given.size() - least; // arguments in the list
    const size_t p = i < first_of_list            ? i
                     : i < first_of_list + listed ? first_of_list
                                                  : i - listed + has_list;
    const Reader& reader = kReaders[parameters[p].alternative];
    const auto argument = reader.read(given[i]);
    if (!argument) fail(whole, fmt::format("{} as argument {}", reader.expected, i + 1));
    move.arguments.push_back(*argument);
  }
  return move;
}

std::vector<std::string_view> move_names() {
  std::vector<std::string_view> names;
  for (const MoveRow& row : move_table()) names.push_back(row.name);
  return names;
}

bool rewrites_graph(MoveKind kind) {
  return std::holds_alternative<Verdict (*)(Rewriting&, const Move&)>(row_of(kind).apply);
}

int stage_of(const Move& move) {
  if (move.arguments.empty()) return -1;
  return std::visit(
      Overload{[](StageHandle stage) { return stage.index; }, [](LoopHandle loop) { return loop.stage(); },
               [](BufferHandle buffer) { return buffer.stage(); },
               [](StoredHandle buffer) { return buffer.stage(); }, [](const auto&) { return -1; }},
      move.arguments[0]);
}

Move in_terms_of(const Move& move, const std::function<BufferHandle(BufferHandle)>& root) {
  const auto stage = [&](StageHandle s) { return StageHandle(root(s.buffer()).stage()); };
  const auto named = [&](const Handle& h) {
    const BufferHandle old = h.stage() < 0 ? BufferHandle(h) : BufferHandle::of_stage(h.stage());
    return h.with_root(root(old));
  };
  Move out = move;
  for (Argument& argument : out.arguments)
    std::visit(Overload{[&](StageHandle& s) { s = stage(s); },
                        [&](LoopHandle& l) { l = LoopHandle(named(l)); },
                        [&](BufferHandle& b) { b = BufferHandle(named(b)); },
                        [&](StoredHandle& b) { b = BufferHandle(named(b)); },
                        [&](Place& p) {
                          if (p.loop) p.loop = LoopHandle(named(p.loop));
                          if (p.beside.index >= 0) p.beside = stage(p.beside);
                        },
                        [](auto&) {}},
               argument);
  return out;
}

} // namespace lathe::search
