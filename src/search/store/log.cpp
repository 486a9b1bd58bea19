#include "search/store/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files.hpp"

namespace lathe::search {
namespace {

using nlohmann::json;

std::string hex(uint64_t v) {
  static const char digits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, v >>= 4) text[i] = digits[v & 15];
  return text;
}

uint64_t parse_hex(const std::string& text) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Error(ErrorKind::Syntax, "a hash is '" + text + "', expected 16 hexadecimal digits");
  return std::stoull(text, nullptr, 16);
}

double seconds_of(const json& object, const char* key) {
  const double seconds = object.at(key).get<double>();
  if (!std::isfinite(seconds) || seconds < 0)
    throw Error(ErrorKind::Syntax, std::string(key) + " is not a time, expected seconds of at least 0");
  return seconds;
}

} // namespace

std::string to_json_line(const LogRecord& record) {
  json object;
  object["kind"] = record.kind == LogRecord::Kind::Plan ? "plan" : "candidate";
  object["program"] = hex(record.program);
  object["kernel"] = hex(record.kernel);
  object["fingerprint"] = record.fingerprint;
  object["device"] = record.device;
  json& moves = object["moves"] = json::array();
  for (const Move& move : record.moves) moves.push_back(to_string(move));
  object["predicted"] = record.predicted;
  object["measured"] = record.measured;
  if (!record.error.empty()) object["error"] = record.error;
  if (!record.label.empty()) object["label"] = record.label;
  if (!record.rejected.empty()) object["rejected"] = record.rejected;
  // A compiler's message may hold any bytes: replace what is not UTF-8 rather than throw.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

LogRecord parse_log_line(const std::string& line) {
  try {
    const json object = json::parse(line);
    LogRecord record;
    const std::string kind = object.at("kind").get<std::string>();
    if (kind != "plan" && kind != "candidate")
      throw Error(ErrorKind::Syntax, "kind is '" + kind + "', expected plan or candidate");
    record.kind = kind == "plan" ? LogRecord::Kind::Plan : LogRecord::Kind::Candidate;
    record.program = parse_hex(object.at("program").get<std::string>());
    record.kernel = parse_hex(object.at("kernel").get<std::string>());
    record.fingerprint = object.at("fingerprint").get<std::string>();
    record.device = object.at("device").get<std::string>();
    if (!object.at("moves").is_array())
      throw Error(ErrorKind::Syntax, "moves are not a list, expected one of texts");
    for (const json& move : object.at("moves")) record.moves.push_back(parse_move(move.get<std::string>()));
    record.predicted = seconds_of(object, "predicted");
    record.measured = seconds_of(object, "measured");
    if (object.contains("error")) record.error = object.at("error").get<std::string>();
    if (object.contains("label")) record.label = object.at("label").get<std::string>();
    if (object.contains("rejected"))
      record.rejected = object.at("rejected").get<std::map<std::string, int64_t>>();
    return record;
  } catch (const json::exception& e) {
    throw Error(ErrorKind::Syntax,
                std::string("not a log record (") + e.what() + "), expected a JSON object");
  }
}

LogContents read_log(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  LogContents contents;
  std::string line;
  // A directory opens but doesn't read: look before asking whether there is a line.
  if (!in || (in.peek(), in.bad()))
    throw Error(ErrorKind::File, path + ": can't be read, expected a tuning log");
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    try {
      contents.records.push_back(parse_log_line(line));
    } catch (const Error& e) {
      contents.damaged.push_back(
          {number, Error(e.kind(), path + ":" + std::to_string(number) + ": " + e.what())});
    }
  }
  // The file is faulty or memory is short for a line: this is not the end of the log.
  if (in.bad()) throw Error(ErrorKind::File, path + ": can't be read to its end, expected a tuning log");
  return contents;
}

void append_log(const std::string& path, const LogRecord& record) {
  make_parent_dir(path);
  std::string line = to_json_line(record) + "\n";
  const int file = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  // A stopped writer may have left half a line. A newline keeps it from spoiling this one.
  char last = '\n';
  if (file >= 0 && ::lseek(file, -1, SEEK_END) >= 0 && ::read(file, &last, 1) == 1 && last != '\n')
    line.insert(0, 1, '\n');
  const bool written =
      file >= 0 && ::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (file >= 0) ::close(file);
  if (!written)
    throw Error(ErrorKind::File, path + ": can't be appended to, expected a file that can be written");
}

std::optional<LogRecord> best_plan(const std::vector<LogRecord>& records, uint64_t program) {
  const LogRecord* best = nullptr;
  const auto rank = [](const LogRecord& r) {
    return std::pair(r.measured > 0 ? 0 : 1, r.measured > 0 ? r.measured : r.predicted);
  };
  for (const LogRecord& r : records)
    if (r.kind == LogRecord::Kind::Plan && r.program == program && r.error.empty() &&
        (!best || rank(r) < rank(*best)))
      best = &r;
  return best ? std::optional(*best) : std::nullopt;
}

} // namespace lathe::search
