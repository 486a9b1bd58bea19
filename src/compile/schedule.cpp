// How a program gets its plan: exactly the moves asked for, the database, or search.
#include "compile/schedule.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "compile/front/target.hpp"
#include "compile/measure/checked_kernels.hpp"
#include "compile/measure/compare_plans.hpp"
#include "compile/measure/measure.hpp"
#include "compile/run/assemble.hpp"
#include "compile/run/kernel_order.hpp"
#include "compile/run/program_cache.hpp"
#include "core/at_exit.hpp"
#include "lathe/error.hpp"
#include "search/beam/form_search.hpp"
#include "search/beam/measurement.hpp"
#include "search/beam/search.hpp"
#include "search/beam/shared_launches.hpp"
#include "search/beam/watch.hpp"
#include "search/cost/cost.hpp"
#include "search/machine/target.hpp"
#include "search/store/database.hpp"

namespace lathe::pipeline {
namespace {

using search::Move;
using ProgramRef = std::shared_ptr<const lower::Program>;

constexpr size_t kMostSeeds = 4;      // plans from database rows of other machines or other uses
constexpr double kCheckSeconds = 0.1; // to check a kernel: compile it, run it, compute some of its outputs
constexpr double kInPlace = 0.25;  // share of the budget, for choosing schedules while the whole program runs
constexpr double kInPlaceMost = 5; // seconds a kernel, upper limit of that share

// Names of the checked plans, for messages.
constexpr const char* kUntuned = "the untuned plan";
constexpr const char* kHeld = "the plan in the database";
constexpr const char* kTuned = "the tuned plan";

std::mutex database_mutex;

using Databases = std::map<std::string, std::unique_ptr<search::Database>>;

void close_databases();

/// The open databases by path.
Databases& open_databases() {
  static auto* open = [] {
    at_exit<close_databases>();
    return new Databases;
  }();
  return *open;
}

/// A closed database is one file, without a write-ahead log. If another thread holds the lock, the databases
/// stay open.
void close_databases() {
  const std::unique_lock lock(database_mutex, std::try_to_lock);
  if (lock) open_databases().clear();
}

/// One open database per path; the path may change with the environment. The caller holds database_mutex.
search::Database& database() {
  auto& slot = open_databases()[search::Database::default_path()];
  if (!slot) slot = std::make_unique<search::Database>();
  return *slot;
}

/// The part of a measured schedule's key besides the program: the machine, the device and its use.
std::string fingerprint(const CompileOptions& options, const search::MachineProfile& machine) {
  std::string text = fmt::format("{} | {} threads {} cpu {}", machine.fingerprint, options.device,
                                 thread_count(options), options.cpu);
  if (options.winograd != CompileOptions{}.winograd) text += fmt::format(" winograd {}", options.winograd);
  if (options.strassen != CompileOptions{}.strassen) text += fmt::format(" strassen {}", options.strassen);
  return text;
}

search::AllowedForms allowed_forms(const CompileOptions& options) {
  return {options.winograd, options.strassen};
}

/// Applies the moves to the program. Returns nothing if one isn't legal.
std::optional<search::Plan> try_moves(const ProgramRef& program, const std::vector<Move>& moves,
                                      const search::Target& target) {
  try {
    return search::replay(program, moves, target);
  } catch (const Error&) {
    return {};
  }
}

/// Adds to `found` what the search that it started from tried of kernels that it still has.
void add_fusions(search::SearchResult& found, const search::SearchResult& before) {
  if (!before.fusions || before.plan.program != found.plan.program) return;
  auto all = found.fusions ? *found.fusions : std::vector<search::TriedFusion>();
  const auto has = [&](const std::vector<int>& stages) {
    return std::any_of(found.plan.kernels.begin(), found.plan.kernels.end(),
                       [&](const search::KernelPlanRef& k) { return k->stages == stages; });
  };
  for (const search::TriedFusion& old : *before.fusions)
    if (has(old.reader) && has(old.producer) &&
        std::none_of(all.begin(), all.end(), [&](const search::TriedFusion& f) {
          return f.reader == old.reader && f.producer == old.producer;
        }))
      all.push_back(old);
  found.fusions = std::make_shared<const std::vector<search::TriedFusion>>(std::move(all));
}

search::SearchResult planned(search::Plan plan, search::CostModel& model) {
  search::SearchResult result;
  result.predicted_seconds = model.seconds(plan);
  result.plan = std::move(plan);
  return result;
}

/// The stored measurements of this program's candidates, and those that this search adds. note() writes the
/// new ones in batches, write() the rest.
class CandidateStore {
public:
  CandidateStore(uint64_t program, std::string where) : program_(program), where_(std::move(where)) {
    std::lock_guard lock(database_mutex);
    for (const auto& c : database().candidates(program_, where_))
      known_[c.kernel] = {c.seconds > 0, c.seconds, c.error};
  }
  /// Returns the stored measurement. A kernel with a wrong result counts as not measured: the fault may have
  /// been this library's, and fixed since.
  std::optional<search::Measurement> recall(uint64_t kernel) const {
    const auto it = known_.find(kernel);
    if (it == known_.end() || (!it->second.ok && search::reason_of(it->second) == "wrong result")) return {};
    return it->second;
  }
  void note(const search::KernelPlan& kernel, const search::Measurement& m) {
    fresh_.push_back({kernel.hash, m.ok ? m.seconds : 0, m.error, ast::print(kernel.kernel)});
    if (fresh_.size() >= kAtOnce) write();
  }
  /// A failed write does not end this search. Another search measures these candidates again.
  void write() {
    std::lock_guard lock(database_mutex);
    try {
      if (fault_.empty()) database().store_candidates(program_, where_, fresh_);
    } catch (const Error& e) {
      fault_ = e.what();
    }
    fresh_.clear();
  }
  const std::string& fault() const { return fault_; }

private:
  static constexpr size_t kAtOnce = 64; // measurements in a batch
  uint64_t program_;
  std::string where_;
  std::unordered_map<uint64_t, search::Measurement> known_;
  std::vector<search::Database::Candidate> fresh_;
  std::string fault_;
};

search::SearchResult by_the_model(const ProgramRef& program, const std::string& where,
                                  const CompileOptions& options, const search::Target& target,
                                  search::CostModel& model, tracing::Trace* trace) {
  // The search's sources and the machine's profile decide which plan the search finds. In the key, the
  // predicted time of the initial plan stands for the profile.
  const search::Plan start = search::initial_plan(program);
  std::string key = fmt::format("{} winograd {} strassen {} model {} search {}", where, options.winograd,
                                options.strassen, model.seconds(start), search_sources());
  const auto remembered = [&]() -> std::optional<search::SearchResult> {
    const auto known = trace ? std::nullopt : remembered_search(key); // a trace shows the search
    auto plan = known ? try_moves(program, known->moves, target) : std::nullopt;
    if (!plan) return {};
    search::SearchResult result = planned(std::move(*plan), model);
    result.fusions = known->fusions;
    return result;
  };
  std::optional<search::SearchResult> found = remembered();
  if (found) return std::move(*found);
  search::SearchOptions how;
  how.trace = trace;
  how.quick = options.search == Search::Quick && !options.tune;
  how.abandon = options.stop;
  if (how.quick) {
    key += " quick";
    found = remembered();
  }
  if (!found) {
    FoundBySearch made;
    {
      const InExprScope search_only(new_expr_scope());
      const search::SearchResult best = search::search_forms(start, model, how, allowed_forms(options), {});
      made = {best.plan.moves(), best.fusions};
    }
    found = planned(search::replay(program, made.moves, target), model);
    found->fusions = made.fusions;
    remember_search(key, std::move(made));
  }
  found->quick = how.quick;
  return std::move(*found);
}

/// Checks those kernels of the plan that no measurement has found right.
void check(CheckedKernels& checked, const search::Plan& plan, const char* what,
           const CompileOptions& options) {
  checked.check(plan, what, [&] { return make_measure(plan.program, options).measure; });
}

/// Returns a label for people who look at the database: "a[512, 512] b[512, 512] -> y[512, 512]".
std::string label_of(const lower::Program& program) {
  constexpr size_t kMost = 120;
  std::string text;
  const auto add = [&](const std::string& name, const Shape& shape) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", name, to_string(shape));
  };
  for (const lower::InputBuffer& input : program.inputs) add(input.buffer->name, input.buffer->shape);
  text += " ->";
  for (const lower::OutputBuffer& output : program.outputs)
    add(output.name, program.stages[static_cast<size_t>(output.stage)].buffer->shape);
  return text.size() > kMost ? text.substr(0, kMost - 3) + "..." : text;
}

/// Calls the user's function outside of all scopes: expressions that it makes must outlive this compilation.
void report(const TuneOptions& tune, const TuneProgress& progress) {
  const InExprScope none(nullptr);
  tune.progress(progress);
}

/// `given`: the plan to start from instead of the untuned one; may be null.
search::SearchResult tune(const ProgramRef& program, const CompileOptions& options, search::CostModel& model,
                          uint64_t hash, const std::string& where, CheckedKernels& checked,
                          const search::Plan* given, tracing::Trace* trace) {
  const TuneOptions& tune = *options.tune;
  if (tune.beam < 1)
    throw Error(ErrorKind::Value, fmt::format("tune: beam = {}, expected at least 1", tune.beam));
  if (!(tune.budget_seconds > 0))
    throw Error(ErrorKind::Value,
                fmt::format("tune: budget of {} seconds, expected more than 0", tune.budget_seconds));
  const search::Target& target = model.target();
  search::SearchOptions how;
  how.beam = tune.beam;
  how.seed = tune.seed;
  how.log = tune.log;
  how.trace = trace;
  TuneProgress last;
  if (tune.progress)
    how.progress = [&](TuneProgress p) { // shows the whole budget, not the search's share
      p.budget_seconds = tune.budget_seconds;
      report(tune, last = p);
    };
  how.stop = tune.stop;
  how.abandon = options.stop;
  how.where = where;
  const search::Plan start = search::initial_plan(program);
  if (!tune.measure) return search::search_forms(start, model, how, allowed_forms(options), {});

  const search::Watch watch(tune.budget_seconds, tune.stop);
  const search::MakeMeasure measuring = [&](const ProgramRef& form, search::SearchOptions& to) {
    Measuring made = make_measure(form, options);
    to.measure = [&model, of_nests = checked.noting(std::move(made.measure))](
                     const search::KernelPlanRef& kernel, double limit) {
      // A recurrence is tuned by itself, and no move changes its kernel.
      if (kernel->recurrence >= 0) return search::Measurement{true, model.seconds(kernel), ""};
      return of_nests(kernel, limit);
    };
    to.prepare = std::move(made.prepare);
  };
  // The search starts from the untuned plan and from the plans that the database has for this program.
  const search::SearchResult untuned =
      given ? planned(*given, model)
            : by_the_model(program, fmt::format("{:016x} {}", hash, where), options, target, model, trace);
  checked.expect_right(untuned.plan, kUntuned);
  how.seeds.push_back(untuned.plan);
  std::optional<CandidateStore> store;
  std::optional<search::Database::Entry> own;
  std::optional<search::SearchResult> held; // the plan in the database, if it is legal
  if (options.use_database) {
    store.emplace(hash, where);
    how.recall = [&](uint64_t kernel) { return store->recall(kernel); };
    how.note = [&](const search::KernelPlan& kernel, const search::Measurement& m) {
      store->note(kernel, m);
    };
    std::vector<search::Database::Entry> entries;
    {
      std::lock_guard lock(database_mutex);
      entries = database().elsewhere(hash, where);
      own = database().find(hash, where);
    }
    // Not under the lock: a graph move compiles and runs a program to compute its constants.
    if (entries.size() > kMostSeeds) entries.resize(kMostSeeds);
    for (const auto& entry : entries)
      if (auto plan = try_moves(program, entry.moves, target)) how.seeds.push_back(std::move(*plan));
    if (own)
      if (auto plan = try_moves(program, own->moves, target)) held = planned(std::move(*plan), model);
    if (held) how.seeds.push_back(held->plan);
    if (held) checked.expect_right(held->plan, kHeld);
  }
  // The search may settle on another form than the untuned plan's. That plan's kernels are checked after it.
  const double to_check =
      untuned.plan.program == program ? 0 : kCheckSeconds * static_cast<double>(untuned.plan.kernels.size());
  const double reserve =
      to_check + (held ? 3 : 2) * seconds_to_compare(untuned.plan, untuned.predicted_seconds);
  const double in_place = std::min(kInPlace * tune.budget_seconds,
                                   kInPlaceMost * static_cast<double>(untuned.plan.kernels.size()));
  how.budget_seconds =
      std::max(0.5 * tune.budget_seconds, tune.budget_seconds - reserve - in_place - watch.elapsed());
  const auto searched = [&] {
    const tracing::TimedPass pass(trace, "search");
    return search::search_forms(start, model, how, allowed_forms(options), measuring);
  };
  search::SearchResult result = searched();
  if (store) store->write();
  const tracing::TimedPass pass(trace, "compare plans");
  if (!watch.stopped()) {
    check(checked, untuned.plan, kUntuned, options);
    if (held) check(checked, held->plan, kHeld, options);
  }
  choose_in_place(result, target, options, watch, reserve);
  result.predicted_seconds = model.seconds(result.plan);
  for (const search::Plan& rival : result.rivals) {
    search::SearchResult challenger = planned(rival, model);
    keep_faster(challenger, result, options, watch);
    result.plan = std::move(challenger.plan);
    result.predicted_seconds = challenger.predicted_seconds;
  }
  if (result.measured_seconds > 0) {
    if (held) keep_faster(result, *held, options, watch);
    last.untuned_seconds = keep_faster(result, untuned, options, watch);
    if (last.untuned_seconds > 0) last.tuned_seconds = result.measured_seconds;
    if (tune.progress && last.budget_seconds > 0) {
      last.elapsed_seconds = watch.elapsed();
      report(tune, last);
    }
  } else { // no plan was measured completely: the plan known before stays
    const search::SearchResult& known = held ? *held : untuned;
    result.plan = known.plan;
    result.predicted_seconds = known.predicted_seconds;
  }
  add_fusions(result, untuned);
  if (options.use_database && result.measured_seconds > 0) {
    std::lock_guard lock(database_mutex);
    // The new plan replaces the row: it was timed in turns with the row's, unless that is no longer legal.
    try {
      database().store(hash, where, {result.plan.moves(), result.measured_seconds}, label_of(*program),
                       own ? std::optional(own->seconds) : std::nullopt);
    } catch (const Error& e) {
      last.not_stored = e.what();
    }
    if (last.not_stored.empty() && store) last.not_stored = store->fault();
  }
  if (tune.progress && !last.not_stored.empty()) report(tune, last);
  return result;
}

/// A schedule, and where it came from.
struct Found {
  search::SearchResult result;
  std::string how;
};

Found find_schedule(ProgramRef program, const CompileOptions& options, CheckedKernels& checked,
                    const search::Plan* given, tracing::Trace* trace) {
  if (options.winograd != 0 && options.winograd != 2 && options.winograd != 4)
    throw Error(
        ErrorKind::Value,
        fmt::format("compile: winograd = {}, expected tiles of at most 4 or 2, or 0", options.winograd));
  if (options.strassen < 0 || options.strassen > 2)
    throw Error(ErrorKind::Value,
                fmt::format("compile: strassen = {}, expected at most 2 levels, or 0", options.strassen));
  if (options.folded_bytes < 0)
    throw Error(ErrorKind::Value,
                fmt::format("compile: folded_bytes = {}, expected 0 or more", options.folded_bytes));
  const search::Target target = target_for(options, *program);
  search::CostModel model(target, search::machine_profile());
  if (!options.moves.empty()) {
    std::vector<Move> moves;
    for (const std::string& text : options.moves) moves.push_back(search::parse_move(text));
    return {planned(search::replay(program, moves, target), model), "moves"};
  }
  const uint64_t hash = search::program_hash(*program);
  const std::string where = fingerprint(options, model.machine());
  if (options.tune) return {tune(program, options, model, hash, where, checked, given, trace), "tuning"};
  if (options.use_database) {
    std::optional<search::Database::Entry> entry;
    {
      std::lock_guard lock(database_mutex);
      entry = database().find(hash, where);
    }
    if (entry)
      if (auto plan = try_moves(program, entry->moves, target)) {
        search::SearchResult result = planned(std::move(*plan), model);
        result.measured_seconds = entry->seconds;
        return {std::move(result), "database"};
      }
  }
  const tracing::TimedPass pass(trace, "search");
  return {by_the_model(program, fmt::format("{:016x} {}", hash, where), options, target, model, trace),
          "model"};
}

/// Returns the schedule that schedule() returns, with its kernels in the order of the plan.
search::SearchResult chosen(const ProgramRef& program, const CompileOptions& options,
                            const search::Plan* start, tracing::Trace* trace) {
  CheckedKernels checked;
  auto [found, how] = find_schedule(program, options, checked, start, trace);
  if (options.moves.empty())
    found.plan = search::with_shared_launches(found.plan, target_for(options, *found.plan.program));
  if (found.measured_seconds > 0 && options.tune && options.moves.empty())
    check(checked, found.plan, kTuned, options);
  if (trace) {
    const search::CostModel model(target_for(options, *found.plan.program), search::machine_profile());
    trace->chosen(found.plan, model, how, found.predicted_seconds, found.measured_seconds);
  }
  return found;
}

/// As chosen(), by tuning. The search has a scope of its own, which ends with it; the moves that it finds are
/// replayed outside of that scope.
search::SearchResult tuned(const ProgramRef& program, const CompileOptions& options,
                           const search::Plan* start, tracing::Trace* trace) {
  search::SearchResult kept;
  std::vector<Move> moves;
  {
    const InExprScope search_only(new_expr_scope());
    const search::SearchResult found = chosen(program, options, start, trace);
    moves = found.plan.moves();
    kept.predicted_seconds = found.predicted_seconds;
    kept.measured_seconds = found.measured_seconds;
    kept.fusions = found.fusions;
  }
  kept.plan = search::replay(program, moves, target_for(options, *program));
  return kept;
}

/// Schedules the bodies of the plan's recurrences.
void schedule_bodies(search::SearchResult& found, CompileOptions options) {
  options.moves.clear(); // they are the whole program's
  search::Plan& plan = found.plan;
  for (size_t k = 0; k < plan.bodies.size(); ++k) {
    search::SearchResult body = schedule(plan.program->recurrences[k].body, options, nullptr, nullptr);
    found.quick |= body.quick;
    plan.bodies[k] = std::make_shared<const search::Plan>(std::move(body.plan));
  }
}

/// The options with a share of the time to tune: half for the program, half for the bodies of its
/// recurrences.
CompileOptions with_share(CompileOptions options, double parts) {
  if (options.tune) options.tune->budget_seconds /= parts;
  return options;
}

} // namespace

search::SearchResult schedule(ProgramRef program, const CompileOptions& options, const search::Plan* start,
                              tracing::Trace* trace) {
  const bool tunes = options.tune && options.moves.empty();
  const auto bodies = static_cast<double>(program->recurrences.size());
  const CompileOptions own = with_share(options, bodies ? 2 : 1);
  search::SearchResult found = tunes ? tuned(program, own, start, trace) : chosen(program, own, start, trace);
  found.plan = in_memory_order(std::move(found.plan));
  if (bodies) schedule_bodies(found, with_share(options, 2 * bodies));
  return found;
}

} // namespace lathe::pipeline
