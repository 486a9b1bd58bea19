// Ops on strings, which the host computes while the program runs.
#include <set>

#include "lathe/functions.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/strings/pattern.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Languages whose letters have a case of their own. Without a change of case, and where case counts, a
/// locale has no bearing.
void check_locale(const Call& call, const std::string& locale) {
  static const std::set<std::string> others = {"tr", "az", "lt"};
  const std::string language = locale.substr(0, locale.find_first_of("_-."));
  if (others.count(language))
    call.fail(ErrorKind::Value, "locale '" + locale + "', expected one with Unicode's own rules for case");
}

std::vector<Value> normaliser(Call& call) {
  const Value x = strings_input(call, 0);
  const std::string change = call.text("case_change_action", "NONE"), locale = call.text("locale", "en_US");
  const bool case_counts = call.integer("is_case_sensitive", 0) != 0;
  if (change != "NONE" && change != "LOWER" && change != "UPPER")
    call.fail(ErrorKind::Value, "case_change_action '" + change + "', expected NONE, LOWER or UPPER");
  if (change != "NONE" || !case_counts) check_locale(call, locale);
  if (x.rank() != 1 && !(x.rank() == 2 && x.shape()[0].is_const(1)))
    call.fail(ErrorKind::Shape, "shape " + to_string(x.shape()) + ", expected [words] or [1, words]");
  std::vector<std::string> texts = call.texts("stopwords");
  texts.insert(texts.begin(), change);
  return on_host(call, {"StringNormalizer", std::move(texts), {case_counts}}, {x});
}

std::vector<Value> split(Call& call) {
  const int64_t cuts = call.has_attribute("maxsplit") ? call.integer("maxsplit") : -1;
  if (call.has_attribute("maxsplit") && cuts < 0)
    call.fail(ErrorKind::Value, "maxsplit " + std::to_string(cuts) + ", expected 0 or more");
  return on_host(call, {"StringSplit", {call.text("delimiter", "")}, {cuts}}, {strings_input(call, 0)});
}

/// Both inputs as their shapes say together: kernels spread ids as they spread numbers.
std::vector<Value> concatenate(Call& call) {
  const Tensor a = string_ids(call, 0), b = string_ids(call, 1);
  const Shape shape = (a + b).shape();
  return on_host(call, {"StringConcat"}, {Value::strings(a.expand(shape)), Value::strings(b.expand(shape))});
}

std::vector<Value> full_match(Call& call) {
  const std::string pattern = call.text("pattern");
  Pattern{pattern}; // Error(Value) now, not when texts come
  return on_host(call, {"RegexFullMatch", {pattern}}, {strings_input(call, 0)});
}

const OpRow kStringOps[] = {
    {"StringNormalizer", 10, normaliser},
    {"StringSplit", 20, split},
    {"StringConcat", 20, concatenate},
    {"RegexFullMatch", 20, full_match},
};

} // namespace

OpTable string_ops() { return kStringOps; }

} // namespace lathe::onnx
