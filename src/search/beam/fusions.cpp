#include "search/beam/fusions.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lathe/error.hpp"

namespace lathe::search {
namespace {

constexpr std::string_view kBetween = "; "; // moves in a line

bool computes(const KernelPlan& kernel, int stage) {
  return std::binary_search(kernel.stages.begin(), kernel.stages.end(), stage);
}

std::string text_of(const std::vector<Move>& moves) {
  std::vector<std::string> texts;
  for (const Move& move : moves) texts.push_back(to_string(move));
  return fmt::format("{}", fmt::join(texts, kBetween));
}

/// How many stages only one of the two lists has.
size_t different(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> rest;
  std::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest.size();
}

bool share_a_stage(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int s) { return std::binary_search(b.begin(), b.end(), s); });
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\t' || c == '\n') c = ' ';
  return text;
}

/// Takes the text before the next tab.
std::string_view take_field(std::string_view& line) {
  const size_t tab = line.find('\t');
  const std::string_view field = line.substr(0, tab);
  line.remove_prefix(tab == std::string_view::npos ? line.size() : tab + 1);
  return field;
}

template <class T> T take_number(std::string_view& text, std::string_view line) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc())
    throw Error(ErrorKind::Syntax, fmt::format("fusion '{}': expected a number at '{}'", line, text));
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::vector<int> take_stages(std::string_view& line, std::string_view whole) {
  std::vector<int> stages;
  for (std::string_view field = take_field(line); !field.empty();) {
    stages.push_back(take_number<int>(field, whole));
    if (!field.empty()) field.remove_prefix(1); // a comma
  }
  return stages;
}

/// The text with the names of stages and inputs in another program's terms.
std::string renamed(const std::string& text, const std::function<BufferHandle(BufferHandle)>& root) {
  std::string out;
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; at < text.size();) {
    const size_t end = static_cast<size_t>(
        std::find_if_not(text.begin() + static_cast<long>(at), text.end(), is_of_name) - text.begin());
    if (end == at) {
      out += text[at++];
      continue;
    }
    const std::string word = text.substr(at, end - at);
    const std::optional<BufferHandle> buffer =
        at == 0 || text[at - 1] != '.' ? parse_buffer(word) : std::nullopt; // not a part of a longer name
    out += buffer ? root(*buffer).name() : word;
    at = end;
  }
  return out;
}

} // namespace

std::string line_of(const TriedFusion& f) {
  return fmt::format("{}{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", kFusionLine, fmt::join(f.reader, ","),
                     fmt::join(f.producer, ","), int{f.legal}, f.apart, f.together, int{f.at_least},
                     int{f.earlier}, text_of(f.moves), one_line(f.reason));
}

TriedFusion parse_fusion(std::string_view line) {
  std::string_view left = line;
  if (!left.starts_with(kFusionLine))
    throw Error(ErrorKind::Syntax, fmt::format("fusion '{}': expected it to begin with 'fusion'", line));
  left.remove_prefix(kFusionLine.size());
  const auto number = [&](auto zero) {
    std::string_view field = take_field(left);
    return take_number<decltype(zero)>(field, line);
  };
  TriedFusion f;
  f.reader = take_stages(left, line);
  f.producer = take_stages(left, line);
  f.legal = number(0) != 0;
  f.apart = number(0.0);
  f.together = number(0.0);
  f.at_least = number(0) != 0;
  f.earlier = number(0) != 0;
  for (std::string_view moves = take_field(left); !moves.empty();) {
    const size_t end = moves.find(kBetween);
    f.moves.push_back(parse_move(moves.substr(0, end)));
    moves.remove_prefix(end == std::string_view::npos ? moves.size() : end + kBetween.size());
  }
  f.reason = left;
  return f;
}

TriedFusion in_terms_of(const TriedFusion& fusion, const std::function<BufferHandle(BufferHandle)>& root) {
  TriedFusion out = fusion;
  for (std::vector<int>* stages : {&out.reader, &out.producer}) {
    for (int& stage : *stages) stage = root(BufferHandle::of_stage(stage)).stage();
    std::sort(stages->begin(), stages->end());
  }
  for (Move& move : out.moves) move = in_terms_of(move, root);
  out.reason = renamed(fusion.reason, root);
  return out;
}

/// Whether a try says more than another one of the same two kernels: it is legal, its loops were searched, it
/// changes fewer kernels, it costs less, its moves are fewer.
bool FusionLog::is_better(const Try& tried, const Try& known) {
  const TriedFusion &a = tried.fusion, &b = known.fusion;
  if (a.legal != b.legal) return a.legal;
  if (a.at_least != b.at_least) return b.at_least;
  if (tried.kernels != known.kernels) return tried.kernels < known.kernels;
  const double more = a.together - a.apart, known_more = b.together - b.apart;
  if (more != known_more) return more < known_more;
  return a.moves.size() < b.moves.size();
}

void FusionLog::add(const Plan& from, const std::vector<size_t>& changed, const Try& tried) {
  for (const size_t r : changed)
    for (const size_t p : changed) {
      const KernelPlan &reader = *from.kernels[r], &producer = *from.kernels[p];
      const auto read = std::find_if(reader.reads.begin(), reader.reads.end(),
                                     [&](int stage) { return r != p && computes(producer, stage); });
      if (read == reader.reads.end()) continue;
      std::vector<Try>& known = tried_[*read];
      const auto same = std::find_if(known.begin(), known.end(), [&](const Try& t) {
        return t.fusion.reader == reader.stages && t.fusion.producer == producer.stages;
      });
      if (same != known.end() && !is_better(tried, *same)) continue;
      Try& kept = same != known.end() ? (*same = tried) : known.emplace_back(tried);
      kept.fusion.reader = reader.stages;
      kept.fusion.producer = producer.stages;
    }
}

void FusionLog::made(const Plan& from, const std::vector<size_t>& replaced, const std::vector<Move>& moves,
                     double apart, double together, bool at_least) {
  if (replaced.size() > 1)
    add(from, replaced, {{{}, {}, moves, true, {}, apart, together, at_least, false}, replaced.size()});
}

void FusionLog::refused(const Plan& from, size_t reader, const std::vector<Move>& moves,
                        const std::string& reason) {
  std::vector<size_t> named{reader};
  for (const Move& move : moves)
    for (size_t k = 0; k < from.kernels.size(); ++k)
      if (computes(*from.kernels[k], stage_of(move)) &&
          std::find(named.begin(), named.end(), k) == named.end())
        named.push_back(k);
  if (named.size() > 1) add(from, named, {{{}, {}, moves, false, reason, 0, 0, false, false}, named.size()});
}

std::vector<TriedFusion> FusionLog::of(const Plan& found) const {
  std::unordered_map<int, std::vector<size_t>> computed_by; // by stage: positions of kernels
  for (size_t k = 0; k < found.kernels.size(); ++k)
    for (const int stage : found.kernels[k]->stages) computed_by[stage].push_back(k);
  std::vector<TriedFusion> fusions;
  for (const KernelPlanRef& reader : found.kernels) {
    std::set<std::pair<size_t, int>> borders; // producers, and the first stage read of each
    for (const int stage : reader->reads)
      for (const size_t producer : computed_by[stage])
        if (const auto next = borders.lower_bound({producer, 0});
            next == borders.end() || next->first != producer)
          borders.emplace(producer, stage);
    for (const auto& [place, stage] : borders) {
      const KernelPlan& producer = *found.kernels[place];
      const Try* best = nullptr;
      size_t best_off = 0; // stages by which the kernels of that try differ
      for (const int read : reader->reads) {
        const auto tries = computes(producer, read) ? tried_.find(read) : tried_.end();
        if (tries == tried_.end()) continue;
        for (const Try& tried : tries->second) {
          if (!share_a_stage(tried.fusion.reader, reader->stages)) continue;
          const size_t off = different(tried.fusion.reader, reader->stages) +
                             different(tried.fusion.producer, producer.stages);
          if (best && (off > best_off || (off == best_off && !is_better(tried, *best)))) continue;
          best = &tried, best_off = off;
        }
      }
      if (!best) continue;
      fusions.push_back(best->fusion);
      fusions.back().earlier = best_off > 0;
      fusions.back().reader = reader->stages;
      fusions.back().producer = producer.stages;
    }
  }
  return fusions;
}

} // namespace lathe::search
