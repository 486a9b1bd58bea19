#include "compile/trace/json_line.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "search/moves/move_text.hpp"

namespace lathe::tracing {
namespace {

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

void append_string(std::string& out, std::string_view any) {
  if (is_plain(any))
    out.append(1, '"').append(any).push_back('"');
  else
    out += nlohmann::json(any).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

void JsonLine::separate() {
  if (follows_) text_.push_back(',');
  follows_ = true;
}

JsonLine& JsonLine::open(char bracket) {
  separate();
  text_.push_back(bracket);
  follows_ = false;
  return *this;
}

JsonLine& JsonLine::close(char bracket) {
  text_.push_back(bracket);
  follows_ = true;
  return *this;
}

JsonLine& JsonLine::key(std::string_view name) {
  separate();
  text_.append(1, '"').append(name).append("\":");
  follows_ = false;
  return *this;
}

JsonLine& JsonLine::number(int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(text_), "{}", value);
  return *this;
}

JsonLine& JsonLine::seconds(double value) {
  separate();
  if (value > 0 && std::isfinite(value))
    fmt::format_to(std::back_inserter(text_), "{:.5g}", value);
  else
    text_.push_back('0');
  return *this;
}

JsonLine& JsonLine::microseconds(double seconds) {
  separate();
  fmt::format_to(std::back_inserter(text_), "{:.6f}", seconds);
  return *this;
}

JsonLine& JsonLine::hash(uint64_t value) {
  separate();
  fmt::format_to(std::back_inserter(text_), "\"{:016x}\"", value);
  return *this;
}

JsonLine& JsonLine::string(std::string_view any) {
  separate();
  append_string(text_, any);
  return *this;
}

JsonLine& JsonLine::moves(const std::vector<search::Move>& moves) {
  open('[');
  for (const search::Move& move : moves) {
    move_text_.clear();
    append(move_text_, move);
    string(move_text_);
  }
  return close(']');
}

} // namespace lathe::tracing
