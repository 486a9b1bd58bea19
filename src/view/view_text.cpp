// Printing views, and parsing what was printed back.
#include <fmt/core.h>

#include "lathe/error.hpp"
#include "view/view.hpp"

namespace lathe {
namespace {

using Lookup = std::function<std::optional<Expr>(std::string_view)>;

class Parser {
public:
  Parser(std::string_view text, const Lookup& lookup) : text_(text), rest_(text), lookup_(lookup) {}

  View parse() {
    need("view(");
    const Shape shape = list(take_brackets());
    need(", strides ");
    const std::vector<Expr> strides = list(take_brackets());
    need(", offset ");
    const Expr offset = expr(take_until_comma_or_end());
    std::vector<Interval> mask;
    const bool masked = rest_.substr(0, 7) == ", mask ";
    if (masked) {
      need(", mask ");
      for (std::string_view part : split(take_brackets(), ',')) {
        const auto ends = split(part, ':');
        if (ends.size() != 2) fail("begin:end");
        mask.push_back({expr(ends[0]), expr(ends[1])});
      }
    }
    need(")");
    if (!rest_.empty()) fail("the end");
    if (strides.size() != shape.size() || (masked && mask.size() != shape.size()))
      fail("as many strides and intervals as axes");
    return View(shape, strides, offset, std::move(mask));
  }

private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(ErrorKind::Syntax, fmt::format("view '{}': column {}: expected {}", text_,
                                               text_.size() - rest_.size() + 1, expected));
  }
  void need(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) fail(fmt::format("'{}'", token));
    rest_.remove_prefix(token.size());
  }
  std::string_view take_brackets() {
    need("[");
    const size_t end = rest_.find(']');
    if (end == std::string_view::npos) fail("']'");
    const std::string_view inside = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return inside;
  }
  std::string_view take_until_comma_or_end() {
    size_t end = 0;
    for (int depth = 0; end < rest_.size(); end++) {
      if (rest_[end] == '(') depth++;
      if ((rest_[end] == ',' || rest_[end] == ')') && depth == 0) break;
      if (rest_[end] == ')') depth--;
    }
    const std::string_view part = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return part;
  }
  /// The parts between separators that are in no parentheses.
  static std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    if (text.empty()) return parts;
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i < text.size(); i++) {
      depth += (text[i] == '(') - (text[i] == ')');
      if (text[i] != separator || depth) continue;
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
    parts.push_back(text.substr(begin));
    return parts;
  }
  Expr expr(std::string_view text) const { return parse_expr(text, lookup_); }
  std::vector<Expr> list(std::string_view text) const {
    std::vector<Expr> out;
    for (std::string_view part : split(text, ',')) out.push_back(expr(part));
    return out;
  }

  std::string_view text_, rest_;
  const Lookup& lookup_;
};

} // namespace

std::string to_string(const View& v) {
  std::string out = fmt::format("view({}, strides {}, offset {}", to_string(v.shape()),
                                to_string(v.strides()), to_string(v.offset()));
  if (v.has_mask()) {
    out += ", mask [";
    for (size_t k = 0; k < v.mask().size(); k++)
      out += fmt::format("{}{}:{}", k ? ", " : "", to_string(v.mask()[k].begin), to_string(v.mask()[k].end));
    out += "]";
  }
  return out + ")";
}

View parse_view(std::string_view text, const Lookup& lookup) { return Parser(text, lookup).parse(); }

} // namespace lathe
