// Explanations as text and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "compile/explain/duration.hpp"
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

std::string text_of(const KernelBorder& border) {
  const std::string begin = fmt::format("  apart from {}, whose {} it reads: ", border.other, border.stage);
  if (!border.legal) return begin + border.reason + "\n";
  return begin + fmt::format("{} would take {} in place of {}, {}\n", border.moves, duration(border.together),
                             duration(border.apart),
                             border.together < border.apart ? "so the model would now fuse them"
                                                            : "so the model keeps them apart");
}

/// Names and messages may hold any bytes: what is not UTF-8 is replaced.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const KernelExplanation& k) {
  Json terms = Json::object(), borders = Json::array();
  for (const auto& [name, seconds] : k.terms) terms[name] = seconds;
  for (const KernelBorder& b : k.borders) {
    Json border{{"other", b.other}, {"reads", b.stage}, {"moves", b.moves}, {"legal", b.legal}};
    if (b.legal)
      border["apart"] = b.apart, border["together"] = b.together;
    else
      border["reason"] = b.reason;
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
  if (!k.borders.empty())
    out += "  fusions tried again now, by the model, with the loops of a quick search:\n";
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
