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

Json entry(int64_t id, const std::vector<search::Move>& moves, double seconds, uint64_t hash) {
  return {id, texts_of(moves), rounded(seconds), hex(hash)};
}

} // namespace

void Trace::State::write_with_parents(Known& known) {
  std::vector<Known*> unwritten;
  for (Known* at = &known; !at->is_written;) {
    unwritten.push_back(at);
    const auto parent = kernel_of.find(at->parent);
    if (parent == kernel_of.end()) break;
    at = &kernels.at(parent->second);
  }
  for (auto at = unwritten.rbegin(); at != unwritten.rend(); ++at) {
    Json record = this->record("kernels");
    record["from"] = (*at)->parent;
    record["made"] = Json::array({entry((*at)->id, (*at)->moves, (*at)->seconds, (*at)->hash)});
    write(record);
    (*at)->is_written = true;
    (*at)->moves.clear();
    kernel_of.erase((*at)->id);
  }
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
  Json record = state_->record("plans");
  record["search"] = search.id;
  record["from"] = state_->plans.at(mix(search.program, plan_hash(from))).id;
  Json made = Json::array(), refused = Json::array();
  int64_t same = 0, more_refused = 0;
  for (const Tried& one : tried) {
    if (!one.plan) {
      if (state_->refusals++ < kRefusals)
        refused.push_back({texts_of(one.moves), one.reason});
      else
        ++more_refused;
      continue;
    }
    const uint64_t hash = plan_hash(*one.plan);
    const auto [known, is_new] = state_->plans.try_emplace(mix(search.program, hash));
    same += !is_new;
    if (!is_new) continue;
    known->second.id = state_->states++;
    made.push_back(entry(known->second.id, one.moves, one.seconds, hash));
    if (!one.reason.empty()) made.back().push_back(one.reason);
  }
  record["made"] = made;
  if (!refused.empty()) record["refused"] = refused;
  if (same) record["same"] = same;
  if (more_refused) record["more_refused"] = more_refused;
  state_->write(record);
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
  state_->write_with_parents(parent->second);
  const int64_t parent_id = parent->second.id;
  Json made = Json::array(), refused = Json::array();
  int64_t same = 0, more_made = 0, more_refused = 0;
  for (const Tried& one : tried) {
    if (!one.kernel) {
      if (state_->refusals++ < kRefusals)
        refused.push_back({texts_of(one.moves), one.reason});
      else
        ++more_refused;
      continue;
    }
    const uint64_t key = mix(search.program, one.kernel->hash);
    const auto [known, is_new] = state_->kernels.try_emplace(key);
    same += !is_new;
    if (!is_new) continue;
    State::Known& child = known->second;
    child = {state_->states++, parent_id, true, {}, one.seconds, one.kernel->hash};
    if (state_->siblings++ < kSiblings) {
      made.push_back(entry(child.id, one.moves, one.seconds, one.kernel->hash));
    } else {
      child.is_written = false;
      child.moves = one.moves;
      state_->kernel_of.emplace(child.id, key);
      ++more_made;
    }
  }
  Json record = state_->record("kernels");
  record["from"] = parent_id;
  record["made"] = made;
  if (!refused.empty()) record["refused"] = refused;
  if (same) record["same"] = same;
  if (more_made) record["more_made"] = more_made;
  if (more_refused) record["more_refused"] = more_refused;
  state_->write(record);
}

void Trace::keeps_kernels(const std::vector<search::KernelPlanRef>& kernels) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  Json ids = Json::array(), terms = Json::array();
  for (const search::KernelPlanRef& kernel : kernels) {
    const auto known = state_->kernels.find(mix(search.program, kernel->hash));
    if (known == state_->kernels.end()) continue;
    state_->write_with_parents(known->second);
    ids.push_back(known->second.id);
    terms.push_back(terms_of(search::cost(*kernel, search.target, search.machine)));
  }
  Json record = state_->record("kept");
  record["search"] = search.id;
  record["ids"] = ids;
  record["terms"] = terms;
  state_->write(record);
}

void Trace::measured(const KernelPlan& kernel, double predicted_seconds, const search::Measurement& result) {
  if (state_->open.empty()) return;
  const State::Search& search = state_->open.back();
  Json record = state_->record("measured");
  record["search"] = search.id;
  const auto known = state_->kernels.find(mix(search.program, kernel.hash));
  if (known != state_->kernels.end()) {
    state_->write_with_parents(known->second);
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
