#include "core/scanner.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace lathe {
namespace {

/// The place of the first character, from `at` on, that is one of `stop` and stands in no bracket.
size_t find_outside_brackets(std::string_view text, std::string_view stop, size_t at) {
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && stop.find(c) != std::string_view::npos) return at;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
  }
  return std::string_view::npos;
}

} // namespace

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_list(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (trim(text).empty()) return parts;
  for (size_t begin = 0;;) {
    const size_t end = find_outside_brackets(text, {&separator, 1}, begin);
    parts.push_back(trim(text.substr(begin, end == std::string_view::npos ? end : end - begin)));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

void Scanner::refuse(const std::string& reason) {
  failed_ = true;
  const std::string_view before = text_.substr(0, at_);
  std::string place = fmt::format("column {}", before.size() - (before.rfind('\n') + 1) + 1); // npos + 1 is 0
  if (text_.find('\n') != std::string_view::npos)
    place = fmt::format("line {}, {}", 1 + std::count(before.begin(), before.end(), '\n'), place);
  throw Error(ErrorKind::Syntax, fmt::format("{}: {}: {}", what_, place, reason));
}

void Scanner::fail(std::string_view expected) { refuse(fmt::format("expected {}", expected)); }

char Scanner::peek() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Scanner::at_end() {
  peek();
  return at_ == text_.size();
}

bool Scanner::accept(std::string_view token) {
  peek();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void Scanner::expect(std::string_view token) {
  if (!accept(token)) fail(fmt::format("'{}'", token));
}

std::string_view Scanner::maybe_word() {
  if (is_digit(peek())) return {};
  const size_t begin = at_;
  while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view Scanner::word() {
  const std::string_view found = maybe_word();
  if (found.empty()) fail("a name");
  return found;
}

int64_t Scanner::number() { return number(accept("-")); }

int64_t Scanner::number(bool negative) {
  peek();
  const size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  if (at_ == begin) fail("a number");
  const auto magnitude = to_integer<uint64_t>(text_.substr(begin, at_ - begin));
  const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + negative;
  if (!magnitude || *magnitude > most) {
    at_ = begin;
    fail("a number that fits in 64 bits");
  }
  return static_cast<int64_t>(negative ? -*magnitude : *magnitude);
}

std::string_view Scanner::until(std::string_view stop) {
  const std::string_view line = text_.substr(0, std::min(text_.find('\n', at_), text_.size()));
  const size_t end = find_outside_brackets(line, stop, at_);
  if (end == std::string_view::npos) {
    at_ = line.size();
    fail(fmt::format("one of '{}' before the end of the line", stop));
  }
  const std::string_view found = line.substr(at_, end - at_);
  at_ = end;
  return trim(found);
}

bool Scanner::follows_on_line(std::string_view token) {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  return text_.substr(at_, token.size()) == token;
}

} // namespace lathe
