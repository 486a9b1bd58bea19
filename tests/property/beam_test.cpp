// Whatever the search returns, and every proposal of every suggester, computes what the interpreter computes
// on the canonical kernels.
#include <doctest/doctest.h>

#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/suggest/suggest.hpp"
#include "support/programs.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

std::shared_ptr<const lower::Program> lower_all(const NamedTensors& outputs) {
  std::vector<lower::NamedOutput> named;
  for (const auto& [label, tensor] : outputs) named.push_back({label, graph::node_of(tensor)});
  return std::make_shared<const lower::Program>(lower::lower(named));
}

std::string describe(const Plan& plan) {
  std::string text;
  for (const Move& m : plan.moves()) text += "  " + to_string(m) + "\n";
  for (const auto& k : plan.kernels) text += ast::print(k->kernel);
  return text;
}

std::string run(const Plan& plan, const test::Memory& inputs, const test::Memory& expected, int64_t length) {
  test::Memory memory = inputs;
  try {
    for (const auto& k : plan.kernels) ast::verify(k->kernel);
    test::run_plan(plan, memory, nullptr);
    return test::difference(*plan.program, memory, expected, length);
  } catch (const std::exception& e) {
    return e.what();
  }
}

Target target_of(int which) {
  Target t;
  t.threads = which == 0 ? 1 : 2;
  t.vector_bytes = which == 1 ? 32 : 64;
  t.vector_registers = which == 1 ? 16 : 32;
  t.groups = which == 2;
  if (t.groups) t.device = "opencl";
  return t;
}

} // namespace

TEST_CASE("what the search returns computes the same") {
  int plans = 0;
  for (const auto& program : test::small_programs()) {
    const auto lowered = lower_all(program.outputs);
    const Plan start = initial_plan(lowered);
    const test::Memory inputs = test::random_inputs(*lowered, 3);
    test::Memory expected = inputs;
    test::run_plan(start, expected, nullptr);
    for (int which = 0; which < 3; ++which)
      for (bool staged : {false, true}) {
        SearchOptions options;
        options.beam = which == 1 ? 8 : 4;
        options.graph_then_loops = staged;
        CostModel model(target_of(which), test::machine());
        const SearchResult r = search::search(start, model, options);
        const std::string wrong = run(r.plan, inputs, expected, program.reduction_length);
        if (!wrong.empty())
          FAIL_CHECK(program.name << " on target " << which << ": " << wrong << "\n" << describe(r.plan));
        ++plans;
      }
  }
  CHECK(plans > 60);
}

TEST_CASE("every proposal, and proposals on top of proposals, compute the same") {
  int64_t checked = 0, refused = 0;
  for (const auto& program : test::small_programs()) {
    const auto lowered = lower_all(program.outputs);
    const Plan start = initial_plan(lowered);
    const test::Memory inputs = test::random_inputs(*lowered, 5);
    test::Memory expected = inputs;
    test::run_plan(start, expected, nullptr);
    for (int which = 0; which < 3; ++which) {
      const Target target = target_of(which);
      std::mt19937_64 random(static_cast<uint64_t>(which) + 11);
      for (int walk = 0; walk < 6; ++walk) {
        Plan plan = start;
        for (int step = 0; step < 4; ++step) {
          std::vector<Proposal> proposals;
          for (const auto& kernel : plan.kernels) {
            Features features;
            read_features(kernel->kernel, target, features);
            const MachineProfile machine = test::machine();
            for (const NamedSuggester& s : suggesters())
              for (Proposal& p : s.suggest({plan, *kernel, features, target, machine, walk % 2 == 0}))
                proposals.push_back(std::move(p));
          }
          if (proposals.empty()) break;
          Applied applied = apply(plan, proposals[random() % proposals.size()].moves, target);
          if (!applied.plan) {
            ++refused;
            continue;
          }
          plan = std::move(*applied.plan);
        }
        const std::string wrong = run(plan, inputs, expected, program.reduction_length);
        if (!wrong.empty())
          FAIL_CHECK(program.name << " on target " << which << ": " << wrong << "\n" << describe(plan));
        ++checked;
      }
    }
  }
  MESSAGE(checked << " plans, " << refused << " proposals refused");
  CHECK(checked > 200);
}
