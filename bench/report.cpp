#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::bench {

Json to_json(const Row& row) {
  Json peers = Json::object();
  for (const PeerTime& peer : row.peers)
    peers[peer.name] = {{"ms", peer.seconds * 1e3}, {"ratio", peer.seconds / row.seconds}};
  Json json = {{"workload", row.workload},
               {"shape", to_string(row.shape)},
               {"dtype", row.dtype},
               {"device", row.device},
               {"threads", row.threads},
               {"tuned", row.tuned},
               {"verified", row.verified},
               {"max_error", row.max_error},
               {"group", row.group},
               {"kernels", row.kernels},
               {"ms", row.seconds * 1e3},
               {"gflops", row.flops / row.seconds * 1e-9},
               {"gbs", row.bytes / row.seconds * 1e-9},
               {"limit", row.limit.kind},
               {"limit_share", row.limit.seconds / row.seconds},
               {"peers", peers}};
  if (row.ops) json["ops"] = row.ops, json["fused_ops"] = row.ops - row.kernels;
  if (row.arena_bytes >= 0) json["arena_bytes"] = row.arena_bytes;
  json.update(row.extra);
  return json;
}

namespace {
/// Columns as wide as their widest cell; the first `left` to the left, the rest to the right.
std::string aligned(const std::vector<std::vector<std::string>>& lines, size_t left) {
  std::vector<size_t> widths(lines.front().size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      if (i) row += "  ";
      row += i < left ? fmt::format("{:<{}}", line[i], widths[i]) : fmt::format("{:>{}}", line[i], widths[i]);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}
} // namespace

std::string table(const std::vector<Row>& rows) {
  std::vector<std::string> peers;
  for (const Row& row : rows)
    for (const PeerTime& peer : row.peers)
      if (std::find(peers.begin(), peers.end(), peer.name) == peers.end()) peers.push_back(peer.name);
  bool arena = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.arena_bytes > 0; });
  std::vector<std::vector<std::string>> lines{
      {"workload", "shape", "schedule", "result", "kernels", "time", "GFLOP/s", "GB/s", "of limit"}};
  if (arena) lines[0].push_back("arena");
  for (const std::string& peer : peers) lines[0].push_back(peer);
  for (const Row& row : rows) {
    std::vector<std::string> line{
        row.workload,
        to_string(row.shape),
        row.tuned ? "tuned" : "untuned",
        row.verified ? "verified" : "WRONG",
        row.ops ? fmt::format("{} of {} ops", row.kernels, row.ops) : std::to_string(row.kernels),
        duration(row.seconds),
        fmt::format("{:.1f}", row.flops / row.seconds * 1e-9),
        fmt::format("{:.1f}", row.bytes / row.seconds * 1e-9),
        fmt::format("{:.0f} % {}", 100 * row.limit.seconds / row.seconds, row.limit.kind)};
    if (arena) line.push_back(row.arena_bytes > 0 ? fmt::format("{:.2f} MB", row.arena_bytes * 1e-6) : "");
    for (const std::string& name : peers) {
      auto peer =
          std::find_if(row.peers.begin(), row.peers.end(), [&](const PeerTime& p) { return p.name == name; });
      line.push_back(peer == row.peers.end()
                         ? ""
                         : fmt::format("{} {:.2f}x", duration(peer->seconds), peer->seconds / row.seconds));
    }
    lines.push_back(line);
  }
  std::string text = aligned(lines, 4);
  if (!peers.empty()) text += "(x: the peer's time divided by lathe's; above 1 lathe is faster)\n";
  return text;
}

} // namespace lathe::bench
