// Reading text. Expressions, views, graphs, kernels and moves are printed as text. The grammars that read
// them back use this scanner.
#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/error.hpp"

namespace lathe {

constexpr bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Whether c may stand in a name: a letter, a digit or '_'. Names of loops also have dots: "t3.i0".
constexpr bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/// The text without white space at either end.
std::string_view trim(std::string_view text);
/// The parts between separators that stand in no bracket, trimmed. None if there is only white space.
std::vector<std::string_view> split_list(std::string_view text, char separator);
/// The integer that the whole text spells; nothing if it spells none.
template <class T> std::optional<T> to_integer(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

/// Reads a text from left to right. White space between tokens does not count.
class Scanner {
public:
  /// `what` begins the messages: "kernel text".
  Scanner(std::string what, std::string_view text) : what_(std::move(what)), text_(text) {}

  /// Throws Error(Syntax) with the place: "kernel text: line 2, column 5: expected a name".
  [[noreturn]] void fail(std::string_view expected);
  /// Throws the same with the grammar's own reason, in place of what was expected.
  [[noreturn]] void refuse(const std::string& reason);
  /// Returns what `read` returns. Adds the place in the text to errors that `read` throws from elsewhere,
  /// such as an op that refuses its operands.
  template <class Read> auto located(Read&& read) {
    try {
      return read();
    } catch (const Error& e) {
      if (failed_) throw;
      refuse(e.what());
    } catch (const InternalError& e) { // a value that no program may hold
      refuse(e.what());
    }
  }

  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = at; }

  bool at_end();
  /// The next character; '\0' at the end.
  char peek();
  bool accept(std::string_view token);
  void expect(std::string_view token);
  /// A word: letters, digits, '_' and '.', the first no digit. `maybe_word` is empty if there is none.
  std::string_view word();
  std::string_view maybe_word();
  int64_t number();
  /// A number whose digits come next; it is negative if `negative` says so.
  int64_t number(bool negative);
  /// The text on this line, trimmed, up to the first of the characters in `stop` that stands in no bracket.
  std::string_view until(std::string_view stop);
  /// Whether `token` comes next on this line.
  bool follows_on_line(std::string_view token);

private:
  std::string what_;
  std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
};

} // namespace lathe
