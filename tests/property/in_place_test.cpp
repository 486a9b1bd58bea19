// Outputs that are written over states, under random schedules: a plan computes the same, bit by bit, whether
// or not a state's next values take its memory.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "compile/front/front.hpp"
#include "compile/front/state_uses.hpp"
#include "compile/front/target.hpp"
#include "compile/run/assemble.hpp"
#include "support/devices.hpp"
#include "support/state_programs.hpp"
#include "support/walk.hpp"
#include "view/expr_scope.hpp"

using namespace lathe;

namespace {

struct Pair {
  Executable plain; // states are inputs, next values outputs
  Executable in_place;
};

Pair walked(const test::StateProgram& program, const CompileOptions& options, uint64_t seed) {
  pipeline::StatefulOutputs given = pipeline::with_updates(program.outputs, program.updates);
  pipeline::Front front = pipeline::take_in(given.outputs, {});
  const auto lowered = front.lowered();
  const search::Target target = pipeline::target_for(options, *lowered);
  search::Plan plan = search::initial_plan(lowered);
  if (!lowered->stages.empty())
    plan = test::Walker(seed, target).walk(std::move(plan), static_cast<int>(seed % 40));
  pipeline::AssembleOptions how{options, front.inputs, false, front.moved};
  const Executable plain = pipeline::assemble(plan, how);
  how.states = given.states;
  return {plain, pipeline::assemble(plan, how)};
}

Tensor random_values(const Shape& shape, DType dtype, std::mt19937_64& random) {
  std::vector<float> values(static_cast<size_t>(num_elements(shape).value()));
  for (float& v : values)
    v = is_float(dtype) ? static_cast<float>(random() % 1000) / 250 - 2 : static_cast<float>(random() % 9);
  return Tensor::from(values, shape).cast(dtype).realise();
}

} // namespace

TEST_CASE("an update in place gives what one in other memory gives, under any schedule") {
  const char* wanted = std::getenv("LATHE_WALKS");
  const uint64_t walks = wanted ? std::strtoull(wanted, nullptr, 10) : 12;
  int in_place = 0, scheduled = 0;
  for (const char* device : {"interp", "cpu"})
    for (const test::StateProgram& program : test::state_programs())
      for (uint64_t seed = 1; seed <= walks; ++seed) {
        CAPTURE(device);
        CAPTURE(program.name);
        CAPTURE(seed);
        const InExprScope inside(new_expr_scope());
        const auto [plain, updating] = walked(program, on(device, 2), seed);
        std::mt19937_64 random(seed);
        NamedTensors now;
        NamedStates states;
        for (const auto& [name, state] : updating.states()) {
          now.emplace(name, random_values(state.shape(), state.dtype(), random));
          states.emplace(name, State(name, now.at(name)));
        }
        for (int step = 0; step < 3; ++step) {
          NamedTensors inputs;
          for (const KernelParam& input : updating.inputs())
            inputs.emplace(input.name, random_values(input.shape, input.dtype, random));
          NamedTensors all = inputs;
          for (const KernelParam& input : plain.inputs())
            if (!all.contains(input.name)) all.emplace(input.name, now.at(input.name));
          const NamedTensors want = plain(all), got = updating(inputs, states);
          for (const auto& [name, value] : got)
            CHECK(value.to_vector<float>() == want.at(name).to_vector<float>());
          for (const Update& update : program.updates) {
            const std::string& name = update.state.name();
            now.at(name) = want.at(name + "'");
            CHECK(states.at(name).read().to_vector<float>() == now.at(name).to_vector<float>());
          }
        }
        const bool any = updating.print().find("in place") != std::string::npos;
        in_place += any;
        scheduled += any && !updating.moves().empty();
      }
  CHECK(in_place > 100);
  CHECK(scheduled > 100);
}
