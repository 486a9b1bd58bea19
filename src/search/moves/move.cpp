#include "search/moves/move.hpp"

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::search {

namespace {

// How a move is written: its name, and what each argument is: n a name, N one or more names, i an integer.
struct Form {
  MoveKind kind;
  std::string_view name;
  std::string_view arguments;
};
constexpr Form kForms[] = {
    {MoveKind::Winograd, "winograd", "Ni"},
    {MoveKind::Strassen, "strassen", "Ni"},
    {MoveKind::Innermost, "innermost", "Ni"},
    {MoveKind::Inline, "inline", "n"},
    {MoveKind::FuseAt, "fuse_at", "nnn"},
    {MoveKind::Split, "split", "ni"},
    {MoveKind::Reorder, "reorder", "N"},
    {MoveKind::Unroll, "unroll", "n"},
    {MoveKind::Vectorise, "vectorise", "n"},
    {MoveKind::Parallelise, "parallelise", "n"},
    {MoveKind::Pack, "pack", "nnnn"},
    {MoveKind::Prepack, "prepack", "nn"},
    {MoveKind::Bind, "bind", "nni"},
    {MoveKind::Accumulate, "accumulate", "nN"},
    {MoveKind::StoreFirst, "store_first", "nn"},
    {MoveKind::Stream, "stream", "n"},
    {MoveKind::PrefetchTile, "prefetch_tile", "nnnnni"},
    {MoveKind::Prefetch, "prefetch", "nnni"},
    {MoveKind::Merge, "merge", "nn"},
    {MoveKind::Border, "border", "n"},
    {MoveKind::Join, "join", "ni"},
    {MoveKind::Carry, "carry", "nn"},
};

const Form& form_of(MoveKind kind) {
  for (const Form& form : kForms)
    if (form.kind == kind) return form;
  throw InternalError("a move kind without a form");
}

[[noreturn]] void fail(std::string_view text, const std::string& expected) {
  throw Error(ErrorKind::Syntax, fmt::format("move \"{}\": expected {}", text, expected));
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

bool is_name(std::string_view s) {
  if (s.empty()) return false;
  for (char c : s)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.')) return false;
  return !std::isdigit(static_cast<unsigned char>(s.front()));
}

std::optional<int64_t> to_integer(std::string_view s) {
  if (s.empty() || s.size() > 12) return {};
  int64_t value = 0;
  for (char c : s) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  return value;
}

} // namespace

bool rewrites_graph(MoveKind kind) {
  return kind == MoveKind::Winograd || kind == MoveKind::Strassen || kind == MoveKind::Innermost;
}

std::string to_string(const Move& move) {
  std::string out(form_of(move.kind).name);
  out += '(';
  const char* separator = "";
  for (const std::string& name : move.names) {
    out += separator + name;
    separator = ", ";
  }
  for (int64_t number : move.numbers) {
    out += separator + std::to_string(number);
    separator = ", ";
  }
  return out + ')';
}

Move parse_move(std::string_view text) {
  const std::string_view whole = trim(text);
  const size_t open = whole.find('(');
  if (open == std::string_view::npos || whole.back() != ')') fail(whole, "name(arguments)");
  const std::string_view name = trim(whole.substr(0, open));
  const Form* form = nullptr;
  for (const Form& f : kForms)
    if (f.name == name) form = &f;
  if (!form) {
    std::string names;
    for (const Form& f : kForms) names += fmt::format("{}{}", names.empty() ? "one of " : ", ", f.name);
    fail(whole, names);
  }

  Move move{form->kind, {}, {}};
  std::string_view rest = whole.substr(open + 1, whole.size() - open - 2);
  std::vector<std::string_view> arguments;
  while (true) {
    const size_t comma = rest.find(',');
    arguments.push_back(trim(rest.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  // accumulate(t, l) and accumulate(t, l, f...) are both "nN"; fuse_at's "root" is a name like any other.
  const std::string_view wants = form->arguments;
  const size_t many = wants.find('N');
  const bool open_ended = many != std::string_view::npos;
  if (arguments.size() < wants.size() || (!open_ended && arguments.size() != wants.size()))
    fail(whole, fmt::format("{}{} arguments", open_ended ? "at least " : "", wants.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t further = arguments.size() - wants.size(); // names beyond the first of N
    const char want = i <= many ? wants[i] : i <= many + further ? 'N' : wants[i - further];
    if (want == 'i') {
      const auto value = to_integer(arguments[i]);
      if (!value) fail(whole, fmt::format("a number as argument {}", i + 1));
      move.numbers.push_back(*value);
    } else {
      if (!is_name(arguments[i])) fail(whole, fmt::format("a name as argument {}", i + 1));
      move.names.emplace_back(arguments[i]);
    }
  }
  return move;
}

} // namespace lathe::search
