// An Explanation for people and for scripts.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/explain.hpp"

namespace lathe::cli {

/// A few lines, each with its end.
std::string text_of(const KernelExplanation& kernel);
std::string text_of(const std::vector<Saving>& savings);
nlohmann::ordered_json json_of(const KernelExplanation& kernel);
nlohmann::ordered_json json_of(const std::vector<Saving>& savings);

} // namespace lathe::cli
