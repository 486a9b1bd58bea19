// What tuning leaves a program with: where measuring comes to nothing, and where an earlier version has tuned
// it.
#include <doctest/doctest.h>

#include <stdlib.h>

#include <atomic>

#include "compile/front/target.hpp"
#include "compile/measure/compare_plans.hpp"
#include "compile/realise.hpp"
#include "compile/run/program_cache.hpp"
#include "compile/schedule.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/search.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "search/store/database.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"

using namespace lathe;

namespace {

CompileOptions with_database() {
  CompileOptions options = on(default_device(), 1);
  options.use_database = true;
  return options;
}

/// Tunes until a few candidates are measured.
search::SearchResult tuned(const std::shared_ptr<const lower::Program>& program) {
  std::stop_source stop;
  TuneOptions tune;
  tune.stop = stop.get_token();
  tune.progress = [&](const TuneProgress& p) {
    if (p.measured >= 6) stop.request_stop();
  };
  CompileOptions options = with_database();
  options.tune = tune;
  return pipeline::schedule(program, options);
}

} // namespace

TEST_CASE("tuning that ends before it has measured a plan keeps the untuned one") {
  const Tensor x = Tensor::input("x", {37, 48}), w = Tensor::input("w", {48, 29});
  const auto program = pipeline::lowered({{"y", (x.softmax(-1).matmul(w) + 1.0).gelu()}});
  CompileOptions options = on(default_device(), 1);
  const search::SearchResult untuned = pipeline::schedule(program, options);

  std::stop_source stop;
  stop.request_stop();
  TuneOptions tune;
  tune.stop = stop.get_token();
  options.tune = tune;
  const search::SearchResult tuned = pipeline::schedule(program, options);
  CHECK(tuned.measured_seconds == 0);
  CHECK(tuned.predicted_seconds == untuned.predicted_seconds);
  CHECK(tuned.plan.moves() == untuned.plan.moves());
}

TEST_CASE("what an older version has stored gives way to what is better today, whatever time it says") {
  const test::CacheDir cache;
  const auto program =
      pipeline::lowered({{"y", Tensor::input("x", {113, 96}).matmul(Tensor::input("w", {96, 107}))}});
  CHECK(tuned(program).measured_seconds > 0);
  search::Database database;
  REQUIRE(database.rows().size() == 1);
  const search::Database::Row row = database.rows()[0];
  const auto stored = [&] { return *search::Database().find(row.program, row.where); };

  // Plain loops, and a plan that is legal no more, both timed where a computer was faster than any.
  const std::vector<std::vector<search::Move>> old{{}, {search::parse_move("split(t77.i0, 4)")}};
  for (const std::vector<search::Move>& moves : old) {
    CAPTURE(moves.size());
    database.store(row.program, row.where, {moves, 1e-9});
    REQUIRE(stored().moves == moves);
    const search::SearchResult found = tuned(program);
    CHECK(found.plan.moves() != moves);
    CHECK(stored().moves == found.plan.moves());
    CHECK(stored().seconds > 1e-9);
    CHECK(pipeline::schedule(program, with_database()).plan.moves() == found.plan.moves());
  }
}

TEST_CASE("a stored plan that computes constants is where the next search starts") {
  const test::CacheDir cache;
  const auto program =
      pipeline::lowered({{"y", Tensor::input("x", {32, 48}).matmul(Tensor::randn({48, 64}, 1).realise())}});
  tuned(program);
  search::Database database;
  REQUIRE(database.rows().size() == 1);
  const search::Database::Row row = database.rows()[0];
  std::string product;
  for (const lower::Stage& stage : program->stages)
    if (stage.is_reduction) product = stage.buffer->name;
  const std::vector<search::Move> moves{search::parse_move("strassen(" + product + ", 1)")};
  database.store(row.program, row.where, {moves, 1e-9});
  database.store(row.program, "elsewhere", {moves, 1e-9});
  CHECK(tuned(program).measured_seconds > 0);
}

TEST_CASE("tuning that ends before it has measured a plan keeps the one that is stored") {
  const test::CacheDir cache;
  const auto program = pipeline::lowered({{"y", Tensor::input("x", {61, 33}).softmax(-1)}});
  tuned(program);
  search::Database database;
  REQUIRE(database.rows().size() == 1);
  const search::Database::Row row = database.rows()[0];
  database.store(row.program, row.where, {{}, 1e-9});
  std::stop_source stop;
  stop.request_stop();
  TuneOptions tune;
  tune.stop = stop.get_token();
  CompileOptions options = with_database();
  options.tune = tune;
  CHECK(pipeline::schedule(program, options).plan.moves().empty());
  CHECK(database.find(row.program, row.where)->moves.empty());
}

TEST_CASE("of each kernel's schedules the one is taken that is fastest in the program") {
  const Tensor x = Tensor::input("x", {96, 160}), w = Tensor::input("w", {160, 96});
  const auto program = pipeline::lowered({{"y", x.matmul(w)}, {"z", w.matmul(x)}});
  const CompileOptions options = on(default_device(), 1);
  const search::SearchResult planned = pipeline::schedule(program, options);
  REQUIRE(planned.plan.kernels.size() == 2);

  // Plain loops come first, as though they were the fastest when measured alone; the first kernel has three.
  search::SearchResult result;
  result.choices.start = search::initial_plan(program);
  for (const auto& kernel : planned.plan.kernels) {
    search::Choices::OfKernel of{kernel->stages, {{}, {}}};
    for (const search::Move& move : kernel->moves)
      if (move.kind == search::MoveKind::Inline)
        result.choices.inlining.push_back(move);
      else
        of.schedules[1].push_back(move);
    result.choices.kernels.push_back(of);
  }
  result.choices.kernels[0].schedules.push_back({});
  const search::Target target = pipeline::target_for(options, *program);
  result.plan = *result.choices.plan({0, 0}, target);
  const search::Choices choices = result.choices;
  const auto after = [&](double budget) {
    const search::Watch watch(budget);
    pipeline::choose_in_place(result, target, options, watch, 1);
    return result.plan.moves();
  };
  CHECK(after(1) == choices.plan({0, 0}, target)->moves()); // no time but what is reserved
  CHECK(after(60) == choices.plan({1, 1}, target)->moves());
  CHECK(choices.places(result.plan) == std::vector<size_t>{0, 1});
}

TEST_CASE("so is the schedule of a program's only kernel") {
  const Tensor x = Tensor::input("x", {96, 160}), w = Tensor::input("w", {160, 96});
  const auto program = pipeline::lowered({{"y", x.matmul(w)}});
  const CompileOptions options = on(default_device(), 1);
  const search::Plan planned = pipeline::schedule(program, options).plan;
  REQUIRE(planned.kernels.size() == 1);
  const search::Target target = pipeline::target_for(options, *program);
  search::SearchResult result;
  result.choices = {search::initial_plan(program), {}, {{planned.kernels[0]->stages, {{}, planned.moves()}}}};
  result.plan = *result.choices.plan({0}, target);
  pipeline::choose_in_place(result, target, options, search::Watch(60), 1);
  CHECK(result.plan.moves() == planned.moves());
}

TEST_CASE("plans that are kept on disk name the sources that have found them") {
  const test::CacheDir cache;
  const auto program = pipeline::lowered({{"y", Tensor::input("x", {59, 31}).sum(0)}});
  pipeline::schedule(program, on(default_device(), 1));
  const std::string sources = pipeline::search_sources();
  CHECK(sources.size() == 16);
  int plans = 0;
  for (const auto& file : std::filesystem::directory_iterator(cache.path / "plans")) {
    if (file.path().extension() != ".moves") continue;
    ++plans;
    CHECK(test::bytes_of(file.path()).find(sources) != std::string::npos);
  }
  CHECK(plans == 1);
}
