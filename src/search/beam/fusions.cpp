#include "search/beam/fusions.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "core/hash.hpp"
#include "lathe/error.hpp"
#include "search/store/database.hpp"

namespace lathe::search {
namespace {

bool computes(const KernelPlan& kernel, int stage) {
  return std::binary_search(kernel.stages.begin(), kernel.stages.end(), stage);
}

bool reads_of(const KernelPlan& reader, const KernelPlan& producer) {
  return std::any_of(reader.reads.begin(), reader.reads.end(),
                     [&](int stage) { return computes(producer, stage); });
}

std::string text_of(const std::vector<Move>& moves) {
  std::vector<std::string> texts;
  for (const Move& move : moves) texts.push_back(to_string(move));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// Texts of one program in the names of another.
class Renaming {
public:
  /// If all names are the same ones, no text changes.
  void add(BufferHandle from, BufferHandle to) {
    names_.emplace(from.name(), to.name());
    changes_ |= from != to;
  }
  /// A stage that has no name there becomes "t?": its number is that of some other stage.
  std::string of(const std::string& text) const {
    if (!changes_) return text;
    std::string out;
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
        ++end;
      if (end == at) {
        out += text[at++];
        continue;
      }
      const std::string word = text.substr(at, end - at);
      const auto known = names_.find(word);
      const bool is_root = at == 0 || text[at - 1] != '.';
      out += !is_root ? word : known != names_.end() ? known->second : parse_stage(word) ? "t?" : word;
      at = end;
    }
    return out;
  }

private:
  std::map<std::string, std::string> names_;
  bool changes_ = false;
};

/// By the program and the stages, whatever the loops.
uint64_t key_of_stages(uint64_t program, const KernelPlan& kernel) {
  uint64_t h = mix(hash_text("stages"), program);
  for (const int stage : kernel.stages) h = mix(h, static_cast<uint64_t>(stage));
  h = mix(h, hash_text("inlined"));
  for (const int stage : kernel.inlined) h = mix(h, static_cast<uint64_t>(stage));
  return h;
}

/// What the plan's kernel calls that which its partition's kernel calls `name`. Empty if it has no such
/// thing.
BufferHandle in_kernel(const std::vector<BufferHandle>& after, BufferHandle name,
                       const std::vector<BufferHandle>& now) {
  if (after.empty()) return std::find(now.begin(), now.end(), name) != now.end() ? name : BufferHandle();
  const auto at = static_cast<size_t>(std::find(after.begin(), after.end(), name) - after.begin());
  return at < after.size() && at < now.size() ? now[at] : BufferHandle();
}

uint64_t key_of_border(uint64_t reader, uint64_t producer, size_t parameter) {
  return mix(mix(reader, producer), parameter);
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

} // namespace

std::string line_of(const TriedFusion& f) {
  return fmt::format("{}{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", kFusionLine, fmt::join(f.reader, ","),
                     fmt::join(f.producer, ","), int{f.legal}, f.apart, f.together, int{f.at_least},
                     one_line(f.moves), one_line(f.reason));
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
  f.moves = take_field(left);
  f.reason = left;
  return f;
}

FusionLog::Names FusionLog::names_of(const Plan& plan, const KernelPlan& kernel) {
  Names names;
  for (const ast::Param& param : kernel.kernel.params)
    names.push_back(handle_of(*plan.program, kernel.handles, *param.buffer));
  for (const int stage : kernel.stages) names.push_back(BufferHandle::of_stage(stage));
  return names;
}

void FusionLog::add(const Plan& from, const std::vector<size_t>& changed, const Try& tried) {
  const auto is_better = [&](const Try& known) {
    if (tried.legal != known.legal) return tried.legal;
    if (tried.at_least != known.at_least) return known.at_least;
    if (tried.kernels != known.kernels) return tried.kernels < known.kernels;
    const double more = tried.together - tried.apart, known_more = known.together - known.apart;
    if (more != known_more) return more < known_more;
    if (tried.moves.size() != known.moves.size()) return tried.moves.size() < known.moves.size();
    return tried.moves != known.moves && text_of(tried.moves) < text_of(known.moves);
  };
  for (const size_t r : changed)
    for (const size_t p : changed) {
      const KernelPlan &reader = *from.kernels[r], &producer = *from.kernels[p];
      if (r == p || !reads_of(reader, producer)) continue;
      const Names names = names_of(from, reader);
      const auto parameter = std::find_if(names.begin(), names.end(), [&](BufferHandle name) {
        return name.is_stage() && computes(producer, name.stage());
      });
      const uint64_t key =
          key_of_border(reader.hash, producer.hash, static_cast<size_t>(parameter - names.begin()));
      const std::lock_guard lock(mutex_);
      const auto known = tried_.find(key);
      if (known != tried_.end() && !is_better(known->second)) continue;
      Try& kept = tried_.insert_or_assign(key, tried).first->second;
      kept.reader = names;
      kept.producer = names_of(from, producer);
    }
}

void FusionLog::made(const Plan& from, const std::vector<size_t>& replaced, const std::vector<Move>& moves,
                     double apart, double together, bool at_least) {
  add(from, replaced, {moves, true, {}, apart, together, at_least, replaced.size(), {}, {}});
}

void FusionLog::refused(const Plan& from, size_t reader, const std::vector<Move>& moves,
                        const std::string& reason) {
  std::vector<size_t> named{reader};
  for (const Move& move : moves)
    for (size_t k = 0; k < from.kernels.size(); ++k)
      if (computes(*from.kernels[k], stage_of(move)) &&
          std::find(named.begin(), named.end(), k) == named.end())
        named.push_back(k);
  if (named.size() > 1) add(from, named, {moves, false, reason, 0, 0, false, named.size(), {}, {}});
}

void FusionLog::ends(const std::vector<const Plan*>& partitions, const Plan& found, bool by_stages) {
  const uint64_t program = by_stages ? program_hash(*found.program) : 0;
  const std::lock_guard lock(mutex_);
  for (const Plan* partition : partitions)
    for (const KernelPlanRef& before : partition->kernels) {
      if (by_stages)
        scheduled_[key_of_stages(program, *before)].emplace(
            before->hash, Scheduled{before->hash, names_of(*partition, *before), {}});
      for (const KernelPlanRef& after : found.kernels)
        if (after->stages == before->stages && after->inlined == before->inlined)
          scheduled_[after->hash].emplace(
              before->hash, Scheduled{before->hash, names_of(*partition, *before), names_of(found, *after)});
    }
}

/// What is known of how the kernel was made; by its loops, or else by its stages.
std::vector<const FusionLog::Scheduled*> FusionLog::scheduled(uint64_t program,
                                                              const KernelPlan& kernel) const {
  std::vector<const Scheduled*> all;
  for (const uint64_t key : {kernel.hash, key_of_stages(program, kernel)})
    if (const auto known = scheduled_.find(key); known != scheduled_.end())
      for (const auto& [partition, one] : known->second) all.push_back(&one);
  return all;
}

std::optional<TriedFusion> FusionLog::border(const Side& reader, const Side& producer) const {
  for (const Scheduled* r : reader.known)
    for (const Scheduled* p : producer.known) {
      // The first parameter of the partition's kernel that the producer computes.
      size_t parameter = 0;
      for (; parameter < r->before.size(); ++parameter)
        if (const BufferHandle now = in_kernel(r->after, r->before[parameter], reader.names);
            now && now.is_stage() && computes(*producer.kernel, now.stage()))
          break;
      const auto found = tried_.find(key_of_border(r->partition, p->partition, parameter));
      if (found == tried_.end()) continue;
      const Try& tried = found->second;
      Renaming renaming;
      const auto rename = [&](const Names& names, const Scheduled& of, const Side& side) {
        for (size_t i = 0; i < names.size() && i < of.before.size(); ++i)
          if (const BufferHandle now = in_kernel(of.after, of.before[i], side.names))
            renaming.add(names[i], now);
      };
      rename(tried.reader, *r, reader);
      rename(tried.producer, *p, producer);
      return TriedFusion{reader.kernel->stages,
                         producer.kernel->stages,
                         renaming.of(text_of(tried.moves)),
                         tried.legal,
                         renaming.of(tried.reason),
                         tried.apart,
                         tried.together,
                         tried.at_least};
    }
  return {};
}

std::vector<TriedFusion> FusionLog::of(const Plan& plan) const {
  const uint64_t program = program_hash(*plan.program);
  const std::lock_guard lock(mutex_);
  std::vector<Side> sides;
  std::unordered_map<int, std::vector<size_t>> computed_by; // by stage: positions in `sides`
  for (const KernelPlanRef& kernel : plan.kernels) {
    for (const int stage : kernel->stages) computed_by[stage].push_back(sides.size());
    sides.push_back({kernel.get(), names_of(plan, *kernel), scheduled(program, *kernel)});
  }
  std::vector<TriedFusion> fusions;
  for (const Side& reader : sides) {
    std::set<size_t> producers;
    for (const int stage : reader.kernel->reads)
      for (const size_t producer : computed_by[stage]) producers.insert(producer);
    for (const size_t producer : producers)
      if (std::optional<TriedFusion> found = border(reader, sides[producer]))
        fusions.push_back(std::move(*found));
  }
  return fusions;
}

} // namespace lathe::search
