#include "onnx/strings/pattern.hpp"

#include "lathe/error.hpp"

#ifdef LATHE_HAS_RE2
#include <re2/re2.h>
#endif

namespace lathe::onnx {

#ifdef LATHE_HAS_RE2
namespace {

re2::RE2::Options pattern_options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_longest_match(true);
  return options;
}

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

} // namespace

struct Pattern::Impl {
  re2::RE2 expression;
};

Pattern::Pattern(const std::string& pattern) : impl_(new Impl{{pattern, pattern_options()}}) {
  const re2::RE2& made = impl_->expression;
  if (!made.ok())
    throw Error(ErrorKind::Value, "pattern '" + pattern + "': " + made.error() + ", expected RE2's syntax");
}

bool Pattern::matches_all_of(std::string_view text) const {
  return re2::RE2::FullMatch(piece(text), impl_->expression);
}

std::optional<Pattern::Match> Pattern::find(std::string_view text, size_t from) const {
  re2::StringPiece found;
  if (!impl_->expression.Match(piece(text), from, text.size(), re2::RE2::UNANCHORED, &found, 1)) return {};
  return Match{static_cast<size_t>(found.data() - text.data()), found.size()};
}
#else
struct Pattern::Impl {};

Pattern::Pattern(const std::string&) {
  throw Error(ErrorKind::Value, "this lathe was built without RE2, expected one that has it");
}

bool Pattern::matches_all_of(std::string_view) const { return false; }
std::optional<Pattern::Match> Pattern::find(std::string_view, size_t) const { return {}; }
#endif

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

} // namespace lathe::onnx
