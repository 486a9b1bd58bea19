// The records of searches. A state is written when it is made, as long as there are few, and else when it
// matters: when it is kept, measured or searched from.
#include "compile/trace/plan_hash.hpp"
#include "compile/trace/trace_state.hpp"
#include "core/hash.hpp"
#include "search/store/database.hpp"

namespace lathe::tracing {
namespace {

using search::KernelPlan;
using search::Plan;
using search::Tried;

constexpr int64_t kSiblings = 20'000; // states written as they are made; later ones only if they matter
constexpr int64_t kRefusals = 20'000; // proposals written that are not legal; later ones are counted

/// The moves after those that rewrite the graph: the plan's program is what these left.
std::vector<search::Move> moves_in_program(const Plan& plan) {
  std::vector<search::Move> moves = plan.moves();
  std::erase_if(moves, [](const search::Move& m) { return search::rewrites_graph(m.kind); });
  return moves;
}

void write_entry(JsonLine& line, int64_t id, const std::vector<search::Move>& moves, double seconds,
                 uint64_t hash, const std::string& reason) {
  line.open('[').number(id).moves(moves).seconds(seconds).hash(hash);
  if (!reason.empty()) line.string(reason);
  line.close(']');
}

void write_terms(JsonLine& line, const search::Cost& cost) {
  line.open('{');
  for (const search::CostTerm& term : cost.terms) line.key(term.name).seconds(term.seconds);
  line.close('}');
}

/// Adds the proposals that were not legal, as long as the file has few; returns how many it left out.
int64_t write_refused(JsonLine& line, const std::vector<Tried>& tried, int64_t& written) {
  int64_t refused = 0, more = 0;
  for (const Tried& one : tried) {
    if (one.kernel || one.plan) continue;
    if (written++ >= kRefusals) {
      ++more;
      continue;
    }
    if (!refused++) line.key("refused").open('[');
    line.open('[').moves(one.moves).string(one.reason).close(']');
  }
  if (refused) line.close(']');
  return more;
}

/// Adds a count, if there is something to count.
void write_count(JsonLine& line, const char* name, int64_t count) {
  if (count) line.key(name).number(count);
}

} // namespace

void Trace::State::write_late(Known& kernel) {
  if (kernel.waiting < 0) return;
  Waiting& known = waiting[static_cast<size_t>(kernel.waiting)];
  JsonLine line = this->line("kernels");
  line.key("from").number(known.parent).key("made").open('[');
  write_entry(line, kernel.id, known.moves, known.seconds, known.hash, {});
  line.close(']');
  write_line(line);
  kernel.waiting = -1;
  known.moves = {};
}

void Trace::begins(const Plan& start, const search::CostModel& model, bool measures) {
  const uint64_t hash = search::program_hash(*start.program);
  Json record = state_->record("search");
  record["program"] = state_->program(*start.program, hash, model.target());
  record["id"] = state_->searches;
  record["in"] = state_->open.empty() ? -1 : state_->open.back().id;
  record["start"] = texts_of(moves_in_program(start));
  record["measures"] = measures;
  state_->write(record);
  state_->open.push_back({state_->searches++, hash, model.target(), model.machine()});
}

void Trace::ends(const Plan& found, double predicted_seconds, double measured_seconds) {
  if (state_->open.empty()) return;
  Json record = state_->record("found");
  record["search"] = state_->open.back().id;
  record["moves"] = texts_of(moves_in_program(found));
  record["predicted"] = rounded(predicted_seconds);
  record["measured"] = rounded(measured_seconds);
  record["hash"] = hex(plan_hash(found));
  state_->write(record);
  state_->open.pop_back();
}

void Trace::starts_at(const Plan& plan, double seconds) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  const uint64_t hash = plan_hash(plan);
  const auto [known, is_new] = state_->plans.try_emplace(mix(search.program, hash));
  if (!is_new) return;
  known->second.id = state_->states++;
  Json record = state_->record("plan");
  record["search"] = search.id;
  record["id"] = known->second.id;
  record["moves"] = texts_of(moves_in_program(plan));
  record["seconds"] = rounded(seconds);
  record["hash"] = hex(hash);
  state_->write(record);
}

void Trace::plans_from(const Plan& from, const std::vector<Tried>& tried) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  starts_at(from, 0); // for a plan that no record has yet
  JsonLine line = state_->line("plans");
  line.key("search").number(search.id);
  line.key("from").number(state_->plans.at(mix(search.program, plan_hash(from))).id);
  line.key("made").open('[');
  int64_t same = 0;
  for (const Tried& one : tried) {
    if (!one.plan) continue;
    const uint64_t hash = plan_hash(*one.plan);
    const auto [known, is_new] = state_->plans.try_emplace(mix(search.program, hash));
    same += !is_new;
    if (!is_new) continue;
    known->second.id = state_->states++;
    write_entry(line, known->second.id, one.moves, one.seconds, hash, one.reason);
  }
  line.close(']');
  const int64_t more_refused = write_refused(line, tried, state_->refusals);
  write_count(line, "same", same);
  write_count(line, "more_refused", more_refused);
  state_->write_line(line);
}

void Trace::keeps_plans(const std::vector<const Plan*>& plans) {
  if (state_->open.empty()) return;
  Json ids = Json::array();
  for (const Plan* plan : plans) {
    const auto known = state_->plans.find(mix(state_->open.back().program, plan_hash(*plan)));
    if (known != state_->plans.end()) ids.push_back(known->second.id);
  }
  Json record = state_->record("kept");
  record["search"] = state_->open.back().id;
  record["ids"] = ids;
  state_->write(record);
}

void Trace::schedules(const Plan& plan, size_t k, double seconds) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  const KernelPlan& kernel = *plan.kernels[k];
  const auto [known, is_new] = state_->kernels.try_emplace(mix(search.program, kernel.hash));
  if (!is_new) return;
  known->second.id = state_->states++;
  Json record = state_->record("root");
  record["search"] = search.id;
  record["id"] = known->second.id;
  record["plan"] = hex(plan_hash(plan)); // its record may follow
  record["stages"] = kernel.stages;
  record["seconds"] = rounded(seconds);
  record["hash"] = hex(kernel.hash);
  state_->write(record);
}

void Trace::kernels_from(const KernelPlan& from, const std::vector<Tried>& tried) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  const auto parent = state_->kernels.find(mix(search.program, from.hash));
  if (parent == state_->kernels.end()) return;
  state_->write_late(parent->second);
  const int64_t parent_id = parent->second.id;
  JsonLine line = state_->line("kernels");
  line.key("from").number(parent_id).key("made").open('[');
  int64_t same = 0, more_made = 0;
  for (const Tried& one : tried) {
    if (!one.kernel) continue;
    const auto [known, is_new] = state_->kernels.try_emplace(mix(search.program, one.kernel->hash));
    same += !is_new;
    if (!is_new) continue;
    known->second.id = state_->states++;
    if (state_->siblings++ < kSiblings) {
      write_entry(line, known->second.id, one.moves, one.seconds, one.kernel->hash, {});
    } else {
      known->second.waiting = static_cast<int64_t>(state_->waiting.size());
      state_->waiting.push_back({parent_id, one.seconds, one.kernel->hash, one.moves});
      ++more_made;
    }
  }
  line.close(']');
  const int64_t more_refused = write_refused(line, tried, state_->refusals);
  write_count(line, "same", same);
  write_count(line, "more_made", more_made);
  write_count(line, "more_refused", more_refused);
  state_->write_line(line);
}

void Trace::keeps_kernels(const std::vector<search::KernelPlanRef>& kernels) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  std::vector<const KernelPlan*> told;
  for (const search::KernelPlanRef& kernel : kernels)
    if (const auto known = state_->kernels.find(mix(search.program, kernel->hash));
        known != state_->kernels.end()) {
      state_->write_late(known->second);
      told.push_back(kernel.get());
    }
  JsonLine line = state_->line("kept");
  line.key("search").number(search.id).key("ids").open('[');
  for (const KernelPlan* kernel : told) line.number(state_->kernels.at(mix(search.program, kernel->hash)).id);
  line.close(']').key("terms").open('[');
  for (const KernelPlan* kernel : told)
    write_terms(line, search::cost(*kernel, search.target, search.machine));
  line.close(']');
  state_->write_line(line);
}

void Trace::measured(const KernelPlan& kernel, double predicted_seconds, const search::Measurement& result) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  Json record = state_->record("measured");
  record["search"] = search.id;
  const auto known = state_->kernels.find(mix(search.program, kernel.hash));
  if (known != state_->kernels.end()) {
    state_->write_late(known->second);
    record["id"] = known->second.id;
  } else {
    record["id"] = -1;
    record["moves"] = texts_of(kernel.moves);
  }
  record["stages"] = kernel.stages;
  record["predicted"] = rounded(predicted_seconds);
  record["seconds"] = result.ok ? rounded(result.seconds) : 0;
  if (!result.ok) record["error"] = result.error;
  record["terms"] = terms_of(search::cost(kernel, search.target, search.machine));
  state_->write(record);
}

} // namespace lathe::tracing
