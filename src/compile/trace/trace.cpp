#include "compile/trace/trace.hpp"

#include <cmath>
#include <ctime>
#include <unistd.h>

#include <fmt/format.h>

#include "compile/trace/trace_state.hpp"
#include "search/machine/profile.hpp"

namespace lathe::tracing {

constexpr int kVersion = 1;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

double rounded(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return 0;
  return std::stod(fmt::format("{:.4e}", seconds));
}

Json texts_of(const Shape& shape) {
  Json texts = Json::array();
  for (const Expr size : shape) texts.push_back(to_string(size));
  return texts;
}

Json texts_of(const std::vector<search::Move>& moves) {
  Json texts = Json::array();
  for (const search::Move& move : moves) texts.push_back(to_string(move));
  return texts;
}

Json terms_of(const search::Cost& cost) {
  Json terms = Json::object();
  for (const search::CostTerm& term : cost.terms) terms[term.name] = rounded(term.seconds);
  return terms;
}

Json Trace::State::record(const char* kind) const {
  Json record;
  record["k"] = kind;
  record["c"] = compilation;
  record["t"] = std::round(now() * 1e6) / 1e6;
  return record;
}

void Trace::State::write(const Json& record) {
  // Names and a compiler's messages may hold any bytes: replace what is not UTF-8 rather than throw.
  file.add(record.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string fields_text(const Json& record) {
  const std::string text = record.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

JsonLine Trace::State::line(const char* kind, double now) {
  JsonLine line(line_text);
  line.open('{').key("k").string(kind).key("c").string(compilation).key("t").microseconds(now);
  return line;
}

void Trace::State::write_line(JsonLine& line) {
  line.close('}');
  file.add(line_text);
}

std::string_view Trace::State::text_of(std::string_view move) {
  constexpr size_t kMost = 8192; // moves; a search that has more has less use for them
  if (const auto known = move_texts.find(move); known != move_texts.end()) return known->second;
  if (move_texts.size() >= kMost) move_texts.clear();
  std::string text;
  JsonLine(text).move(search::move_of(move));
  return move_texts.emplace(std::string(move), std::move(text)).first->second;
}

constexpr size_t kToldAtOnce = 32 << 10; // bytes of a search's records that become text together

Trace::Trace(std::unique_ptr<State> state) : SearchRecorder(state->began), state_(std::move(state)) {}
Trace::~Trace() { write_told(); }

void Trace::told(bool all) {
  if (all || log_.bytes().size() >= kToldAtOnce) write_told();
}

std::shared_ptr<Trace> Trace::open(const CompileOptions& options) {
  static std::atomic<int> compilations = 0;
  if (options.trace.empty()) return nullptr;
  auto state = std::make_unique<State>(options.trace);
  // Other processes may append to the same file.
  state->compilation = fmt::format("{}.{}", ::getpid(), ++compilations);
  Json begin = state->record("trace");
  begin["version"] = kVersion;
  begin["lathe"] = LATHE_VERSION;
  begin["date"] = static_cast<int64_t>(std::time(nullptr));
  static const std::string machine = search::machine_fingerprint();
  begin["machine"] = machine;
  begin["device"] = options.device;
  begin["cpu"] = options.cpu;
  begin["threads"] = options.threads;
  state->write(begin);
  return std::shared_ptr<Trace>(new Trace(std::move(state)));
}

double Trace::now() const { return state_->now(); }

void Trace::pass(const std::string& name, double start) {
  Json record = state_->record("pass");
  record["name"] = name;
  record["start"] = rounded(start);
  record["seconds"] = rounded(now() - start);
  state_->write(record);
}

void Trace::flush() {
  write_told();
  state_->file.flush();
}

} // namespace lathe::tracing
