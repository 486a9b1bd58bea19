// Explanations as text and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "compile/explain/duration.hpp"
#include "lathe/error.hpp"
#include "lathe/explain.hpp"

namespace lathe {

using pipeline::duration;

std::string pipeline::duration(double seconds) {
  if (seconds <= 0) return "-";
  const char* unit = "s";
  if (seconds < 1e-6)
    seconds *= 1e9, unit = "ns";
  else if (seconds < 1e-3)
    seconds *= 1e6, unit = "us";
  else if (seconds < 1)
    seconds *= 1e3, unit = "ms";
  return fmt::format("{:.{}f} {}", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0, unit);
}

namespace {

using Json = nlohmann::ordered_json;

/// What was predicted of the moves, and what followed from it.
std::string outcome_of(const KernelBorder& border) {
  const bool by_search = border.tried == KernelBorder::Tried::BySearch;
  const std::string times = fmt::format("{}{} in place of {}", border.at_least ? "at least " : "",
                                        duration(border.together), duration(border.apart));
  if (border.at_least) return times + ", whatever the loops; so it kept them apart";
  if (border.together >= border.apart)
    return times + (by_search ? ", so it kept them apart" : ", so the model keeps them apart");
  return times +
         (by_search ? "; it went on from a plan that was better" : ", so the model would now fuse them");
}

std::string text_of(const KernelBorder& border) {
  const std::string begin = fmt::format("  apart from {}, whose {} it reads: ", border.other, border.stage);
  switch (border.tried) {
  case KernelBorder::Tried::BySearch:
    return begin + (border.earlier ? "in an earlier plan, the search tried " : "the search tried ") +
           (border.legal ? border.moves + ": " + outcome_of(border)
                         : "a fusion, not legal: " + border.reason) +
           "\n";
  case KernelBorder::Tried::Again:
    return begin + (border.legal ? border.moves + " would take " + outcome_of(border) : border.reason) + "\n";
  case KernelBorder::Tried::Never:
    return begin + "the search never tried to fuse them" +
           (border.reason.empty() ? "" : ": " + border.reason) + "\n";
  }
  throw InternalError("a border of no kind");
}

const char* word_of(KernelBorder::Tried tried) {
  switch (tried) {
  case KernelBorder::Tried::BySearch: return "search";
  case KernelBorder::Tried::Again: return "again";
  case KernelBorder::Tried::Never: return "never";
  }
  throw InternalError("a border of no kind");
}

/// Names and messages may hold any bytes: what is not UTF-8 is replaced.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const KernelExplanation& k) {
  Json terms = Json::object(), borders = Json::array();
  for (const auto& [name, seconds] : k.terms) terms[name] = seconds;
  for (const KernelBorder& b : k.borders) {
    Json border{{"other", b.other},
                {"reads", b.stage},
                {"moves", b.moves},
                {"legal", b.legal},
                {"tried", word_of(b.tried)}};
    if (!b.reason.empty()) border["reason"] = b.reason;
    if (b.legal && b.tried != KernelBorder::Tried::Never)
      border["apart"] = b.apart, border["together"] = b.together, border["at_least"] = b.at_least;
    if (b.earlier) border["earlier"] = true;
    borders.push_back(std::move(border));
  }
  return {{"kernel", k.name},
          {"computes", k.stages},
          {"predicted", k.predicted},
          {"measured", k.measured > 0 ? Json(k.measured) : Json()},
          {"terms", terms},
          {"limit", k.limit},
          {"bound", k.bound},
          {"borders", borders},
          {"best_moves", k.best_moves},
          {"with_best_moves", k.best_moves.empty() ? Json() : Json(k.with_best_moves)}};
}

} // namespace

std::string to_string(const KernelExplanation& k) {
  std::string out =
      fmt::format("{}: predicted {}, {}; computes {}\n", k.name, duration(k.predicted),
                  k.measured > 0 ? "measured " + duration(k.measured) : "not measured", k.stages);
  for (const auto& [name, seconds] : k.terms)
    out += fmt::format("  {:<16} {:>10} {:>5.0f} %\n", name, duration(seconds),
                       k.predicted > 0 ? 100 * seconds / k.predicted : 0);
  const auto most = std::max_element(k.terms.begin(), k.terms.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != k.terms.end()) out += fmt::format("  bound by '{}' as scheduled", most->first);
  if (k.limit > 0)
    out += fmt::format("; the machine's {} needs {} at least: {:.1f} times that", k.bound, duration(k.limit),
                       k.seconds() / k.limit);
  out += "\n";
  if (!k.borders.empty() && k.borders[0].tried == KernelBorder::Tried::Again)
    out += "  no search found this plan here; fusions tried now, by the model, with the loops of a quick "
           "search:\n";
  for (const KernelBorder& border : k.borders) out += text_of(border);
  if (!k.best_moves.empty())
    out += fmt::format("  the model's next move: {}, to {}\n", k.best_moves, duration(k.with_best_moves));
  return out;
}

std::string to_string(const std::vector<Saving>& savings) {
  if (savings.empty()) return "nothing is known that would save time\n";
  std::string out = "what would save most:\n";
  for (const Saving& saving : savings)
    out += fmt::format("  {:>10}  {}\n", duration(saving.seconds), saving.what);
  return out;
}

std::string to_json(const std::vector<KernelExplanation>& kernels) {
  Json out = Json::array();
  for (const KernelExplanation& kernel : kernels) out.push_back(json_of(kernel));
  return text_of(out);
}

std::string to_json(const std::vector<Saving>& savings) {
  Json out = Json::array();
  for (const Saving& saving : savings) out.push_back({{"seconds", saving.seconds}, {"what", saving.what}});
  return text_of(out);
}

} // namespace lathe
