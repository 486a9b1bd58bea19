// How a program gets its plan: exactly the moves asked for, the database, or search.
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "compile/assemble.hpp"
#include "compile/measure.hpp"
#include "compile/program_cache.hpp"
#include "compile/target.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using search::Move;
using ProgramRef = std::shared_ptr<const lower::Program>;

std::mutex database_mutex;

/// One open database per path; the path may change with the environment. The caller holds database_mutex.
search::Database& database() {
  static auto* open = new std::map<std::string, std::unique_ptr<search::Database>>;
  auto& slot = (*open)[search::Database::default_path()];
  if (!slot) slot = std::make_unique<search::Database>();
  return *slot;
}

/// What besides the program decides a measured schedule: the machine, the device and how it is used.
std::string fingerprint(const CompileOptions& options, const search::MachineProfile& machine) {
  return fmt::format("{} | {} threads {} cpu {}", machine.fingerprint, options.device, thread_count(options),
                     options.cpu);
}

/// The plan that these moves make of the program, or nothing if one isn't legal.
std::optional<search::Plan> try_moves(const ProgramRef& program, const std::vector<Move>& moves,
                                      const search::Target& target) {
  try {
    return search::replay(program, moves, target);
  } catch (const Error&) {
    return {};
  }
}

search::SearchResult planned(search::Plan plan, search::CostModel& model) {
  search::SearchResult result;
  result.predicted_seconds = model.seconds(plan);
  result.plan = std::move(plan);
  return result;
}

search::SearchResult tune(const ProgramRef& program, const CompileOptions& options,
                          search::CostModel& model) {
  const TuneOptions& tune = *options.tune;
  if (tune.beam < 1)
    throw Error(ErrorKind::Value, fmt::format("tune: beam = {}, expected at least 1", tune.beam));
  if (!(tune.budget_seconds > 0))
    throw Error(ErrorKind::Value,
                fmt::format("tune: budget of {} seconds, expected more than 0", tune.budget_seconds));
  search::SearchOptions how;
  how.beam = tune.beam;
  how.seed = tune.seed;
  how.log = tune.log;
  how.graph_then_loops = tune.staged;
  how.progress = tune.progress;
  if (tune.measure) {
    how.budget_seconds = tune.budget_seconds;
    how.measure = make_measure(program, options);
  }
  search::SearchResult result = search::search(search::initial_plan(program), model, how);
  if (tune.measure && options.use_database && result.measured_seconds > 0) {
    std::lock_guard lock(database_mutex);
    database().store(search::program_hash(*program), fingerprint(options, model.machine()),
                     {result.plan.moves(), result.measured_seconds});
  }
  return result;
}

} // namespace

search::SearchResult schedule(ProgramRef program, const CompileOptions& options) {
  const search::Target target = target_for(options);
  search::CostModel model(target, search::machine_profile());
  if (!options.moves.empty()) {
    std::vector<Move> moves;
    for (const std::string& text : options.moves) moves.push_back(search::parse_move(text));
    return planned(search::replay(program, moves, target), model);
  }
  if (options.tune) return tune(program, options, model);

  const uint64_t hash = search::program_hash(*program);
  const std::string where = fingerprint(options, model.machine());
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
        return result;
      }
  }
  // What the model says of the program as it is stands for the model: another one finds other plans.
  const double unscheduled = model.seconds(search::initial_plan(program));
  const std::string key = fmt::format("{:016x} {} model {}", hash, where, unscheduled);
  if (const auto moves = remembered_moves(key))
    if (auto plan = try_moves(program, *moves, target)) return planned(std::move(*plan), model);
  search::SearchResult result = search::search(search::initial_plan(program), model, {});
  remember_moves(key, result.plan.moves());
  return result;
}

} // namespace lathe::pipeline
