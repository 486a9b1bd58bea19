// Gives lazy tensors their values: compiles their graph for the default device and runs it once.
#include "compile/realise.hpp"

#include <fmt/format.h>

#include "compile/front/front.hpp"
#include "compile/run/assemble.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/run/program_cache.hpp"
#include "compile/schedule.hpp"
#include "graph/folding/small_constants.hpp"
#include "graph/realise.hpp"
#include "view/expr_scope.hpp"

namespace lathe::pipeline {

namespace {

/// The program of these outputs, which earlier calls may have compiled.
Executable compiled(const std::vector<graph::NodeRef>& nodes) {
  CompileOptions options;
  options.device = default_device();
  options.winograd = 0; // one run does not repay the transform of the weights
  options.search = Search::Quick; // nor a long search
  const std::string key = options.device + "\n" + graph::print(nodes);
  if (std::optional<Executable> known = known_program(key)) return *known;
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < nodes.size(); ++k) named.push_back({fmt::format("out{}", k), nodes[k]});
  // No `evaluate`: folding constants would realise tensors, which calls this function again.
  const Front front = take_in(named, {.takes_moved = false});
  const InExprScope inside(new_expr_scope());
  search::Plan plan = schedule(front.lowered(), options).plan;
  // A node may hold the data of a tensor that was realised. They must not live as long as a program that is
  // kept, so that has no nodes. A recurrence needs those of its body.
  AssembleOptions how{options, {}, false, {}};
  how.keeps_graph = !plan.program->recurrences.empty();
  const Executable made = assemble(std::move(plan), how);
  if (!how.keeps_graph) keep_program(key, made);
  return made;
}

} // namespace

std::vector<StorageRef> values_of(const std::vector<graph::NodeRef>& nodes) {
  const graph::Dataless program = graph::without_data(nodes);
  const Executable executable = compiled(program.outputs);
  std::map<std::string, const void*> inputs;
  for (const KernelParam& used : executable.inputs())
    inputs.emplace(used.name, program.data.at(used.name)->data());

  std::vector<StorageRef> values;
  std::map<std::string, void*> outputs;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const auto count = static_cast<size_t>(num_elements(nodes[k]->shape).value());
    values.push_back(Storage::allocate(count * static_cast<size_t>(size_of(nodes[k]->dtype))));
    outputs[fmt::format("out{}", k)] = values[k]->data();
  }
  executable.run(inputs, outputs);
  return values;
}

std::vector<StorageRef> constants_of(const std::vector<graph::NodeRef>& nodes) {
  std::vector<StorageRef> values;
  std::vector<graph::NodeRef> large;
  for (const graph::NodeRef& n : nodes) {
    values.push_back(graph::small_constant(n));
    if (!values.back()) large.push_back(n);
  }
  if (large.empty()) return values;
  const std::vector<StorageRef> made = values_of(large);
  for (size_t k = 0, next = 0; k < values.size(); ++k)
    if (!values[k]) values[k] = made[next++];
  return values;
}

std::shared_ptr<const lower::Program> lowered(const NamedTensors& outputs) {
  return take_in(outputs, {.evaluate = constants_of}).lowered();
}

namespace {

/// Runs when the library is loaded, because the library's objects are always linked as a whole.
[[maybe_unused]] const bool registered = [] {
  graph::set_realiser(values_of);
  return true;
}();

} // namespace
} // namespace lathe::pipeline
