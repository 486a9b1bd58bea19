// Regular expressions, by RE2: its syntax is what ONNX asks for, and its time is linear in the text.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::onnx {

class Pattern {
public:
  /// Error(Value) for a pattern that RE2 does not take, and where lathe was built without RE2.
  explicit Pattern(const std::string& pattern);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  bool matches_all_of(std::string_view text) const;

  struct Match {
    size_t begin, size; // bytes
  };
  /// The first match at `from` or behind it, of those that begin there the longest.
  std::optional<Match> find(std::string_view text, size_t from) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace lathe::onnx
