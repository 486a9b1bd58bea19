#include "comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lathe::bench {

namespace {
/// Adds a ratio to the mean named so, which holds the sum of logarithms until `finish`.
void add(std::vector<Mean>& means, const std::string& peer, double ratio) {
  auto found = std::find_if(means.begin(), means.end(), [&](const Mean& m) { return m.peer == peer; });
  if (found == means.end()) found = means.insert(means.end(), {peer, 0, 0});
  found->ratio += std::log(ratio);
  ++found->rows;
}
void finish(Mean& mean) {
  mean.ratio = std::exp(mean.ratio / static_cast<double>(std::max<size_t>(mean.rows, 1)));
}

std::string name_of(const Row& row) { return row.workload + " " + to_string(row.shape); }

std::vector<Row> rows_of(const std::vector<Row>& rows, const std::string& group) {
  std::vector<Row> found;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(found),
               [&](const Row& r) { return r.group == group; });
  return found;
}

std::string text(const Summary& summary) {
  if (!summary.worst) return fmt::format("{}: no peer\n", summary.group);
  const PeerTime& rival = *best_peer(*summary.worst);
  std::string text = fmt::format("{}: {:.2f} of the best peer over {} rows; worst {:.2f}, {} against {}\n",
                                 summary.group, summary.best.ratio, summary.best.rows,
                                 rival.seconds / summary.worst->seconds, name_of(*summary.worst), rival.name);
  for (const Mean& mean : summary.peers)
    text += fmt::format("  {:.2f} of {}{}\n", mean.ratio, mean.peer,
                        mean.rows < summary.best.rows ? fmt::format(" ({} rows)", mean.rows) : "");
  return text;
}
} // namespace

const PeerTime* best_peer(const Row& row) {
  auto best = std::min_element(row.peers.begin(), row.peers.end(),
                               [](const PeerTime& a, const PeerTime& b) { return a.seconds < b.seconds; });
  return best == row.peers.end() ? nullptr : &*best;
}

std::vector<Summary> summarise(const std::vector<Row>& rows) {
  std::vector<Summary> summaries;
  for (const Row& row : rows) {
    auto found = std::find_if(summaries.begin(), summaries.end(),
                              [&](const Summary& s) { return s.group == row.group; });
    if (found == summaries.end())
      found = summaries.insert(summaries.end(), {row.group, {"", 0, 0}, nullptr, {}});
    const PeerTime* best = best_peer(row);
    if (!best) continue;
    double ratio = best->seconds / row.seconds;
    if (!found->worst || ratio < best_peer(*found->worst)->seconds / found->worst->seconds)
      found->worst = &row;
    found->best.ratio += std::log(ratio);
    ++found->best.rows;
    for (const PeerTime& peer : row.peers) add(found->peers, peer.name, peer.seconds / row.seconds);
  }
  for (Summary& summary : summaries) {
    finish(summary.best);
    for (Mean& mean : summary.peers) finish(mean);
  }
  return summaries;
}

std::string comparison_text(const std::vector<Row>& rows) {
  std::string tables, sums;
  for (const Summary& summary : summarise(rows)) {
    tables += summary.group + "\n" + table(rows_of(rows, summary.group)) + "\n";
    sums += text(summary);
  }
  int threads = rows.empty() ? 1 : rows.front().threads;
  return tables +
         fmt::format("speed of lathe on {} thread{}, geometric means: above 1 lathe is faster\n", threads,
                     threads > 1 ? "s" : "") +
         sums;
}

Json comparison_json(const std::vector<Row>& rows) {
  Json json = {{"rows", Json::array()}, {"groups", Json::array()}};
  for (const Row& row : rows) json["rows"].push_back(to_json(row));
  for (const Summary& summary : summarise(rows)) {
    Json group = {{"group", summary.group}, {"rows", summary.best.rows}};
    if (summary.worst) {
      group["ratio_to_best"] = summary.best.ratio;
      group["worst"] = {{"row", name_of(*summary.worst)},
                        {"peer", best_peer(*summary.worst)->name},
                        {"ratio", best_peer(*summary.worst)->seconds / summary.worst->seconds}};
    }
    group["peers"] = Json::object();
    for (const Mean& mean : summary.peers)
      group["peers"][mean.peer] = {{"ratio", mean.ratio}, {"rows", mean.rows}};
    json["groups"].push_back(group);
  }
  return json;
}

} // namespace lathe::bench
