// What a search told, as lines. A state is written when it is made, as long as there are few, and else when
// it matters: when it is kept, measured or searched from.
#include "compile/trace/search_recorder.hpp"
#include "compile/trace/trace_state.hpp"
#include "core/hash.hpp"

namespace lathe::tracing {
namespace {

constexpr int64_t kSiblings = 20'000; // states written as they are made; later ones only if they matter
constexpr int64_t kRefusals = 20'000; // proposals written that are not legal; later ones are counted

void skip_moves(ByteReader& from) {
  search::take_moves(from, [](std::string_view) {});
}

void write_stages(JsonLine& line, ByteReader& from) {
  line.key("stages").open('[');
  for (auto left = from.take<uint32_t>(); left > 0; --left) line.number(from.take<int>());
  line.close(']');
}

void write_terms(JsonLine& line, ByteReader& from) {
  line.open('{');
  for (auto left = from.take<uint32_t>(); left > 0; --left) {
    line.key(from.text());
    line.seconds(from.take<double>());
  }
  line.close('}');
}

void skip_terms(ByteReader& from) {
  for (auto left = from.take<uint32_t>(); left > 0; --left) from.text(), from.take<double>();
}

/// The bytes that `skip` goes over.
template <class Skip> std::string_view bytes_of(ByteReader& from, Skip skip) {
  const std::string_view begin = from.left();
  skip(from);
  return begin.substr(0, begin.size() - from.left().size());
}

/// Adds a count, if there is something to count.
void write_count(JsonLine& line, const char* name, int64_t count) {
  if (count) line.key(name).number(count);
}

} // namespace

/// Writes the records of a log. One line at a time is begun; its parts follow the order of docs/trace.md.
class SearchWriter {
public:
  SearchWriter(Trace::State& state, std::string_view log) : state_(state), log_(log) {}
  void write() {
    while (!log_.done()) {
      const Told kind = log_.take<Told>();
      now_ = log_.take<double>();
      switch (kind) {
      case Told::Program: program(); break;
      case Told::Begins: begins(); break;
      case Told::Ends: ends(); break;
      case Told::Plan: plan(); break;
      case Told::Plans: plans(); break;
      case Told::KeptPlans: kept_plans(); break;
      case Told::Root: root(); break;
      case Told::Kernels: kernels(); break;
      case Told::KeptKernels: kept_kernels(); break;
      case Told::Measured: measured(); break;
      }
    }
  }

private:
  using State = Trace::State;
  void write_moves(JsonLine& line, ByteReader& from) {
    line.open('[');
    search::take_moves(from, [&](std::string_view bytes) { line.fields(state_.text_of(bytes)); });
    line.close(']');
  }
  uint64_t key(uint64_t hash) const { return mix(state_.open.back().program, hash); }
  JsonLine in_search(const char* kind) {
    JsonLine line = state_.line(kind, now_);
    line.key("search").number(state_.open.back().id);
    return line;
  }

  void program() {
    const auto hash = log_.take<uint64_t>();
    state_.program(hash, log_.text(), now_);
  }
  void begins() {
    const auto hash = log_.take<uint64_t>();
    JsonLine line = state_.line("search", now_);
    line.key("program").number(state_.programs.at(hash)).key("id").number(state_.searches);
    line.key("in").number(state_.open.empty() ? -1 : state_.open.back().id).key("start");
    write_moves(line, log_);
    line.key("measures").fields(log_.take<bool>() ? "true" : "false");
    state_.write_line(line);
    state_.open.push_back({state_.searches++, hash});
  }
  void ends() {
    JsonLine line = in_search("found");
    line.key("moves");
    write_moves(line, log_);
    line.key("predicted").seconds(log_.take<double>());
    line.key("measured").seconds(log_.take<double>());
    line.key("hash").hash(log_.take<uint64_t>());
    state_.write_line(line);
    state_.open.pop_back();
  }

  void plan() {
    const std::string_view moves = bytes_of(log_, skip_moves);
    const auto seconds = log_.take<double>();
    const auto hash = log_.take<uint64_t>();
    const auto [known, is_new] = state_.plans.try_emplace(key(hash));
    if (!is_new) return;
    known->second.id = state_.states++;
    JsonLine line = in_search("plan");
    line.key("id").number(known->second.id).key("moves");
    ByteReader reader(moves);
    write_moves(line, reader);
    line.key("seconds").seconds(seconds).key("hash").hash(hash);
    state_.write_line(line);
  }
  void root() {
    const auto hash = log_.take<uint64_t>(), plan = log_.take<uint64_t>();
    const auto seconds = log_.take<double>();
    const auto [known, is_new] = state_.kernels.try_emplace(key(hash));
    if (is_new) known->second.id = state_.states++;
    JsonLine line = in_search("root");
    line.key("id").number(known->second.id).key("plan").hash(plan); // the plan's record may follow
    write_stages(line, log_);
    line.key("seconds").seconds(seconds).key("hash").hash(hash);
    if (is_new) state_.write_line(line);
  }

  /// Writes the proposals that a record of kind `plans` or `kernels` is about, and ends its line.
  void proposals(JsonLine& line, std::string_view tried, bool are_plans, int64_t parent) {
    int64_t same = 0, more_made = 0;
    refused_.clear();
    line.key("made").open('[');
    for (ByteReader reader(tried); !reader.done();) {
      if (!reader.take<bool>()) {
        const std::string_view refusal = bytes_of(reader, [](ByteReader& r) { skip_moves(r), r.text(); });
        refused_.push_back(refusal);
        continue;
      }
      const auto hash = reader.take<uint64_t>();
      const auto seconds = reader.take<double>();
      const auto [known, is_new] = (are_plans ? state_.plans : state_.kernels).try_emplace(key(hash));
      same += !is_new;
      const bool is_written = is_new && (are_plans || state_.siblings++ < kSiblings);
      if (is_new) known->second.id = state_.states++;
      if (is_written) {
        line.open('[').number(known->second.id);
        write_moves(line, reader);
        line.seconds(seconds).hash(hash);
        if (const std::string_view reason = reader.text(); !reason.empty()) line.string(reason);
        line.close(']');
        continue;
      }
      const std::string_view moves = bytes_of(reader, skip_moves);
      reader.text();
      if (!is_new) continue;
      known->second.waiting = static_cast<int64_t>(state_.waiting.size());
      state_.waiting.push_back({parent, seconds, hash, std::string(moves)});
      ++more_made;
    }
    line.close(']');
    const auto room = std::min<int64_t>(static_cast<int64_t>(refused_.size()),
                                        std::max<int64_t>(0, kRefusals - state_.refusals));
    if (room > 0) line.key("refused").open('[');
    for (int64_t k = 0; k < room; ++k) {
      ByteReader reader(refused_[static_cast<size_t>(k)]);
      line.open('[');
      write_moves(line, reader);
      line.string(reader.text()).close(']');
    }
    if (room > 0) line.close(']');
    state_.refusals += room;
    write_count(line, "same", same);
    write_count(line, "more_made", more_made);
    write_count(line, "more_refused", static_cast<int64_t>(refused_.size()) - room);
    state_.write_line(line);
  }
  void plans() {
    const auto from = log_.take<uint64_t>();
    const std::string_view tried = log_.text();
    const int64_t id = state_.plans.at(key(from)).id;
    JsonLine line = in_search("plans");
    line.key("from").number(id);
    proposals(line, tried, true, id);
  }
  void kernels() {
    const auto from = log_.take<uint64_t>();
    const std::string_view tried = log_.text();
    const auto parent = state_.kernels.find(key(from));
    if (parent == state_.kernels.end()) return;
    write_late(parent->second);
    const int64_t id = parent->second.id;
    JsonLine line = state_.line("kernels", now_);
    line.key("from").number(id);
    proposals(line, tried, false, id);
  }

  void kept_plans() {
    JsonLine line = in_search("kept");
    line.key("ids").open('[');
    for (auto left = log_.take<uint32_t>(); left > 0; --left)
      if (const auto known = state_.plans.find(key(log_.take<uint64_t>())); known != state_.plans.end())
        line.number(known->second.id);
    line.close(']');
    state_.write_line(line);
  }
  void kept_kernels() {
    std::vector<std::pair<int64_t, std::string_view>> kept; // ids, and their terms
    for (auto left = log_.take<uint32_t>(); left > 0; --left) {
      const auto known = state_.kernels.find(key(log_.take<uint64_t>()));
      const std::string_view terms = bytes_of(log_, skip_terms);
      if (known == state_.kernels.end()) continue;
      write_late(known->second);
      kept.emplace_back(known->second.id, terms);
    }
    JsonLine line = in_search("kept");
    line.key("ids").open('[');
    for (const auto& [id, terms] : kept) line.number(id);
    line.close(']').key("terms").open('[');
    for (const auto& [id, terms] : kept) {
      ByteReader reader(terms);
      write_terms(line, reader);
    }
    line.close(']');
    state_.write_line(line);
  }
  void measured() {
    const auto known = state_.kernels.find(key(log_.take<uint64_t>()));
    const bool is_known = known != state_.kernels.end();
    if (is_known) write_late(known->second);
    JsonLine line = in_search("measured");
    line.key("id").number(is_known ? known->second.id : -1);
    line.key("predicted").seconds(log_.take<double>()).key("seconds").seconds(log_.take<double>());
    if (const std::string_view error = log_.text(); !error.empty()) line.key("error").string(error);
    write_stages(line, log_);
    if (is_known)
      skip_moves(log_);
    else
      line.key("moves"), write_moves(line, log_);
    line.key("terms");
    write_terms(line, log_);
    state_.write_line(line);
  }

  /// Writes the kernel if the file does not have it.
  void write_late(State::Known& kernel) {
    if (kernel.waiting < 0) return;
    State::Waiting& known = state_.waiting[static_cast<size_t>(kernel.waiting)];
    JsonLine line = state_.line("kernels", now_);
    line.key("from").number(known.parent).key("made").open('[').open('[').number(kernel.id);
    ByteReader moves(known.moves);
    write_moves(line, moves);
    line.seconds(known.seconds).hash(known.hash).close(']').close(']');
    state_.write_line(line);
    kernel.waiting = -1;
    known.moves = {};
  }

  Trace::State& state_;
  ByteReader log_;
  double now_ = 0;
  std::vector<std::string_view> refused_;
};

void Trace::write_told() {
  SearchWriter(*state_, log_.bytes()).write();
  log_.clear();
}

} // namespace lathe::tracing
