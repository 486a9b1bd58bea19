// Case and stop words, by characters of UTF-8.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <set>

#include "lathe/onnx/utf8.hpp"
#include "onnx/strings/host_op.hpp"

namespace lathe::onnx {
namespace {

/// The system's rules for Unicode as it stands, which no language changes.
locale_t unicode_locale() {
  static const locale_t made = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t());
  if (!made) throw Error(ErrorKind::Value, "the locale C.UTF-8 is not there, expected it for case");
  return made;
}

std::string with_case(const std::string& text, bool upper) {
  const locale_t rules = unicode_locale();
  std::u32string changed = characters(text);
  for (char32_t& character : changed) {
    const auto given = static_cast<wint_t>(character);
    character = static_cast<char32_t>(upper ? towupper_l(given, rules) : towlower_l(given, rules));
  }
  return utf8(changed);
}

} // namespace

std::vector<Value> host_normalise(const HostOp& op, const HostInputs& inputs) {
  const std::string& change = op.texts.at(0);
  const bool case_counts = op.integers.at(0) != 0, upper = change == "UPPER", changes = change != "NONE";
  const auto compared = [&](const std::string& text) { return case_counts ? text : with_case(text, upper); };
  std::set<std::string> stop;
  for (size_t k = 1; k < op.texts.size(); ++k) stop.insert(compared(op.texts[k]));
  std::vector<std::string> kept;
  for (const std::string& text : inputs.at(0).texts())
    if (stop.empty() || !stop.count(compared(text))) kept.push_back(changes ? with_case(text, upper) : text);
  if (kept.empty()) kept.emplace_back();
  Shape shape = inputs[0].shape();
  shape.back() = Expr(static_cast<int64_t>(kept.size()));
  return {Value::strings(std::move(kept), shape)};
}

} // namespace lathe::onnx
