// The whole pipeline: graph -> program -> plan -> kernels -> device programs -> executable.
#include "compile/front/front.hpp"
#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "compile/schedule.hpp"
#include "runtime/device.hpp"
#include "view/expr_scope.hpp"

namespace lathe {

Executable compile(const NamedTensors& outputs, const CompileOptions& options) {
  runtime::device(options.device); // throws if the device is absent, before any work
  pipeline::Front front =
      pipeline::take_in(outputs, {.evaluate = pipeline::values_of, .folded_bytes = options.folded_bytes});
  const InExprScope inside(new_expr_scope()); // of the executable: see Program::expressions
  const auto program = front.lowered();
  pipeline::AssembleOptions how{options, std::move(front.inputs), false, std::move(front.moved)};
  how.folded_bytes = front.folded_bytes;
  if (program->stages.empty()) // every output is a view of an input
    return pipeline::assemble(search::initial_plan(program), how);
  const search::SearchResult found = pipeline::schedule(program, options);
  how.tuned = found.measured_seconds > 0;
  return pipeline::assemble(found.plan, how);
}

Executable tune(const NamedTensors& outputs, const TuneOptions& how, CompileOptions options) {
  options.tune = how;
  return compile(outputs, options);
}

} // namespace lathe
