// Texts to tokens.
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/strings/pattern.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

std::vector<Value> tokeniser(Call& call) {
  const Value x = strings_input(call, 0);
  if (x.rank() != 1 && x.rank() != 2)
    call.fail(ErrorKind::Shape, "shape " + to_string(x.shape()) + ", expected [texts] or [rows, texts]");
  const int64_t least = call.integer("mincharnum");
  if (least < 1) call.fail(ErrorKind::Value, "mincharnum " + std::to_string(least) + ", expected at least 1");
  const std::string token = call.text("tokenexp", "");
  std::vector<std::string> patterns =
      call.has_attribute("separators") ? call.texts("separators") : std::vector<std::string>();
  if (patterns.empty() == token.empty())
    call.fail(ErrorKind::Value, "separators and tokenexp, expected one of them");
  TokensAre how = token.empty() ? TokensAre::BetweenMatches : TokensAre::Matches;
  if (patterns == std::vector<std::string>{""}) {
    how = TokensAre::Characters;
    if (least > 1)
      call.fail(ErrorKind::Value,
                "mincharnum " + std::to_string(least) + " for single characters, expected 1");
    patterns.clear();
  }
  if (!token.empty()) patterns = {token};
  for (const std::string& pattern : patterns) Pattern{pattern}; // Error(Value) now, not when texts come
  patterns.insert(patterns.begin(), call.text("pad_value"));
  const int64_t marks = call.integer("mark") != 0;
  return on_host(call, {"Tokenizer", std::move(patterns), {static_cast<int64_t>(how), least, marks}}, {x});
}

const OpRow kMicrosoftTextOps[] = {{"Tokenizer", 1, tokeniser, kMicrosoft, 1}};

} // namespace

OpTable microsoft_text_ops() { return kMicrosoftTextOps; }

} // namespace lathe::onnx
