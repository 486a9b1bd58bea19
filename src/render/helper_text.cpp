#include "render/helper_text.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/scanner.hpp"
#include "lathe/error.hpp"

namespace lathe::render {
namespace {

/// The word at or after `pos`; empty if there is none. `pos` moves past the word.
std::string_view next_word(std::string_view text, size_t& pos) {
  while (pos < text.size() && !is_word(text[pos])) ++pos;
  const size_t begin = pos;
  while (pos < text.size() && is_word(text[pos])) ++pos;
  return text.substr(begin, pos - begin);
}

/// Whether `lines` is one whole piece: a directive with the lines that backslashes join to it, a comment, or
/// declarations up to a line that ends with a closing brace or a semicolon outside of braces.
bool is_whole(std::string_view lines) {
  if (lines.starts_with('#')) return !lines.ends_with('\\');
  if (lines.starts_with("/*")) return lines.ends_with("*/");
  int depth = 0;
  for (const char c : lines) depth += (c == '{') - (c == '}');
  return lines.empty() || (depth == 0 && (lines.ends_with('}') || lines.ends_with(';')));
}

/// The names that declarations define: lathe_a and lathe_b in `typedef float lathe_a; typedef int lathe_b;`,
/// lathe_f in `float lathe_f(int x) { ... }`.
std::vector<std::string_view> declared_names(std::string_view text) {
  std::vector<std::string_view> names;
  int depth = 0;
  bool named = false;
  for (size_t pos = 0; pos < text.size();) {
    const char c = text[pos];
    if (is_word(c)) {
      const std::string_view word = next_word(text, pos);
      if (named || depth > 0 || !word.starts_with("lathe_")) continue;
      names.push_back(word);
      named = true;
      continue;
    }
    depth += (c == '{') - (c == '}');
    if (c == ';' && depth == 0) named = false;
    ++pos;
  }
  return names;
}

} // namespace

class HelperText::Reader {
public:
  Reader(HelperText& helpers, std::string_view text) : helpers_(helpers), text_(text) { enter(false); }

  void read() {
    while (!text_.empty()) {
      const std::string_view lines = take();
      if (lines == "\n" || lines.starts_with("/*"))
        heading(lines);
      else if (lines.starts_with('#'))
        directive(lines);
      else
        declaration(lines);
    }
    leave_heading();
    if (open_.size() != 1) throw InternalError("helpers of emitted source: a conditional without an end");
  }

private:
  struct Open {
    size_t group;
    bool by_heading;
  };

  std::string_view take() {
    size_t end = 0;
    while ((end = text_.find('\n', end)) != std::string_view::npos && !is_whole(text_.substr(0, end))) ++end;
    if (end == std::string_view::npos)
      throw InternalError(fmt::format("helpers of emitted source: no end of '{}'", text_.substr(0, 60)));
    const std::string_view lines = text_.substr(0, end + 1);
    text_.remove_prefix(end + 1);
    return lines;
  }

  size_t add(std::string_view lines, size_t group) {
    helpers_.pieces_.push_back({std::string(lines), group});
    return helpers_.pieces_.size() - 1;
  }
  void declaration(std::string_view lines) {
    const size_t piece = add(lines, open_.back().group);
    const std::vector<std::string_view> names = declared_names(lines);
    for (const std::string_view name : names) define(name, piece);
    if (names.empty()) helpers_.in_every_file_.push_back(piece);
  }
  void define(std::string_view name, size_t piece) {
    helpers_.definitions_[std::string(name)].push_back(piece);
  }
  void enter(bool by_heading) {
    open_.push_back({helpers_.frames_.size(), by_heading});
    helpers_.frames_.emplace_back();
  }
  /// Adds `lines` to the frame of the innermost group. The piece itself belongs to the group around that.
  void frame(std::string_view lines) {
    const size_t piece = add(lines, open_[open_.size() - 2].group);
    helpers_.frames_[open_.back().group].push_back(piece);
  }

  void heading(std::string_view lines) {
    const std::vector<size_t>& frame_now = helpers_.frames_[open_.back().group];
    const bool follows_one = open_.back().by_heading && frame_now.back() + 1 == helpers_.pieces_.size();
    if (!follows_one) {
      leave_heading();
      enter(true);
    }
    frame(lines);
  }
  void leave_heading() {
    if (open_.back().by_heading) open_.pop_back();
  }

  void directive(std::string_view lines) {
    size_t pos = 0;
    const std::string_view word = next_word(lines, pos);
    if (word == "define" || word == "undef")
      return define(next_word(lines, pos), add(lines, open_.back().group));
    if (word.starts_with("if")) {
      enter(false);
      return frame(lines);
    }
    if (word != "else" && word != "elif" && word != "endif")
      return helpers_.in_every_file_.push_back(add(lines, open_.back().group));
    leave_heading();
    if (open_.size() == 1)
      throw InternalError(fmt::format("helpers of emitted source: #{} without #if", word));
    frame(lines);
    if (word == "endif") open_.pop_back();
  }

  HelperText& helpers_;
  std::string_view text_;  // the text not read yet
  std::vector<Open> open_; // groups, from the outermost
};

HelperText::HelperText(std::string_view text) { Reader(*this, text).read(); }

std::string HelperText::used_by(std::string_view code) const {
  std::vector<char> kept(pieces_.size());
  std::vector<size_t> unread;
  const auto keep = [&](const std::vector<size_t>& pieces) {
    for (const size_t piece : pieces)
      if (!std::exchange(kept[piece], true)) unread.push_back(piece);
  };
  const auto keep_what_is_named = [&](std::string_view text) {
    for (size_t pos = 0; pos < text.size();) {
      const auto found = definitions_.find(next_word(text, pos));
      if (found != definitions_.end()) keep(found->second);
    }
  };
  keep(in_every_file_);
  keep_what_is_named(code);
  while (!unread.empty()) {
    const Piece& piece = pieces_[unread.back()];
    unread.pop_back();
    keep(frames_[piece.group]);
    keep_what_is_named(piece.text);
  }
  std::string out;
  for (size_t piece = 0; piece < pieces_.size(); ++piece)
    if (kept[piece]) out += pieces_[piece].text;
  return out;
}

} // namespace lathe::render
