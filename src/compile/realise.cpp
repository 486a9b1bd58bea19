// Gives lazy tensors their values: compiles their graph for the default device and runs it once.
#include "compile/realise.hpp"

#include <fmt/format.h>

#include "compile/front/front.hpp"
#include "compile/run/assemble.hpp"
#include "compile/run/executable_impl.hpp"
#include "compile/schedule.hpp"
#include "graph/realise.hpp"
#include "view/expr_scope.hpp"

namespace lathe::pipeline {

std::vector<StorageRef> values_of(const std::vector<graph::NodeRef>& nodes) {
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < nodes.size(); ++k) named.push_back({fmt::format("out{}", k), nodes[k]});
  CompileOptions options;
  options.device = default_device();
  options.winograd = 0; // one run does not repay the transform of the weights
  // No `evaluate`: folding constants would realise tensors, which calls this function again.
  const Front front = take_in(named, {.takes_moved = false});
  const InExprScope inside(new_expr_scope());
  const Executable executable = build(schedule(front.lowered(), options).plan, options);

  std::vector<StorageRef> values;
  std::map<std::string, void*> outputs;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const auto count = static_cast<size_t>(num_elements(nodes[k]->shape).value());
    values.push_back(Storage::allocate(count * static_cast<size_t>(size_of(nodes[k]->dtype))));
    outputs[named[k].name] = values[k]->data();
  }
  executable.run({}, outputs);
  return values;
}

std::shared_ptr<const lower::Program> lowered(const NamedTensors& outputs) {
  return take_in(outputs, {.evaluate = values_of}).lowered();
}

namespace {

/// Runs when the library is loaded, because the library's objects are always linked as a whole.
[[maybe_unused]] const bool registered = [] {
  graph::set_realiser(values_of);
  return true;
}();

} // namespace
} // namespace lathe::pipeline
