// Tokenizer of com.microsoft: strings to tokens, as ONNX Runtime cuts them.
#include <algorithm>
#include <string_view>

#include "lathe/onnx/utf8.hpp"
#include "onnx/strings/host_op.hpp"
#include "onnx/strings/pattern.hpp"

namespace lathe::onnx {
namespace {

using Tokens = std::vector<std::string>;

struct Cutter {
  TokensAre how;
  std::vector<Pattern> patterns;
  size_t least; // characters of a token

  void keep(Tokens& tokens, std::string_view text) const {
    if (characters(text).size() >= least) tokens.emplace_back(text);
  }

  /// Calls f(match) for each match of the pattern, from left to right. An empty one is followed by a search
  /// from the next character on.
  template <class F> static void for_each_match(const Pattern& pattern, std::string_view text, const F& f) {
    for (size_t at = 0; const auto found = pattern.find(text, at);) {
      f(*found);
      at = found->begin + found->size;
      if (found->size > 0) continue;
      if (at++ >= text.size()) return;
      while (at < text.size() && static_cast<unsigned char>(text[at]) >> 6 == 2) ++at;
    }
  }

  Tokens between(const Pattern& separator, std::string_view text) const {
    Tokens tokens;
    size_t begin = 0;
    for_each_match(separator, text, [&](const Pattern::Match& found) {
      keep(tokens, text.substr(begin, found.begin - begin));
      begin = found.begin + found.size;
    });
    keep(tokens, text.substr(begin));
    return tokens;
  }

  Tokens operator()(const std::string& text) const {
    Tokens tokens;
    switch (how) {
    case TokensAre::Characters:
      for (const char32_t c : characters(text)) tokens.push_back(utf8({&c, 1}));
      break;
    case TokensAre::Matches:
      for (const Pattern& token : patterns)
        for_each_match(token, text, [&](const Pattern::Match& found) {
          keep(tokens, std::string_view(text).substr(found.begin, found.size));
        });
      break;
    case TokensAre::BetweenMatches: // of one separator after the other
      tokens = {text};
      for (const Pattern& separator : patterns) {
        Tokens parts;
        for (const std::string& token : tokens)
          for (std::string& part : between(separator, token)) parts.push_back(std::move(part));
        tokens = std::move(parts);
      }
      break;
    }
    return tokens;
  }
};

constexpr const char *kBegin = "\x02", *kEnd = "\x03";

} // namespace

std::vector<Value> host_tokenise(const HostOp& op, const HostInputs& inputs) {
  const std::string& padding = op.texts.at(0);
  Cutter cut{static_cast<TokensAre>(op.integers.at(0)), {}, static_cast<size_t>(op.integers.at(1))};
  const bool marks = op.integers.at(2) != 0;
  for (size_t k = 1; k < op.texts.size(); ++k) cut.patterns.emplace_back(op.texts[k]);
  std::vector<Tokens> all;
  size_t most = 0;
  for (const std::string& text : inputs.at(0).texts()) {
    all.push_back(cut(text));
    most = std::max(most, all.back().size());
  }
  if (marks && most > 0) most += 2;
  Tokens texts;
  for (Tokens& tokens : all) {
    if (marks && most > 0) {
      tokens.insert(tokens.begin(), kBegin);
      tokens.push_back(kEnd);
    }
    tokens.resize(most, padding);
    std::move(tokens.begin(), tokens.end(), std::back_inserter(texts));
  }
  Shape shape = inputs[0].shape();
  shape.push_back(Expr(static_cast<int64_t>(most)));
  return {Value::strings(std::move(texts), shape)};
}

} // namespace lathe::onnx
